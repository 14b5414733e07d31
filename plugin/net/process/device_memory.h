#pragma once
// What this machine can do with a GPU's memory, as far as adapters go, and how users name the memory that they
// register.

#include <cstddef>
#include <optional>
#include <string>

#include "plugin/net/process/discovery.h"
#include "plugin/net/process/memory.h"
#include "plugin/verbs/registration.h"

namespace meshbed::net {

struct MemoryCall {
  void* data = nullptr;
  std::size_t size_bytes = 0;
  MemoryKind kind = MemoryKind::kHost;
  std::optional<verbs::DmaBuf> dma_buf{};  // what `data` stands for
};

/// Two ways to register GPU memory; empty: it is there, else what is missing.
struct DeviceMemorySupport {
  std::string without_dma_buf = "not looked for";
  std::string without_peer_memory = "not looked for";  // by its address: nvidia_peermem
};

/// A way is there where all NICs have it: which one a connection stands on is decided by cables, not by its user.
DeviceMemorySupport find_device_memory_support(const Devices& devices, const std::vector<Nic>& nics);

}  // namespace meshbed::net
