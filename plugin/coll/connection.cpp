#include "plugin/coll/connection.h"

#include <algorithm>
#include <cstdlib>

#include "plugin/base/log.h"
#include "plugin/coll/connect_attempt.h"

namespace meshbed::coll {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// Passes without progress after which we wait a millisecond between looks at the plugin, to spare a real machine's
// core.
constexpr int kEagerPasses = 1000;

Error timeout_error(const std::vector<ConnectAttempt>& attempts, std::int64_t timeout_ms) {
  std::string text;
  int others = -1;
  for (const ConnectAttempt& attempt : attempts) {
    if (attempt.done()) continue;
    if (++others == 0) text = attempt.waiting_for();
  }
  text += " for " + std::to_string(timeout_ms) + " ms";
  if (others > 0) text += " (and " + std::to_string(others) + " more connections wait)";
  return {ErrorCode::kTimeout, Scope::kJob, text};
}

Result<void> drive(std::vector<ConnectAttempt>& attempts, StoreClient& store, std::int64_t timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  for (int idle_passes = 0;;) {
    bool moved = false, all_done = true, polls_plugin = false;
    for (ConnectAttempt& attempt : attempts) {
      if (attempt.done()) continue;
      auto stepped = attempt.step();
      if (!stepped) return stepped.error();
      moved |= *stepped;
      all_done &= attempt.done();
      polls_plugin |= attempt.polls_plugin();
    }
    if (all_done) return ok();
    if (store.failure()) return Error{ErrorCode::kRemote, Scope::kJob, *store.failure()};
    if (deadline.passed()) {
      // What others wait for comes through the store: where that is gone nobody else is to blame.
      auto alive = store.check_alive();
      Error late = timeout_error(attempts, timeout_ms);
      if (!alive) late.text = alive.error().text + "; " + late.text;
      return late;
    }
    idle_passes = moved ? 0 : idle_passes + 1;
    // Where the plugin must be polled we only look at the store; where an answer is all we need, we wait for it.
    const int wait_ms = moved ? 0 : !polls_plugin ? deadline.remaining_ms() : idle_passes > kEagerPasses ? 1 : 0;
    auto polled = store.poll(wait_ms);
    if (!polled) return polled.error();
  }
}

}  // namespace

ConnectionTable::ConnectionTable(const ConnectContext& context, MemoryTable& memory)
    : context_(context), memory_(memory) {}

ConnectionTable::~ConnectionTable() { close_all(); }

Result<void> ConnectionTable::establish(const std::vector<Edge>& edges, std::int64_t timeout_ms) {
  abandoned_.clear();
  std::vector<ConnectAttempt> attempts;
  for (const Edge& edge : edges) {
    if (connections_.count(edge) == 0) attempts.emplace_back(context_, edge, tries_[edge]++);
  }
  if (attempts.empty()) return ok();
  auto driven = drive(attempts, context_.store, timeout_ms);
  if (!driven) {
    for (ConnectAttempt& attempt : attempts) attempt.abandon(driven.error().text);
    abandoned_ = std::move(attempts);
    return driven.error();
  }
  for (ConnectAttempt& attempt : attempts) {
    Connection& connection = connections_[attempt.edge()];
    connection.edge = attempt.edge();
    connection.comm = attempt.release();
  }
  return ok();
}

Connection* ConnectionTable::find(const Edge& edge) {
  const auto found = connections_.find(edge);
  return found != connections_.end() ? &found->second : nullptr;
}

Result<char*> ConnectionTable::staging_of(Connection& connection, std::uint64_t size_bytes) {
  if (connection.staging_bytes >= size_bytes) return connection.staging.get();
  if (connection.staging != nullptr) memory_.drop(connection.staging.get());
  const std::uint64_t bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  connection.staging = {static_cast<char*>(std::aligned_alloc(kPageBytes, bytes)), &std::free};
  connection.staging_bytes = connection.staging != nullptr ? bytes : 0;
  if (connection.staging == nullptr) {
    return Error{ErrorCode::kSystem, Scope::kJob, "no memory for " + std::to_string(bytes) + " bytes of staging"};
  }
  memory_.keep(connection.staging.get(), bytes);
  return connection.staging.get();
}

void ConnectionTable::close(Connection& connection) {
  NetTable& net = context_.net;
  const int code = connection.edge.direction == Direction::kSend ? net.close_send(connection.comm)
                                                                 : net.close_receive(connection.comm);
  if (code != nccl::kNcclSuccess) MESHBED_WARN("closing a connection to rank %d failed", connection.edge.peer);
}

void ConnectionTable::close_all() {
  // Registrations first: a peer that still writes then finds no memory, whatever the plugin does on close.
  memory_.drop_all();
  for (auto& [edge, connection] : connections_) close(connection);
  connections_.clear();
}

}  // namespace meshbed::coll
