// Buffers of a megakernel ring from anybody: every decoder refuses them in words, or reads them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/ring/decoders.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (meshbed::test::decode_everything({data, size}).silent > 0) std::abort();
  return 0;
}
