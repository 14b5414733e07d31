#pragma once
// CpioArchive: an initramfs as the kernel unpacks it ("newc",
// Documentation/driver-api/early-userspace/buffer-format.rst).
//
// Everything in it belongs to root and has no date, so that equal contents are equal bytes and it can be written
// without root. It is not compressed: QEMU loads 7 MB at once, and a guest without KVM need not inflate them.

#include <string>
#include <string_view>

namespace meshbed::emu {

class CpioArchive {
 public:
  /// Paths have no leading slash; folders come before what is in them, and add_file makes none.
  void add_folder(const std::string& path);
  void add_file(const std::string& path, std::string_view contents, unsigned permissions);
  void add_link(const std::string& path, const std::string& target);
  /// The whole archive; the object is empty afterwards.
  std::string finish();

 private:
  void add(const std::string& path, std::string_view contents, unsigned mode);

  std::string bytes_;
  unsigned next_inode_ = 1;
};

}  // namespace meshbed::emu
