#include "plugin/net/pending_connect.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/connect/routed_ways.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/process/discovery.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

/// This long before the time is up, nodes further away than the longest chain are queried too.
constexpr std::int64_t kLookFurtherMs = 2000;

Error logged(Error error) {
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

/// Between the same two NICs, by any of their addresses.
bool are_of_one_cable(const Route& one, const Route& other) {
  return one.nic == other.nic && one.remote.nic == other.remote.nic;
}

}  // namespace

PendingConnect::PendingConnect(Transport& transport, const Handle& peer, int dev, int traffic_class)
    : transport_(transport),
      peer_(peer),
      dev_(dev),
      traffic_class_(traffic_class),
      events_(transport.port_events()),
      nics_(transport.current_nics()) {}

Result<std::unique_ptr<PendingConnect>> PendingConnect::begin(Transport& transport, const Handle& peer, int dev,
                                                              int traffic_class) {
  std::unique_ptr<PendingConnect> pending_connect(new PendingConnect(transport, peer, dev, traffic_class));
  auto routes = pending_connect->routes_there();
  auto begun = routes ? pending_connect->go_straight(std::move(*routes)) : pending_connect->go_round(routes.error());
  if (!begun) return logged(pending_connect->with_hints(begun.error()));
  return pending_connect;
}

Result<std::vector<Route>> PendingConnect::routes_there() const {
  const RouteRequest request{.nics = &nics_,
                             .peer = peer_.addresses,
                             .same_node = peer_.node == transport_.node(),
                             .dev = dev_,
                             .peer_dev = peer_.dev,
                             .gids = transport_.gid_preference()};
  return no_router_ ? all_routes(request) : ways(transport_, request);
}

bool PendingConnect::can_search() const {
  return transport_.config().flag(Variable::kEnableRelay) && transport_.service() != nullptr &&
         transport_.service()->discovery() != nullptr;
}

Result<void> PendingConnect::go_round(Error no_path) {
  const TcpNetwork& network = transport_.tcp();
  if (network.everything()) return go_by_tcp("RDMA is off here (NCCL_MESH_DISABLE_RDMA=1)");
  if (!transport_.config().flag(Variable::kEnableRelay)) {
    no_path.text += " (relays are off: NCCL_MESH_ENABLE_RELAY=0)";
    return may_use_tcp() ? go_by_tcp(std::move(no_path.text)) : no_path;
  }
  Service* service = transport_.service();
  const bool can_relay = can_search();
  // No chain leads to a peer without RDMA, or to one that was searched for in vain a moment ago.
  const bool hopeless = !can_relay || peer_.addresses.empty() || network.is_unreached(peer_.node);
  if (hopeless && may_use_tcp()) return go_by_tcp(std::move(no_path.text));
  if (service == nullptr) return no_path;
  if (!can_relay) return service->discovery_problem();
  begin_search(std::move(no_path), false);
  return ok();
}

/// Requires peer discovery.
void PendingConnect::begin_search(Error no_path, bool afresh) {
  const std::int64_t timeout_ms = transport_.config().number(Variable::kConnectTimeoutSec) * 1000;
  // Time must be left for using the chain.
  const std::int64_t longest_ms = timeout_ms > 0 ? timeout_ms / 4 : ChainSearch::kFirstNeighboursLatestMs;
  search_ = std::make_unique<ChainSearch>(transport_, *transport_.service()->discovery(), peer_, dev_,
                                          std::min(longest_ms, ChainSearch::kFirstNeighboursLatestMs));
  no_path_ = std::move(no_path);
  refusal_.clear();
  give_up_ = Deadline::after_ms_or_never(timeout_ms);
  look_further_ = Deadline::after_ms_or_never(timeout_ms - std::min(kLookFurtherMs, timeout_ms / 2));
  rests_ = false;
  search_->begin(afresh);
}

/// Adds hints to the error, for example that only one end has TCP enabled.
Error PendingConnect::with_hints(Error error) const {
  const TcpNetwork& network = transport_.tcp();
  // If RDMA is off, missing ports are not the reason.
  if (error.code == ErrorCode::kUnreachable && !network.everything()) {
    if (const auto interfaces = read_interfaces()) error.text += left_out_text(*interfaces, nics_, peer_.addresses);
  }
  const bool here = network.wanted(), there = !peer_.tcp_addresses.empty();
  if (here && !there) {
    error.text += std::string("; the peer offers no address for TCP: ") +
                  (network.everything() ? "NCCL_MESH_DISABLE_RDMA=1" : "NCCL_MESH_HYBRID_TCP=1") +
                  " must be set there too, and its NCCL_SOCKET_IFNAME must leave an interface";
    if (const auto usable = transport_.tcp_interfaces(); usable && usable->empty()) {
      error.text += " (here NCCL_SOCKET_IFNAME=" + transport_.config().text(Variable::kSocketIfname) + " leaves none)";
    }
  }
  if (!here && there) error.text += "; the peer offers TCP: set NCCL_MESH_HYBRID_TCP=1 here, too";
  return error;
}

bool PendingConnect::may_use_tcp() const { return transport_.tcp().wanted() && !peer_.tcp_addresses.empty(); }

Result<void> PendingConnect::go_by_tcp(std::string why) {
  auto begun = TcpConnecting::begin(transport_, transport_.tcp(), peer_, dev_, std::move(why));
  if (!begun) return begun.error();
  tcp_ = std::move(*begun);
  return ok();
}

LocalEnd PendingConnect::local_end(const Route& route) {
  return transport_.local_end(nics_[static_cast<std::size_t>(route.nic)], route.local, route.gid);
}

Result<void> PendingConnect::go_straight(std::vector<Route> routes) {
  routes_ = std::move(routes);
  const Route& route = routes_.front();
  if (route.routed) {
    MESHBED_INFO("no subnet shared with the peer: through a router, by device %d (%s), %s -> %s", route.nic,
                 nics_[static_cast<std::size_t>(route.nic)].device_name.c_str(), to_text(route.local.address).c_str(),
                 to_text(route.remote.prefix.address).c_str());
  } else if (route.overridden) {
    MESHBED_INFO("device %d (%s) has no path to the peer: using device %d (%s), whose %s reaches %s", dev_,
                 nics_[static_cast<std::size_t>(dev_)].device_name.c_str(), route.nic,
                 nics_[static_cast<std::size_t>(route.nic)].device_name.c_str(), subnet_text(route.local).c_str(),
                 to_text(route.remote.prefix.address).c_str());
  }
  auto connection = SendConnection::create(local_end(route), transport_.settings_for(traffic_class_));
  if (!connection) return connection.error();
  connection_ = std::move(*connection);
  Destination destination{.route = route,
                          .target = {.address = route.remote.prefix.address, .port = peer_.tcp_port},
                          .cookie = peer_.cookie,
                          .onward = std::nullopt,
                          .keeps_ready = true};
  if (dial_ms_ == 0) dial_ms_ = share_of_dials();
  destination.dial_ms = dial_ms_;
  // A route through a router may lead nowhere (a default route, for example), so all of them get a quarter of the time;
  // the rest is for relays.
  if (route.routed && can_search()) {
    destination.dial_ms = dial_ms_ > 0 ? std::max<std::int64_t>(dial_ms_ / 4, 1) : transport_.chain_dial_ms();
  }
  whereabouts_.emplace(process_of(peer_), destination.target.address);
  connecting_ = std::make_unique<Connecting>(transport_, std::move(destination), connection_->qp_link());
  through_ = false;
  return ok();
}

/// All cables share the time that a single one would have. 0: no share is set, because there is one cable or no limit.
std::int64_t PendingConnect::share_of_dials() const {
  std::int64_t cables = 0;
  for (auto route = routes_.begin(); route != routes_.end(); ++route) {
    const bool again =
        std::any_of(routes_.begin(), route, [&](const Route& other) { return are_of_one_cable(other, *route); });
    if (!again) ++cables;
  }
  return cables < 2 ? 0 : transport_.config().number(Variable::kConnectTimeoutSec) * 1000 / cables;
}

void PendingConnect::abandon() {
  connecting_.reset();
  connection_.reset();
}

Result<void> PendingConnect::look_at_ports() {
  events_ = transport_.port_events();
  nics_ = transport_.current_nics();
  end_rest();
  if (connecting_ != nullptr) {
    if (connection_->local().stands(nics_)) {
      if (!through_) search_.reset();  // the port is back
      return ok();
    }
    MESHBED_INFO(
        "the port of %s is down, or has another GID, while a connection over it is made: looking for another way",
        connection_->local().nic.device_name.c_str());
  }
  auto routes = routes_there();
  if (routes) {
    abandon();
    search_.reset();
    return go_straight(std::move(*routes));
  }
  if (through_ && connecting_ != nullptr) {
    abandon();
    search_->begin(true);
  } else if (connecting_ != nullptr && search_ == nullptr && can_search()) {
    // The handshake on this cable is kept too: the cable may be back before a chain is found.
    begin_search(routes.error(), true);
  } else if (connecting_ != nullptr && search_ == nullptr && may_use_tcp()) {
    abandon();
    return go_by_tcp(routes.error().text);
  }
  return ok();
}

Result<void> PendingConnect::try_another(Error error) {
  if (!connection_->local().stands(nics_)) {
    error.text += "; meanwhile the port of " + connection_->local().nic.device_name + " went down (look at its cable)";
  }
  if (search_ != nullptr && !give_up_.passed()) {
    MESHBED_INFO("%s", error.text.c_str());
    if (through_) refusal_ = std::move(error.text);
    abandon();
    rest();
    return ok();
  }
  const bool was_routed = !through_ && routes_.front().routed;
  // A peer that refuses clients from behind a router may accept them through relays.
  const bool is_lost = error.code == ErrorCode::kUnreachable || (was_routed && connecting_->was_refused());
  const bool would_help = is_lost && !connecting_->is_final();
  std::vector<Route> others = routes_;
  std::erase_if(others, [this](const Route& route) { return are_of_one_cable(route, routes_.front()); });
  if (was_routed && others.empty() && would_help) {
    MESHBED_INFO("%s; no router leads to the peer: looking for relays", error.text.c_str());
    no_router_ = true;
    abandon();
    return go_round(std::move(error));
  }
  if (through_ || others.empty() || !would_help) return error;
  if (was_routed) {
    MESHBED_INFO("%s; the next pair of ports is tried", error.text.c_str());
  } else {
    MESHBED_WARN("%s; another cable leads to the peer, and is tried", error.text.c_str());
  }
  abandon();
  return go_straight(std::move(others));
}

bool PendingConnect::has_left() {
  if (!can_search()) return false;
  PeerDiscovery& discovery = *transport_.service()->discovery();
  std::vector<PeerAddress> of_relay;
  if (through_) return whereabouts_->has_left(discovery, of_relay);
  // A search that is under way means that a port of ours is down.
  return search_ == nullptr && whereabouts_->has_left(discovery, peer_.addresses);
}

Result<void> PendingConnect::follow() {
  MESHBED_INFO("%s has left %s while a connection is made: dialling its present address",
               through_ ? "a relay" : "the peer's node", to_text(whereabouts_->address()).c_str());
  abandon();
  if (through_) {
    search_->begin(true);
    return ok();
  }
  auto routes = routes_there();
  return routes ? go_straight(std::move(*routes)) : go_round(routes.error());
}

Result<std::unique_ptr<Endpoint>> PendingConnect::advance() {
  for (;;) {
    if (tcp_ == nullptr && events_ != transport_.port_events()) {
      if (auto looked = look_at_ports(); !looked) return logged(looked.error());
    }
    if (tcp_ != nullptr) {
      auto connection = tcp_->advance();
      if (!connection) return logged(connection.error());
      return std::unique_ptr<Endpoint>(std::move(*connection));
    }
    // Also while the handshake waits for its port to come back.
    const bool searches = connecting_ == nullptr || (!through_ && search_ != nullptr);
    const bool found = searches && try_chain();
    if (searches && !found && give_up_.passed() && may_use_tcp()) abandon();
    if (connecting_ == nullptr) {
      if (auto waits = wait_for_chain(); !waits) return logged(with_hints(waits.error()));
      if (tcp_ != nullptr) continue;
      return std::unique_ptr<Endpoint>();
    }
    auto connected = connecting_->advance();
    if (connected && !*connected) {
      if (!has_left()) return std::unique_ptr<Endpoint>();
      if (auto followed = follow(); !followed) return logged(with_hints(followed.error()));
      continue;
    }
    if (connected && connecting_->is_kept()) {
      if (!rails_joined()) return std::unique_ptr<Endpoint>();
      // Its cable was pulled meanwhile, and another path is being searched for: this READY would never arrive.
      if (search_ != nullptr && !connection_->local().stands(nics_)) {
        if (!give_up_.passed()) return std::unique_ptr<Endpoint>();
        abandon();
        continue;
      }
      connecting_->go_ahead();
      continue;
    }
    if (connected) break;
    if (auto another = try_another(connected.error()); !another) return logged(another.error());
  }
  if (through_) {
    connection_->attach(connecting_->take_control());
    remember_receiver();
  }
  connection_->recovery().enroll();
  connecting_.reset();
  return std::unique_ptr<Endpoint>(std::move(connection_));
}

void PendingConnect::remember_receiver() {
  connection_->recovery().remember({.process = &transport_,
                                    .peer = peer_,
                                    .dev = dev_,
                                    .session = connecting_->session(),
                                    .service_port = connecting_->session_port()},
                                   nics_, events_);
}

bool PendingConnect::rails_joined() {
  if (!connection_->recovery().knows_receiver()) remember_receiver();
  return connection_->recovery().rails_joined(nics_);
}

void PendingConnect::rest() {
  rests_ = true;
  rest_ends_ = Deadline::after_ms_or_never(rest_ms_);
  rest_ms_ = std::min(2 * rest_ms_, kLongestRestMs);
}

void PendingConnect::end_rest() {
  rest_ms_ = kShortestRestMs;
  if (rests_) rest();
}

bool PendingConnect::try_chain() {
  if (rests_ && !rest_ends_.passed()) return false;
  // The map may be older than a cable that was pulled: start with an empty one.
  if (std::exchange(rests_, false)) search_->begin(true);
  const auto hops = search_->advance(nics_);
  if (!hops) return false;
  auto through = go_through(*hops);
  if (through) return true;
  // A port that has just come back may not have its GID yet.
  MESHBED_INFO("%s", through.error().text.c_str());
  no_path_ = through.error();
  rest();
  return false;
}

Error PendingConnect::no_chain() const {
  const Config& config = transport_.config();
  const PeerDiscovery& discovery = *transport_.service()->discovery();
  Error error = no_path_;
  const std::string within = " within " + config.text(Variable::kConnectTimeoutSec) + " s: ";
  if (!refusal_.empty()) {
    error.text += "; the last chain that was tried" + within + refusal_;
    return error;
  }
  error.text += "; no chain of at most " + counted(config.max_relay_hops(), "cable") +
                " (NCCL_MESH_MAX_RELAY_HOPS) was found" + within + counted(discovery.known_nodes(), "node") +
                " answered on UDP port " + config.text(Variable::kRelayPort) + " (NCCL_MESH_RELAY_PORT)";
  if (const auto cables = search_->too_long(nics_)) {
    error.text += "; there is one of " + counted(*cables, "cable") + ": ";
    if (*cables > kMaxRelayHopsMost) {
      error.text +=
          "more than " + std::to_string(kMaxRelayHopsMost) + " are never used, and a cable is needed that shortens it";
    } else {
      error.text += "set NCCL_MESH_MAX_RELAY_HOPS=" + std::to_string(*cables) + " on all nodes";
    }
    return error;
  }
  std::vector<Nic> silent = discovery.unanswered(nics_);
  // Links that are down are already in the error text, unless all links went down meanwhile.
  const auto is_down = [](const Nic& nic) { return !nic.link_up; };
  if (discovery.known_nodes() > 0 || !std::all_of(silent.begin(), silent.end(), is_down))
    std::erase_if(silent, is_down);
  if (silent.empty()) return error;
  error.text += "; no node answered from " + describe_subnets(silent) +
                ": is the node there up, with relays on (NCCL_MESH_ENABLE_RELAY), that port in use "
                "(NCCL_IB_HCA, NCCL_MESH_USE_MANAGEMENT) and the same NCCL_MESH_RELAY_PORT?";
  return error;
}

Result<void> PendingConnect::wait_for_chain() {
  if (give_up_.passed()) {
    Error error = no_chain();
    if (!may_use_tcp()) return error;
    transport_.tcp().remember_unreached(peer_.node);
    return go_by_tcp(std::move(error.text));
  }
  // Nothing to wait for here, as the service reads the answers; but a simulated process must yield.
  if (look_further_.passed()) search_->look_further();
  ::poll(nullptr, 0, 0);
  return ok();
}

Result<void> PendingConnect::go_through(const std::vector<Hop>& hops) {
  auto start = start_of(transport_, hops, peer_, dev_, nics_);
  if (!start) return start.error();
  auto connection = SendConnection::create(local_end(start->destination.route), transport_.settings_for(traffic_class_),
                                           start->circuit);
  if (!connection) return connection.error();
  abandon();
  start->destination.dial_ms = transport_.chain_dial_ms();
  connection_ = std::move(*connection);
  whereabouts_.emplace(ProcessKey{.node = hops.front().node, .circuit_port = hops.front().port},
                       start->destination.target.address);
  connecting_ = std::make_unique<Connecting>(transport_, std::move(start->destination), connection_->qp_link());
  through_ = true;
  return ok();
}

}  // namespace meshbed::net
