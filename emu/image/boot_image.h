#pragma once
// BootImage: the kernel and the initramfs that every node boots, made once and kept in a cache folder.
//
//   CACHE/packages/linux-image-VERSION_*.deb      Debian's own kernel package
//   CACHE/image-VERSION-HASH/{vmlinux,initramfs}  HASH: of the guest's init script, the module lists and busybox
//   CACHE/image-VERSION-HASH/used                 its date is that of the last use (emu/image/image_cache.h)
//
// An image is made aside and gets its name when it is complete, so an interrupted build leaves nothing half made, and
// of two builders the first wins and both are served. Nothing needs root, nothing is installed.

#include <optional>
#include <string>

#include "emu/image/kernel_package.h"

namespace meshbed::emu {

struct BootImage {
  std::string kernel;          // an ELF file for QEMU's -kernel
  std::string initramfs;       // for -initrd
  std::string kernel_version;  // "6.1.0-56-amd64"
};

/// The image of this version of Meshbed in the cache, of the newest kernel there; runs no program. nullopt: none.
/// Throws std::runtime_error where busybox is missing.
std::optional<BootImage> find_boot_image(const std::string& cache);

/// The same, or makes it: downloads the package where it is not in the cache yet (70 MB), then takes 7 s of processor
/// time and 300 MB of disk for a moment, 40 MB for good beside the package, which stays for the next image. Throws
/// std::runtime_error, one line: what, where, and what to do.
BootImage make_boot_image(const std::string& cache, const Announce& announce);

/// busybox, if it is a static program that runs in an initramfs without libraries; empty: none.
std::string find_static_busybox();

}  // namespace meshbed::emu
