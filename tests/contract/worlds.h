#pragma once
// The two worlds of the contract tests, each running the same file, libcontracts.so.

#include <vector>

#include "tests/contract/table.h"

namespace meshbed::test {

/// The library that holds the contracts.
inline constexpr const char* kContractsPath = MESHBED_BINARY_DIR "/lib/libcontracts.so";

/// Every contract's name, in order.
std::vector<std::string> contract_names();

/// Every `stride`th contract, the first among them, in the simulator, each in a world of its own.
std::vector<contract::Run> run_in_sim(int stride = 1);

/// Every `stride`th contract in two virtual machines on one cable, which are booted once; each in a process of its own.
std::vector<contract::Run> run_in_emu(int stride = 1);

}  // namespace meshbed::test
