#include "plugin/net/connect/routed_ways.h"

#include <algorithm>
#include <cstdint>

namespace meshbed::net {
namespace {

// Values of NCCL_MESH_ALLOW_ROUTED; by default the routing table decides.
constexpr std::int64_t kRoutedNever = 0, kRoutedAlways = 1;

}  // namespace

Result<std::vector<Route>> ways(Process& process, RouteRequest request) {
  auto on_link = all_routes(request);
  const std::int64_t allowed = process.config().number(Variable::kAllowRouted);
  if (on_link || request.same_node || allowed == kRoutedNever) return on_link;
  const bool any_up =
      std::any_of(request.nics->begin(), request.nics->end(), [](const Nic& nic) { return nic.link_up; });
  if (!any_up) return on_link;
  const auto table = process.recent_routes();
  request.routed = RoutedPairs{.all = allowed == kRoutedAlways, .table = *table};
  return all_routes(request);
}

bool is_routed_to(Process& process, const Nic& nic, const IpAddress& peer) {
  const std::int64_t allowed = process.config().number(Variable::kAllowRouted);
  if (allowed == kRoutedNever || is_link_local(peer)) return false;
  return allowed == kRoutedAlways || routed_bits(*process.recent_routes(), nic.netdev, peer).has_value();
}

}  // namespace meshbed::net
