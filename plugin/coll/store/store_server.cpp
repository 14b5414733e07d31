// The server's loop: waiting, accepting, reading and writing. What the frames mean is in store_requests.cpp.
#include "plugin/coll/store/store_server.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/log.h"

namespace meshbed::coll {
namespace {

constexpr std::int64_t kIntroduceMs = 10000;
// What one client may leave unread before it is taken for dead; a rank reads answers as fast as it asks.
constexpr std::size_t kUnreadBytesMax = 4U << 20U;
constexpr std::int64_t kKickMs = 1000;
// How long ranks that were told of a failure may take to leave.
constexpr std::int64_t kBrokenLingerMs = 30000;

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Options& options) {
  auto listener = Socket::listen(options.address);
  if (!listener) {
    return Error{ErrorCode::kSystem, Scope::kJob,
                 "rank 0 cannot listen at " + to_text(options.address) + ": " + listener.error().text,
                 listener.error().os_errno};
  }
  return start(options, std::move(*listener));
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const Options& options, Socket listener) {
  auto address = listener.own_address();
  if (!address) return address.error();
  return std::unique_ptr<StoreServer>(new StoreServer(options, *address, std::move(listener)));
}

StoreServer::StoreServer(const Options& options, const SocketAddress& address, Socket listener)
    : options_(options),
      address_(address),
      address_text_(to_text(address)),
      listener_(std::move(listener)),
      by_rank_(options.identity.world, nullptr),
      left_(options.identity.world, false),
      waits_for_(options.identity.world),
      calls_(options.identity.world),
      barrier_(options.identity.world),
      rebuild_(options.identity.world),
      thread_([this] { run(); }) {}

StoreServer::~StoreServer() {
  stopping_.store(true);
  // Rank 0's own end wakes poll(2), or has. Where it never came, the listener still stands: a call to ourselves does.
  if (!host_came_.load()) {
    auto kick = Socket::connect(address_, Deadline::after_ms(kKickMs));
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
  for (const auto& client : clients_) {
    if (client->introduce_by < first) first = client->introduce_by;
  }
  if (linger_ && *linger_ < first) first = *linger_;
  return first.remaining_ms();
}

void StoreServer::wait_and_serve() {
  std::vector<pollfd> entries;
  entries.reserve(clients_.size() + 1);
  entries.push_back({listener_.descriptor(), POLLIN, 0});
  for (const auto& client : clients_) {
    const short events = client->to_send.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({client->socket.descriptor(), events, 0});
  }
  const int ready = poll(entries.data(), entries.size(), wait_ms());
  if (ready > 0) {
    const std::size_t known = clients_.size();
    for (std::size_t i = 0; i < known; ++i) {
      if (entries[i + 1].revents != 0) serve(*clients_[i], entries[i + 1].revents);
    }
    if (entries[0].revents != 0) accept_clients();
  }
  expire();
  remove_gone();
}

void StoreServer::accept_clients() {
  for (Socket socket = listener_.accept(); socket.valid(); socket = listener_.accept()) {
    auto client = std::make_unique<Client>();
    client->socket = std::move(socket);
    client->introduce_by = Deadline::after_ms(kIntroduceMs);
    clients_.push_back(std::move(client));
  }
}

void StoreServer::serve(Client& client, short events) {
  if ((events & POLLOUT) != 0) flush(client);
  if (client.gone || (events & (POLLIN | POLLHUP | POLLERR)) == 0) return;
  const Socket::Outcome outcome = client.socket.read_into(&client.received);
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
  if (outcome == Socket::Outcome::kClosed) client.gone = true;
}

void StoreServer::flush(Client& client) {
  const Socket::Outcome outcome = client.socket.write_from(&client.to_send);
  if (outcome == Socket::Outcome::kClosed || client.to_send.size() > kUnreadBytesMax) client.gone = true;
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
