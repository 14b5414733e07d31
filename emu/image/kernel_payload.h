#pragma once
// The ELF kernel inside a bzImage.
//
// QEMU starts an ELF kernel through its PVH entry point, so that the guest need not decompress itself: about 3 s a boot
// without KVM. Header fields: the Linux/x86 boot protocol, Documentation/x86/boot.rst.

#include <cstdint>
#include <string_view>

namespace meshbed::emu {

enum class Compression { kXz, kGzip, kZstd };

struct KernelPayload {
  Compression compression = Compression::kXz;
  std::string_view bytes;  // a part of the image that was given
};

/// Finds the compressed kernel in `image`. Throws std::runtime_error where it is no bzImage, is cut off, or is
/// compressed in a way that is not known here.
KernelPayload find_kernel_payload(std::string_view image);

}  // namespace meshbed::emu
