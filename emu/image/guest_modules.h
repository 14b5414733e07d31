#pragma once
// Which kernel modules a guest gets. Lists of names; what they need comes with them.

#include <string>
#include <vector>

namespace meshbed::emu {

/// Loaded at once: the shares cannot be mounted without them.
inline const std::vector<std::string>& early_modules() {
  static const std::vector<std::string> names{"virtio_pci", "9pnet_virtio", "9p", "overlay"};
  return names;
}

/// Loaded before the interfaces are set up. rdma_rxe asks the kernel for "crc32" when a device is added; without
/// crc32_generic `rdma link add` fails with "No such file or directory", because nothing loads it automatically here.
inline const std::vector<std::string>& network_modules() {
  static const std::vector<std::string> names{"virtio_net", "crc32_generic", "rdma_rxe", "rdma_ucm"};
  return names;
}

/// For programs that ask the guest's kernel for them, as tc does: shaping, faults, more interfaces.
inline const std::vector<std::string>& optional_modules() {
  static const std::vector<std::string> names{"sch_netem",  "sch_tbf",      "sch_prio",   "sch_ingress",   "cls_u32",
                                              "cls_flower", "cls_matchall", "act_mirred", "ifb",           "veth",
                                              "dummy",      "bridge",       "tcp_diag",   "virtio_console"};
  return names;
}

}  // namespace meshbed::emu
