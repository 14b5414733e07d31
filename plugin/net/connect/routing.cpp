#include "plugin/net/connect/routing.h"

#include <algorithm>
#include <optional>

namespace meshbed::net {
namespace {

/// The longest prefix among our live NICs around `address`, which the kernel's route lookup would choose.
unsigned longest_prefix_to(const std::vector<Nic>& nics, const IpAddress& address) {
  unsigned longest = 0;
  for (const Nic& nic : nics) {
    if (!nic.link_up) continue;
    for (const IpPrefix& local : nic.addresses) {
      if (contains(local, address)) longest = std::max<unsigned>(longest, local.length_bits);
    }
  }
  return longest;
}

/// Why no candidate was found, for the error text.
struct NearMisses {
  std::string link_down;
  std::string no_gid;
  std::string same_address;
  std::string prefix_lengths;
};

/// Subnets of different length overlap, and one end alone finds the other in its own.
bool overlap_one_sided(const IpPrefix& left, const IpPrefix& right) {
  return contains(left, right.address) != contains(right, left.address);
}

std::vector<Route> candidates(const RouteRequest& request, NearMisses& misses) {
  std::vector<Route> found;
  const std::vector<Nic>& nics = *request.nics;
  for (std::size_t index = 0; index < nics.size(); ++index) {
    const Nic& nic = nics[index];
    for (const IpPrefix& local : nic.addresses) {
      for (const PeerAddress& remote : request.peer) {
        const auto shared = shared_bits(local, remote.prefix);
        if (!shared) {
          if (nic.link_up && overlap_one_sided(local, remote.prefix)) {
            misses.prefix_lengths =
                to_text(local) + " on " + nic.device_name + " and the peer's " + to_text(remote.prefix);
          }
          continue;
        }
        if (!request.same_node && local.address == remote.prefix.address) {
          misses.same_address = to_text(local.address);
          continue;
        }
        if (!nic.link_up) {
          misses.link_down += (misses.link_down.empty() ? "" : " and ") + subnet_text(local) + " on " + nic.device_name;
          continue;
        }
        if (local.length_bits < longest_prefix_to(nics, remote.prefix.address)) continue;
        const auto gid = find_gid(nic, local.address, request.gids);
        if (!gid) {
          misses.no_gid = to_text(local.address) + " on " + nic.device_name;
          continue;
        }
        found.push_back({.nic = static_cast<int>(index),
                         .local = local,
                         .gid = *gid,
                         .remote = remote,
                         .shared_bits = *shared,
                         .overridden = static_cast<int>(index) != request.dev});
      }
    }
  }
  return found;
}

/// True if the address lies in a subnet of one of our NICs, even if its link is down: the kernel looks for it there
/// too.
bool is_on_own_cable(const std::vector<Nic>& nics, const IpAddress& address) {
  return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [&](const IpPrefix& local) { return contains(local, address); });
  });
}

std::vector<Route> routed_candidates(const RouteRequest& request, NearMisses& misses) {
  std::vector<Route> found;
  if (!request.routed) return found;
  const std::vector<Nic>& nics = *request.nics;
  for (std::size_t index = 0; index < nics.size(); ++index) {
    const Nic& nic = nics[index];
    for (const IpPrefix& local : nic.addresses) {
      for (const PeerAddress& remote : request.peer) {
        const IpAddress& there = remote.prefix.address;
        const bool differs = local.address.family == there.family && !contains(remote.prefix, local.address) &&
                             !is_on_own_cable(nics, there);
        if (!nic.link_up || !differs || is_link_local(local.address) || is_link_local(there)) continue;
        const std::optional<unsigned> bits = routed_bits(request.routed->table, nic.netdev, there);
        if (!bits && !request.routed->all) continue;
        const auto gid = find_gid(nic, local.address, request.gids);
        if (!gid || gid->type != verbs::GidType::kRoceV2) {
          misses.no_gid = to_text(local.address) + " on " + nic.device_name + " of RoCE v2, which a router needs,";
          continue;
        }
        found.push_back({.nic = static_cast<int>(index),
                         .local = local,
                         .gid = *gid,
                         .remote = remote,
                         .shared_bits = bits.value_or(0),
                         .overridden = static_cast<int>(index) != request.dev,
                         .routed = true});
      }
    }
  }
  return found;
}

/// Candidates on our cables, or if there are none, those through a router.
std::vector<Route> all_candidates(const RouteRequest& request, NearMisses& misses) {
  std::vector<Route> found = candidates(request, misses);
  return found.empty() ? routed_candidates(request, misses) : found;
}

template <typename Predicate>
void keep_routes_if_any(std::vector<Route>& routes, Predicate keep) {
  if (std::any_of(routes.begin(), routes.end(), keep)) {
    routes.erase(std::remove_if(routes.begin(), routes.end(), [&](const Route& route) { return !keep(route); }),
                 routes.end());
  }
}

std::string peer_subnets(std::span<const PeerAddress> peer) {
  std::string text;
  for (const PeerAddress& address : peer) {
    // Link-local addresses serve stripes only (rail_layer.h).
    if (address.prefix.address.family == Family::kIpv6 && is_link_local(address.prefix.address)) continue;
    if (!text.empty()) text += ", ";
    text += subnet_text(address.prefix) + " (" + to_text(address.prefix.address) + ")";
  }
  return text.empty() ? "no RDMA address at all" : text;
}

Error no_path(const RouteRequest& request, const NearMisses& misses) {
  std::string text = "no path: this node has " + describe_subnets(*request.nics) + "; the peer has " +
                     peer_subnets(request.peer) + "; ";
  if (!misses.link_down.empty()) {
    text += "the shared subnet " + misses.link_down + " has its link down: look at the cable and the port";
  } else if (!misses.no_gid.empty()) {
    text += "there is no usable GID for " + misses.no_gid +
            (request.gids.forced_index >= 0
                 ? " at NCCL_IB_GID_INDEX=" + std::to_string(request.gids.forced_index) +
                       ": leave it unset, or set an index that the port's gid_attrs in sysfs have"
                 : ": see the port's gid_attrs in sysfs");
  } else if (!misses.same_address.empty()) {
    text += "both nodes have the address " + misses.same_address + ": give each its own";
  } else if (!misses.prefix_lengths.empty()) {
    text += "the subnets of " + misses.prefix_lengths +
            " overlap but have different prefix lengths: set the same length at both ends, or, where no cable joins "
            "them, subnets that do not overlap";
  } else {
    text += "no shared subnet: a cable or a relay is needed";
    if (request.routed && !request.routed->all) {
      text +=
          " (or NCCL_MESH_ALLOW_ROUTED=1 on both nodes, where a router joins them and no route in the main table "
          "shows it)";
    }
  }
  return {.code = ErrorCode::kUnreachable, .scope = Scope::kPort, .text = std::move(text), .os_errno = 0};
}

/// By the rules in the header. `routes` must not be empty.
Route best_of(std::vector<Route> routes, const RouteRequest& request) {
  keep_routes_if_any(routes, [&](const Route& route) { return route.nic == request.dev; });
  const unsigned longest = std::max_element(routes.begin(), routes.end(), [](const Route& a, const Route& b) {
                             return a.shared_bits < b.shared_bits;
                           })->shared_bits;
  keep_routes_if_any(routes, [&](const Route& route) { return route.shared_bits == longest; });
  keep_routes_if_any(routes, [&](const Route& route) { return route.remote.nic == request.peer_dev; });
  return routes[static_cast<std::size_t>(std::max(request.dev, 0)) % routes.size()];
}

}  // namespace

Result<Route> choose_route(const RouteRequest& request) {
  NearMisses misses;
  std::vector<Route> routes = all_candidates(request, misses);
  if (routes.empty()) return no_path(request, misses);
  return best_of(std::move(routes), request);
}

Result<std::vector<Route>> all_routes(const RouteRequest& request) {
  NearMisses misses;
  std::vector<Route> routes = all_candidates(request, misses);
  if (routes.empty()) return no_path(request, misses);
  const Route best = best_of(routes, request);
  std::stable_partition(routes.begin(), routes.end(),
                        [&](const Route& route) { return route.local == best.local && route.remote == best.remote; });
  return routes;
}

std::string left_out_text(const std::vector<InterfaceAddress>& interfaces, const std::vector<Nic>& nics,
                          std::span<const PeerAddress> peer) {
  for (const InterfaceAddress& interface : interfaces) {
    const bool is_used =
        std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.netdev == interface.netdev; });
    const bool leads_there = std::any_of(peer.begin(), peer.end(), [&](const PeerAddress& remote) {
      return remote.prefix.address != interface.prefix.address && shared_bits(interface.prefix, remote.prefix);
    });
    if (is_used || !leads_there) continue;
    return "; " + subnet_text(interface.prefix) + " is on " + interface.netdev +
           " here, which belongs to no port in use: if it is one, NCCL_DEBUG=INFO logs why it was left out "
           "(NCCL_MESH_USE_MANAGEMENT=1 takes slow ones in, NCCL_IB_HCA chooses)";
  }
  return "";
}

}  // namespace meshbed::net
