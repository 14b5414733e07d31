#pragma once
// The state of a meshbed::RunResult.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "meshbed/result.h"

namespace meshbed {

/// The messages of a run as its process wrote them, read from its memory file.
class MappedMessages {
 public:
  MappedMessages() = default;
  /// Maps the whole file; std::runtime_error where that fails.
  explicit MappedMessages(int descriptor);
  ~MappedMessages();
  MappedMessages(const MappedMessages&) = delete;
  MappedMessages& operator=(const MappedMessages&) = delete;
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

struct RunResult::State {
  explicit State(int messages_descriptor) : memory(messages_descriptor) {}
  State() = default;

  bool passed = false;
  std::string failure, digest, output, json;
  double time_s = 0, algbw_GBps = 0, busbw_GBps = 0, bound_s = 0, over_bound = 0;
  std::uint64_t wrong = 0, checked = 0, message_count = 0;
  std::vector<Proof> proofs, expectations;
  std::vector<FailedRank> errors;
  std::vector<MessageColumn> messages;  // into memory
  MappedMessages memory;
};

}  // namespace meshbed
