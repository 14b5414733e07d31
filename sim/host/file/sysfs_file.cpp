#include "sim/host/file/sysfs_file.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/host/load/calls.h"
#include "sim/host/randomness.h"

namespace meshbed::sim {
namespace {

constexpr off_t kAttributeBytes = 4096;  // the size that sysfs reports for every attribute

/// A file of sysfs: its text is that of the moment when it was opened.
class SysfsFile : public File {
 public:
  SysfsFile(Process& owner, std::string name, const SysfsNode& node)
      : File(owner),
        name_(std::move(name)),
        error_(node.read_error ? node.read_error() : 0),
        text_(error_ == 0 ? node.read() : "") {}

  short events() const override { return POLLIN | POLLOUT; }
  Attempted try_read(void* data, std::size_t size, bool peek) override {
    if (error_ != 0) return -error_;
    const std::size_t count = std::min(size, text_.size() - std::min(position_, text_.size()));
    std::memcpy(data, text_.data() + std::min(position_, text_.size()), count);
    if (!peek) position_ += count;
    return static_cast<Attempted>(count);
  }
  Attempted try_write(const void*, std::size_t) override { return -EBADF; }
  off_t seek(off_t offset, int whence) override {
    const auto size = static_cast<off_t>(text_.size());
    const off_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? static_cast<off_t>(position_) : size;
    if (base + offset < 0) return -EINVAL;
    position_ = static_cast<std::size_t>(base + offset);
    return base + offset;
  }
  void stat(struct stat& result) const override { fill_stat(SysfsNode::Kind::kFile, result); }
  std::size_t available_bytes() const override { return text_.size() - std::min(position_, text_.size()); }
  std::string describe() const override { return name_; }

 private:
  std::string name_;
  int error_;
  std::string text_;
  std::size_t position_ = 0;
};

/// /dev/urandom and /dev/random.
class RandomFile : public File {
 public:
  using File::File;
  short events() const override { return POLLIN | POLLOUT; }
  Attempted try_read(void* data, std::size_t size, bool) override {
    fill_random(state_of(process), data, size);
    return static_cast<Attempted>(size);
  }
  void stat(struct stat& result) const override {
    result = {};
    result.st_mode = S_IFCHR | 0666;
  }
  std::string describe() const override { return "/dev/urandom"; }
};

bool is_random_device(std::string_view path) { return path == "/dev/urandom" || path == "/dev/random"; }

unsigned char type_of(const SysfsNode& node) {
  switch (node.kind) {
    case SysfsNode::Kind::kDirectory:
      return DT_DIR;
    case SysfsNode::Kind::kLink:
      return DT_LNK;
    case SysfsNode::Kind::kFile:
      break;
  }
  return DT_REG;
}

}  // namespace

SysfsDirectory::SysfsDirectory(Process& owner, const SysfsTree::Found& found)
    : File(owner), path(found.path), entries{{".", DT_DIR}, {"..", DT_DIR}} {
  for (const auto& [name, child] : found.node->children) entries.push_back({name, type_of(*child)});
}

void SysfsDirectory::stat(struct stat& result) const { fill_stat(SysfsNode::Kind::kDirectory, result); }

void fill_stat(SysfsNode::Kind kind, struct stat& result) {
  result = {};
  result.st_nlink = 1;
  result.st_size = kAttributeBytes;
  switch (kind) {
    case SysfsNode::Kind::kDirectory:
      result.st_mode = S_IFDIR | 0755;
      result.st_size = 0;
      break;
    case SysfsNode::Kind::kLink:
      result.st_mode = S_IFLNK | 0777;
      result.st_size = 0;
      break;
    case SysfsNode::Kind::kFile:
      result.st_mode = S_IFREG | 0444;
      break;
  }
}

std::optional<std::string> simulated_path(int directory, const char* path) {
  if (outside() || path == nullptr) return std::nullopt;
  if (*path == '/') {
    if (is_sysfs_path(path) || is_random_device(path)) return path;
    if (std::string process = process_path(path); !process.empty()) return process;
    return std::nullopt;
  }
  if (!is_simulated(directory)) return std::nullopt;
  const auto base = std::dynamic_pointer_cast<SysfsDirectory>(file_at(directory));
  // A number that is no simulated directory gives a path that is not found either.
  return base != nullptr ? base->path + "/" + path : "/sys/devices/not-a-directory";
}

int open_simulated(const std::string& path, int flags) {
  Process& process = *World::current_process();
  DescriptorTable& descriptors = current_state().descriptors;
  const bool close_on_exec = (flags & O_CLOEXEC) != 0;
  if (is_random_device(path)) return descriptors.add(std::make_shared<RandomFile>(process), close_on_exec);
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0) return fail(EACCES);
  const auto found = current_sysfs().find(path, (flags & O_NOFOLLOW) == 0);
  if (found.node == nullptr) return fail(found.error);
  switch (found.node->kind) {
    case SysfsNode::Kind::kLink:
      return fail(ELOOP);
    case SysfsNode::Kind::kDirectory:
      return descriptors.add(std::make_shared<SysfsDirectory>(process, found), close_on_exec);
    case SysfsNode::Kind::kFile:
      break;
  }
  if ((flags & O_DIRECTORY) != 0) return fail(ENOTDIR);
  return descriptors.add(std::make_shared<SysfsFile>(process, found.path, *found.node), close_on_exec);
}

}  // namespace meshbed::sim
