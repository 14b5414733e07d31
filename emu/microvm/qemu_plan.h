#pragma once
// QemuPlan: the programs that emulate a cluster, their arguments, and the lines between them. Pure: starts nothing.
//
// A line is a connected pair of stream sockets, made before the programs start and inherited by them as fixed
// descriptors: no socket file, no order of starting, no port of the host. A cable with two ends is one line between two
// nodes. A wire with more ends is a hub, and hubs live in a QEMU of their own without a guest, so that no node's death
// takes a switch with it; each of its ends is one line. The management network is such a hub.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emu/cluster.h"

namespace meshbed::emu {

// What the descriptors of every QEMU are.
inline constexpr int kMonitorDescriptor = 3;  // QMP, the machine-readable monitor
inline constexpr int kConsoleDescriptor = 4;  // the guest's serial console
inline constexpr int kFirstLineDescriptor = 5;

struct LineEnd {
  int line = 0;
  int side = 0;  // 0 or 1
};

struct QemuPlan {
  std::vector<std::string> argv;
  bool terminal = false;       // it has a second serial line: the descriptor after those of the lines
  std::vector<LineEnd> lines;  // become kFirstLineDescriptor and those above
};

struct ClusterPlan {
  std::vector<QemuPlan> nodes;
  std::optional<QemuPlan> hub;
  int lines = 0;
};

struct QemuOptions {
  std::string program = "qemu-system-x86_64";
  std::string kernel;
  std::string initramfs;
  bool kvm = false;
  std::uint64_t tsc_khz = 0;             // of the host's counter, which a translated guest reads; 0: not known
  std::vector<std::string> job_folders;  // one a node
};

/// For a cluster that check_cluster() accepts. The guests do not run until the monitor command "cont".
ClusterPlan plan_cluster(const EmuCluster& cluster, const QemuOptions& options);

/// What QEMU calls the line of a node's NIC: for the monitor's set_link.
std::string line_name(int nic);

}  // namespace meshbed::emu
