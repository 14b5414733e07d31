#pragma once
// The IO queue: 64 requests of a kernel for data that is elsewhere, and the servers of these requests (vyre, commit
// ca35047 2.6). For one thread at a time; each call is one step of its side.
//
//   requester        EMPTY -> PUBLISHED (submit), and OK -> EMPTY (collect)
//   host server      PUBLISHED -> CLAIMED (poll), CLAIMED -> OK or ERROR (complete)
//   kernel's server  PUBLISHED -> CLAIMED -> DONE (serve)

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {

/// Names under which the kernel finds the tables that handles index, and its DMA.
inline constexpr const char* kIoSourceTable = "io_source_capability_table";
inline constexpr const char* kIoDestinationTable = "io_destination_capability_table";
inline constexpr const char* kIoDmaTag = "io_queue_dma";

struct IoRequest {
  Word op = io_op::kRead;
  Word source = 0, destination = 0;  // handles
  std::uint64_t offset_bytes = 0;
  Word size_bytes = 0;
  Word status = status::kEmpty;
  Word tag = 0;

  bool operator==(const IoRequest&) const = default;
};

/// "OK", "ERROR", or as status_name().
std::string io_status_name(Word status);

std::vector<std::uint8_t> encode_io_queue();
/// Errors: not exactly 64 entries.
Result<std::vector<IoRequest>> decode_io_queue(Bytes queue);

/// A view over 64 entries, which outlive it.
class IoQueue {
 public:
  /// Errors: as decode_io_queue().
  static Result<IoQueue> over(MutableBytes queue, Mode mode);

  /// Into the first EMPTY entry; its index. No entry is EMPTY: strict: nothing, as if it had been served; safe: an
  /// error.
  Result<std::optional<Word>> submit(const IoRequest& request);
  /// LOAD_MISS's: source, destination and tag are the resource, nothing to move is named.
  Result<std::optional<Word>> submit_load_miss(Word resource);

  enum class Outcome { kWaits, kOk, kError };
  /// How far the entry is; one that has ended is EMPTY again. Strict: only OK ends a request. Errors: no such entry, or
  /// nothing was asked in it.
  Result<Outcome> collect(Word entry);

  /// Host server: the first PUBLISHED entry, which becomes CLAIMED; nothing: there is none.
  std::optional<Word> poll();
  /// Host server. Errors: no such entry, or not CLAIMED.
  Result<void> complete(Word entry, bool success);

  /// The kernel's server: takes the first PUBLISHED entry, returns what it would move, and sets it DONE. Strict: the
  /// upper half of the offset is left out.
  std::optional<IoRequest> serve();

  IoRequest entry(Word index) const;

 private:
  IoQueue(MutableBytes queue, Mode mode) : queue_(queue), mode_(mode) {}
  std::optional<Word> first(Word wanted) const;
  void set_status(Word entry, Word value);
  Word status_of(Word entry) const;

  MutableBytes queue_;
  Mode mode_;
};

}  // namespace meshbed::ring
