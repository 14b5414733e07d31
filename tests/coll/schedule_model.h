#pragma once
// Schedules run in memory, without network or threads: what the tests of schedules share.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "plugin/coll/plan/schedule.h"
#include "tests/coll/contribution.h"

namespace meshbed::test {

using namespace meshbed::coll;

struct Message {
  std::vector<Element> data;
  std::uint64_t bytes = 0;
};
/// From, to, way.
using Wires = std::map<std::tuple<int, int, int>, std::deque<Message>>;

/// One rank's schedule interpreted as its header promises: a stream's slices in order, each as soon as it may.
struct RankModel {
  Schedule schedule;
  std::vector<Element> input, output, work;
  std::vector<std::uint64_t> reached;  // by transfer: sent or digested so far
  bool ended = false;
  std::uint64_t sent_bytes = 0, longest = 0;

  void begin_round() {
    reached.clear();
    for (const Transfer& transfer : schedule.transfers) reached.push_back(transfer.range.begin);
    work.assign(work_count(schedule), Element{});
  }
  bool done(std::size_t index) const { return reached[index] == end_of(schedule.transfers[index].range); }
  bool may(std::size_t index, const Range& slice) const {
    const Transfer& transfer = schedule.transfers[index];
    for (std::size_t before = 0; before < index; ++before) {
      const Transfer& other = schedule.transfers[before];
      const bool same_stream =
          other.peer == transfer.peer && other.way == transfer.way && other.receives == transfer.receives;
      if (same_stream && !done(before)) return false;
      const bool shares = slice.begin < end_of(other.range) && other.range.begin < end_of(slice);
      if (other.receives && shares && reached[before] < std::min(end_of(slice), end_of(other.range))) return false;
    }
    return true;
  }
  Element& at(BufferRole place, std::uint64_t index) {
    if (place == BufferRole::kInput) return input.at(index - schedule.input_begin);
    if (place == BufferRole::kOutput || schedule.works_in_output) return output.at(index - schedule.output_begin);
    return work.at(work_index(schedule, index));
  }

  bool move(std::size_t index, Wires& wires) {
    const Transfer& transfer = schedule.transfers[index];
    const Range slice{reached[index], std::min(schedule.slice_count, end_of(transfer.range) - reached[index])};
    if (slice.count == 0 || !may(index, slice)) return false;
    const int self = schedule.request.rank;
    auto& wire =
        transfer.receives ? wires[{transfer.peer, self, transfer.way}] : wires[{self, transfer.peer, transfer.way}];
    const std::uint64_t bytes = slice.count * wire_bytes_of(schedule.request, transfer);
    if (!transfer.receives) {
      if (!wire.empty()) return false;  // nothing buffers between two ranks
      Message message{.data = {}, .bytes = bytes};
      for (std::uint64_t i = slice.begin; i < end_of(slice); ++i) message.data.push_back(at(transfer.place, i));
      wire.push_back(std::move(message));
      CHECK(bytes <= std::max(schedule.request.slice_bytes_max, wire_bytes_of(schedule.request, transfer)));
      sent_bytes += bytes;
    } else {
      if (wire.empty()) return false;
      Message message = std::move(wire.front());
      wire.pop_front();
      REQUIRE(message.data.size() == slice.count);
      REQUIRE(message.bytes == bytes);
      for (std::uint64_t i = 0; i < slice.count; ++i) store(transfer, slice.begin + i, message.data[i]);
    }
    reached[index] += slice.count;
    return true;
  }

  void store(const Transfer& transfer, std::uint64_t index, Element arrived) {
    if (transfer.reduces) {
      CHECK(transfer.partial == (std::popcount(arrived.who) > 1));
      const Element& own = at(transfer.own, index);
      CHECK((transfer.own == BufferRole::kWork) == (std::popcount(own.who) > 1));
      arrived = together(arrived, own);
      CHECK((transfer.place == BufferRole::kOutput) == (std::popcount(arrived.who) == schedule.request.ranks));
    }
    at(transfer.place, index) = arrived;
  }

  bool pass(Wires& wires) {
    bool moved = false;
    for (std::size_t index = 0; index < schedule.transfers.size(); ++index) moved |= move(index, wires);
    for (std::size_t index = 0; index < schedule.transfers.size(); ++index) {
      if (!done(index)) return moved;
    }
    if (ended) return moved;
    ended = !next_round(schedule);
    if (!ended) begin_round();
    return true;
  }
};

struct Case {
  Algorithm algorithm;
  Collective collective;
  int ranks;
  std::uint64_t count;
  int channels;
  std::uint64_t partial_bytes = kElementBytes;
  std::uint64_t slice_bytes = 5 * kElementBytes;
  int root = 0;
  const Mesh* mesh = nullptr;
  const RootTrees* root_trees = nullptr;
  const TorusShape* torus = nullptr;
};

/// All channels on all ranks.
inline std::vector<RankModel> run_case(const Case& what) {
  std::vector<RankModel> ranks(static_cast<std::size_t>(what.ranks));
  for (int rank = 0; rank < what.ranks; ++rank) {
    const std::uint64_t all = what.count * static_cast<std::uint64_t>(what.ranks);
    const bool blocks_in = what.collective == Collective::kReduceScatter;
    const bool blocks_out = what.collective == Collective::kAllGather;
    RankModel& model = ranks[static_cast<std::size_t>(rank)];
    model.input.assign(blocks_in ? all : what.count, Element{.who = std::uint64_t{1} << rank});
    model.output.assign(blocks_out ? all : what.count, Element{});
  }
  for (int channel = 0; channel < what.channels; ++channel) {
    Wires wires;
    for (int rank = 0; rank < what.ranks; ++rank) {
      RankModel& model = ranks[static_cast<std::size_t>(rank)];
      PlanRequest request{.collective = what.collective, .rank = rank, .ranks = what.ranks, .root = what.root};
      request.count = what.count;
      request.element_bytes = kElementBytes;
      request.partial_bytes = what.partial_bytes;
      request.channel = channel;
      request.channels = what.channels;
      request.slice_bytes_max = what.slice_bytes;
      request.mesh = what.mesh;
      request.root_trees = what.root_trees;
      request.torus = what.torus;
      model.schedule = make_schedule(what.algorithm, request);
      const LocalCopy& copy = model.schedule.copy;
      for (std::uint64_t i = 0; i < copy.count; ++i) {
        model.output.at(copy.output_offset + i) = model.input.at(copy.input_offset + i);
      }
      model.ended = false;
      model.begin_round();
    }
    // One rank moves first whenever it can, so that different orders are met.
    RankModel& eager = ranks[static_cast<std::size_t>(channel % what.ranks)];
    for (bool moved = true; moved;) {
      moved = false;
      while (eager.pass(wires)) moved = true;
      for (RankModel& model : ranks) moved |= model.pass(wires);
    }
    for (const RankModel& model : ranks) CHECK_MESSAGE(model.ended, "rank ", model.schedule.request.rank, " is stuck");
    for (const auto& [ends, wire] : wires) CHECK(wire.empty());
  }
  return ranks;
}

inline bool all_equal(const std::vector<Element>& values, std::uint64_t who) {
  return std::all_of(values.begin(), values.end(), [&](const Element& value) { return value == Element{.who = who}; });
}
inline std::uint64_t everybody(int ranks) { return (std::uint64_t{1} << ranks) - 1; }

inline std::uint64_t edges(const Case& what) { return static_cast<std::uint64_t>(what.ranks - 1); }

inline void gathered_once(const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
  for (const RankModel& model : ranks) {
    for (std::uint64_t i = 0; i < model.output.size(); ++i) {
      CHECK(model.output[i] == Element{.who = std::uint64_t{1} << (i / what.count)});
    }
  }
  CHECK(sent == ranks.size() * edges(what) * what.count * kElementBytes);
}

}  // namespace meshbed::test
