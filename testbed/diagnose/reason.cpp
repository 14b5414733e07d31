// Signs that need several lines: addresses at both ends of a failed connection, what other ranks wrote, settings.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "models/cluster.h"
#include "plugin/base/address.h"
#include "testbed/diagnose/evidence.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

/// An IPv4 address, also as a GID: "::ffff:192.168.1.1"; nullopt: it is none.
std::optional<IpAddress> ipv4_of(const std::string& text) {
  constexpr std::string_view kMapped = "::ffff:";
  const auto address = parse_ip_address(text.rfind(kMapped, 0) == 0 ? text.substr(kMapped.size()) : text);
  return address && address->family == Family::kIpv4 ? address : std::nullopt;
}

bool is_link_local_gid(const std::string& gid) {
  const auto address = parse_ip_address(gid);
  return address && address->family == Family::kIpv6 && is_link_local(*address);
}

/// Whether the first `length` bits are the same.
bool share(const IpAddress& one, const IpAddress& other, int length) {
  return contains({.address = one, .length_bits = static_cast<std::uint8_t>(length)}, other);
}

int prefix_length(const Case& all) {
  const auto set = all.environment.find("NCCL_IB_SUBNET_PREFIX_LEN");
  constexpr double kUsual = 24;
  return static_cast<int>(
      std::clamp(set == all.environment.end() ? kUsual : leading_number(set->second).value_or(kUsual), 1.0, 32.0));
}

void queue_pairs(Case& all) {
  constexpr int kTimedOut = 110;
  for (const QueuePairFailure& failure : all.queue_pairs) {
    const bool local_is_link_local = is_link_local_gid(failure.local_gid),
               remote_is_link_local = is_link_local_gid(failure.remote_gid);
    if (local_is_link_local || remote_is_link_local) {
      all.add_sign(CauseCode::kWrongGid, local_is_link_local != remote_is_link_local ? 0.85 : 0.60, "link-local GID",
                   "a GID of the failed queue pair is link-local, not that of an IPv4 address", failure.at);
      continue;
    }
    const auto local = ipv4_of(failure.local_gid), remote = ipv4_of(failure.remote_gid);
    if ((failure.gid_index == 0 || failure.gid_index == 1) && !local) {
      all.add_sign(CauseCode::kWrongGid, 0.50, "GID index", "the GID index is 0 or 1, which is link-local on RoCE",
                   failure.at);
    }
    if (!local || !remote) continue;
    const int length = prefix_length(all);
    if (!share(*local, *remote, length)) {
      all.add_sign(
          CauseCode::kNoPath, 0.55, "GIDs in two subnets",
          fmt::format("the local and the remote GID are in different /{} subnets: no cable joins these two ports",
                      length),
          failure.at);
      all.add_sign(CauseCode::kCrossedCable, 0.45, "GIDs in two subnets",
                   fmt::format("the local and the remote GID are in different /{} subnets: of a cable between these "
                               "ports a plug would be in the wrong port",
                               length),
                   failure.at);
      constexpr int kNear = 22;
      if (share(*local, *remote, kNear)) {
        all.add_sign(CauseCode::kWrongPrefix, 0.25, "GIDs in two subnets",
                     "the two subnets are neighbours: one address may be mistyped", failure.at);
      }
    } else if (failure.error == kTimedOut) {
      all.add_sign(CauseCode::kCrossedCable, 0.50, "GIDs in one subnet",
                   "both GIDs are in one subnet, and yet the address was not resolved: the cable leads elsewhere",
                   failure.at);
      all.add_sign(CauseCode::kPortDown, 0.30, "GIDs in one subnet",
                   "both GIDs are in one subnet, and yet the address was not resolved: the link may be down",
                   failure.at);
    }
  }
}

/// RoCE with a pinned index that is link-local, and messages without acknowledgement.
void pinned_index(Case& all) {
  const auto pinned = all.environment.find("NCCL_IB_GID_INDEX");
  if (pinned == all.environment.end() || (pinned->second != "0" && pinned->second != "1")) return;
  const bool is_roce = std::any_of(all.facts().begin(), all.facts().end(), [](const Fact& fact) {
    return fact.name == "rdma_device" && fact.value.is_string() &&
           fact.value.get<std::string>().find("/RoCE") != std::string::npos;
  });
  if (!is_roce || !all.has_sign(CauseCode::kRetryExceeded)) return;
  all.add_sign(CauseCode::kWrongGid, 0.70, "pinned index",
               "NCCL_IB_GID_INDEX pins a link-local GID, and messages are not acknowledged",
               all.environment_lines.at("NCCL_IB_GID_INDEX"));
}

void mtus(Case& all) {
  for (const auto& [place, values] : all.mtus) {
    if (values.size() < 2) continue;
    for (const std::string& value : values) {
      all.add_sign(CauseCode::kMtuMismatch, 0.60, "MTUs differ",
                   "queue pairs of one job have different path MTUs (5 is 4096 bytes, 3 is 1024)",
                   all.mtu_lines[value]);
    }
  }
}

/// "rocep1s0f0" and "roceP2p1s0f0" are functions of one port of a DGX Spark: the same behind the PCI domain.
std::string port_of(const std::string& device) {
  const std::size_t bus = device.find("p1s");
  return bus == std::string::npos ? device : device.substr(bus);
}

/// One subnet, or one within the other.
bool meet(const IpPrefix& one, const IpPrefix& other) {
  return models::same_subnet(one, other) || models::overlaps(one, other);
}

void adapters(Case& all) {
  constexpr std::size_t kMost = 512;
  constexpr double kSoftRoce_Gbps = 2.5;  // 1X SDR, what rdma_rxe reports over any interface
  const std::size_t count = std::min(all.adapters.size(), kMost);
  for (std::size_t one = 0; one < count; ++one) {
    for (std::size_t two = one + 1; two < count; ++two) {
      const Adapter& left = all.adapters[one];
      const Adapter& right = all.adapters[two];
      const bool same_owner = left.owner == right.owner;
      const double slow = std::min(left.rate_Gbps, right.rate_Gbps), fast = std::max(left.rate_Gbps, right.rate_Gbps);
      const bool is_soft = slow == kSoftRoce_Gbps;
      if (!same_owner && left.device == right.device && !is_soft && slow > 0 && slow <= 0.6 * fast) {
        const Adapter& slower = left.rate_Gbps < right.rate_Gbps ? left : right;
        all.add_sign(
            CauseCode::kHalfRate, 0.75, "rates differ",
            fmt::format("the adapter of that name has {:.6g} Gb/s here and {:.6g} Gb/s on another node", slow, fast),
            slower.at);
      }
      for (const std::string& a : left.addresses) {
        for (const std::string& b : right.addresses) {
          const auto first = parse_prefix(a), second = parse_prefix(b);
          if (!first || !second || !meet(*first, *second)) continue;
          if (same_owner && left.device != right.device && port_of(left.device) != port_of(right.device)) {
            all.add_sign(CauseCode::kPortsInOneSubnet, 0.85, "one subnet",
                         fmt::format("{} of {} and {} of {} are in one subnet", a, left.device, b, right.device),
                         right.at);
          } else if (!same_owner && first->length_bits != second->length_bits) {
            all.add_sign(CauseCode::kWrongPrefix, 0.70, "lengths differ",
                         fmt::format("{} and {} overlap, but have different prefix lengths", a, b), right.at);
          }
        }
      }
    }
  }
}

/// The owner that has the address; empty: not said.
std::string owner_of_address(const Case& all, const std::string& address) {
  for (const Adapter& adapter : all.adapters) {
    for (const std::string& each : adapter.addresses) {
      if (each.substr(0, each.find('/')) == address) return adapter.owner;
    }
  }
  return "";
}

/// All failures lead to one rank, which itself reports none: it is gone. Otherwise both ends of a path report.
void silent_rank(Case& all) {
  std::set<std::string> peers, reporting;
  bool is_known = true;
  for (const LinkFailure& failure : all.link_failures) {
    if (failure.owner.empty()) continue;  // a repeated line
    const std::string peer = owner_of_address(all, failure.peer);
    is_known = is_known && !peer.empty();
    peers.insert(peer);
    reporting.insert(failure.owner);
  }
  if (!is_known || peers.size() != 1 || reporting.count(*peers.begin()) != 0) return;
  if (all.ended.count(*peers.begin()) != 0) return;
  const std::string& gone = *peers.begin();
  all.add_sign(CauseCode::kRankDead, 0.93, "silent rank",
               fmt::format("every connection that broke leads to {}, which itself reports nothing", gone),
               all.link_failures.front().at);
  const auto last = all.owners.find(gone);
  if (last != all.owners.end()) all.add_fact("silent", gone, last->second);
}

void networks(Case& all) {
  const auto setting = [&](const char* name) {
    const auto found = all.environment.find(name);
    return found == all.environment.end() ? std::string() : found->second;
  };
  const bool disables_ib = leading_number(setting("NCCL_IB_DISABLE")).value_or(0) != 0;
  const std::string plugin = setting("NCCL_NET_PLUGIN");
  const bool wants_plugin = !plugin.empty() && plugin != "none";
  for (const auto& [symptom, line] : all.to_be_judged) {
    if (symptom->cause == CauseCode::kNoRdmaDevice && !disables_ib && all.nodes != 1) {
      bool wants_rdma = false;
      for (const auto& [name, value] : all.environment) wants_rdma = wants_rdma || name.rfind("NCCL_IB_", 0) == 0;
      all.add_sign(symptom->cause, wants_rdma ? 0.70 : 0.40, symptom->says, symptom->says, line);
    }
    if (symptom->cause == CauseCode::kGdrMissing && !all.is_spark) {
      all.add_sign(symptom->cause, 0.35, symptom->says, symptom->says, line);
    }
    if (symptom->cause == CauseCode::kPluginNotLoaded) {
      const bool is_default = line.text.find("libnccl-net.so") != std::string::npos;
      if (wants_plugin || !is_default)
        all.add_sign(symptom->cause, wants_plugin ? 0.85 : 0.60, symptom->says, symptom->says, line);
    }
  }
  const auto socket = all.network_lines.find("Socket");
  if (socket == all.network_lines.end()) return;
  if (wants_plugin) {
    all.add_sign(CauseCode::kPluginNotLoaded, 0.70, "Socket beside a plugin",
                 "NCCL_NET_PLUGIN names a plugin, and the data go over NCCL's sockets", socket->second);
  } else if (!all.devices.empty() && !disables_ib) {
    all.add_sign(CauseCode::kManagementNic, 0.55, "Socket beside RDMA",
                 "there are RDMA devices, and the data go over NCCL's sockets", socket->second);
  } else if (disables_ib && all.nodes != 1) {
    all.add_sign(CauseCode::kManagementNic, 0.50, "NCCL_IB_DISABLE", "NCCL_IB_DISABLE=1: the data go over sockets",
                 socket->second);
  }
}

/// The bootstrap's interface is a port that carries data: no fault by itself (NVIDIA's playbook for two DGX Sparks sets
/// it so), and one where the port is slow.
void out_of_band(Case& all) {
  if (all.out_of_band.empty() || all.devices.size() != 1) return;
  const Fact* const busbw = all.find_fact("busbw_GBps");
  const std::string device = all.devices.front();
  const std::string tail = device.substr(std::min(device.size(), std::size_t{4}));
  const bool is_same = tail.size() > 2 && all.out_of_band.find(tail) != std::string::npos;
  constexpr double kSlow_GBps = 2.5;
  if (is_same && busbw != nullptr && busbw->value.get<double>() < kSlow_GBps) {
    all.add_sign(CauseCode::kManagementNic, 0.60, "bootstrap and data",
                 "bootstrap and data use one interface, and the bus bandwidth is below 2.5 GB/s", all.out_of_band_line);
  }
}

void bandwidth(Case& all) {
  const Fact* const busbw = all.find_fact("busbw_GBps");
  double rate = 0;
  for (const Adapter& adapter : all.adapters) rate = rate == 0 ? adapter.rate_Gbps : std::min(rate, adapter.rate_Gbps);
  if (busbw == nullptr || rate == 0 || !busbw->value.is_number()) return;
  const double part = busbw->value.get<double>() * 8 / rate;
  const bool is_large = leading_number(busbw->at.text).value_or(0) >= 32e6;
  // One function of a Spark's 200 Gb/s port is behind half of that: no fault by itself.
  const double most = all.is_spark ? 0.40 : 0.58;
  if (is_large && part >= 0.20 && part <= most) {
    all.add_sign(CauseCode::kHalfRate, 0.40, "bandwidth",
                 fmt::format("the bus bandwidth is {:.0f} % of the adapter's {:.6g} Gb/s", part * 100, rate),
                 busbw->at);
  }
}

/// Ranks of one communicator at different operations, or behind the others.
void progress(Case& all) {
  std::map<std::pair<std::string, std::string>, std::map<int, const RankProgress*>> last;
  std::map<std::pair<std::string, std::int64_t>, std::map<std::string, const RankProgress*>> at_number;
  std::map<std::string, std::set<int>> ranks;
  for (const RankProgress& each : all.progress) {
    const RankProgress*& known = last[{each.communicator, each.kind}][each.rank];
    if (known == nullptr || known->launched < each.launched) known = &each;
    ranks[each.communicator].insert(each.rank);
    if (each.kind == "flight recorder") at_number[{each.communicator, each.launched}].emplace(each.operation, &each);
  }
  for (const auto& [number, operations] : at_number) {
    if (operations.size() < 2) continue;
    for (const auto& [operation, where] : operations) {
      all.add_sign(CauseCode::kCollectiveMismatch, 0.93, "operations differ",
                   fmt::format("operation {} of {} is not the same on all ranks", number.second, number.first),
                   where->at);
    }
  }
  // One rank ahead in one kind of operation and behind in another called another one: in RAS's counts.
  std::map<std::string, std::map<std::string, std::set<int>>> ahead;
  for (const auto& [which, by_rank] : last) {
    if (by_rank.size() < 2) continue;
    const auto less = [](const auto& one, const auto& other) { return one.second->launched < other.second->launched; };
    const auto [low, high] = std::minmax_element(by_rank.begin(), by_rank.end(), less);
    if (low->second->launched == high->second->launched) continue;
    for (const auto& [rank, where] : by_rank) {
      if (where->launched > low->second->launched) ahead[which.first][which.second].insert(rank);
    }
    // Inspector writes an operation when it has ended: the last line of one rank may be missing.
    const bool is_inspector = which.second.rfind("Inspector", 0) == 0;
    if (is_inspector && high->second->launched - low->second->launched < 2) continue;
    all.add_sign(CauseCode::kRankLate, 0.65, "rank behind",
                 fmt::format("rank {} has come to operation {} of {}, others to {}", low->first, low->second->launched,
                             which.second, high->second->launched),
                 low->second->at);
  }
  for (const auto& [communicator, kinds] : ahead) {
    for (const auto& [kind, who] : kinds) {
      for (const auto& [other, others] : kinds) {
        if (kind >= other || who == others) continue;
        const RankProgress* const where = last[{communicator, kind}][*who.begin()];
        all.add_sign(
            CauseCode::kCollectiveMismatch, 0.80, "kinds differ",
            fmt::format("some ranks are ahead in {}, others in {}: they call different operations", kind, other),
            where->at);
      }
    }
  }
}

}  // namespace

void reason(Case& all) {
  queue_pairs(all);
  pinned_index(all);
  mtus(all);
  adapters(all);
  silent_rank(all);
  networks(all);
  out_of_band(all);
  bandwidth(all);
  progress(all);
}

}  // namespace meshbed::testbed::diagnose
