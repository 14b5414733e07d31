#pragma once
// Opening what a rank may not read from the real machine: files and directories of the simulated sysfs, and the
// random devices.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/host/file/file.h"
#include "sim/host/file/sysfs_tree.h"

namespace meshbed::sim {

/// An open directory of the simulated sysfs.
class SysfsDirectory : public File {
 public:
  SysfsDirectory(Process& owner, const SysfsTree::Found& found);
  short events() const override { return POLLIN; }
  Attempted try_read(void*, std::size_t, bool) override { return -EISDIR; }
  void stat(struct stat& result) const override;
  std::string describe() const override { return path; }

  std::string path;
  struct Entry {
    std::string name;
    unsigned char type = 0;  // DT_*
  };
  std::vector<Entry> entries;  // "." and ".." first
};

/// The absolute path that is simulated: `path` itself, or relative to the simulated directory `directory`. nullopt:
/// the call is the real file system's.
std::optional<std::string> simulated_path(int directory, const char* path);
/// Opens it with open(2)'s flags; a descriptor, or -1 with errno.
int open_simulated(const std::string& path, int flags);
void fill_stat(SysfsNode::Kind kind, struct stat& result);

}  // namespace meshbed::sim
