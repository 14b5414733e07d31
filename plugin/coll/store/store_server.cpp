// The server's loop: waiting, accepting, reading and writing. store_requests.cpp handles the frames.
#include "plugin/coll/store/store_server.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/check.h"
#include "plugin/base/log.h"

namespace meshbed::coll {
namespace {

constexpr std::int64_t kIntroduceMs = 10000;
constexpr std::size_t kStrangersMax = 64;
// Clients accepted between two rounds over the ranks: a bound on the delay that a crowd of clients causes to a rank.
constexpr std::size_t kAcceptedAtOnce = 16;
// Unread bytes after which a client counts as dead; a rank reads replies as fast as it sends requests.
constexpr std::size_t kUnreadBytesMax = 4U << 20U;
constexpr std::int64_t kKickMs = 1000;
// How long ranks may take to leave after a failure was announced.
constexpr std::int64_t kBrokenLingerMs = 30000;

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Options& options) {
  auto listener = listen_at(options.address);
  if (!listener) {
    return Error{ErrorCode::kSystem, Scope::kJob,
                 "rank 0 cannot listen at " + to_text(options.address) + ": " + listener.error().text,
                 listener.error().os_errno};
  }
  return start(options, std::move(*listener));
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Options& options, Socket listener) {
  auto address = own_address(listener);
  if (!address) return address.error();
  return std::unique_ptr<StoreServer>(new StoreServer(options, *address, std::move(listener)));
}

StoreServer::StoreServer(const Options& options, const SocketAddress& address, Socket listener)
    : options_(options),
      address_(address),
      address_text_(to_text(address)),
      by_rank_(options.identity.world, nullptr),
      left_(options.identity.world, false),
      waits_for_(options.identity.world),
      calls_(options.identity.world),
      barrier_(options.identity.world),
      rebuild_(options.identity.world) {
  // The socket listens: own_address() has asked it.
  const auto opened =
      accept_queue_.open(Descriptor(listener.release()),
                         {.name = "rank 0's store",
                          .patience_ms = kIntroduceMs,
                          .clients_max = kStrangersMax + options.identity.world,  // all ranks may come at once
                          .accepted_at_once = kAcceptedAtOnce,
                          .has_visitors = true,  // whether we are here, and our own kick
                          .make_introduction = [this] { return std::make_unique<StoreIntroduction>(options_.key); }});
  MESHBED_CHECK(opened.has_value());
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  stopping_.store(true);
  // The end of rank 0's own connection wakes poll(2). If rank 0 never connected, a connection to our own listener does.
  if (!host_came_.load()) {
    auto kick = connect_to(address_, Deadline::after_ms(kKickMs));
    if (!kick) MESHBED_WARN("rank 0's store at %s: %s", address_text_.c_str(), kick.error().text.c_str());
  }
  thread_.join();
}

void StoreServer::run() {
  while (!finished()) wait_and_serve();
}

bool StoreServer::finished() {
  if (!stopping_.load() && !host_gone_) return false;
  if (!linger_) leave();
  if (failure_ && linger_->is_never()) linger_ = Deadline::after_ms(kBrokenLingerMs);
  const bool alone =
      std::all_of(by_rank_.begin(), by_rank_.end(), [](const Client* client) { return client == nullptr; });
  return alone || linger_->passed();
}

void StoreServer::leave() {
  linger_ = Deadline::after_ms_or_never(options_.linger_ms);
  left_[0] = true;
  if (arrived_count_ > 0) expire_barrier();
}

int StoreServer::wait_ms() const {
  Deadline first = rebuild_by_ < next_expiry_ ? rebuild_by_ : next_expiry_;
  if (calls_settle_by_ < first) first = calls_settle_by_;
  if (const Deadline queue = accept_queue_.next_deadline(); queue < first) first = queue;
  if (linger_ && *linger_ < first) first = *linger_;
  return first.remaining_ms();
}

void StoreServer::wait_and_serve() {
  std::vector<pollfd> entries;
  entries.reserve(clients_.size() + accept_queue_.size() + 1);
  for (const auto& client : clients_) {
    const short events = client->to_send.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({client->socket.descriptor(), events, 0});
  }
  entries.push_back({accept_queue_.descriptor(), POLLIN, 0});
  accept_queue_.watch(entries);
  const int ready = poll(entries.data(), entries.size(), wait_ms());
  const std::size_t known = clients_.size();
  bool arrived = accept_queue_.next_deadline().passed();
  for (std::size_t i = 0; ready > 0 && i < entries.size(); ++i) {
    if (entries[i].revents == 0) continue;
    if (i < known) {
      serve(*clients_[i], entries[i].revents);
    } else {
      arrived = true;
    }
  }
  if (arrived) admit_clients();
  expire();
  remove_gone();
}

void StoreServer::admit_clients() {
  (void)accept_queue_.advance(introduced_);  // a listener that fails has been logged; ranks that are here go on
  for (Introduced& arrival : introduced_) {
    auto& introduction = static_cast<StoreIntroduction&>(*arrival.introduction);
    auto client = std::make_unique<Client>();
    client->socket = socket_of_client(std::move(arrival.descriptor));
    client->received = introduction.take_rest();
    clients_.push_back(std::move(client));
    introduce(*clients_.back(), introduction);
    // poll(2) does not show bytes that were read after its introduction.
    if (!clients_.back()->received.empty()) serve(*clients_.back(), POLLIN);
  }
  introduced_.clear();
}

void StoreServer::serve(Client& client, short events) {
  if ((events & POLLOUT) != 0) flush(client);
  if (client.gone || (events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  const SocketOutcome outcome = read_into(client.socket, &client.received);
  bool broken = false;
  while (!client.gone && !client.close_when_sent) {
    auto frame = take_frame(&client.received, &broken);
    if (!frame) break;
    handle(client, std::move(*frame));
  }
  if (broken) {
    MESHBED_INFO("rank 0's store: a client that does not speak our protocol was dropped");
    client.gone = true;
  }
  if (outcome == SocketOutcome::kClosed) client.gone = true;
}

void StoreServer::flush(Client& client) {
  const SocketOutcome outcome = write_from(client.socket, &client.to_send);
  if (outcome == SocketOutcome::kClosed || client.to_send.size() > kUnreadBytesMax) client.gone = true;
  if (client.to_send.empty() && client.close_when_sent) client.gone = true;
}

void StoreServer::remove_gone() {
  // Announcing a lost rank writes to the others, which may lose them too: until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (!clients_[i]->gone) continue;
      const int rank = clients_[i]->rank;
      clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i--));
      changed = true;
      if (rank < 0) continue;
      by_rank_[static_cast<std::size_t>(rank)] = nullptr;
      host_gone_ |= rank == 0;
      if (!left_[static_cast<std::size_t>(rank)]) {
        fail({.text = "rank " + std::to_string(rank) + " is lost: its connection to rank 0 ended without a goodbye",
              .told_by = rank,
              .culprit = rank});
      }
    }
  }
  settle_rebuild();
  settle_calls();
}

}  // namespace meshbed::coll
