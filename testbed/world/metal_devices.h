#pragma once
// MetalDevices: which of this machine's RDMA devices are the node's, and what the scenario calls them.
//
// A real node has the devices of one node, by the scenario's names or others. Where several nodes share a kernel
// (emu/namespace/namespace_plan.h) a rank sees everybody's, and MESHBED_DEVICES tells it which are its own:
// "rocep1s0f0=mb0p0,rocep1s0f1=mb0p1", the scenario's name first. The net plugin then gets them in NCCL_IB_HCA, with
// the whole names.

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
  /// From the variable's text. Throws std::runtime_error, naming the variable and the entry, where it is not as above.
  static MetalDevices parse(const std::string& text);

  /// The variable's text.
  std::string text() const;
  bool empty() const { return names_.empty(); }
  /// NCCL_IB_HCA for this machine, where `asked` is what the scenario or the user gave, in the scenario's names.
  std::string device_list(const std::string& asked) const;
  /// What the scenario calls this machine's device; unknown ones keep their names.
  std::string scenario_name(const std::string& device) const;

 private:
  Names names_;
};

}  // namespace meshbed::testbed
