#pragma once
// The contract tests' C boundary: one shared library holds them all, and the same file runs in every world.
//
// The simulator loads a copy of it for each rank, a runner loads it in each emulated node. Both ranks of the pair run
// the same test at the same time. The library knows only libibverbs and libc; what it cannot do itself (pull a cable,
// keep a line) its host does for it.

extern "C" {

/// Where a rank stands, and what its host does for it.
struct ContractPlace {
  int rank;                       // 0: the active end; 1: the passive one
  const char* handshake_address;  // rank 0's on the management network
  int handshake_port;
  void* host;
  /// Plugs the cable of the rank's own node in (1) or out (0); returns when the host has done so.
  void (*set_link)(void* host, int up);
  /// Keeps one line, see record.h.
  void (*record)(void* host, const char* line);
};

/// How many tests there are.
__attribute__((visibility("default"))) int contract_count();
/// A test's name; nullptr where there is none of that number.
__attribute__((visibility("default"))) const char* contract_name(int index);
/// Runs one rank's part. 0: to its end; 1: it broke, the last line says why. What was seen is judged elsewhere.
__attribute__((visibility("default"))) int contract_run(int index, const ContractPlace* place);

}  // extern "C"

namespace meshbed::contract {

// The pair as every world sets it up: one NIC a rank, both on one cable.
inline constexpr const char* kAddresses[] = {"192.168.100.1", "192.168.100.2"};
inline constexpr const char* kSixAddresses[] = {"fd00:64::1", "fd00:64::2"};
inline constexpr int kNetdevMtu = 1500;  // bytes

}  // namespace meshbed::contract
