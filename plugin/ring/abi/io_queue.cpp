#include "plugin/ring/abi/io_queue.h"

#include "plugin/ring/abi/slot.h"

namespace meshbed::ring {
namespace {

constexpr unsigned kHalfBits = 32;

Result<void> check_size(std::uint64_t bytes) {
  if (bytes == kIoQueueBytes) return ok();
  return refused("an IO queue of " + std::to_string(bytes) + " bytes: it has " + std::to_string(kIoEntries) +
                 " entries of " + std::to_string(kIoEntryWords * kWordBytes) + " bytes, " +
                 std::to_string(kIoQueueBytes) + " in all");
}

IoRequest decode_entry(const std::uint8_t* queue, Word index) {
  const auto word = [&](Word which) { return load_word(queue, std::uint64_t{index} * kIoEntryWords + which); };
  return {.op = word(io_word::kOp),
          .source = word(io_word::kSource),
          .destination = word(io_word::kDestination),
          .offset_bytes = (std::uint64_t{word(io_word::kOffsetHigh)} << kHalfBits) | word(io_word::kOffsetLow),
          .size_bytes = word(io_word::kByteCount),
          .status = word(io_word::kStatus),
          .tag = word(io_word::kTag)};
}

Error no_entry(Word entry) {
  return refused("IO entry " + std::to_string(entry) + ": there are " + std::to_string(kIoEntries) +
                 ", counted from 0");
}

}  // namespace

std::string io_status_name(Word value) {
  if (value == status::kIoOk) return "OK";
  if (value == status::kIoError) return "ERROR";
  return status_name(value);
}

std::vector<std::uint8_t> encode_io_queue() { return std::vector<std::uint8_t>(kIoQueueBytes); }

Result<std::vector<IoRequest>> decode_io_queue(Bytes queue) {
  if (const Result<void> fits = check_size(queue.size()); !fits) return fits.error();
  std::vector<IoRequest> entries;
  entries.reserve(kIoEntries);
  for (Word index = 0; index < kIoEntries; ++index) entries.push_back(decode_entry(queue.data(), index));
  return entries;
}

Result<IoQueue> IoQueue::over(MutableBytes queue, Mode mode) {
  if (const Result<void> fits = check_size(queue.size()); !fits) return fits.error();
  return IoQueue(queue, mode);
}

IoRequest IoQueue::entry(Word index) const { return decode_entry(queue_.data(), index); }

Word IoQueue::status_of(Word entry) const {
  return load_word(queue_.data(), std::uint64_t{entry} * kIoEntryWords + io_word::kStatus);
}

void IoQueue::set_status(Word entry, Word value) {
  store_word(queue_.data(), std::uint64_t{entry} * kIoEntryWords + io_word::kStatus, value);
}

std::optional<Word> IoQueue::first(Word wanted) const {
  for (Word entry = 0; entry < kIoEntries; ++entry) {
    if (status_of(entry) == wanted) return entry;
  }
  return std::nullopt;
}

Result<std::optional<Word>> IoQueue::submit(const IoRequest& request) {
  const std::optional<Word> free = first(status::kEmpty);
  if (!free) {
    if (mode_ == Mode::kStrict) return std::optional<Word>();  // quirk io-full-is-silence
    return refused("the IO queue has no EMPTY entry: all " + std::to_string(kIoEntries) + " requests are under way");
  }
  const auto put = [&](Word which, Word value) {
    store_word(queue_.data(), std::uint64_t{*free} * kIoEntryWords + which, value);
  };
  put(io_word::kOp, request.op);
  put(io_word::kSource, request.source);
  put(io_word::kDestination, request.destination);
  put(io_word::kOffsetLow, static_cast<Word>(request.offset_bytes));
  put(io_word::kOffsetHigh, static_cast<Word>(request.offset_bytes >> kHalfBits));
  put(io_word::kByteCount, request.size_bytes);
  put(io_word::kTag, request.tag);
  put(io_word::kStatus, status::kPublished);
  return free;
}

Result<std::optional<Word>> IoQueue::submit_load_miss(Word resource) {
  return submit({.op = io_op::kRead, .source = resource, .destination = resource, .tag = resource});
}

Result<IoQueue::Outcome> IoQueue::collect(Word entry) {
  if (entry >= kIoEntries) return no_entry(entry);
  const Word now = status_of(entry);
  if (now == status::kEmpty) return refused("IO entry " + std::to_string(entry) + " is EMPTY: nothing was asked in it");
  const bool is_ok = now == status::kIoOk || (mode_ == Mode::kSafe && now == status::kDone);  // quirk io-only-ok
  const bool is_error = mode_ == Mode::kSafe && now == status::kIoError;
  if (!is_ok && !is_error) return Outcome::kWaits;
  set_status(entry, status::kEmpty);
  return is_ok ? Outcome::kOk : Outcome::kError;
}

std::optional<Word> IoQueue::poll() {
  const std::optional<Word> entry = first(status::kPublished);
  if (entry) set_status(*entry, status::kClaimed);
  return entry;
}

Result<void> IoQueue::complete(Word entry, bool success) {
  if (entry >= kIoEntries) return no_entry(entry);
  if (status_of(entry) != status::kClaimed) {
    return refused("IO entry " + std::to_string(entry) + " is " + io_status_name(status_of(entry)) +
                   ": only a CLAIMED one is completed");
  }
  set_status(entry, success ? status::kIoOk : status::kIoError);
  return ok();
}

std::optional<IoRequest> IoQueue::serve() {
  const std::optional<Word> index = poll();
  if (!index) return std::nullopt;
  IoRequest request = entry(*index);
  // Quirk io-offset-high.
  if (mode_ == Mode::kStrict) request.offset_bytes = static_cast<Word>(request.offset_bytes);
  set_status(*index, status::kDone);
  request.status = status::kDone;
  return request;
}

}  // namespace meshbed::ring
