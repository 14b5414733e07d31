#pragma once
// SysfsTree: the RDMA devices and network interfaces in one node's /sys (Documentation/ABI/stable/
// sysfs-class-infiniband, testing/sysfs-class-net) and whether nvidia_peermem is loaded, plus
// /proc/sys/kernel/random/boot_id, by which programs distinguish hosts, its routes in /proc/net, and its processes.
// Content is made when it is read, so that link states are the present ones.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/cluster.h"
#include "sim/engine/world.h"

namespace meshbed::sim {

struct SysfsNode {
  enum class Kind { kDirectory, kFile, kLink };

  Kind kind = Kind::kDirectory;
  std::map<std::string, std::unique_ptr<SysfsNode>> children;
  std::function<std::string()> read;  // of a file, or of a link without a fixed target
  // Of a file that opens but cannot be read: EINVAL for the type of an empty GID. Empty function: it can.
  std::function<int()> read_error;
  std::string target;  // of a link, relative as in Linux
  std::string link_target() const { return read ? read() : target; }
};

class SysfsTree {
 public:
  explicit SysfsTree(int node);

  struct Found {
    const SysfsNode* node = nullptr;
    std::string path = {};  // with all links followed
    int error = 0;          // ENOENT, ENOTDIR, ELOOP
  };
  /// `path` is absolute. Follows links on the way, and at its end where `follow_last`.
  Found find(std::string_view path, bool follow_last) const;

 private:
  void add_port(models::PortRef port);
  void add_process(const Process& process);
  void add_vlan(models::PortRef port, const std::string& lower);
  void add_rdma_device(models::PortRef port, const std::string& directory);
  void add_gids(models::PortRef port, const std::string& directory);
  void add_netdev(const std::string& directory, const std::string& name, const std::string& mac, unsigned index,
                  std::uint32_t mtu_bytes, std::function<bool()> up, std::uint64_t rate_bps);
  SysfsNode& at(const std::string& path);
  void add_file(const std::string& path, std::function<std::string()> read);
  void add_text(const std::string& path, std::string text);
  void add_link(const std::string& path, const std::string& absolute_target);

  int node_;
  SysfsNode root_;
};

/// Paths that belong to the tree; all others are the real file system's.
bool is_sysfs_path(std::string_view path);
/// What ranks see of their processes: /proc/NUMBER, and of /proc/self the files that name a process or say how it was
/// started, as /proc/NUMBER/...; empty: another path.
std::string process_path(std::string_view path);
/// The tree of the current process's node. Only a few are kept: what is found in it is valid until the next call.
SysfsTree& current_sysfs();

}  // namespace meshbed::sim
