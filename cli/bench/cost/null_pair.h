#pragma once
// Null pair: both ends of one connection of the real plugin file, in this process, over the null wire. Loaded and
// connected as NCCL does it (ncclNet v11: listen, connect, accept, regMr); then a message consists of irecv, isend, and
// a test of each. One thread.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/cost/null_plugin.h"

namespace meshbed::cost {

class NullPair {
 public:
  /// Throws std::runtime_error with the plugin's own last words where it does not come to stand.
  NullPair(const std::string& plugin, std::size_t message_bytes);
  ~NullPair();
  NullPair(const NullPair&) = delete;
  NullPair& operator=(const NullPair&) = delete;

  /// One message from end to end, its bytes compared. `vain_tests`: of the receive, before anything is sent. Throws
  /// std::runtime_error where a call fails, or a request is not done at the first test after the send.
  void message(std::uint64_t number, int vain_tests);

 private:
  void connect();

  NullPlugin plugin_;
  void *listen_ = nullptr, *send_ = nullptr, *receive_ = nullptr;
  void *source_handle_ = nullptr, *target_handle_ = nullptr;
  std::vector<unsigned char> source_, target_;
};

/// What callgrind counts in: each of a message's calls stands in a function whose name begins so.
inline constexpr const char* kCountedPrefix = "meshbed_cost_";

}  // namespace meshbed::cost
