// Arbitrary fat binaries: containers are read, or refused with a message, and a chosen text is unpacked to the size in
// its entry. Seeds: seeds/cuda_image.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "sim/cuda/image/fat_binary.h"

using namespace meshbed::sim::cuda;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto entries = read_fat_binary({bytes, size});
  if (!entries) {
    if (entries.error().text.empty()) std::abort();
    return 0;
  }
  for (const FatEntry& entry : *entries) {
    const bool inside = entry.payload.empty() ||
                        (entry.payload.data() >= bytes && entry.payload.data() + entry.payload.size() <= bytes + size);
    if (!inside) std::abort();
  }
  for (const std::uint32_t architecture : {75U, 90U, 121U}) {
    const auto entry = choose_entry(*entries, architecture);
    if (!entry && entry.error().text.empty()) std::abort();
    if (!entry) continue;
    const auto text = unpack_ptx(*entry);
    if (!text && text.error().text.empty()) std::abort();
  }
  return 0;
}
