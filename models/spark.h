#pragma once
// Spark: how the ConnectX-7 of a DGX Spark is wired. Two QSFP ports; two PCIe links, each x4 of generation 5; on each
// link one function of each port. So two functions of one port share its rate and its layer-2 network, and the
// functions of one link, of different ports, share its lanes (ServeTheHome, "The NVIDIA GB10 ConnectX-7 200GbE
// networking is really different": 0000:01:00.x and 0002:01:00.x; NVIDIA/dgx-spark-playbooks, "Connect two Sparks").
// Pure.
//
//   RDMA device     network interface   PCI function   QSFP port   PCIe link
//   rocep1s0f0      enp1s0f0np0         0000:01:00.0   qsfp0       pcie0
//   rocep1s0f1      enp1s0f1np1         0000:01:00.1   qsfp1       pcie0
//   roceP2p1s0f0    enP2p1s0f0np0       0002:01:00.0   qsfp0       pcie1
//   roceP2p1s0f1    enP2p1s0f1np1       0002:01:00.1   qsfp1       pcie1

#include <optional>
#include <string>
#include <vector>

#include "models/cluster.h"

namespace meshbed::models {

inline constexpr int kSparkLinks = 2, kSparkPorts = 2, kSparkLanes = 4, kSparkGeneration = 5;
inline constexpr std::uint64_t kSparkPortBps = 200'000'000'000;  // its data sheet: ConnectX-7, 200 Gb/s a port

/// How the NICs of a node share PCIe links and QSFP ports.
enum class NicLayout : std::uint8_t {
  kSeparate,     // each has a port of its own, and no PCIe link limits it
  kSpark,        // the functions of a Spark
  kSparkMerged,  // each NIC is both functions of a Spark's port; both PCIe links are one
};

struct SparkFunction {
  int port = 0, link = 0;
  bool operator==(const SparkFunction&) const = default;
};

/// By its RDMA device; nullopt: a Spark has no such device.
std::optional<SparkFunction> spark_function(const std::string& device);
std::vector<std::string> spark_devices();
/// Sets the names and the PCI function of the table above.
void name_spark_nic(Nic& nic, SparkFunction function);

/// Functions of a generated node's NICs, which stand in rails of `slots` NICs each (topology_generate.h); then those of
/// NICs without cable, `nics` in all. Where a rail is one NIC, rails 0 and 1 are the functions of port 0; where a rail
/// is two, slot s is port s, and rail r link r. One rail alone has port p's function on link p. The error contains why
/// no Spark can be cabled so.
Result<std::vector<SparkFunction>> spark_functions(NicLayout layout, int slots, int rails, int nics);

/// Hangs the node's NICs that have a Spark's names on links and ports. Returns how many there are; without one the node
/// is left as it is.
int join_spark_functions(Node& node, NicLayout layout);

}  // namespace meshbed::models
