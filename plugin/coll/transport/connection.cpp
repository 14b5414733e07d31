#include "plugin/coll/transport/connection.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "plugin/base/counted.h"
#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/coll/store/long_wait.h"
#include "plugin/coll/transport/connect_attempt.h"

namespace meshbed::coll {
namespace {

constexpr std::uint64_t kConnectionPageBytes = 4096;
// Passes without progress after which we wait a millisecond between looks at the plugin, to spare a real machine's
// core.
constexpr int kEagerPasses = 1000;

// How long the other ranks may take to report which rank they miss.
constexpr std::int64_t kWordMs = 1000;

/// `waits`, by rank: whether it waits for others itself. A rank that does not wait is named first.
Error timeout_error(const std::vector<ConnectAttempt>& attempts, const std::vector<bool>& waits,
                    std::int64_t timeout_ms, int* failed_peer) {
  std::string text;
  int others = -1;
  for (const bool waiting : {false, true}) {
    for (const ConnectAttempt& attempt : attempts) {
      const auto peer = static_cast<std::size_t>(attempt.edge().peer);
      if (attempt.done() || (peer < waits.size() && waits[peer]) != waiting) continue;
      if (++others > 0) continue;
      text = attempt.waiting_for();
      *failed_peer = attempt.edge().peer;
    }
  }
  text += " for " + std::to_string(timeout_ms) + " ms";
  if (others > 0) text += " (and " + std::to_string(others) + " more connections wait)";
  return {ErrorCode::kTimeout, Scope::kJob, text};
}

int awaited(const std::vector<ConnectAttempt>& attempts) {
  const auto first =
      std::find_if(attempts.begin(), attempts.end(), [](const auto& attempt) { return !attempt.done(); });
  return first != attempts.end() ? first->edge().peer : -1;
}

/// "; rank 1 waits for rank 2, which waits for rank 3 itself", or where one of these waits for an earlier one:
/// "; rank 1 waits for rank 2, which closes the circle".
std::string who_waits_behind(int peer, const std::vector<int>& behind) {
  std::string text, who = "; rank " + std::to_string(peer);
  for (auto next = behind.begin(); next != behind.end(); ++next) {
    const bool is_first = *next == peer;
    if (is_first || std::find(behind.begin(), next, *next) != next) {
      return text + who + " closes the circle" + (is_first ? "" : " with rank " + std::to_string(*next));
    }
    text += who + " waits for rank " + std::to_string(*next);
    who = ", which";
  }
  return text.empty() ? text : text + " itself";
}

/// Finds the missing rank when the time is up. A rank that waits itself is not missing; if all our peers wait, one of
/// them knows the missing rank and reports it first.
Error missing(const std::vector<ConnectAttempt>& attempts, StoreClient& store, std::int64_t timeout_ms,
              int* failed_peer) {
  const auto waits = store.waiting_ranks();
  if (!waits) {
    if (store.failure()) return waits.error();
    Error late = timeout_error(attempts, {}, timeout_ms, failed_peer);
    *failed_peer = 0;
    late.text = waits.error().text + "; " + late.text;
    return late;
  }
  const bool all_wait = std::all_of(attempts.begin(), attempts.end(), [&](const ConnectAttempt& attempt) {
    return attempt.done() || (*waits)[static_cast<std::size_t>(attempt.edge().peer)];
  });
  for (const Deadline word = Deadline::after_ms(kWordMs); all_wait && !word.passed();) {
    if (auto polled = store.poll(word.remaining_ms()); !polled) return polled.error();
    if (store.failure()) return Error{ErrorCode::kRemote, Scope::kJob, *store.failure()};
  }
  Error late = timeout_error(attempts, *waits, timeout_ms, failed_peer);
  if (!all_wait) return late;
  // No rank has reported a failure yet.
  const int peer = awaited(attempts);
  if (const auto behind = store.waits_behind(peer)) late.text += who_waits_behind(peer, *behind);
  return late;
}

/// An error if a peer has left without publishing an outcome, as far as a long wait has shown.
std::optional<Error> left_alone(const std::vector<ConnectAttempt>& attempts, const StoreClient& store,
                                int* failed_peer) {
  const auto deserted = std::find_if(attempts.begin(), attempts.end(), [&](const ConnectAttempt& attempt) {
    return !attempt.done() && !attempt.heard_of_peer() && store.has_left(attempt.edge().peer);
  });
  if (deserted == attempts.end()) return std::nullopt;
  *failed_peer = deserted->edge().peer;
  return Error{ErrorCode::kUnreachable, Scope::kQueuePair,
               "rank " + std::to_string(*failed_peer) + " has left: " + deserted->waiting_for()};
}

Result<void> drive(std::vector<ConnectAttempt>& attempts, StoreClient& store, std::int64_t timeout_ms,
                   int* failed_peer) {
  const Deadline deadline = Deadline::after_ms_or_never(timeout_ms);
  LongWait wait(store, long_part_of(timeout_ms));
  for (int idle_passes = 0;;) {
    bool moved = false, all_done = true, polls_plugin = false;
    for (ConnectAttempt& attempt : attempts) {
      if (attempt.done()) continue;
      auto stepped = attempt.step();
      if (!stepped) {
        *failed_peer = attempt.edge().peer;
        return stepped.error();
      }
      moved |= *stepped;
      all_done &= attempt.done();
      polls_plugin |= attempt.polls_plugin();
    }
    if (all_done) return ok();
    if (store.failure()) return Error{ErrorCode::kRemote, Scope::kJob, *store.failure()};
    if (auto deserted = left_alone(attempts, store, failed_peer)) return *deserted;
    if (deadline.passed()) return missing(attempts, store, timeout_ms, failed_peer);
    if (auto told = wait.look(awaited(attempts)); !told) return told.error();
    idle_passes = moved ? 0 : idle_passes + 1;
    // Where the plugin must be polled we only look at the store; where an answer is all we need, we wait for it.
    const Deadline& next = wait.next() < deadline ? wait.next() : deadline;
    const int wait_ms = moved ? 0 : !polls_plugin ? next.remaining_ms() : idle_passes > kEagerPasses ? 1 : 0;
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
  failed_peer_ = -1;
  std::vector<ConnectAttempt> attempts;
  for (const Edge& edge : edges) {
    const bool under_way = std::any_of(attempts.begin(), attempts.end(), [&](const ConnectAttempt& attempt) {
      return !(attempt.edge() < edge) && !(edge < attempt.edge());
    });
    if (!under_way && connections_.count(edge) == 0) attempts.emplace_back(context_, edge, tries_[edge]++);
  }
  if (attempts.empty()) return ok();
  const std::int64_t began_ns = now_ns();
  auto driven = drive(attempts, context_.store, timeout_ms, &failed_peer_);
  if (!driven) {
    for (ConnectAttempt& attempt : attempts) attempt.abandon(driven.error().text);
    abandoned_ = std::move(attempts);
    return driven.error();
  }
  connect_ns_ += now_ns() - began_ns;
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

Result<char*> ConnectionTable::grown(Connection::Staging& staging, std::uint64_t size_bytes,
                                     const MemorySource& source) {
  if (staging.size_bytes >= size_bytes && (staging.taken || !source)) return staging.begin.get();
  if (staging.begin != nullptr) memory_.drop(staging.begin.get());
  const std::uint64_t bytes = (size_bytes + kConnectionPageBytes - 1) / kConnectionPageBytes * kConnectionPageBytes;
  staging = {};
  if (source) {
    auto taken = source(bytes);
    if (!taken) return taken.error();
    staging.begin = std::move(*taken);
  } else {
    staging.begin.reset(static_cast<char*>(std::aligned_alloc(kConnectionPageBytes, bytes)), &std::free);
  }
  if (staging.begin == nullptr) {
    return Error{ErrorCode::kSystem, Scope::kJob, "no memory for " + counted(bytes, "byte") + " of staging"};
  }
  staging.size_bytes = bytes;
  staging.taken = static_cast<bool>(source);
  memory_.keep(staging.begin.get(), bytes);
  return staging.begin.get();
}

Result<LinedStream*> ConnectionTable::lined(Connection& connection, Protocol protocol, std::uint64_t size_bytes,
                                            int slots) {
  LinedStream& stream = connection.lined;
  stream.comm = connection.comm;
  stream.protocol = protocol;
  // The pairs of a group may share the connection, and the first of them have the longest messages.
  stream.slot_bytes = std::max(stream.slot_bytes, in_slots(lined_bytes(protocol, size_bytes)));
  stream.requests.resize(static_cast<std::size_t>(slots));
  const std::uint64_t bytes_before = connection.lines.size_bytes;
  auto begin = grown(connection.lines, stream.slot_bytes * stream.requests.size(), {});
  if (!begin) return begin.error();
  // Zeroed lines contain no valid flag.
  if (connection.lines.size_bytes != bytes_before) std::memset(*begin, 0, connection.lines.size_bytes);
  stream.slots = *begin;
  auto handle = memory_.handle_of(connection.comm, stream.slots, stream.slot_bytes * stream.requests.size());
  if (!handle) return handle.error();
  stream.handle = *handle;
  return &stream;
}

void ConnectionTable::close(Connection& connection) {
  NetTable& net = context_.net;
  const int code = connection.edge.direction == Direction::kSend ? net.close_send(connection.comm)
                                                                 : net.close_receive(connection.comm);
  if (code != nccl::kNcclSuccess) MESHBED_WARN("closing a connection to rank %d failed", connection.edge.peer);
}

void ConnectionTable::close_all() {
  // Registrations first: a peer that still writes then finds no memory, with any plugin.
  memory_.drop_all();
  for (auto& [edge, connection] : connections_) close(connection);
  connections_.clear();
  abandoned_.clear();
}

}  // namespace meshbed::coll
