// The meaning of the store's frames.
#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/coll/store/store_server.h"

namespace meshbed::coll {
namespace {

constexpr std::size_t kMissingNamedMax = 16;

std::string differs(const char* what, std::uint64_t theirs, std::uint64_t ours) {
  return theirs == ours
             ? std::string()
             : std::string(what) + " " + std::to_string(theirs) + " where rank 0 has " + std::to_string(ours);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kMissingNamedMax; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kMissingNamedMax) text += " and " + std::to_string(ranks.size() - kMissingNamedMax) + " more";
  return text;
}

/// The memory for a value or a request: a table's entry beside its bytes.
std::size_t cost_of(const std::string& key, const std::string& value) {
  constexpr std::size_t kEntryBytes = 128;
  return kEntryBytes + key.size() + value.size();
}

}  // namespace

void StoreServer::handle(Client& client, Frame frame) {
  switch (frame.type) {
    case FrameType::kSet:
      return set(client, frame);
    case FrameType::kGet:
      return get(client, frame);
    case FrameType::kBarrier:
      return arrive(client, frame);
    case FrameType::kWaits:
      return note_wait(client, frame);
    case FrameType::kWhoWaits:
      return answer(client.rank, FrameType::kValue, frame.request,
                    frame.body.empty() ? waiting_bits() : waits_behind(frame));
    case FrameType::kRebuild:
      return rebuild(client, frame);
    case FrameType::kFail: {
      const bool named = frame.request > 0 && frame.request <= options_.identity.world;
      return fail({.text = "rank " + std::to_string(client.rank) + ": " + frame.body,
                   .told_by = client.rank,
                   .culprit = named ? static_cast<int>(frame.request) - 1 : client.rank,
                   .aborted = frame.request == kAbortedBit});
    }
    case FrameType::kBye:
      left_[static_cast<std::size_t>(client.rank)] = true;
      calls_.leave(static_cast<std::size_t>(client.rank));
      client.gone = true;
      if (arrived_count_ > 0) expire_barrier();
      return;
    default:
      return refuse(client, "a frame of type " + std::to_string(static_cast<int>(frame.type)) + " is not for rank 0");
  }
}

void StoreServer::introduce(Client& client, const StoreIntroduction& introduction) {
  const Identity* identity = &introduction.identity();
  if (linger_) return refuse(client, "rank 0 has left");
  const Identity& ours = options_.identity;
  for (const std::string& difference :
       {differs("world", identity->world, ours.world), differs("channels", identity->channels, ours.channels),
        differs("steps", identity->steps, ours.steps),
        differs("slice_bytes", identity->slice_bytes, ours.slice_bytes)}) {
    if (!difference.empty()) return refuse(client, "it has " + difference);
  }
  if (identity->choice != ours.choice)
    return refuse(client,
                  "it chooses algorithms or protocols otherwise (options.algorithm, .protocol, .tuning, and the "
                  "network that they go by)");
  if (identity->rank >= ours.world) return refuse(client, "there is no rank " + std::to_string(identity->rank));
  if (by_rank_[identity->rank] != nullptr || left_[identity->rank]) {
    return refuse(client, "rank " + std::to_string(identity->rank) + " is here already");
  }
  client.rank = static_cast<int>(identity->rank);
  by_rank_[identity->rank] = &client;
  answer(client.rank, FrameType::kWelcome, 0, introduction.welcome());
  if (failure_) tell_failure(client.rank);
  if (client.rank == 0) host_came_.store(true);
  // All ranks have arrived, and the next communicator may meet at the same place, as with NCCL.
  if (std::find(by_rank_.begin(), by_rank_.end(), nullptr) == by_rank_.end()) accept_queue_.close();
}

void StoreServer::refuse(Client& client, const std::string& text) {
  client.close_when_sent = true;
  client.to_send += encode({FrameType::kRefused, 0, text});
  flush(client);
}

void StoreServer::set(Client& client, const Frame& frame) {
  std::string key, value;
  if (!decode_pair(frame.body, &key, &value)) return refuse(client, "a key is longer than its frame");
  const auto waiter = waiters_.find(key);
  if (waiter == waiters_.end()) {
    if (const auto old = values_.find(key); old != values_.end()) {
      release(old->second.owner, cost_of(key, old->second.text));
      values_.erase(old);
    }
    if (charge(client, cost_of(key, value))) values_[key] = {.text = std::move(value), .owner = client.rank};
    return;
  }
  release(waiter->second.rank, cost_of(key, {}));
  answer(waiter->second.rank, FrameType::kValue, waiter->second.request, value);
  waiters_.erase(waiter);
}

void StoreServer::get(Client& client, const Frame& frame) {
  const auto value = values_.find(frame.body);
  if (value == values_.end()) {
    if (const auto old = waiters_.find(frame.body); old != waiters_.end()) {
      release(old->second.rank, cost_of(frame.body, {}));
    }
    waiters_.erase(frame.body);
    if (charge(client, cost_of(frame.body, {}))) waiters_[frame.body] = {client.rank, frame.request};
    return;
  }
  release(value->second.owner, cost_of(frame.body, value->second.text));
  answer(client.rank, FrameType::kValue, frame.request, value->second.text);
  values_.erase(value);
}

bool StoreServer::charge(Client& client, std::size_t bytes) {
  if (client.unread_bytes + bytes <= options_.unread_bytes_max) {
    client.unread_bytes += bytes;
    return true;
  }
  refuse(client, "rank " + std::to_string(client.rank) + " has set values of " +
                     std::to_string(options_.unread_bytes_max >> 20U) + " MiB that no rank has read");
  return false;
}

void StoreServer::release(int rank, std::size_t bytes) {
  Client* owner = by_rank_[static_cast<std::size_t>(rank)];
  // A rank that was lost and came again has set nothing of what it set before.
  if (owner != nullptr) owner->unread_bytes -= std::min(owner->unread_bytes, bytes);
}

std::string StoreServer::waiting_bits() const {
  const std::size_t bytes = waits_for_.size() / 8 + 1;
  std::string bits(2 * bytes, '\0');
  const auto note = [&](std::size_t at, std::size_t rank) {
    char& byte = bits[at + rank / 8];
    byte = static_cast<char>(byte | 1 << (rank % 8));
  };
  for (std::size_t rank = 0; rank < waits_for_.size(); ++rank) {
    if (waits_for_[rank]) note(0, rank);
    if (left_[rank]) note(bytes, rank);
  }
  return bits;
}

std::string StoreServer::waits_behind(const Frame& question) const {
  constexpr std::size_t kRanksMax = 8;  // a longer chain would not help the user
  std::vector<std::uint32_t> chain;     // the rank in question, and the ranks waited for in turn
  bool closed = false;                  // they wait in a circle: a rank occurs twice
  for (auto next = decode_u32(question.body); next && !closed && chain.size() <= kRanksMax;) {
    closed = std::find(chain.begin(), chain.end(), *next) != chain.end();
    chain.push_back(*next);
    next = *next < waits_for_.size() ? waits_for_[*next] : std::nullopt;
  }
  std::string ranks;
  for (std::size_t at = 1; at < chain.size(); ++at) ranks += encode_u32(chain[at]);
  return ranks;
}

void StoreServer::arrive(Client& client, const Frame& frame) {
  const auto timeout_ms = decode_u32(frame.body);
  if (!timeout_ms) return refuse(client, "a barrier has no timeout");
  // A rank that failed may have arrived earlier; one that arrives now was sent the failure, and reads it first.
  if (failure_) return answer(client.rank, FrameType::kExpired, frame.request, failure_->text);
  Arrival& arrival = barrier_[static_cast<std::size_t>(client.rank)];
  if (arrival.here) return refuse(client, "it is in the barrier already");
  arrival = {frame.request, true};
  const Deadline until = Deadline::after_ms_or_never(*timeout_ms);
  if (until < next_expiry_) next_expiry_ = until;
  ++arrived_count_;
  if (has_left()) return expire_barrier();
  if (arrived_count_ < static_cast<int>(barrier_.size())) return;
  arrived_count_ = 0;
  next_expiry_ = Deadline::never();
  for (std::size_t rank = 0; rank < barrier_.size(); ++rank) {
    barrier_[rank].here = false;
    answer(static_cast<int>(rank), FrameType::kValue, barrier_[rank].request, {});
  }
}

void StoreServer::note_wait(Client& client, const Frame& frame) {
  const auto rank = static_cast<std::size_t>(client.rank);
  const std::string_view body = frame.body;
  const auto peer = decode_u32(body.substr(0, sizeof(std::uint32_t)));
  waits_for_[rank] = peer && *peer < waits_for_.size() ? peer : std::nullopt;
  if (!peer) return calls_.forget(rank);
  auto calls = decode_calls(body.substr(sizeof(std::uint32_t)));
  if (!calls) return refuse(client, "a report of its calls is not one");
  calls_.report(rank, waits_for_[rank] ? static_cast<int>(*peer) : -1, std::move(*calls));
}

/// Calls that can never match are a failure of all ranks. The other ranks' calls belong to the message, so they get
/// time to report them first.
void StoreServer::settle_calls() {
  constexpr std::int64_t kOthersReportMs = 5000;  // of a slow machine's, too
  if (failure_) return;
  auto finding = calls_.find();
  if (!finding) {
    calls_settle_by_ = Deadline::never();
    return;
  }
  if (calls_settle_by_.is_never()) calls_settle_by_ = Deadline::after_ms(kOthersReportMs);
  if (!calls_.is_complete() && !calls_settle_by_.passed()) return;
  fail({.text = std::move(finding->text), .told_by = finding->culprit, .culprit = finding->culprit});
}

void StoreServer::rebuild(Client& client, const Frame& frame) {
  const auto timeout_ms = decode_u32(frame.body);
  if (!timeout_ms) return refuse(client, "a rebuild has no timeout");
  if (rebuilt_) {
    return answer(client.rank, FrameType::kExpired, frame.request, "the survivors have gone on without this rank");
  }
  rebuild_[static_cast<std::size_t>(client.rank)] = {frame.request, true};
  const Deadline by = Deadline::after_ms(*timeout_ms);
  if (by < rebuild_by_) rebuild_by_ = by;
}

void StoreServer::settle_rebuild() {
  if (rebuild_by_.is_never()) return;
  std::string survivors;
  bool all_have_asked = true;
  for (std::size_t rank = 0; rank < rebuild_.size(); ++rank) {
    if (by_rank_[rank] == nullptr) continue;  // has left, or is lost
    if (rebuild_[rank].here) survivors += encode_u32(static_cast<std::uint32_t>(rank));
    all_have_asked &= rebuild_[rank].here;
  }
  if (!all_have_asked && !rebuild_by_.passed()) return;
  rebuild_by_ = Deadline::never();
  rebuilt_ = true;
  for (std::size_t rank = 0; rank < rebuild_.size(); ++rank) {
    if (rebuild_[rank].here) answer(static_cast<int>(rank), FrameType::kValue, rebuild_[rank].request, survivors);
  }
}

void StoreServer::expire() {
  if (next_expiry_.passed()) expire_barrier();
}

bool StoreServer::has_left() const { return std::find(left_.begin(), left_.end(), true) != left_.end(); }

void StoreServer::expire_barrier() {
  // Without the missing ranks the barrier cannot open: all waiting ranks get the same text at once.
  const std::string text = missing_ranks();
  next_expiry_ = Deadline::never();
  arrived_count_ = 0;
  for (std::size_t rank = 0; rank < barrier_.size(); ++rank) {
    if (!barrier_[rank].here) continue;
    barrier_[rank].here = false;
    answer(static_cast<int>(rank), FrameType::kExpired, barrier_[rank].request, text);
  }
}

std::string StoreServer::missing_ranks() const {
  std::vector<int> gone, absent, late;
  for (std::size_t rank = 0; rank < barrier_.size(); ++rank) {
    if (barrier_[rank].here) continue;
    (left_[rank] ? gone : by_rank_[rank] == nullptr ? absent : late).push_back(static_cast<int>(rank));
  }
  std::string text;
  const auto add = [&](const std::vector<int>& ranks, const std::string& what) {
    if (!ranks.empty()) text += (text.empty() ? "" : "; ") + list_of(ranks) + " " + what;
  };
  add(gone, "left");
  add(absent, "never reached rank 0 at " + address_text_);
  add(late, "did not come to the barrier");
  return text;
}

void StoreServer::fail(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) tell_failure(static_cast<int>(rank));
}

void StoreServer::tell_failure(int rank) {
  // To a rank that was reported as failed, the reporting rank is the one that failed.
  const int culprit = failure_->culprit == rank ? failure_->told_by : failure_->culprit;
  const std::uint32_t request = static_cast<std::uint32_t>(culprit) + 1;
  answer(rank, FrameType::kFailed, request | (failure_->aborted ? kAbortedBit : 0), failure_->text);
}

void StoreServer::answer(int rank, FrameType type, std::uint32_t request, const std::string& body) {
  Client* client = by_rank_[static_cast<std::size_t>(rank)];
  if (client == nullptr || client->gone) return;  // it left before its answer came
  client->to_send += encode({type, request, body.substr(0, kFrameBodyBytesMax)});
  flush(*client);
}

}  // namespace meshbed::coll
