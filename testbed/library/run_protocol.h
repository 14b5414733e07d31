#pragma once
// The protocol between meshbed::run() and the process meshbed-run: the descriptors with which the process starts.

#include <atomic>
#include <cstdint>
#include <string>

namespace meshbed::testbed {

// {"text", "path", "overrides": [...], "messages": bool, "parent": the caller's process number}
inline constexpr int kRequestDescriptor = 3;
// {"summary", "failure"}, or {"error": TEXT} where the run could not be set up; empty where it was cut off.
inline constexpr int kReplyDescriptor = 4;
// The columns of the messages one behind the other, each at a multiple of 8 bytes; the reply says which
// ("columns": [{"name", "type", "offset"}], "message_count").
inline constexpr int kMessagesDescriptor = 5;
// A SharedProgress.
inline constexpr int kProgressDescriptor = 6;

/// A descriptor as a file's name, to be opened anew.
inline std::string handed_file(int descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

struct SharedProgress {
  std::atomic<std::int32_t> done{0}, total{0};
};
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

}  // namespace meshbed::testbed
