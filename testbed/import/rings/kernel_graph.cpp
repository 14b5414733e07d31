// Traced kernels as a slot graph.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/coll/plan/plan.h"
#include "testbed/import/rings/ring_import.h"

namespace meshbed::testbed::rings {
namespace {

using coll::Area;
using coll::Range;
using coll::Space;

constexpr std::size_t kTracedRanksMost = 64;
constexpr double kNsPerUs = 1000;
/// A slot's time and places have 32 bits; the buffers take turns.
constexpr double kTimeMost_ns = 4e9;
constexpr std::uint64_t kBytesMost = 1ULL << 31U;

bool is_exchange(const TracedKernel& kernel) { return !kernel.exchange.collective.empty(); }

/// The messages of the ranks' collectives. Two buffers take turns: a rank that begins a collective knows by the one
/// before it that the others have left the one before that.
class Exchanges {
 public:
  Exchanges(SlotGraph& graph, std::uint64_t bytes_most, std::uint64_t element_bytes)
      : graph_(graph),
        world_(graph.ranks.size()),
        bytes_most_(aligned(bytes_most + world_ * element_bytes)),
        element_bytes_(element_bytes) {}

  /// `after`: [rank] what has to be done before; returns each rank's last slot.
  std::vector<GraphNeed> add(const std::string& collective, std::uint64_t bytes, const std::string& name,
                             const std::vector<std::vector<GraphNeed>>& after) {
    name_ = name;
    buffer_ = (number_++ % 2) * bytes_most_;
    ends_ = after;
    if (collective == "all_to_all") {
      pairs(bytes);
    } else {
      ring(collective, bytes);
    }
    std::vector<GraphNeed> last;
    for (std::size_t rank = 0; rank < world_; ++rank) {
      last.push_back(add_slot(rank, {.id = name_ + ".end", .needs = ends_[rank]}));
    }
    return last;
  }

 private:
  static std::uint64_t aligned(std::uint64_t bytes) {
    constexpr std::uint64_t kAlignment = 64;
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  GraphNeed add_slot(std::size_t rank, GraphSlot slot) {
    graph_.ranks[rank].push_back(std::move(slot));
    return {.rank = static_cast<int>(rank), .slot = graph_.ranks[rank].size() - 1};
  }

  /// Bytes of a rank's chunk.
  Range chunk(std::uint64_t bytes, std::size_t index) const {
    const Range elements = coll::part_of(bytes / element_bytes_, world_, index % world_);
    return {elements.begin * element_bytes_, elements.count * element_bytes_};
  }

  /// Steps as in plugin/coll/plan/plan.h: data go from each rank to the next one.
  void ring(const std::string& collective, std::uint64_t bytes) {
    const bool reduces = collective == "all_reduce" || collective == "reduce_scatter";
    const bool gathers = collective == "all_reduce" || collective == "all_gather";
    if (collective == "broadcast" || collective == "reduce") return chain(bytes, collective == "reduce");
    for (std::size_t step = 0; reduces && step + 1 < world_; ++step) ring_step(bytes, step, world_ - 1, true);
    for (std::size_t step = 0; gathers && step + 1 < world_; ++step) ring_step(bytes, step, 0, false);
  }

  /// Rank r sends chunk r + first - step. What comes lands beside the buffer where it is added, else in it.
  void ring_step(std::uint64_t bytes, std::size_t step, std::size_t first, bool adds) {
    std::vector<GraphNeed> sent(world_);
    for (std::size_t rank = 0; rank < world_; ++rank) {
      const Range out = chunk(bytes, rank + first + world_ - step);
      if (out.count == 0) continue;
      GraphSlot put{.id = fmt::format("{}.{}{}", name_, adds ? "send" : "pass", step), .op = GraphOp::kPut};
      put.needs = ends_[rank];
      put.peer = static_cast<int>((rank + 1) % world_);
      put.bytes = out.count;
      put.from = {.space = Space::kOutput, .offset_bytes = buffer_ + out.begin};
      sent[rank] = add_slot(rank, std::move(put));
      ends_[rank] = {sent[rank]};
    }
    for (std::size_t rank = 0; rank < world_; ++rank) {
      const std::size_t before = (rank + world_ - 1) % world_;
      const Range in = chunk(bytes, before + first + world_ - step);
      if (in.count == 0) continue;
      const Area place{.space = Space::kOutput, .offset_bytes = buffer_ + in.begin};
      GraphSlot wait{.id = fmt::format("{}.{}{}", name_, adds ? "come" : "get", step), .op = GraphOp::kWait};
      wait.needs = {sent[before]};
      wait.lands = true;
      wait.to = adds ? Area{.space = Space::kStaging, .offset_bytes = buffer_ + in.begin} : place;
      ends_[rank].push_back(add_slot(rank, std::move(wait)));
      if (!adds) continue;
      GraphSlot sum{.id = fmt::format("{}.add{}", name_, step), .op = GraphOp::kReduce, .needs = ends_[rank]};
      sum.bytes = in.count / element_bytes_;
      sum.from = {.space = Space::kStaging, .offset_bytes = buffer_ + in.begin};
      sum.with = sum.to = place;
      ends_[rank] = {add_slot(rank, std::move(sum))};
    }
  }

  /// From rank 0 on (broadcast) or to it (reduce); the end goes back to the first, so that it cannot run ahead.
  void chain(std::uint64_t bytes, bool adds) {
    const Area place{.space = Space::kOutput, .offset_bytes = buffer_};
    const auto rank_at = [&](std::size_t position) { return adds ? world_ - 1 - position : position; };
    std::optional<GraphNeed> sent;
    for (std::size_t position = 0; position < world_; ++position) {
      const std::size_t rank = rank_at(position);
      if (sent) {
        GraphSlot wait{.id = name_ + ".come", .op = GraphOp::kWait, .needs = {*sent}, .lands = true};
        wait.to = adds ? Area{.space = Space::kStaging, .offset_bytes = buffer_} : place;
        ends_[rank].push_back(add_slot(rank, std::move(wait)));
        if (adds) {
          GraphSlot sum{.id = name_ + ".add", .op = GraphOp::kReduce, .needs = ends_[rank]};
          sum.bytes = bytes / element_bytes_;
          sum.from = {.space = Space::kStaging, .offset_bytes = buffer_};
          sum.with = sum.to = place;
          ends_[rank] = {add_slot(rank, std::move(sum))};
        }
      }
      if (position + 1 == world_) break;
      GraphSlot put{.id = name_ + ".send", .op = GraphOp::kPut, .needs = ends_[rank]};
      put.peer = static_cast<int>(rank_at(position + 1));
      put.bytes = bytes;
      put.from = place;
      sent = add_slot(rank, std::move(put));
      ends_[rank] = {*sent};
    }
    const std::size_t last = rank_at(world_ - 1);
    for (std::size_t rank = 0; rank < world_; ++rank) {
      if (rank != last) ends_[rank].push_back(ends_[last].back());
    }
  }

  void pairs(std::uint64_t bytes) {
    std::map<std::pair<std::size_t, std::size_t>, GraphNeed> sent;
    std::vector<std::vector<GraphNeed>> ends(world_);
    for (std::size_t rank = 0; rank < world_; ++rank) {
      for (std::size_t step = 1; step < world_; ++step) {
        const std::size_t to = (rank + step) % world_;
        const Range out = chunk(bytes, to);
        if (out.count == 0) continue;
        GraphSlot put{.id = fmt::format("{}.to{}", name_, to), .op = GraphOp::kPut, .needs = ends_[rank]};
        put.peer = static_cast<int>(to);
        put.bytes = out.count;
        put.from = {.space = Space::kOutput, .offset_bytes = buffer_ + out.begin};
        sent[{rank, to}] = add_slot(rank, std::move(put));
        ends[rank].push_back(sent[{rank, to}]);
      }
    }
    for (std::size_t rank = 0; rank < world_; ++rank) {
      for (std::size_t step = 1; step < world_; ++step) {
        const std::size_t from = (rank + world_ - step) % world_;
        const auto put = sent.find({from, rank});
        if (put == sent.end()) continue;
        GraphSlot wait{.id = fmt::format("{}.of{}", name_, from), .op = GraphOp::kWait, .needs = {put->second}};
        wait.lands = true;
        wait.to = {.space = Space::kStaging, .offset_bytes = buffer_ + chunk(bytes, 0).count * from};
        ends[rank].push_back(add_slot(rank, std::move(wait)));
      }
      ends[rank].insert(ends[rank].end(), ends_[rank].begin(), ends_[rank].end());
    }
    ends_ = std::move(ends);
  }

  SlotGraph& graph_;
  std::size_t world_;
  std::uint64_t bytes_most_, element_bytes_, buffer_ = 0;
  std::size_t number_ = 0;
  std::string name_;
  std::vector<std::vector<GraphNeed>> ends_;  // [rank] what its next slot needs
};

/// A rank's kernels as they are turned into slots, in the order of their starts.
class RankKernels {
 public:
  RankKernels(const std::vector<TracedKernel>& kernels, std::vector<GraphSlot>& slots, int rank, std::string path)
      : kernels_(kernels), slots_(slots), rank_(rank), path_(std::move(path)) {}

  bool at_end() const { return next_ == kernels_.size(); }
  const TracedKernel& next() const { return kernels_[next_]; }

  /// What the next kernel needs, with the time that passed since as a slot.
  std::vector<GraphNeed> needs() {
    const TracedKernel& kernel = next();
    double ended_us = kernels_.front().start_us;
    std::vector<GraphNeed> needs;
    const Done* latest = nullptr;
    for (const Done& done : done_) {
      if (done.end_us <= kernel.start_us && (latest == nullptr || done.end_us >= latest->end_us)) latest = &done;
    }
    if (latest != nullptr) {
      needs.push_back(latest->slot);
      ended_us = latest->end_us;
    }
    // A kernel that began before the one in front of it had ended (programmatic dependent launch) did not wait for it.
    const auto before = streams_.find(kernel.stream);
    if (before != streams_.end() && before->second.end_us <= kernel.start_us &&
        (latest == nullptr || before->second.slot != latest->slot)) {
      needs.push_back(before->second.slot);
    }
    const double gap_us = kernel.start_us - ended_us;
    if (gap_us * kNsPerUs < 0.5) return needs;
    slots_.push_back({.id = fmt::format("gap{}", next_), .needs = std::move(needs)});
    slots_.back().time_ns = slot_ns(gap_us, "nothing runs");
    return {{.rank = rank_, .slot = slots_.size() - 1}};
  }

  void compute() {
    GraphSlot slot{.id = fmt::format("kernel{}", next_), .needs = needs()};
    slot.time_ns = slot_ns(next().duration_us, "it runs");
    slots_.push_back(std::move(slot));
    pass({.rank = rank_, .slot = slots_.size() - 1});
  }

  /// The next kernel's last slot is `slot`.
  void pass(const GraphNeed& slot) {
    const TracedKernel& kernel = next();
    const Done done{.end_us = kernel.start_us + kernel.duration_us, .slot = slot};
    streams_[kernel.stream] = done;
    // Only the one that ended last counts, and those that may end before the next one begins.
    done_.push_back(done);
    constexpr std::size_t kKept = 64;
    if (done_.size() > kKept) done_.erase(std::min_element(done_.begin(), done_.end(), ends_earlier));
    ++next_;
  }

 private:
  std::uint64_t slot_ns(double time_us, const char* what) const {
    const double ns = std::round(time_us * kNsPerUs);
    if (ns > kTimeMost_ns) {
      refuse(path_, fmt::format("kernel {} of rank {}, '{}': {} for {:.3f} s, and a slot takes at most {} s; cut the "
                                "trace, or choose a step of it with --step",
                                next_, rank_, next().name.substr(0, 64), what, time_us / 1e6, kTimeMost_ns / 1e9));
    }
    return static_cast<std::uint64_t>(ns);
  }

  struct Done {
    double end_us = 0;
    GraphNeed slot;
  };
  static bool ends_earlier(const Done& left, const Done& right) { return left.end_us < right.end_us; }

  const std::vector<TracedKernel>& kernels_;
  std::vector<GraphSlot>& slots_;
  int rank_;
  std::string path_;
  std::size_t next_ = 0;
  std::vector<Done> done_;
  std::map<std::string, Done> streams_;
};

/// Whether all ranks have the same collectives in the same order, with known bytes; else why not.
std::string why_kept(const std::vector<std::vector<TracedKernel>>& ranks) {
  if (ranks.size() < 2) return "there is one rank";
  const auto exchanges = [](const std::vector<TracedKernel>& kernels) {
    std::vector<const KernelExchange*> all;
    for (const TracedKernel& kernel : kernels) {
      if (is_exchange(kernel)) all.push_back(&kernel.exchange);
    }
    return all;
  };
  const auto first = exchanges(ranks.front());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto own = exchanges(ranks[rank]);
    if (own.size() != first.size()) {
      return fmt::format("rank 0 has {} collectives and rank {} has {}", first.size(), rank, own.size());
    }
    for (std::size_t index = 0; index < own.size(); ++index) {
      const KernelExchange &one = *first[index], &other = *own[index];
      if (one.collective == other.collective && one.bytes == other.bytes && one.group_size == other.group_size)
        continue;
      return fmt::format(
          "collective {} of rank 0 is {} of {} bytes in a group of {}, and that of rank {} is {} of {} in "
          "a group of {}",
          index, one.collective, one.bytes, one.group_size, rank, other.collective, other.bytes, other.group_size);
    }
  }
  return "";
}

/// A slot holds a lane from its claim on, also while it waits for its turn: of kernels that run at once, their gaps
/// too.
std::size_t lanes_for(const std::vector<std::vector<TracedKernel>>& ranks) {
  constexpr std::size_t kUsual = 8;
  std::size_t most = 0;
  for (const std::vector<TracedKernel>& kernels : ranks) {
    std::vector<std::pair<double, int>> changes;
    for (const TracedKernel& kernel : kernels) {
      changes.emplace_back(kernel.start_us, 1);
      changes.emplace_back(kernel.start_us + kernel.duration_us, -1);
    }
    std::sort(changes.begin(), changes.end());
    std::size_t now = 0;
    for (const auto& [time_us, change] : changes) {
      now = change > 0 ? now + 1 : now - 1;
      most = std::max(most, now);
    }
  }
  return std::max(kUsual, std::bit_ceil(2 * most + 2));
}

bool becomes_messages(const KernelExchange& exchange, std::size_t ranks) {
  return exchange.bytes >= exchange.element_bytes && (exchange.group_size == 0 || exchange.group_size == ranks);
}

}  // namespace

ImportedGraph import_kernels(const std::vector<std::vector<TracedKernel>>& ranks, const std::string& path) {
  if (ranks.empty() || ranks.size() > kTracedRanksMost) {
    refuse(path, fmt::format("{} ranks; a trace has 1 to {}", ranks.size(), kTracedRanksMost));
  }
  ImportedGraph imported{.lanes = lanes_for(ranks)};
  imported.graph.ranks.resize(ranks.size());
  imported.graph.speed.assign(ranks.size(), 1.0);
  std::uint64_t bytes_most = 0;
  std::map<std::string, std::size_t> without_bytes, of_groups, of_sizes;
  const std::string kept = why_kept(ranks);
  for (const TracedKernel& kernel : ranks.front()) {
    const KernelExchange& exchange = kernel.exchange;
    if (!is_exchange(kernel)) continue;
    if (exchange.bytes > kBytesMost) {
      refuse(path, fmt::format("{} of {} bytes; at most {}", exchange.collective, exchange.bytes, kBytesMost));
    }
    if (exchange.bytes == 0) {
      ++without_bytes[exchange.collective];
    } else if (exchange.bytes < exchange.element_bytes) {
      refuse(path, fmt::format("{} of {} bytes: an element has {}", exchange.collective, exchange.bytes,
                               exchange.element_bytes));
    } else if (!becomes_messages(exchange, ranks.size())) {
      ++of_groups[fmt::format("{} of a group of {}", exchange.collective, exchange.group_size)];
    } else {
      bytes_most = std::max(bytes_most, exchange.bytes);
      ++of_sizes[fmt::format("{}", exchange.element_bytes)];
      imported.element_bytes = exchange.element_bytes;
    }
  }
  if (of_sizes.size() > 1) imported.element_bytes = 1;  // added up byte by byte: the same bytes, no type's sums
  Exchanges exchanges(imported.graph, bytes_most, imported.element_bytes);
  std::vector<RankKernels> lists;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].empty()) refuse(path, fmt::format("rank {} has no kernel", rank));
    lists.emplace_back(ranks[rank], imported.graph.ranks[rank], static_cast<int>(rank), path);
  }
  std::vector<std::optional<GraphNeed>> before(ranks.size());
  for (std::size_t number = 0;;) {
    for (RankKernels& list : lists) {
      while (!list.at_end() &&
             (!kept.empty() || !is_exchange(list.next()) || !becomes_messages(list.next().exchange, ranks.size()))) {
        list.compute();
      }
    }
    if (lists.front().at_end()) break;
    std::vector<std::vector<GraphNeed>> after;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      after.push_back(lists[rank].needs());
      if (before[rank]) after.back().push_back(*before[rank]);
    }
    const KernelExchange& exchange = lists.front().next().exchange;
    const auto last =
        exchanges.add(exchange.collective, exchange.bytes, fmt::format("{}{}", exchange.collective, number++), after);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      before[rank] = last[rank];
      lists[rank].pass(last[rank]);
    }
  }
  if (!kept.empty() && std::any_of(ranks.front().begin(), ranks.front().end(), is_exchange)) {
    imported.notes.push_back("collectives keep their measured times: " + kept);
  } else {
    for (const auto& [collective, count] : without_bytes) {
      imported.notes.push_back(
          fmt::format("{} x {} keeps its measured time: the trace does not have its bytes (--bytes "
                      "{}=SIZE gives them)",
                      count, collective, collective));
    }
    for (const auto& [collective, count] : of_groups) {
      imported.notes.push_back(
          fmt::format("{} x {} keeps its measured time: there are {} ranks", count, collective, ranks.size()));
    }
  }
  return imported;
}

}  // namespace meshbed::testbed::rings
