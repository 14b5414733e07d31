#include "testbed/workload/megakernel/message_bytes.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace meshbed::testbed {

void MessageBytes::put(const RingEvent& event, const void* data, std::size_t bytes) {
  hashes_[{event.source, event.destination, event.channel, event.epoch, event.message}] = XXH3_64bits(data, bytes);
}

void MessageBytes::waited(const RingEvent& event, const void* data, std::size_t bytes) {
  checked_ += bytes;
  const auto found = hashes_.find({event.source, event.destination, event.channel, event.epoch, event.message});
  if (found != hashes_.end() && found->second == XXH3_64bits(data, bytes)) return;
  wrong_ += bytes;
  if (!first_wrong_.empty()) return;
  first_wrong_ = fmt::format("message {} of rank {} to rank {}, channel {}: {}", event.message, event.source,
                             event.destination, event.channel,
                             found == hashes_.end() ? "it was waited for before it was put"
                                                    : "its bytes are not those of its put when it is waited for: they "
                                                      "were overwritten, or have not landed yet");
}

}  // namespace meshbed::testbed
