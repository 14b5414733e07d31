#include "plugin/net/process/device_memory.h"

#include <algorithm>
#include <array>

#include "plugin/verbs/sysfs.h"

namespace meshbed::net {
namespace {

/// Where peer memory clients for NVIDIA's GPUs show themselves: the driver's own module, the two of MLNX_OFED, and the
/// older module.
constexpr std::array kPeerMemoryFiles{
    "/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version", "/sys/module/nv_peer_mem/version"};

std::string dma_buf_problem(const Devices& devices, const std::vector<Nic>& nics) {
  for (const Nic& nic : nics) {
    if (devices[static_cast<std::size_t>(nic.device)]->registers_dma_buf()) continue;
    return "the driver of " + nic.device_name + " does not register dma-bufs (ibv_reg_dmabuf_mr without a descriptor)";
  }
  return "";
}

std::string peer_memory_problem(const std::vector<Nic>& nics) {
  const bool is_there = std::any_of(kPeerMemoryFiles.begin(), kPeerMemoryFiles.end(),
                                    [](const char* file) { return verbs::read_line(file).has_value(); });
  if (!is_there) return "no peer memory client is there: load nvidia_peermem";
  for (const Nic& nic : nics) {
    // Devices in software reach memory by the CPU: /sys/devices/virtual.
    if (nic.pci_path.empty() || nic.pci_path.rfind("/sys/devices/virtual", 0) == 0) {
      return nic.device_name + " is no PCI device, and reaches memory by the CPU alone";
    }
  }
  return "";
}

}  // namespace

DeviceMemorySupport find_device_memory_support(const Devices& devices, const std::vector<Nic>& nics) {
  if (nics.empty()) return {.without_dma_buf = "there is no NIC", .without_peer_memory = "there is no NIC"};
  return {.without_dma_buf = dma_buf_problem(devices, nics), .without_peer_memory = peer_memory_problem(nics)};
}

}  // namespace meshbed::net
