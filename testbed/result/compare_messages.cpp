#include "testbed/result/compare_messages.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "plugin/net/wire/ring.h"
#include "testbed/base/units.h"
#include "testbed/result/compare_stripes.h"

namespace meshbed::testbed {
namespace {

/// Sender and receiver, with the ports and GIDs in use.
struct Route {
  int source_rank, destination_rank;
  std::string source, destination;
  std::string source_gid, destination_gid;
  auto operator<=>(const Route&) const = default;
};

/// Two ranks, the lower one first: a connection's two directions break together.
using RankPair = std::pair<int, int>;

RankPair pair_of(int one, int other) { return {std::min(one, other), std::max(one, other)}; }

std::string text_of(const Route& route) {
  return fmt::format("rank {} {} ({}) -> rank {} {} ({})", route.source_rank, route.source, route.source_gid,
                     route.destination_rank, route.destination, route.destination_gid);
}

/// An empty plain write moves no data and does not notify the receiver. The plugin sends one on a connection that was
/// idle for some seconds, to check that the path works. Their number depends on the time that a world takes.
bool is_probe(const TracedMessage& message) {
  return message.opcode == IBV_WR_RDMA_WRITE && message.payload_bytes == 0;
}

using Streams = std::map<Route, std::vector<Stream>>;

/// Only clear-to-sends: plain writes of whole entries, or of the keys beside them, which have the same size; not more
/// than a ring holds, so that data is not mistaken for them.
bool announces(const Stream& stream) {
  return std::all_of(stream.begin(), stream.end(), [](const TracedMessage* each) {
    return each->opcode == IBV_WR_RDMA_WRITE && !failed(*each) && each->payload_bytes % sizeof(net::ClearToSend) == 0 &&
           each->payload_bytes <= net::kRingEntries * sizeof(net::ClearToSend);
  });
}

/// Splits them into single entries: how many are written together depends on timing. `entries` owns the parts.
void take_apart(Stream& stream, std::deque<TracedMessage>& entries) {
  Stream apart;
  for (const TracedMessage* each : stream) {
    for (std::uint64_t at = 0; at < each->payload_bytes; at += sizeof(net::ClearToSend)) {
      entries.push_back(*each);
      entries.back().payload_bytes = sizeof(net::ClearToSend);
      apart.push_back(&entries.back());
    }
  }
  stream = std::move(apart);
}

Streams streams_of(const std::vector<TracedMessage>& messages, std::deque<TracedMessage>& entries) {
  std::map<Route, std::map<std::pair<std::uint32_t, std::uint32_t>, Stream>> by_pair;
  for (const TracedMessage& each : messages) {
    if (is_probe(each)) continue;
    by_pair[{each.source_rank, each.destination_rank, each.source, each.destination, each.source_gid,
             each.destination_gid}][{each.source_qp, each.destination_qp}]
        .push_back(&each);
  }
  Streams streams;
  for (auto& [route, pairs] : by_pair) {
    for (auto& [numbers, stream] : pairs) {
      std::stable_sort(stream.begin(), stream.end(), [](const TracedMessage* left, const TracedMessage* right) {
        return left->sequence < right->sequence;
      });
      if (announces(stream)) take_apart(stream, entries);
      streams[route].push_back(std::move(stream));
    }
  }
  return streams;
}

bool same(const TracedMessage& one, const TracedMessage& other) {
  return same_but_for_cut(one, other) && one.payload_bytes == other.payload_bytes;
}

std::size_t first_difference(const Stream& one, const Stream& other) {
  const std::size_t both = std::min(one.size(), other.size());
  for (std::size_t index = 0; index < both; ++index) {
    if (!same(*one[index], *other[index])) return index;
  }
  return both;
}

std::string text_of(const Stream& stream, std::size_t index) {
  if (index >= stream.size()) return fmt::format("nothing more ({})", counted(stream.size(), "message"));
  const TracedMessage& message = *stream[index];
  const std::string end = message.status == IBV_WC_SUCCESS   ? ""
                          : message.status == kStatusUnknown ? ", its end not known"
                                                             : fmt::format(", status {}", message.status);
  return fmt::format("{} of {} bytes{}", opcode_name(message.opcode), message.payload_bytes, end);
}

/// Removes matching entries from both lists.
void drop_matches(std::vector<Stream>& one, std::vector<Stream>& other) {
  std::erase_if(one, [&](const Stream& stream) {
    const auto match = std::find_if(other.begin(), other.end(), [&](const Stream& candidate) {
      return candidate.size() == stream.size() && first_difference(stream, candidate) == stream.size();
    });
    if (match == other.end()) return false;
    other.erase(match);
    return true;
  });
}

// --- where messages are striped ---

/// Of all cables from one rank to another.
struct Recuts {
  std::set<std::string> ports;
  std::vector<Recut> streams;
  bool all = true;  // they differ only in their cuts
  bool explained = false;
  std::size_t pieces() const {
    return std::accumulate(streams.begin(), streams.end(), std::size_t{0},
                           [](std::size_t sum, const Recut& each) { return sum + each.pieces; });
  }
};

// --- where a connection broke ---

/// Pairs of ranks that lost a connection in this run, with the messages that failed there. A connection that moved to
/// another cable before any of its messages failed is found by its port.
std::map<RankPair, std::uint64_t> broken_pairs(const TracedRun& run) {
  std::map<RankPair, std::uint64_t> broken;
  for (const TracedMessage& each : run.messages) {
    const bool cut = run.cut_ports.count(each.source) > 0 || run.cut_ports.count(each.destination) > 0;
    if (!cut && !failed(each)) continue;
    broken[pair_of(each.source_rank, each.destination_rank)] += failed(each) ? 1 : 0;
  }
  return broken;
}

/// How many messages of one size arrived: at least those that were acknowledged, and perhaps those that were not.
struct Arrived {
  std::uint64_t sure = 0, perhaps = 0;
  std::uint64_t most() const { return sure + perhaps; }
};

using Arrivals = std::map<std::uint64_t, Arrived>;  // by size in bytes

std::map<std::pair<int, int>, Arrivals> arrivals_of(const TracedRun& run) {
  std::map<std::pair<int, int>, Arrivals> arrivals;
  for (const TracedMessage& each : run.messages) {
    if (each.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) continue;
    Arrived& arrived = arrivals[{each.source_rank, each.destination_rank}][each.payload_bytes];
    // A message without a known end (its queue pair was destroyed first) may have arrived, as one that failed may.
    ++(each.status == IBV_WC_SUCCESS ? arrived.sure : arrived.perhaps);
  }
  return arrivals;
}

std::string text_of(const Arrived& arrived) {
  if (arrived.perhaps == 0) return fmt::format("{}", arrived.sure);
  return fmt::format("{} to {}", arrived.sure, arrived.most());
}

/// "sim 12 messages of 6291456 bytes, emu 11 and 6094848, and 2 of which it is not known"
std::string text_of(const std::string& name, const Arrivals& arrivals) {
  std::uint64_t messages = 0, bytes = 0, open = 0;
  for (const auto& [size, arrived] : arrivals) {
    messages += arrived.sure;
    bytes += arrived.sure * size;
    open += arrived.perhaps;
  }
  return fmt::format("{} {} with {} bytes{}", name, counted(messages, "message"), bytes,
                     open == 0 ? "" : fmt::format(" (and {} whose acknowledgement did not come)", open));
}

class Joined {
 public:
  Joined(const TracedRun& one, const TracedRun& other)
      : one_(one),
        other_(other),
        ours_(streams_of(one.messages, entries_)),
        theirs_(streams_of(other.messages, entries_)) {}

  MessageComparison take() {
    for (const auto& [route, streams] : theirs_) ours_[route];  // routes that only theirs has
    std::map<RankPair, std::vector<std::string>> differences;
    std::map<RankPair, std::size_t> in_order, cut_otherwise;
    const auto recuts = recuts_of_directions();
    for (auto& [route, streams] : ours_) {
      const RankPair pair = pair_of(route.source_rank, route.destination_rank);
      for (const Stream& stream : streams) in_order[pair] += stream.size();
      if (recuts.at({route.source_rank, route.destination_rank}).explained) {
        differences[pair];
        continue;
      }
      compare(route, streams, theirs_[route], differences[pair]);
    }
    for (const auto& [direction, found] : recuts) {
      if (found.explained) cut_otherwise[pair_of(direction.first, direction.second)] += found.pieces();
    }
    const auto broken = broken_pairs(one_), others_broken = broken_pairs(other_);
    for (auto& [pair, found] : differences) {
      if (!found.empty() && (broken.count(pair) > 0 || others_broken.count(pair) > 0)) {
        const auto failures = [](const auto& list, const RankPair& of) { return list.count(of) > 0 ? list.at(of) : 0; };
        compare_arrivals(pair, failures(broken, pair), failures(others_broken, pair));
        continue;
      }
      result_.in_order += in_order[pair];
      result_.cut_otherwise += cut_otherwise[pair];
      for (std::string& each : found) result_.differences.push_back(std::move(each));
    }
    return std::move(result_);
  }

 private:
  /// By sender and receiver: whether all that differs are the cuts of striped messages.
  std::map<std::pair<int, int>, Recuts> recuts_of_directions() const {
    std::map<std::pair<int, int>, Recuts> directions;
    for (const auto& [route, streams] : ours_) {
      Recuts& found = directions[{route.source_rank, route.destination_rank}];
      std::vector<Stream> mine = streams, yours = theirs_.count(route) > 0 ? theirs_.at(route) : std::vector<Stream>();
      drop_matches(mine, yours);
      found.all = found.all && mine.size() == yours.size();
      for (const Stream& stream : mine) {
        std::optional<Recut> match;
        for (auto candidate = yours.begin(); candidate != yours.end() && !match; ++candidate) {
          match = recut(stream, *candidate);
          if (!match) continue;
          found.ports.insert(route.source);
          yours.erase(candidate);
          break;
        }
        found.all = found.all && match.has_value();
        if (match) found.streams.push_back(std::move(*match));
      }
    }
    for (auto& [direction, found] : directions) {
      found.explained = found.all && found.ports.size() > 1 && conserves_messages(found.streams);
    }
    return directions;
  }

  void compare(const Route& route, std::vector<Stream>& streams, std::vector<Stream>& others,
               std::vector<std::string>& differences) const {
    drop_matches(streams, others);
    for (std::size_t each = 0; each < std::max(streams.size(), others.size()); ++each) {
      const Stream mine = each < streams.size() ? streams[each] : Stream();
      const Stream yours = each < others.size() ? others[each] : Stream();
      const std::size_t at = first_difference(mine, yours);
      differences.push_back(fmt::format("{}, message {}: {} has {}, {} has {}", text_of(route), at, one_.name,
                                        text_of(mine, at), other_.name, text_of(yours, at)));
    }
  }

  void compare_arrivals(RankPair pair, std::uint64_t failures, std::uint64_t others_failures) {
    std::string line = fmt::format("ranks {} and {} lost connections ({}: {} failed, {}: {})", pair.first, pair.second,
                                   one_.name, counted(failures, "message"), other_.name, others_failures);
    for (const auto& [from, to] : {pair, RankPair(pair.second, pair.first)}) {
      Arrivals mine = mine_[{from, to}], yours = yours_[{from, to}];
      if (mine.empty() && yours.empty()) continue;
      line += fmt::format("; {} -> {}: {}, {}", from, to, text_of(one_.name, mine), text_of(other_.name, yours));
      for (const auto& [size, arrived] : yours) mine[size];
      for (const auto& [size, arrived] : mine) {
        const Arrived& theirs = yours[size];
        if (arrived.sure <= theirs.most() && theirs.sure <= arrived.most()) continue;
        result_.differences.push_back(fmt::format(
            "rank {} -> rank {}, messages of {} bytes: {} arrived in {}, {} in {}: one was lost, or came twice", from,
            to, size, text_of(arrived), one_.name, text_of(theirs), other_.name));
      }
      if (from == to) break;
    }
    result_.by_arrival.push_back(std::move(line));
  }

  const TracedRun& one_;
  const TracedRun& other_;
  std::deque<TracedMessage> entries_;  // clear-to-sends that were written together, one by one
  Streams ours_, theirs_;
  std::map<std::pair<int, int>, Arrivals> mine_ = arrivals_of(one_), yours_ = arrivals_of(other_);
  MessageComparison result_;
};

}  // namespace

MessageComparison compare_messages(const TracedRun& one, const TracedRun& other) { return Joined(one, other).take(); }

}  // namespace meshbed::testbed
