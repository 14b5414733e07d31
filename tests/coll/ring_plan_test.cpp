// The plans as equations: run in memory, without network or threads, over their whole small space.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "plugin/coll/plan/plan.h"
#include "tests/coll/contribution.h"

namespace ring_plan_test {

using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

struct Message {
  std::vector<Element> data;
  std::uint64_t bytes = 0;
};

/// One rank's plan interpreted as the executor promises to run it: slices in order, forwarding by count, W slots.
struct RankModel {
  Plan plan;
  std::vector<Element> input, output;
  std::deque<Message> slots;  // partial sums that wait to be forwarded
  std::uint64_t send_index = 0, send_offset = 0, recv_index = 0, recv_offset = 0;
  std::uint64_t forwards_ready = 0, forwards_posted = 0;
  std::uint64_t sent_bytes = 0;

  void skip_empty() {
    while (send_index < plan.send_steps && send_step(plan, send_index).count == 0) ++send_index;
    while (recv_index < plan.recv_steps && recv_step(plan, recv_index).count == 0) ++recv_index;
  }

  bool try_send(std::deque<Message>& wire) {
    skip_empty();
    if (send_index == plan.send_steps || !wire.empty()) return false;  // nothing buffers between two ranks
    const SendStep step = send_step(plan, send_index);
    if (step.forwarded && forwards_posted == forwards_ready) return false;
    const std::uint64_t count = std::min(plan.slice_count, step.count - send_offset);
    Message message;
    if (step.source == Source::kPartial) {
      message = slots.front();
      slots.pop_front();
    } else {
      const auto& from = step.source == Source::kInput ? input : output;
      REQUIRE(step.offset + send_offset + count <= from.size());
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(step.offset + send_offset);
      message.data.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    REQUIRE(message.data.size() == count);
    message.bytes = count * wire_bytes_of(plan.request, step);
    CHECK(message.bytes <= std::max(plan.request.slice_bytes_max, wire_bytes_of(plan.request, step)));
    forwards_posted += step.forwarded ? 1 : 0;
    sent_bytes += message.bytes;
    send_offset += count;
    if (send_offset == step.count) {
      send_offset = 0;
      ++send_index;
    }
    wire.push_back(std::move(message));
    return true;
  }

  bool try_receive(std::deque<Message>& wire) {
    skip_empty();
    if (recv_index == plan.recv_steps || wire.empty()) return false;
    const RecvStep step = recv_step(plan, recv_index);
    if (step.arrival == Arrival::kReduceInSlot && slots.size() >= static_cast<std::size_t>(plan.request.slots)) {
      return false;
    }
    Message message = std::move(wire.front());
    wire.pop_front();
    const std::uint64_t count = std::min(plan.recv_slice_count, step.count - recv_offset);
    REQUIRE(message.data.size() == count);
    REQUIRE(message.bytes == count * wire_bytes_of(plan.request, step));
    if (step.arrival != Arrival::kStore) CHECK(plan.slot_bytes >= message.bytes);
    for (std::size_t i = 0; i < message.data.size(); ++i) {
      Element& element = message.data[i];
      if (reduces(step)) {
        CHECK(step.form == form_after(std::popcount(element.who)));
        element = together(element, input.at(step.input_offset + recv_offset + i));
      }
      if (step.arrival != Arrival::kReduceInSlot) output.at(step.output_offset + recv_offset + i) = element;
    }
    if (step.arrival == Arrival::kReduceInSlot) slots.push_back(message);
    forwards_ready += step.forward ? 1 : 0;
    recv_offset += count;
    if (recv_offset == step.count) {
      recv_offset = 0;
      ++recv_index;
    }
    return true;
  }

  static bool reduces(const RecvStep& step) {
    return step.arrival == Arrival::kReduceInSlot || step.arrival == Arrival::kReduceToOutput;
  }
  /// Of so many contributions that have arrived.
  Form form_after(int contributions) const {
    if (plan.request.ranks == 2) return Form::kOnly;
    if (contributions == 1) return Form::kFirst;
    return contributions + 1 == plan.request.ranks ? Form::kLast : Form::kBetween;
  }

  void copy() {
    for (std::uint64_t i = 0; i < plan.copy.count; ++i) {
      output.at(plan.copy.output_offset + i) = input.at(plan.copy.input_offset + i);
    }
  }

  bool finished() const { return send_index == plan.send_steps && recv_index == plan.recv_steps; }
};

/// Runs one channel on all ranks: `eager_rank` moves first whenever it can, so that different orders are met.
std::uint64_t run_channel(std::vector<RankModel>& ranks, int eager_rank) {
  const auto count = static_cast<int>(ranks.size());
  std::vector<std::deque<Message>> wires(ranks.size());  // by receiver; every plan has one receive peer
  const auto move = [&](int rank) {
    RankModel& model = ranks[static_cast<std::size_t>(rank)];
    const int to = model.plan.send_peer;
    bool moved = model.try_receive(wires[static_cast<std::size_t>(rank)]);
    if (to >= 0) moved |= model.try_send(wires[static_cast<std::size_t>(to)]);
    return moved;
  };
  for (bool moved = true; moved;) {
    moved = false;
    while (move(eager_rank)) moved = true;
    for (int rank = 0; rank < count; ++rank) moved |= move(rank);
  }
  std::uint64_t sent_bytes = 0;
  for (RankModel& model : ranks) {
    model.copy();
    CHECK_MESSAGE(model.finished(), "rank ", model.plan.request.rank, " is stuck");
    sent_bytes += model.sent_bytes;
  }
  for (const auto& wire : wires) CHECK(wire.empty());
  return sent_bytes;
}

struct Case {
  Collective collective;
  int ranks;
  std::uint64_t count;
  int channels;
  std::uint64_t slice_bytes;
  int slots;
  int root = 0;
  std::uint64_t partial_bytes = kElementBytes;
};

/// All channels on all ranks; the ranks' models, and the bytes that all of them sent.
std::vector<RankModel> run_case(const Case& what, std::uint64_t* sent_bytes) {
  const auto n = static_cast<std::uint64_t>(what.ranks);
  const bool blocks_in = what.collective == Collective::kReduceScatter;
  const bool blocks_out = what.collective == Collective::kAllGather;
  std::vector<RankModel> ranks(n);
  for (int rank = 0; rank < what.ranks; ++rank) {
    RankModel& model = ranks[static_cast<std::size_t>(rank)];
    model.input.assign(what.count * (blocks_in ? n : 1), contribution(rank));
    model.output.assign(what.count * (blocks_out ? n : 1), Element{});
  }
  *sent_bytes = 0;
  for (int channel = 0; channel < what.channels; ++channel) {
    for (int rank = 0; rank < what.ranks; ++rank) {
      RankModel& model = ranks[static_cast<std::size_t>(rank)];
      RankModel fresh;
      fresh.input = std::move(model.input);
      fresh.output = std::move(model.output);
      fresh.plan = make_plan({.collective = what.collective,
                              .rank = rank,
                              .ranks = what.ranks,
                              .root = what.root,
                              .to = (rank + 1) % what.ranks,
                              .from = (rank + what.ranks - 1) % what.ranks,
                              .count = what.count,
                              .receive_count = what.count,
                              .element_bytes = kElementBytes,
                              .partial_bytes = what.partial_bytes,
                              .channel = channel,
                              .channels = what.channels,
                              .slice_bytes_max = what.slice_bytes,
                              .slots = what.slots});
      model = std::move(fresh);
    }
    *sent_bytes += run_channel(ranks, channel % what.ranks);
  }
  return ranks;
}

template <typename Check>
void walk(const Case& what, Check check) {
  INFO("ranks ", what.ranks, " count ", what.count, " channels ", what.channels, " slots ", what.slots, " partial ",
       what.partial_bytes);
  std::uint64_t sent_bytes = 0;
  const std::vector<RankModel> result = run_case(what, &sent_bytes);
  check(what, result, sent_bytes);
}

/// `partials`: the sizes of partial results to walk; elements are 8 bytes.
template <typename Check>
void walk_space(Collective collective, const std::vector<std::uint64_t>& partials, Check check) {
  for (const std::uint64_t partial_bytes : partials) {
    const auto on = [&](int ranks, std::uint64_t count, int channels, int slots) {
      walk({collective, ranks, count, channels, 5 * kElementBytes, slots, (ranks - 1) / 2, partial_bytes}, check);
    };
    for (int ranks = 1; ranks <= 9; ++ranks) {
      for (const std::uint64_t count : {0, 1, 2, 5, 8, 13, 97, 360}) {
        for (const int channels : {1, 2, 3}) {
          for (const int slots : {2, 3, 8}) on(ranks, count, channels, slots);
        }
      }
    }
    for (int ranks = 10; ranks <= 33; ++ranks) {
      for (const std::uint64_t count : {1, 31, 701}) on(ranks, count, 1, ranks % 2 == 0 ? 2 : 8);
    }
  }
}
const std::vector<std::uint64_t> kNarrow = {kElementBytes}, kNarrowAndWide = {kElementBytes, 2 * kElementBytes};

/// Bytes of an element over the reducing steps of a ring or chain: the first moves elements, the others partials.
std::uint64_t reducing_bytes(const Case& what) {
  if (what.ranks == 1) return 0;
  return kElementBytes + static_cast<std::uint64_t>(what.ranks - 2) * what.partial_bytes;
}

Element everybody(int ranks) { return {.who = (std::uint64_t{1} << ranks) - 1}; }

bool all_equal(const std::vector<Element>& values, const Element& expected) {
  return std::all_of(values.begin(), values.end(), [&](const Element& value) { return value == expected; });
}

}  // namespace

TEST_CASE("all_reduce: for 1..33 ranks every element meets every rank exactly once, with 2(n-1) S bytes in all") {
  walk_space(Collective::kAllReduce, kNarrowAndWide,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
               const std::uint64_t gathering = static_cast<std::uint64_t>(what.ranks - 1) * kElementBytes;
               CHECK(sent == what.count * (reducing_bytes(what) + gathering));
             });
}

TEST_CASE("reduce_scatter: for 1..33 ranks every element meets every rank exactly once, with n(n-1) b bytes in all") {
  walk_space(Collective::kReduceScatter, kNarrowAndWide,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
               CHECK(sent == static_cast<std::uint64_t>(what.ranks) * what.count * reducing_bytes(what));
             });
}

TEST_CASE("reduce: for 1..33 ranks every element meets every rank exactly once, at the root and nowhere else") {
  walk_space(Collective::kReduce, kNarrowAndWide,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (int rank = 0; rank < what.ranks; ++rank) {
                 const auto& output = ranks[static_cast<std::size_t>(rank)].output;
                 CHECK(all_equal(output, rank == what.root ? everybody(what.ranks) : Element{}));
               }
               CHECK(sent == what.count * reducing_bytes(what));
             });
}

TEST_CASE("all_gather: for 1..33 ranks every block reaches every rank, with n(n-1) b bytes in all") {
  walk_space(Collective::kAllGather, kNarrow,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) {
                 for (std::size_t i = 0; i < model.output.size(); ++i) {
                   CHECK(model.output[i] == contribution(static_cast<int>(i / what.count)));
                 }
               }
               CHECK(sent == static_cast<std::uint64_t>(what.ranks * (what.ranks - 1)) * what.count * kElementBytes);
             });
}

TEST_CASE("broadcast: for 1..33 ranks the root's bytes reach every rank, once over each link but the last") {
  walk_space(Collective::kBroadcast, kNarrow,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, contribution(what.root)));
               CHECK(sent == static_cast<std::uint64_t>(what.ranks - 1) * what.count * kElementBytes);
             });
}

TEST_CASE("send_recv: for 1..33 ranks in a circle every rank has its neighbour's bytes") {
  walk_space(
      Collective::kSendRecv, kNarrow, [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
        for (int rank = 0; rank < what.ranks; ++rank) {
          const int from = (rank + what.ranks - 1) % what.ranks;
          CHECK(all_equal(ranks[static_cast<std::size_t>(rank)].output, contribution(from)));
        }
        CHECK(sent == (what.ranks == 1 ? 0 : static_cast<std::uint64_t>(what.ranks) * what.count * kElementBytes));
      });
}

TEST_CASE("parts are exact: they touch, cover the whole and differ by at most one element") {
  for (const std::uint64_t count : {0, 1, 2, 3, 7, 64, 101}) {
    for (std::uint64_t parts = 1; parts <= 9; ++parts) {
      std::uint64_t next = 0;
      for (std::uint64_t index = 0; index < parts; ++index) {
        const Range part = part_of(count, parts, index);
        CHECK(part.begin == next);
        CHECK(part.count - count / parts <= 1);
        next += part.count;
      }
      CHECK(next == count);
    }
  }
}

TEST_CASE("pairs: for 1..33 ranks each block has one leg at its sender and one at its receiver, cut alike") {
  for (const Collective collective : {Collective::kAllToAll, Collective::kGather, Collective::kScatter}) {
    for (int ranks = 1; ranks <= 33; ++ranks) {
      const int root = ranks / 2;
      constexpr std::uint64_t kCount = 701;
      struct End {
        std::uint64_t offset, slice_count, copied;
      };
      std::map<std::pair<int, int>, End> sent, received;  // by from, to
      for (int rank = 0; rank < ranks; ++rank) {
        for (const SubPlan& sub_plan : sub_plans_of({.collective = collective,
                                       .rank = rank,
                                       .ranks = ranks,
                                       .root = root,
                                       .count = kCount,
                                       .slice_bytes_max = 64})) {
          const Plan plan = make_plan(sub_plan.request);
          const int to = sub_plan.request.to, from = sub_plan.request.from;
          CHECK((to >= 0 || from >= 0));
          const std::uint64_t copied = plan.copy.count;
          if (to >= 0)
            CHECK(sent.emplace(std::pair{rank, to}, End{sub_plan.input_offset, plan.slice_count, copied}).second);
          if (from >= 0) {
            const End end{sub_plan.output_offset, plan.recv_slice_count, copied};
            CHECK(received.emplace(std::pair{from, rank}, end).second);
          }
          if (to != rank) CHECK(plan.send_steps == (to >= 0 ? 1 : 0));
          if (to != rank) CHECK(plan.recv_steps == (from >= 0 ? 1 : 0));
        }
      }
      const auto n = static_cast<std::size_t>(ranks);
      CHECK(sent.size() == (collective == Collective::kAllToAll ? n * n : n));
      CHECK(received.size() == sent.size());
      for (const auto& [pair, end] : sent) {
        const auto [from, to] = pair;
        REQUIRE(received.count(pair) == 1);
        const End& other = received.at(pair);
        CHECK(end.slice_count == other.slice_count);
        CHECK(end.copied == (from == to ? kCount : 0));
        CHECK(end.offset == (collective == Collective::kGather ? 0 : static_cast<std::uint64_t>(to) * kCount));
        CHECK(other.offset == (collective == Collective::kScatter ? 0 : static_cast<std::uint64_t>(from) * kCount));
        if (collective == Collective::kGather) CHECK(to == root);
        if (collective == Collective::kScatter) CHECK(from == root);
      }
    }
  }
}

TEST_CASE("offsets are 64 bits wide: the last chunk of a 12 GiB all_reduce lies where it should") {
  const std::uint64_t count = 3ULL << 30U;
  const Plan plan = make_plan({.rank = 0, .ranks = 3, .count = count});
  CHECK(send_step(plan, 0).offset == count / 3 * 2);
  CHECK(send_step(plan, 0).count == count / 3);
  CHECK(plan.slice_count == 1U << 18U);
}

TEST_CASE("slices: 64 KiB at least, an eighth of a chunk, the option at most, whole elements always") {
  const auto slice = [](std::uint64_t count, std::uint64_t slice_max, std::uint64_t element_bytes, int ranks = 2) {
    const Plan plan = make_plan({.rank = 0,
                                 .ranks = ranks,
                                 .count = count,
                                 .element_bytes = element_bytes,
                                 .partial_bytes = 4,
                                 .slice_bytes_max = slice_max});
    return plan.slice_count;
  };
  CHECK(slice(1000, 1 << 20, 4) == 16 << 10);
  CHECK(slice(2 << 20, 1 << 20, 4) == 128 << 10);
  CHECK(slice(100 << 20, 1 << 20, 4) == 256 << 10);
  CHECK(slice(100 << 20, 1003, 4) == 250);
  CHECK(slice(100, 1, 4) == 1);
  // Where partial results travel, it is theirs that are so large.
  CHECK(slice(100 << 20, 1 << 20, 2, 2) == 512 << 10);
  CHECK(slice(100 << 20, 1 << 20, 2, 3) == 256 << 10);
}

}  // namespace ring_plan_test
