#include "sim/replay/schedule_recorder.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/replay/recorded_replay.h"
#include "sim/trace/recorder.h"

namespace meshbed::sim {
namespace {

struct Seen {
  Picoseconds when_ps = 0;
  ScheduleSignal signal;
  auto operator<=>(const Seen&) const = default;
};

bool has_response(const MessageRecord& record) {
  return record.opcode == IBV_WR_RDMA_READ || record.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
         record.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// What a queue pair had left when it was closed. Where it was on its way, it is replayed.
bool is_flushed(const MessageRecord& record) { return record.status == IBV_WC_WR_FLUSH_ERR; }

std::optional<std::string> why_not(const MessageRecord& record) {
  if (record.status != IBV_WC_SUCCESS && !is_flushed(record)) return fmt::format("ended with status {}", record.status);
  if (record.tries > 1 || record.deliveries > 1) return "was sent more than once";
  if (has_response(record) && record.response_wire_bytes == 0) return "is a read whose responder is gone";
  if (record.source_rank < 0 || record.destination_rank < 0) return "is of no rank";
  return std::nullopt;
}

/// What one stream, or the ends of one rank's calls, wait for.
class Follower {
 public:
  /// The signals of the instant `at_ps` at which its rank saw something before an item.
  void follow(const std::vector<Seen>& seen, std::size_t end) {
    for (std::size_t at = end; at > 0 && seen[at - 1].when_ps == seen[end - 1].when_ps; --at) {
      counts_.try_emplace(seen[at - 1].signal, 0);
    }
  }
  std::map<ScheduleSignal, std::uint64_t>& counts() { return counts_; }

 private:
  std::map<ScheduleSignal, std::uint64_t> counts_;  // that its items wait for so far
};

/// A message, or a rank's begin or end, in the order in which they happened.
struct Happened {
  Picoseconds when_ps = 0;
  // At one instant: what arrived was there before calls end, calls end before others begin, and then messages are
  // posted.
  int rank_in_instant = 0;
  std::uint64_t number = 0;  // of the message, or of the rank's call
  int rank = 0;
  auto operator<=>(const Happened&) const = default;
};
constexpr int kEnds = 0, kBegins = 1, kPosts = 2;

class Maker {
 public:
  Maker(const models::Cluster& cluster, const std::vector<MessageRecord>& records,
        const std::vector<RecordedCall>& calls)
      : records_(records) {
    find_streams(cluster);
    for (const RecordedCall& call : calls) {
      const auto rank = static_cast<std::size_t>(call.rank);
      if (calls_.size() <= rank) calls_.resize(rank + 1);
      calls_[rank].push_back(call);
      schedule_.ranks = std::max(schedule_.ranks, call.rank + 1);
    }
    calls_.resize(static_cast<std::size_t>(schedule_.ranks));
    find_seen();
  }

  RecordedSchedule make() {
    std::vector<Happened> all;
    for (std::size_t at = 0; at < records_.size(); ++at) {
      all.push_back({records_[at].posted_ps, kPosts, at, records_[at].source_rank});
    }
    for (const auto& calls : calls_) {
      for (std::size_t number = 0; number < calls.size(); ++number) {
        all.push_back({calls[number].begin_ps, kBegins, number, calls[number].rank});
        all.push_back({calls[number].end_ps, kEnds, number, calls[number].rank});
      }
    }
    std::sort(all.begin(), all.end());
    // First which signals each follows, in the whole run; then what each item waits for.
    for (const Happened& each : all) {
      if (each.rank_in_instant != kBegins) follower_of(each).follow(seen_of(each), last_seen(each));
    }
    for (const Happened& each : all) {
      each.rank_in_instant == kBegins ? add_begin(each) : add_item(each);
    }
    return std::move(schedule_);
  }

 private:
  void find_streams(const models::Cluster& cluster) {
    std::map<std::uint32_t, std::uint32_t> numbers;  // by queue pair, of which a run has each number once
    for (const MessageRecord& record : records_) {
      const auto [found, is_new] =
          numbers.try_emplace(record.source_qp, static_cast<std::uint32_t>(schedule_.streams.size()));
      stream_.push_back(found->second);
      if (!is_new) continue;
      schedule_.streams.push_back({.source_rank = record.source_rank,
                                   .destination_rank = record.destination_rank,
                                   .source_port = endpoint_name(cluster, record.source),
                                   .destination_port = endpoint_name(cluster, record.destination),
                                   .flow = record.flow,
                                   .reads_most = record.reads_most,
                                   .mtu_bytes = mtu_between(cluster, record.source, record.destination)});
      schedule_.ranks = std::max({schedule_.ranks, record.source_rank + 1, record.destination_rank + 1});
    }
  }

  void find_seen() {
    seen_.resize(static_cast<std::size_t>(schedule_.ranks));
    for (std::size_t at = 0; at < records_.size(); ++at) {
      const MessageRecord& record = records_[at];
      if (record.delivered_ps >= 0) {
        seen_[static_cast<std::size_t>(record.destination_rank)].push_back(
            {record.delivered_ps, {SignalKind::kArrival, stream_[at]}});
      }
      if (record.completed_ps < 0) continue;
      seen_[static_cast<std::size_t>(record.source_rank)].push_back(
          {record.completed_ps, {SignalKind::kCompletion, stream_[at]}});
    }
    for (std::size_t rank = 0; rank < seen_.size(); ++rank) {
      for (const RecordedCall& call : calls_[rank]) {
        seen_[rank].push_back({call.begin_ps, {SignalKind::kBegin, static_cast<std::uint32_t>(rank)}});
      }
      std::sort(seen_[rank].begin(), seen_[rank].end());
      for (const Seen& seen : seen_[rank]) times_[seen.signal].push_back(seen.when_ps);
    }
  }

  const std::vector<Seen>& seen_of(const Happened& each) const { return seen_[static_cast<std::size_t>(each.rank)]; }

  /// How many things its rank had seen when it happened.
  std::size_t last_seen(const Happened& each) const {
    const std::vector<Seen>& seen = seen_of(each);
    const auto end = std::upper_bound(seen.begin(), seen.end(), each.when_ps,
                                      [](Picoseconds when, const Seen& other) { return when < other.when_ps; });
    auto last = static_cast<std::size_t>(end - seen.begin());
    if (each.rank_in_instant != kEnds) return last;
    // The next call may begin in the instant in which this one ends; begins come last in an instant.
    const bool is_long = calls_[static_cast<std::size_t>(each.rank)][each.number].begin_ps < each.when_ps;
    while (is_long && last > 0 && seen[last - 1].when_ps == each.when_ps &&
           seen[last - 1].signal.kind == SignalKind::kBegin) {
      --last;
    }
    return last;
  }

  Follower& follower_of(const Happened& each) {
    const bool is_post = each.rank_in_instant == kPosts;
    return followers_[{is_post, is_post ? stream_[each.number] : static_cast<std::uint32_t>(each.rank)}];
  }

  void add_item(const Happened& each) {
    const std::vector<Seen>& seen = seen_of(each);
    const std::size_t end = last_seen(each);
    const Picoseconds last_ps = end > 0 ? seen[end - 1].when_ps : 0;
    ScheduleItem item{.kind = ItemKind::kEnd, .index = static_cast<std::uint32_t>(each.rank)};
    if (each.rank_in_instant == kPosts) {
      const MessageRecord& record = records_[each.number];
      item = {.index = stream_[each.number],
              .payload_bytes = record.payload_bytes,
              .wire_bytes = record.wire_bytes,
              .response_bytes = record.response_wire_bytes,
              .is_fenced = record.is_fenced};
    }
    item.delay_ps = each.when_ps - last_ps;
    item.first_wait = static_cast<std::uint32_t>(schedule_.waits.size());
    for (auto& [signal, count] : follower_of(each).counts()) {
      const std::vector<Picoseconds>& times = times_.at(signal);
      auto happened = static_cast<std::uint64_t>(std::upper_bound(times.begin(), times.end(), last_ps) - times.begin());
      const bool is_own_begin = each.rank_in_instant == kEnds && signal.kind == SignalKind::kBegin;
      if (is_own_begin) happened = std::min(happened, each.number + 1);
      if (happened > count) schedule_.waits.push_back({signal, happened});
      count = std::max(count, happened);
    }
    add(item);
  }

  void add_begin(const Happened& each) {
    ScheduleItem item{.kind = ItemKind::kBegin, .index = static_cast<std::uint32_t>(each.rank)};
    item.first_wait = static_cast<std::uint32_t>(schedule_.waits.size());
    item.delay_ps = each.when_ps;
    if (each.number > 0) {
      Picoseconds ended_ps = 0;
      for (const auto& calls : calls_) {
        ended_ps = std::max(ended_ps, calls.size() >= each.number ? calls[each.number - 1].end_ps : 0);
      }
      const bool all = ended_ps <= each.when_ps;
      const Picoseconds own_ps = calls_[static_cast<std::size_t>(each.rank)][each.number - 1].end_ps;
      item.delay_ps = std::max<Picoseconds>(each.when_ps - (all ? ended_ps : own_ps), 0);
      for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
        if ((!all && rank != static_cast<std::size_t>(each.rank)) || calls_[rank].size() < each.number) continue;
        schedule_.waits.push_back({{SignalKind::kEnd, static_cast<std::uint32_t>(rank)}, each.number});
      }
    }
    add(item);
  }

  void add(ScheduleItem& item) {
    item.waits = static_cast<std::uint32_t>(schedule_.waits.size()) - item.first_wait;
    schedule_.items.push_back(item);
  }

  const std::vector<MessageRecord>& records_;
  RecordedSchedule schedule_;
  std::vector<std::uint32_t> stream_;             // [message]
  std::vector<std::vector<RecordedCall>> calls_;  // [rank]
  std::vector<std::vector<Seen>> seen_;           // [rank], in order
  std::map<ScheduleSignal, std::vector<Picoseconds>> times_;
  std::map<std::pair<bool, std::uint32_t>, Follower> followers_;
};

}  // namespace

const std::vector<MessageRecord>& ScheduleRecorder::messages() {
  std::sort(records_.begin(), records_.end(),
            [](const MessageRecord& left, const MessageRecord& right) { return left.post_number < right.post_number; });
  return records_;
}

Result<RecordedSchedule> ScheduleRecorder::schedule(const std::vector<RecordedCall>& calls) {
  std::erase_if(records_, [](const MessageRecord& record) {
    return is_flushed(record) && (record.started_ps < 0 || record.destination_rank < 0);
  });
  if (records_.empty()) {
    return Error{ErrorCode::kUnsupported, Scope::kJob, "the run had no message over RDMA"};
  }
  for (const MessageRecord& record : messages()) {
    const auto why = why_not(record);
    if (!why) continue;
    return Error{ErrorCode::kUnsupported, Scope::kJob,
                 fmt::format("{} {}: such messages have no schedule", message_name(cluster_, record), *why)};
  }
  return Maker(cluster_, records_, calls).make();
}

}  // namespace meshbed::sim
