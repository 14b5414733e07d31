#pragma once
// The suite: every contract, in the order in which they run. One source file a chapter.

#include <span>

#include "tests/contract/suite/end.h"

namespace meshbed::contract {

std::span<const Contract> device_contracts();
std::span<const Contract> gid_contracts();
std::span<const Contract> object_contracts();
std::span<const Contract> memory_contracts();
std::span<const Contract> state_contracts();
std::span<const Contract> attribute_contracts();
std::span<const Contract> address_contracts();
std::span<const Contract> transfer_contracts();
std::span<const Contract> length_contracts();
std::span<const Contract> posting_contracts();
std::span<const Contract> order_contracts();
std::span<const Contract> receiver_contracts();
std::span<const Contract> access_contracts();
std::span<const Contract> local_error_contracts();
std::span<const Contract> retry_contracts();
std::span<const Contract> flush_contracts();
std::span<const Contract> completion_event_contracts();
std::span<const Contract> port_contracts();

}  // namespace meshbed::contract
