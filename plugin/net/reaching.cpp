#include "plugin/net/reaching.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/scout.h"
#include "plugin/net/service.h"
#include "plugin/net/transport.h"

namespace meshbed::net {
namespace {

Error logged(Error error) {
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

}  // namespace

Reaching::Reaching(Transport& transport, const Handle& peer, int dev, int traffic_class)
    : transport_(transport), peer_(peer), dev_(dev), traffic_class_(traffic_class), nics_(transport.current_nics()) {}

Result<std::unique_ptr<Reaching>> Reaching::begin(Transport& transport, const Handle& peer, int dev,
                                                  int traffic_class) {
  std::unique_ptr<Reaching> reaching(new Reaching(transport, peer, dev, traffic_class));
  auto route = choose_route({.nics = &reaching->nics_,
                             .peer = peer.addresses,
                             .same_node = peer.node == transport.node(),
                             .dev = dev,
                             .peer_dev = peer.dev,
                             .gids = transport.gid_preference()});
  if (route) {
    if (auto straight = reaching->go_straight(*route); !straight) return logged(straight.error());
    return reaching;
  }
  if (!transport.config().flag(Variable::kEnableRelay)) {
    Error error = route.error();
    error.text += " (relays are off: NCCL_MESH_ENABLE_RELAY=0)";
    return logged(std::move(error));
  }
  Service* service = transport.service();
  if (service == nullptr) return logged(route.error());
  if (service->scout() == nullptr) return logged(service->scout_problem());
  reaching->search_ = std::make_unique<ChainSearch>(transport, *service->scout(), peer, dev);
  reaching->no_path_ = route.error();
  reaching->give_up_ = Deadline::in_ms(transport.config().number(Variable::kConnectTimeoutSec) * 1000);
  reaching->search_->begin(false);
  return reaching;
}

LocalEnd Reaching::local_end(const Route& route) {
  return transport_.local_end(nics_[static_cast<std::size_t>(route.nic)], route.local, route.gid);
}

Result<void> Reaching::go_straight(const Route& route) {
  if (route.overridden) {
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
                          .onward = std::nullopt};
  connecting_ = std::make_unique<Connecting>(transport_, std::move(destination), connection_->leg());
  return ok();
}

Result<std::unique_ptr<SendConnection>> Reaching::advance() {
  for (;;) {
    if (connecting_ == nullptr) {
      auto begun = search();
      if (!begun) return logged(begun.error());
      if (!*begun) return std::unique_ptr<SendConnection>();
    }
    auto connected = connecting_->advance();
    if (connected && !*connected) return std::unique_ptr<SendConnection>();
    if (connected) break;
    if (search_ == nullptr || give_up_.passed()) return logged(connected.error());
    MESHBED_INFO("%s", connected.error().text.c_str());
    // The map may be older than a cable that was pulled: draw it anew.
    connecting_.reset();
    connection_.reset();
    search_->begin(true);
  }
  if (search_ != nullptr) connection_->attach(connecting_->take_control());
  connection_->remember({.transport = &transport_,
                         .peer = peer_,
                         .dev = dev_,
                         .session = connecting_->session(),
                         .service_port = connecting_->session_port()});
  connecting_.reset();
  return std::move(connection_);
}

Result<bool> Reaching::search() {
  if (const auto hops = search_->advance(nics_)) {
    if (auto through = go_through(*hops); !through) return through.error();
    return true;
  }
  if (give_up_.passed()) {
    Error error = no_path_;
    error.text += "; and no chain of at most " + std::to_string(transport_.config().max_relay_hops()) +
                  " cables (NCCL_MESH_MAX_RELAY_HOPS) was found within " +
                  transport_.config().text(Variable::kConnectTimeoutSec) +
                  " s: " + std::to_string(transport_.service()->scout()->known_nodes()) +
                  " nodes answered on UDP port " + transport_.config().text(Variable::kRelayPort) +
                  " (NCCL_MESH_RELAY_PORT)";
    return error;
  }
  // Nothing to look at here; the relay service reads the answers.
  ::poll(nullptr, 0, 0);
  return false;
}

Result<void> Reaching::go_through(const std::vector<Hop>& hops) {
  auto start = start_of(transport_, hops, peer_, dev_, nics_);
  if (!start) return start.error();
  auto connection = SendConnection::create(local_end(start->destination.route), transport_.settings_for(traffic_class_),
                                           start->circuit);
  if (!connection) return connection.error();
  connection_ = std::move(*connection);
  connecting_ = std::make_unique<Connecting>(transport_, std::move(start->destination), connection_->leg());
  return ok();
}

}  // namespace meshbed::net
