#pragma once
// PCIe: what the functions behind one PCIe link share. Pure.
//
// Bandwidth only: a link's latency is in the half round trip that models of hosts have (models/time). Rates are counted
// as a cable's are, headers of the network included, though only payload crosses PCIe: 2 % more than is there.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"

namespace meshbed::models {

/// What a link of so many lanes carries of a NIC's traffic, each direction: 100 Gb/s of the 126 Gb/s that four lanes of
/// generation 5 have after their 128b/130b code, and of all others the same share, 0.79. Measured on DGX Sparks, whose
/// functions stand behind x4 Gen5: ib_write_bw 98.04 Gb/s of payload on each of two (route179), 24.2 to 24.3 GB/s a
/// node in collectives (route179; FujitsuPolycom/sparkring). The rest goes to PCIe's own headers and acknowledgements:
/// 0.77 of 128-byte packets, 0.84 of 256-byte ones by Neugebauer et al. (SIGCOMM 2018, section 3).
/// `generation` 1 to 6, `lanes` 1 to 32.
std::uint64_t pcie_rate_bps(int lanes, int generation);

/// A DGX Spark has two x4 links of generation 5, and each of its two QSFP ports one function on each (ServeTheHome,
/// "The NVIDIA GB10 ConnectX-7 200GbE networking is really different": 0000:01:00.x and 0002:01:00.x).
inline constexpr int kSparkLinks = 2, kSparkPorts = 2, kSparkLanes = 4, kSparkGeneration = 5;

/// Gives a generated node the links "pcie0" and "pcie1" where it can be a Spark: at most two NICs a rail and four in
/// all. Rail r hangs on link r % 2; where there is one rail, port p's only function hangs on link p. Others stay as
/// they are.
void hang_on_spark_links(Node& node, int rails);
/// The same for a listed node whose devices are named as on a Spark, rocep1s0f0 to roceP2p1s0f1, one of them with
/// "P2"; NICs that hang on a link already stay there.
void hang_on_spark_links_by_name(Node& node);

/// A PCIe link that carries less than the cables and switch ports of all its functions together.
struct SharedLink {
  int node = -1, pcie = -1;    // index in Node::pcie
  std::uint64_t rate_bps = 0;  // of each direction
  std::vector<PortRef> ports;  // that hang on a cable or switch; ascending
};
/// By node and link. O(ports).
std::vector<SharedLink> shared_links(const Cluster& cluster);

/// Those of `nics` that stand closest to the node's GPU number `gpu`, as NCCL would choose: those on its PCIe link or
/// switch; where it says none, or none of them is there, an even part of all: of n NICs and g GPUs n / g each in their
/// order, or of fewer NICs than GPUs number gpu * n / g. g: the node's GPUs, at least `gpus_least`.
std::vector<int> gpu_nics(const Node& node, const std::vector<int>& nics, int gpu, int gpus_least);

/// [node] the NICs that hang on a cable or switch and carry something, a bond's standby not (lan/bond.h);
/// ascending. O(ports).
std::vector<std::vector<int>> cabled_nics(const Cluster& cluster);

/// What these NICs of the node carry together, each direction: their rates, those behind one link no more than that
/// link's.
std::uint64_t node_rate_bps(const Node& node, const std::vector<int>& nics);

/// What the port's cable or switch and its PCIe link leave of `rate_bps`.
std::uint64_t behind_pcie_bps(const Node& node, const Nic& nic, std::uint64_t rate_bps);

}  // namespace meshbed::models
