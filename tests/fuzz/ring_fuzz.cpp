// Arbitrary buffers of a megakernel ring: every decoder reads them, or refuses them with a message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/ring/decoders.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (meshbed::test::decode_everything({data, size}).silent > 0) std::abort();
  return 0;
}
