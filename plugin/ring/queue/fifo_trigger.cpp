#include "plugin/ring/queue/fifo_trigger.h"

#include <string>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {

using namespace fifo_bits;

namespace {

Error too_large(const char* what, std::uint64_t value, std::uint64_t most) {
  return refused(std::string("a trigger's ") + what + " is at most " + std::to_string(most) + ", not " +
                 std::to_string(value));
}

}  // namespace

Result<FifoWords> encode_trigger(const FifoTrigger& what) {
  if (what.source_memory > kMemoryMost) return too_large("source memory", what.source_memory, kMemoryMost);
  if (what.destination_memory > kMemoryMost) {
    return too_large("destination memory", what.destination_memory, kMemoryMost);
  }
  if (what.type > kTypeMost) return too_large("type", what.type, kTypeMost);
  if (what.semaphore > kSemaphoreMost) return too_large("semaphore", what.semaphore, kSemaphoreMost);
  return FifoWords{fifo_first_word(what), fifo_second_word(what)};
}

FifoTrigger decode_trigger(const FifoWords& words) {
  return {.size_bytes = static_cast<std::uint32_t>(words[0]),
          .source_offset = static_cast<std::uint32_t>(words[0] >> 32U),
          .destination_offset = static_cast<std::uint32_t>(words[1]),
          .source_memory = static_cast<std::uint16_t>(words[1] >> kSourceMemoryAt & kMemoryMost),
          .destination_memory = static_cast<std::uint16_t>(words[1] >> kDestinationMemoryAt & kMemoryMost),
          .type = static_cast<std::uint8_t>(words[1] >> kTypeAt & kTypeMost),
          .semaphore = static_cast<std::uint16_t>(words[1] >> kSemaphoreAt & kSemaphoreMost)};
}

}  // namespace meshbed::ring
