// Arbitrary records of zernel: complete ones are accepted with any numbers in them, all others are refused with a
// message. The first byte chooses the stream.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "testbed/result/zernel/metrics.h"

using namespace meshbed::testbed::zernel;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto stream = static_cast<Stream>(data[0] % kStreams);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  Streams streams;
  try {
    add_records(streams, stream, bytes, "fuzzed");
  } catch (const std::runtime_error&) {
    if (!bytes_of(streams, stream).empty()) std::abort();  // refused, and taken
    return 0;
  }
  if (bytes_of(streams, stream) != bytes) std::abort();
  const Metrics metrics(streams);
  for (const char letter : metrics.prometheus()) {
    if (letter != '\n' && (letter < 0x20 || letter > 0x7e)) std::abort();
  }
  (void)metrics.snapshot();
  return 0;
}
