#include "plugin/net/listener.h"

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/tcp/tcp_receive.h"
#include "plugin/net/transport.h"

namespace meshbed::net {

Listener::Listener(Transport& transport, int dev, const ContextSettings& owner)
    : Object(kKind),
      transport_(transport),
      dev_(dev),
      owner_(owner),
      nics_(transport.current_nics()),
      cookie_(transport.random()),
      begun_ns_(now_ns()),
      neighbours_(transport) {}

Result<std::unique_ptr<Listener>> Listener::create(Transport& transport, int dev, const ContextSettings& owner) {
  std::unique_ptr<Listener> listener(new Listener(transport, dev, owner));
  bool ipv6 = has_ipv6(listener->nics_);
  const auto interfaces = transport.tcp_interfaces();
  if (!interfaces) return interfaces.error();
  for (const InterfaceAddress& interface : *interfaces) {
    ipv6 = ipv6 || interface.prefix.address.family == Family::kIpv6;
  }
  AcceptQueueOptions options{
      .name = "listener",
      .patience_name = "NCCL_MESH_ACCEPT_TIMEOUT_SEC",
      .patience_ms = transport.config().number(Variable::kAcceptTimeoutSec) * 1000,
      .is_over_cable = [&neighbours = listener->neighbours_](const auto& own, const auto& client) {
        return neighbours.include(own, client);
      }};
  if (auto opened = listener->first_messages_.open(ipv6, std::move(options)); !opened) return opened.error();
  return listener;
}

Handle Listener::handle() const {
  Handle handle;
  handle.node = transport_.node();
  handle.process = transport_.number();
  handle.cookie = cookie_;
  handle.tcp_port = first_messages_.queue().port();
  handle.dev = static_cast<std::uint8_t>(dev_);
  handle.tcp_addresses = transport_.tcp_addresses(dev_);
  if (transport_.tcp().everything()) return handle;
  for (std::size_t nic = 0; nic < nics_.size(); ++nic) {
    for (const IpPrefix& address : nics_[nic].addresses) {
      handle.addresses.push_back(
          {.prefix = address, .nic = static_cast<std::uint8_t>(std::min<std::size_t>(nic, 127))});
    }
  }
  const std::vector<Nic>& others = transport_.link_local_nics();
  for (std::size_t nic = 0; nic < others.size(); ++nic) {
    const std::size_t number = std::min<std::size_t>(nics_.size() + nic, kTcpNic - 1);
    handle.addresses.push_back({.prefix = *others[nic].link_local, .nic = static_cast<std::uint8_t>(number)});
  }
  return handle;
}

Result<std::unique_ptr<Endpoint>> Listener::take() {
  const std::lock_guard lock(mutex_);
  asked_ns_ = now_ns();
  if (finished_.empty()) {
    auto advanced = advance();
    if (!advanced && finished_.empty()) return advanced.error();
  }
  if (finished_.empty()) return std::unique_ptr<Endpoint>();
  auto connection = std::move(finished_.front());
  finished_.erase(finished_.begin());
  ++taken_;
  return connection;
}

void Listener::advance_if_idle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // A socket that fails now still fails in accept(), which reports it.
  if (lock.owns_lock()) (void)advance();
}

Result<void> Listener::advance() {
  const Result<void> admitted = first_messages_.advance(arrivals_);
  for (Arrival& arrival : arrivals_) greet(std::move(arrival));
  arrivals_.clear();
  for (auto& client : clients_) {
    const Progress progress = advance(*client);
    if (progress == Progress::kWaits) continue;
    if (progress == Progress::kFinished) finished_.push_back(connection_of(*client));
    client.reset();
  }
  clients_.erase(std::remove(clients_.begin(), clients_.end(), nullptr), clients_.end());
  return admitted;
}

void Listener::greet(Arrival arrival) {
  auto client = std::make_unique<Client>();
  client->socket = std::move(arrival.socket);
  client->local = arrival.local;
  client->remote = arrival.remote;
  client->deadline = arrival.deadline;
  // Early enough that our reply arrives before the sender's own time is up.
  client->held_until = Deadline::after_ms_or_never(transport_.config().number(Variable::kAcceptTimeoutSec) * 750);
  client->request = std::move(arrival.message);
  if (read_request(*client) == Progress::kWaits) clients_.push_back(std::move(client));
}

Listener::Progress Listener::advance(Client& client) {
  Progress progress = Progress::kWaits;
  if (client.state == State::kHeld) progress = hold(client);
  if (progress == Progress::kWaits && client.state == State::kReply) progress = write_reply(client);
  if (progress == Progress::kWaits && client.state == State::kReady) progress = read_ready(client);
  if (progress == Progress::kWaits && client.state == State::kRefusing) {
    auto written = client.writer.write(client.socket);
    if (!written || *written) progress = Progress::kGone;
  }
  // While the sender is being queried, the connection must not end: the sender may have it.
  if (progress == Progress::kWaits && client.liveness_check == nullptr && client.deadline.passed()) {
    return drop(client, "it did not finish its handshake in time (NCCL_MESH_ACCEPT_TIMEOUT_SEC)");
  }
  return progress;
}

Listener::Progress Listener::drop(const Client& client, const std::string& why) {
  const LogLevel level = dropped_.next();
  MESHBED_LOG(level, "client %s port %u on %s is dropped: %s%s", to_text(client.remote.address).c_str(),
              client.remote.port, to_text(client.local.address).c_str(), why.c_str(),
              dropped_.so_far("were dropped").c_str());
  return Progress::kGone;
}

Listener::Progress Listener::refuse(Client& client, const std::string& why) {
  const LogLevel level = refused_.next();
  MESHBED_LOG(level, "client %s port %u on %s is refused: %s%s", to_text(client.remote.address).c_str(),
              client.remote.port, to_text(client.local.address).c_str(), why.c_str(),
              refused_.so_far("were refused").c_str());
  client.writer.start({.type = WireType::kRefuse, .cookie = cookie_, .end = {}, .reason = why});
  client.state = State::kRefusing;
  return Progress::kWaits;
}

Listener::Progress Listener::read_request(Client& client) {
  const WireMessage& request = client.request;
  const bool tcp = request.type == WireType::kTcpRequest;
  if (!tcp && request.type != WireType::kRequest) return drop(client, "it did not begin with a request");
  if (request.cookie != cookie_) return drop(client, "its cookie is not that of this listener: a stale handle?");
  client.events = transport_.port_events();
  auto welcomed = tcp ? welcome_tcp(client, request) : welcome(client, request);
  if (!welcomed) return refuse(client, welcomed.error().text);
  client.state = *welcomed ? State::kReply : State::kHeld;
  return Progress::kWaits;
}

Listener::Progress Listener::hold(Client& client) {
  auto message = client.reader.read(client.socket);
  if (!message) return drop(client, message.error().text);
  if (*message) return drop(client, "it sent more before our reply");
  if (client.events != transport_.port_events()) return read_request(client);
  if (!client.held_until.passed()) return Progress::kWaits;
  return refuse(client, "the port with " + to_text(client.local.address) + " is down here: look at its cable");
}

/// Whether a port of ours lost its link, this address, or the GID for it, since we began.
bool Listener::is_away(const IpAddress& address) const {
  const auto has = [&](const Nic& nic) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [&](const IpPrefix& prefix) { return prefix.address == address; });
  };
  const std::vector<Nic> now = transport_.current_nics();
  for (std::size_t at = 0; at < now.size(); ++at) {
    if (!has(nics_[at])) continue;
    return !now[at].link_up || !has(now[at]) || !find_gid(now[at], address, transport_.gid_preference());
  }
  return false;
}

Result<bool> Listener::welcome(Client& client, const WireMessage& request) {
  auto local = local_end_for(transport_, client.local.address, client.remote.address, request.end);
  if (!local) {
    if (is_away(client.local.address)) return false;
    return local.error();
  }
  // The cable failed meanwhile: connecting a queue pair would block for a second in vain, and all other clients too.
  if (!local->nic.link_up) return false;
  const std::uint8_t mtu = std::min(local->nic.mtu, request.end.mtu);
  auto connection =
      ReceiveConnection::create(std::move(*local), transport_.receiving_settings_for(owner_.traffic_class));
  if (!connection) return connection.error();
  client.connection = std::move(*connection);
  if (auto joined = client.connection->qp_link().join(request.end, mtu); !joined) return joined.error();
  LivenessCheck::Lost sender{
      .session = 0, .local = client.connection->qp_link().local(), .sender = client.connection->qp_link().peer()};
  // From now on the sender may resume over another cable: READY may be lost with this one.
  client.connection->enroll(transport_);
  sender.session = client.connection->session();
  const bool resumes = transport_.receiving_settings_for(owner_.traffic_class).failover_ms > 0;
  if (resumes && sender.local.service_port != 0 && sender.sender.service_port != 0) client.sender = std::move(sender);
  WireMessage reply{
      .type = WireType::kReply, .cookie = cookie_, .end = client.connection->qp_link().describe(), .reason = ""};
  reply.end.mtu = mtu;
  client.writer.start(reply);
  return true;
}

Result<bool> Listener::welcome_tcp(Client& client, const WireMessage& request) {
  const TcpNetwork& network = transport_.tcp();
  if (!network.wanted()) {
    return handshake_error("TCP for data is not wanted here: set NCCL_MESH_HYBRID_TCP=1 on all nodes, or on none");
  }
  const auto netdev = network.interface_with(client.local.address);
  if (!netdev) {
    return handshake_error("it came in on " + to_text(client.local.address) +
                           ", where TCP for data is not wanted; here is " + network.describe());
  }
  client.tcp = TcpEnds{.socket = {},
                       .netdev = *netdev,
                       .local = client.local.address,
                       .peer_netdev = request.tcp.netdev,
                       .remote = client.remote};
  client.writer.start({.type = WireType::kTcpReply,
                       .cookie = cookie_,
                       .end = {},
                       .reason = "",
                       .tcp = {.node = transport_.node(), .netdev = *netdev}});
  return true;
}

std::unique_ptr<Endpoint> Listener::connection_of(Client& client) {
  if (!client.tcp) {
    client.connection->keep_first_control(std::move(client.socket));
    return std::move(client.connection);
  }
  client.tcp->socket = std::move(client.socket);
  return std::make_unique<TcpReceiveConnection>(std::move(*client.tcp), tcp_settings(transport_.config()),
                                                transport_.tcp());
}

Listener::Progress Listener::write_reply(Client& client) {
  auto written = client.writer.write(client.socket);
  if (!written) return drop(client, written.error().text);
  if (*written) {
    client.state = State::kReady;
    client.next_question = Deadline::after_ms_or_never(client.question_pause_ms);
  }
  return Progress::kWaits;
}

Listener::Progress Listener::read_ready(Client& client) {
  if (!client.tcp && client.connection->was_taken_up()) return Progress::kFinished;
  auto message = client.reader.read(client.socket);
  if (!message) return drop(client, message.error().text);
  if (!*message) return is_ready_elsewhere(client) ? Progress::kFinished : Progress::kWaits;
  if ((*message)->type != WireType::kReady || (*message)->cookie != cookie_) {
    return drop(client, "it did not end its handshake properly");
  }
  return Progress::kFinished;
}

bool Listener::is_ready_elsewhere(Client& client) {
  if (!client.sender) return false;
  if (client.liveness_check == nullptr) {
    if (!client.next_question.passed()) return false;
    client.liveness_check = std::make_unique<LivenessCheck>(transport_, *client.sender);
  }
  const LivenessCheck::Answer answer = client.liveness_check->advance();
  if (answer == LivenessCheck::Answer::kGone) {
    client.liveness_check.reset();
    client.question_pause_ms *= 2;
    client.next_question = Deadline::after_ms_or_never(client.question_pause_ms);
  }
  return answer == LivenessCheck::Answer::kThere;
}

}  // namespace meshbed::net
