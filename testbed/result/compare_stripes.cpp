// Counted from the end of a stream, stripe k is the k-th last message that went over the rails, and moved[k] is the
// number of bytes by which all rails and all connections without groups carried more of it in the first run. A stream
// without groups marks its striped messages (kStripedSize). A group does not mark its striped parts, so all readings
// are followed: `at` are the stripes that may be next. Cost: endings * readings * parts^2, usually with one reading.
// Connections whose groups differ are read kind by kind, with every set of rails that may belong to them.
#include "testbed/result/compare_stripes.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "plugin/net/wire/ring.h"

namespace meshbed::testbed {
namespace {

using Places = std::set<std::size_t>;

/// Counts beyond the last one are zero.
class Moved {
 public:
  std::int64_t operator[](std::size_t stripe) const { return stripe < bytes_.size() ? bytes_[stripe] : 0; }
  void add(std::size_t stripe, std::int64_t bytes) {
    if (stripe >= bytes_.size()) bytes_.resize(stripe + 1);
    bytes_[stripe] += bytes;
  }
  bool none_from(std::size_t stripe) const {
    return stripe >= bytes_.size() || std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(stripe), bytes_.end(),
                                                  [](std::int64_t bytes) { return bytes == 0; });
  }

 private:
  std::vector<std::int64_t> bytes_;
};

std::vector<Ending> endings_of(const Stream& stream) {
  std::vector<Ending> endings;
  Ending next;
  for (const TracedMessage* message : stream) {
    if (message->opcode == IBV_WR_RDMA_WRITE && !failed(*message)) {
      next.parts_bytes.push_back(message->payload_bytes);
      continue;
    }
    next.message = message;
    endings.push_back(std::exchange(next, {}));
  }
  if (!next.parts_bytes.empty()) endings.push_back(std::move(next));
  return endings;
}

std::uint64_t bytes_of(const Ending& ending) {
  return std::accumulate(ending.parts_bytes.begin(), ending.parts_bytes.end(), ending.message->payload_bytes);
}

std::int64_t more_bytes(const Ending& mine, const Ending& yours) {
  return static_cast<std::int64_t>(bytes_of(mine)) - static_cast<std::int64_t>(bytes_of(yours));
}

enum class Kind { kWhole, kStriped, kGroup };

/// The kind of an ending by its immediate value, on the connection's own cable.
Kind kind_of(const Ending& ending) {
  const std::uint32_t immediate = ending.message->immediate;
  if (immediate == net::kRefusedSize) return Kind::kWhole;
  if ((immediate & net::kStripedSize) != 0) return Kind::kStriped;
  return bytes_of(ending) == immediate ? Kind::kWhole : Kind::kGroup;
}

/// Stripes on rails end in the immediate value 0.
bool is_rail(const Recut& recut) {
  return std::all_of(recut.mine.begin(), recut.mine.end(), [](const Ending& each) {
    return each.message != nullptr && each.message->immediate == 0 && each.parts_bytes.empty();
  });
}

bool has_groups(const Recut& recut) {
  return !is_rail(recut) && std::any_of(recut.mine.begin(), recut.mine.end(), [](const Ending& each) {
    return each.message != nullptr && kind_of(each) == Kind::kGroup;
  });
}

/// Adds the differences of a stream without groups. False: a message that was not striped differs.
bool add_stripes(const Recut& recut, Moved& moved) {
  std::size_t stripe = 0;
  const bool rail = is_rail(recut);
  for (std::size_t index = recut.mine.size(); index-- > 0;) {
    const Ending &mine = recut.mine[index], &yours = recut.yours[index];
    if (mine.message == nullptr) continue;
    if (rail || kind_of(mine) == Kind::kStriped) {
      moved.add(stripe++, more_bytes(mine, yours));
    } else if (more_bytes(mine, yours) != 0) {
      return false;
    }
  }
  return true;
}

/// All readings of the parts of one group, as written in either run.
Places read_group(const Ending& mine, const Ending& yours, const Places& from, const Moved& moved) {
  const std::size_t our_parts = mine.parts_bytes.size(), their_parts = yours.parts_bytes.size();
  const auto part = [](const Ending& ending, std::size_t from_end) {
    return static_cast<std::int64_t>(ending.parts_bytes[ending.parts_bytes.size() - 1 - from_end]);
  };
  struct AlgorithmProtocol {
    std::size_t ours, theirs, parts, stripe;
    auto operator<=>(const AlgorithmProtocol&) const = default;
  };
  std::set<AlgorithmProtocol> ways;
  for (const std::size_t place : from) ways.insert({0, 0, 0, place});
  Places reached;
  const std::uint32_t said = mine.message->immediate;
  const std::size_t most = said > 0 && said <= net::kMaxGroup ? said : net::kMaxGroup;
  while (!ways.empty()) {
    const AlgorithmProtocol way = ways.extract(ways.begin()).value();
    const bool ours = way.ours < our_parts, theirs = way.theirs < their_parts;
    if (!ours && !theirs) reached.insert(way.stripe);
    if (way.parts == most) continue;
    const std::int64_t also = moved[way.stripe];
    const std::int64_t one = ours ? part(mine, way.ours) : 0, other = theirs ? part(yours, way.theirs) : 0;
    const std::size_t next = way.parts + 1;
    if (ours && theirs && one - other + also == 0) ways.insert({way.ours + 1, way.theirs + 1, next, way.stripe + 1});
    if (ours && theirs && one == other) ways.insert({way.ours + 1, way.theirs + 1, next, way.stripe});  // not striped
    if (ours && one + also == 0) ways.insert({way.ours + 1, way.theirs, next, way.stripe + 1});
    if (theirs && also == other) ways.insert({way.ours, way.theirs + 1, next, way.stripe + 1});
    if (also == 0) ways.insert({way.ours, way.theirs, next, way.stripe + 1});  // on the rails alone, in both
  }
  return reached;
}

/// For groups that are equal in all connections: the bytes that they lack here must be on the rails.
Places read_groups(std::int64_t more, std::uint32_t parts_most, const Places& from, const Moved& moved) {
  Places reached;
  for (const std::size_t place : from) {
    for (std::size_t parts = 0; parts <= parts_most; ++parts) {
      if (more == 0) reached.insert(place + parts);
      more += moved[place + parts];
    }
    for (std::size_t parts = 0; parts <= parts_most; ++parts) more -= moved[place + parts];
  }
  return reached;
}

/// Connections with groups, which look alike.
bool reads(const std::vector<const Recut*>& alike, const Moved& moved) {
  Places at{0};
  for (std::size_t index = alike.front()->mine.size(); index-- > 0 && !at.empty();) {
    const Ending &mine = alike.front()->mine[index], &yours = alike.front()->yours[index];
    if (mine.message == nullptr) continue;
    std::int64_t more = 0;
    for (const Recut* each : alike) more += more_bytes(each->mine[index], each->yours[index]);
    const Kind kind = kind_of(mine);
    Places next;
    if (kind == Kind::kGroup) {
      next = alike.size() == 1 ? read_group(mine, yours, at, moved) : read_groups(more, net::kMaxGroup, at, moved);
    } else if (kind == Kind::kWhole) {
      if (more == 0) next = at;
    } else {
      for (const std::size_t place : at) {
        if (more + moved[place] == 0) next.insert(place + 1);
      }
    }
    at = std::move(next);
  }
  return std::any_of(at.begin(), at.end(), [&](std::size_t place) { return moved.none_from(place); });
}

/// Whether the messages of equal connections are complete, given their rails.
bool are_whole(const std::vector<const Recut*>& alike, Moved on_rails) {
  if (has_groups(*alike.front())) return reads(alike, on_rails);
  return std::all_of(alike.begin(), alike.end(), [&](const Recut* each) { return add_stripes(*each, on_rails); }) &&
         on_rails.none_from(0);
}

/// With more rails only their sum is checked: otherwise every set of them is tried in both runs.
constexpr std::size_t kRailsMost = 5;

/// Sets of rails, a bit each, for the first and the second run; a connection may use different rails in the two.
struct RailSets {
  std::size_t mine = 0, yours = 0;
};

Moved moved_over(const std::vector<const Recut*>& rails, const RailSets& sets) {
  Moved moved;
  const auto add = [&moved](const std::vector<Ending>& stripes, std::int64_t sign) {
    for (std::size_t stripe = 0; stripe < stripes.size(); ++stripe) {
      moved.add(stripe, sign * static_cast<std::int64_t>(bytes_of(stripes[stripes.size() - 1 - stripe])));
    }
  };
  for (std::size_t rail = 0; rail < rails.size(); ++rail) {
    if ((sets.mine >> rail & 1U) != 0) add(rails[rail]->mine, 1);
    if ((sets.yours >> rail & 1U) != 0) add(rails[rail]->yours, -1);
  }
  return moved;
}

/// Calls take(subset) for each subset of `set`, the empty one last.
template <typename Take>
void for_each_subset(std::size_t set, const Take& take) {
  for (std::size_t subset = set;; subset = (subset - 1) & set) {
    take(subset);
    if (subset == 0) return;
  }
}

/// Whether the rails can be divided among the kinds of connections so that no message loses bytes. Cost: kinds of
/// connections * (C(2n, n) readings + 9^n steps) for n rails.
bool can_be_divided(const std::vector<std::vector<const Recut*>>& kinds, const std::vector<const Recut*>& rails) {
  const std::size_t sets = std::size_t{1} << rails.size();
  const auto place = [sets](const RailSets& both) { return both.mine * sets + both.yours; };
  std::vector<bool> given(sets * sets);  // to the kinds so far
  given[0] = true;
  for (const std::vector<const Recut*>& kind : kinds) {
    std::vector<bool> fits(sets * sets), next(sets * sets);
    for (RailSets both; both.mine < sets; ++both.mine) {
      for (both.yours = 0; both.yours < sets; ++both.yours) {
        if (std::popcount(both.mine) != std::popcount(both.yours)) continue;
        fits[place(both)] = are_whole(kind, moved_over(rails, both));
      }
    }
    for (RailSets before; before.mine < sets; ++before.mine) {
      for (before.yours = 0; before.yours < sets; ++before.yours) {
        if (!given[place(before)]) continue;
        for_each_subset(sets - 1 - before.mine, [&](std::size_t mine) {
          for_each_subset(sets - 1 - before.yours, [&](std::size_t yours) {
            if (fits[place({mine, yours})]) next[place({before.mine | mine, before.yours | yours})] = true;
          });
        });
      }
    }
    given = std::move(next);
  }
  return given.back();
}

bool look_alike(const Recut& one, const Recut& other) {
  return std::equal(one.mine.begin(), one.mine.end(), other.mine.begin(), other.mine.end(),
                    [](const Ending& left, const Ending& right) {
                      if (left.message == nullptr || right.message == nullptr) return left.message == right.message;
                      return same_but_for_cut(*left.message, *right.message);
                    });
}

/// For connections whose groups differ, and all other connections. A trace does not record which rails belong to which
/// connection.
bool conserves_each(std::span<const Recut> recuts) {
  std::vector<std::vector<const Recut*>> kinds;
  std::vector<const Recut*> rails;
  for (const Recut& each : recuts) {
    if (is_rail(each)) {
      rails.push_back(&each);
      continue;
    }
    const auto known =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return look_alike(*kind.front(), each); });
    if (known == kinds.end()) {
      kinds.push_back({&each});
    } else {
      known->push_back(&each);
    }
  }
  return rails.size() > kRailsMost || can_be_divided(kinds, rails);
}

}  // namespace

bool failed(const TracedMessage& message) {
  return message.status != IBV_WC_SUCCESS && message.status != kStatusUnknown;
}

bool same_end(const TracedMessage& one, const TracedMessage& other) {
  const bool known = one.status != kStatusUnknown && other.status != kStatusUnknown;
  return !known || one.status == other.status;
}

bool same_but_for_cut(const TracedMessage& one, const TracedMessage& other) {
  return one.opcode == other.opcode && one.immediate == other.immediate && same_end(one, other);
}

std::optional<Recut> recut(const Stream& one, const Stream& other) {
  Recut found{.mine = endings_of(one), .yours = endings_of(other)};
  if (found.mine.size() != found.yours.size()) return std::nullopt;
  for (std::size_t index = 0; index < found.mine.size(); ++index) {
    const Ending &left = found.mine[index], &right = found.yours[index];
    if (left.message == nullptr || right.message == nullptr) {
      // Only plain writes: clear-to-sends, which are never striped.
      if (left.message != right.message || left.parts_bytes != right.parts_bytes) return std::nullopt;
      continue;
    }
    if (!same_but_for_cut(*left.message, *right.message)) return std::nullopt;
    if (left.parts_bytes == right.parts_bytes && left.message->payload_bytes == right.message->payload_bytes) continue;
    ++found.pieces;
    found.more_bytes += more_bytes(left, right);
  }
  return found;
}

bool conserves_messages(std::span<const Recut> recuts) {
  Moved moved;
  std::vector<const Recut*> with_groups;
  std::int64_t more = 0;
  for (const Recut& each : recuts) {
    more += each.more_bytes;
    if (has_groups(each)) {
      with_groups.push_back(&each);
    } else if (!add_stripes(each, moved)) {
      return false;
    }
  }
  if (more != 0) return false;
  if (with_groups.empty()) return moved.none_from(0);
  const bool alike = std::all_of(with_groups.begin(), with_groups.end(),
                                 [&](const Recut* each) { return look_alike(*each, *with_groups.front()); });
  return alike ? reads(with_groups, moved) : conserves_each(recuts);
}

}  // namespace meshbed::testbed
