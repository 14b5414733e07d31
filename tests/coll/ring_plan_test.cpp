// The plans as equations: run in memory, without network or threads, over their whole small space.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "plugin/coll/plan.h"

using namespace meshbed::coll;

namespace {

// An element is a count of contributions: rank r adds 16^r, so that a hexadecimal digit says how often r took part.
using Element = std::uint64_t;
constexpr std::uint64_t kElementBytes = sizeof(Element);
Element contribution(int rank) { return Element{1} << (4 * rank); }

struct Message {
  std::vector<Element> data;
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
    while (send_index < plan.send_steps && send_step(plan, send_index).size_bytes == 0) ++send_index;
    while (recv_index < plan.recv_steps && recv_step(plan, recv_index).size_bytes == 0) ++recv_index;
  }

  bool try_send(std::deque<Message>& wire) {
    skip_empty();
    if (send_index == plan.send_steps || !wire.empty()) return false;  // nothing buffers between two ranks
    const SendStep step = send_step(plan, send_index);
    if (step.forwarded && forwards_posted == forwards_ready) return false;
    const std::uint64_t bytes = std::min(plan.slice_bytes, step.size_bytes - send_offset);
    Message message;
    if (step.source == Source::kPartial) {
      message = slots.front();
      slots.pop_front();
    } else {
      const auto& from = step.source == Source::kInput ? input : output;
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>((step.offset_bytes + send_offset) / kElementBytes);
      REQUIRE((step.offset_bytes + send_offset + bytes) / kElementBytes <= from.size());
      message.data.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes / kElementBytes));
    }
    REQUIRE(message.data.size() * kElementBytes == bytes);
    forwards_posted += step.forwarded ? 1 : 0;
    sent_bytes += bytes;
    send_offset += bytes;
    if (send_offset == step.size_bytes) {
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
    const std::uint64_t bytes = std::min(plan.recv_slice_bytes, step.size_bytes - recv_offset);
    REQUIRE(message.data.size() * kElementBytes == bytes);
    for (std::size_t i = 0; i < message.data.size(); ++i) {
      const std::size_t own = (step.input_offset_bytes + recv_offset) / kElementBytes + i;
      const std::size_t out = (step.output_offset_bytes + recv_offset) / kElementBytes + i;
      if (step.arrival != Arrival::kStore) message.data[i] += input.at(own);
      if (step.arrival != Arrival::kReduceInSlot) output.at(out) = message.data[i];
    }
    if (step.arrival == Arrival::kReduceInSlot) slots.push_back(message);
    forwards_ready += step.forward ? 1 : 0;
    recv_offset += bytes;
    if (recv_offset == step.size_bytes) {
      recv_offset = 0;
      ++recv_index;
    }
    return true;
  }

  void copy() {
    for (std::uint64_t i = 0; i < plan.copy.size_bytes / kElementBytes; ++i) {
      output.at(plan.copy.output_offset_bytes / kElementBytes + i) =
          input.at(plan.copy.input_offset_bytes / kElementBytes + i);
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
    model.output.assign(what.count * (blocks_out ? n : 1), 0);
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
void walk_space(Collective collective, Check check) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::uint64_t count : {0, 1, 2, 5, 8, 13, 97, 360}) {
      for (const int channels : {1, 2, 3}) {
        for (const int slots : {2, 3, 8}) {
          const Case what{collective, ranks, count, channels, 5 * kElementBytes, slots, (ranks - 1) / 2};
          INFO("ranks ", ranks, " count ", count, " channels ", channels, " slots ", slots);
          std::uint64_t sent_bytes = 0;
          const std::vector<RankModel> result = run_case(what, &sent_bytes);
          check(what, result, sent_bytes);
        }
      }
    }
  }
}

Element everybody(int ranks) {
  Element sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank);
  return sum;
}

bool all_equal(const std::vector<Element>& values, Element expected) {
  return std::all_of(values.begin(), values.end(), [&](Element value) { return value == expected; });
}

}  // namespace

TEST_CASE("all_reduce: for 1..9 ranks every element meets every rank exactly once, with 2(n-1) S bytes in all") {
  walk_space(Collective::kAllReduce, [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
    for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
    CHECK(sent == 2 * static_cast<std::uint64_t>(what.ranks - 1) * what.count * kElementBytes);
  });
}

TEST_CASE("reduce_scatter: for 1..9 ranks every element meets every rank exactly once, with n(n-1) b bytes in all") {
  walk_space(Collective::kReduceScatter, [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
    for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
    CHECK(sent == static_cast<std::uint64_t>(what.ranks * (what.ranks - 1)) * what.count * kElementBytes);
  });
}

TEST_CASE("all_gather: for 1..9 ranks every block reaches every rank, with n(n-1) b bytes in all") {
  walk_space(Collective::kAllGather, [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
    for (const RankModel& model : ranks) {
      for (std::size_t i = 0; i < model.output.size(); ++i) {
        CHECK(model.output[i] == contribution(static_cast<int>(i / what.count)));
      }
    }
    CHECK(sent == static_cast<std::uint64_t>(what.ranks * (what.ranks - 1)) * what.count * kElementBytes);
  });
}

TEST_CASE("broadcast: for 1..9 ranks the root's bytes reach every rank, once over each link but the last") {
  walk_space(Collective::kBroadcast, [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
    for (const RankModel& model : ranks) CHECK(all_equal(model.output, contribution(what.root)));
    CHECK(sent == static_cast<std::uint64_t>(what.ranks - 1) * what.count * kElementBytes);
  });
}

TEST_CASE("send_recv: for 1..9 ranks in a circle every rank has its neighbour's bytes") {
  walk_space(Collective::kSendRecv, [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
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

TEST_CASE("offsets are 64 bits wide: the last chunk of a 12 GiB all_reduce lies where it should") {
  const std::uint64_t count = 3ULL << 30U;
  const Plan plan = make_plan({.rank = 0, .ranks = 3, .count = count});
  CHECK(send_step(plan, 0).offset_bytes == count / 3 * 2 * 4);
  CHECK(send_step(plan, 0).size_bytes == count / 3 * 4);
  CHECK(plan.slice_bytes == 1U << 20U);
}

TEST_CASE("slices: 64 KiB at least, an eighth of a chunk, the option at most, whole elements always") {
  const auto slice = [](std::uint64_t count, std::uint64_t slice_max, std::uint64_t element_bytes) {
    return make_plan(
               {.rank = 0, .ranks = 2, .count = count, .element_bytes = element_bytes, .slice_bytes_max = slice_max})
        .slice_bytes;
  };
  CHECK(slice(1000, 1 << 20, 4) == 64 << 10);
  CHECK(slice(2 << 20, 1 << 20, 4) == 512 << 10);
  CHECK(slice(100 << 20, 1 << 20, 4) == 1 << 20);
  CHECK(slice(100 << 20, 1003, 4) == 1000);
  CHECK(slice(100, 1, 4) == 4);
}
