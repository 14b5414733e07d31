#include "emu/image/cpio_archive.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstddef>
#include <utility>

namespace meshbed::emu {
namespace {

constexpr std::size_t kAlignment = 4;
constexpr const char* kLast = "TRAILER!!!";

void pad(std::string& bytes) { bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment); }

}  // namespace

void CpioArchive::add_folder(const std::string& path) { add(path, "", S_IFDIR | 0755); }

void CpioArchive::add_file(const std::string& path, std::string_view contents, unsigned permissions) {
  add(path, contents, S_IFREG | permissions);
}

void CpioArchive::add_link(const std::string& path, const std::string& target) { add(path, target, S_IFLNK | 0777); }

void CpioArchive::add(const std::string& path, std::string_view contents, unsigned mode) {
  // Magic, then 13 numbers of 8 hexadecimal digits; name and contents each padded to 4 bytes.
  const unsigned numbers[] = {next_inode_++,  // inode
                              mode,
                              0,  // user
                              0,  // group
                              1,  // links
                              0,  // modified
                              static_cast<unsigned>(contents.size()),
                              0,  // device of the file, major and minor
                              0,
                              0,  // device that the file is, major and minor
                              0,
                              static_cast<unsigned>(path.size() + 1),
                              0};  // checksum, unused
  bytes_ += "070701";
  for (const unsigned number : numbers) bytes_ += fmt::format("{:08X}", number);
  bytes_ += path;
  bytes_ += '\0';
  pad(bytes_);
  bytes_ += contents;
  pad(bytes_);
}

std::string CpioArchive::finish() {
  add(kLast, "", 0);
  next_inode_ = 1;
  return std::exchange(bytes_, {});
}

}  // namespace meshbed::emu
