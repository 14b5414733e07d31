#pragma once
// MetalDevices: the RDMA devices of this machine that belong to the node, and their names in the scenario.
//
// A real node has the devices of one node, by the scenario's names or others. Where several nodes share a kernel
// (emu/namespace/namespace_plan.h) a rank sees the devices of all nodes, and MESHBED_DEVICES lists its own:
// "rocep1s0f0=mb0p0,rocep1s0f1=mb0p1", the scenario's name first. NCCL_IB_HCA then gives the net plugin their full
// names.

#include <string>
#include <utility>
#include <vector>

namespace meshbed::testbed {

inline constexpr const char* kDevicesVariable = "MESHBED_DEVICES";
inline constexpr const char* kDeviceListVariable = "NCCL_IB_HCA";

inline constexpr const char* kDevicesFolder = "/sys/class/infiniband";
/// This machine's RDMA devices, sorted; none where the kernel has no such folder.
std::vector<std::string> machine_devices();

class MetalDevices {
 public:
  using Names = std::vector<std::pair<std::string, std::string>>;  // the scenario's, this machine's

  MetalDevices() = default;
  explicit MetalDevices(Names names) : names_(std::move(names)) {}
  /// From the variable's text. Throws std::runtime_error, naming the variable and the entry, if the text does not have
  /// the form above.
  static MetalDevices parse(const std::string& text);

  /// The variable's text.
  std::string text() const;
  bool empty() const { return names_.empty(); }
  /// NCCL_IB_HCA for this machine; `asked`: its value from the scenario or the user, in the scenario's names.
  std::string device_list(const std::string& asked) const;
  /// The scenario's name of a device of this machine; unknown devices keep their names.
  std::string scenario_name(const std::string& device) const;

 private:
  Names names_;
};

}  // namespace meshbed::testbed
