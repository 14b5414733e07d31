#pragma once
// PCIe: what the functions behind one PCIe link, or one QSFP port, share. Pure.
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
/// All bits of such a link after its code, in place of the measured share: what no transfer exceeds.
std::uint64_t pcie_coded_bps(int lanes, int generation);

/// What carries less than the functions behind it together: a PCIe link, less than their cables and switch ports; or a
/// QSFP port (lan/qsfp.h), less than what their PCIe links leave of them.
struct SharedLink {
  int node = -1, pcie = -1;    // index in Node::pcie; -1: it is a QSFP port
  std::string name;            // pcie0, qsfp0
  std::uint64_t rate_bps = 0;  // of each direction
  std::vector<PortRef> ports;  // that hang on a cable or switch; ascending
  bool is_qsfp() const { return pcie < 0; }
};
/// PCIe links by node and link, then QSFP ports by node and name. O(ports).
std::vector<SharedLink> shared_links(const Cluster& cluster);

/// What `ports` carry together where each carries `rate_bps` alone: no more than the shared links of either kind. Each
/// port has at most one link of a kind. An upper bound, exact unless both kinds bind at once.
struct PortRate {
  PortRef port;
  std::uint64_t rate_bps = 0;
};
std::uint64_t joint_rate_bps(const std::vector<SharedLink>& shared, const std::vector<PortRate>& ports);

/// Those of `nics` that are closest to the node's GPU number `gpu`, as NCCL would choose: those on its PCIe link or
/// switch. If the GPU has none, or none of them is in `nics`, an even part of all: of n NICs and g GPUs n / g each in
/// their order, or with fewer NICs than GPUs number gpu * n / g. g: the node's GPUs, at least `gpus_least`.
std::vector<int> gpu_nics(const Node& node, const std::vector<int>& nics, int gpu, int gpus_least);

/// [node] the NICs that hang on a cable or switch and carry something, a bond's standby not (lan/bond.h);
/// ascending. O(ports).
std::vector<std::vector<int>> cabled_nics(const Cluster& cluster);

/// What these NICs of the node carry together, each direction: their rates, those behind one PCIe link or QSFP port no
/// more than that carries.
std::uint64_t node_rate_bps(const Node& node, const std::vector<int>& nics);

/// What the port's cable or switch and its PCIe link leave of `rate_bps`.
std::uint64_t behind_pcie_bps(const Node& node, const Nic& nic, std::uint64_t rate_bps);

}  // namespace meshbed::models
