// libFuzzer target: what comes out of other processes. The first byte chooses the parser; a handle is tried as it is
// and with a fitting checksum, so that the fuzzer gets behind it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/wire.h"

using namespace meshbed::net;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> input(data + 1, size - 1);
  if (data[0] % 2 == 0) {
    (void)decode_message(input);
    return 0;
  }
  std::array<std::uint8_t, kHandleBytes> handle{};
  std::copy_n(input.begin(), std::min(input.size(), handle.size()), handle.begin());
  (void)decode_handle(handle);
  seal_handle(handle);
  (void)decode_handle(handle);
  return 0;
}
