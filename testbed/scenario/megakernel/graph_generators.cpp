#include "testbed/scenario/megakernel/graph_generators.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "plugin/base/prng.h"
#include "testbed/base/files.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/megakernel/slot_programs.h"

namespace meshbed::testbed {
namespace {

using coll::Area;
using coll::Space;

Error wrong_key(const std::string& text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = text};
}

/// [first, end) of `all` that part `index` of `parts` has.
struct Share {
  std::size_t first = 0, end = 0;
};
Share share_of(std::size_t all, std::size_t parts, std::size_t index) {
  return {.first = all * index / parts, .end = all * (index + 1) / parts};
}

/// Slots of one rank, with the places of what they name.
class RankMaker {
 public:
  RankMaker(std::vector<GraphSlot>& slots, int rank) : slots_(slots), rank_(rank) {}

  GraphNeed add(GraphSlot slot) {
    slots_.push_back(std::move(slot));
    return {.rank = rank_, .slot = slots_.size() - 1};
  }
  /// Room in a space that nothing else gets.
  Area room(Space space, std::uint64_t bytes) {
    constexpr std::uint64_t kAlignment = 64;
    std::uint64_t& used = used_[static_cast<std::size_t>(space)];
    const Area area{.space = space, .offset_bytes = used};
    used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return area;
  }

 private:
  std::vector<GraphSlot>& slots_;
  int rank_;
  std::array<std::uint64_t, coll::kSpaces> used_{};
};

struct MoeMaker {
  const Workload& workload;
  const Routing& routing;
  int ranks;
  const Megakernel& settings = workload.megakernel;
  std::uint64_t element_bytes = coll::size_of(parse_data_type("dtype", workload.dtype));
  bool dispatches = settings.phase != "combine", combines = settings.phase != "dispatch";
  std::uint64_t dispatch_bytes =
      token_bytes(settings.dispatch_dtype) + static_cast<std::uint64_t>(settings.dispatch_extra);
  std::uint64_t combine_bytes = token_bytes(settings.combine_dtype);
  std::vector<std::vector<std::uint64_t>> counts{};         // [rank][expert] tokens
  std::vector<std::vector<std::vector<GraphNeed>>> sent{};  // [rank][expert][message] the slot that sends it there
  std::vector<std::vector<std::vector<GraphNeed>>> made{};  // likewise: that sends it back; its own: what it needs
  SlotGraph graph{};

  std::uint64_t token_bytes(const std::string& dtype) const {
    return coll::size_of(parse_data_type("dtype", dtype)) * static_cast<std::uint64_t>(settings.hidden);
  }
  int rank_of_expert(std::size_t expert) const {
    return static_cast<int>(expert * static_cast<std::size_t>(ranks) / routing.experts);
  }

  void count() {
    const auto world = static_cast<std::size_t>(ranks);
    counts.assign(world, std::vector<std::uint64_t>(routing.experts));
    for (std::size_t rank = 0; rank < world; ++rank) {
      const auto [first, end] = share_of(routing.tokens.size(), world, rank);
      for (std::size_t token = first; token < end; ++token) {
        for (const std::size_t expert : routing.tokens[token]) ++counts[rank][expert];
      }
    }
  }

  std::uint64_t messages() const {
    std::uint64_t all = 0;
    for (const std::vector<std::uint64_t>& of_rank : counts) {
      for (const std::uint64_t tokens : of_rank) {
        const auto most = static_cast<std::uint64_t>(settings.message_tokens);
        all += most > 0 ? (tokens + most - 1) / most : std::min<std::uint64_t>(tokens, 1);
      }
    }
    return all;
  }

  /// Once count() is done.
  SlotGraph make() {
    const auto world = static_cast<std::size_t>(ranks);
    graph.ranks.resize(world);
    graph.speed.resize(world);
    for (std::size_t rank = 0; rank < world; ++rank) graph.speed[rank] = speed_of(settings, static_cast<int>(rank));
    sent.assign(world, std::vector<std::vector<GraphNeed>>(routing.experts));
    made = sent;
    std::vector<RankMaker> makers;
    for (std::size_t rank = 0; rank < world; ++rank) makers.emplace_back(graph.ranks[rank], static_cast<int>(rank));
    // Each rank sends all that it has before it waits for anything.
    for (std::size_t rank = 0; dispatches && rank < world; ++rank) dispatch(makers[rank], rank);
    for (std::size_t rank = 0; rank < world; ++rank) compute(makers[rank], rank);
    for (std::size_t rank = 0; combines && rank < world; ++rank) combine(makers[rank], rank);
    return std::move(graph);
  }

  /// [message] the tokens of each: all of an expert's, or so many at a time.
  std::vector<std::uint64_t> messages_of(std::uint64_t tokens) const {
    const auto most = settings.message_tokens > 0 ? static_cast<std::uint64_t>(settings.message_tokens) : tokens;
    std::vector<std::uint64_t> messages;
    for (; tokens > 0; tokens -= messages.back()) messages.push_back(std::min(most, tokens));
    return messages;
  }
  /// "to5" of a single message, else "to5#2".
  static std::string name_of(std::string name, std::size_t messages, std::size_t message) {
    return messages == 1 ? std::move(name) : fmt::format("{}#{}", name, message);
  }

  void dispatch(RankMaker& maker, std::size_t rank) {
    // The next rank's experts first, so that not all send to the same one at once.
    for (std::size_t step = 1; step <= static_cast<std::size_t>(ranks); ++step) {
      const std::size_t to = (rank + step) % static_cast<std::size_t>(ranks);
      for (std::size_t expert = 0; expert < routing.experts; ++expert) {
        if (rank_of_expert(expert) != static_cast<int>(to)) continue;
        const std::vector<std::uint64_t> messages = messages_of(counts[rank][expert]);
        for (std::size_t message = 0; message < messages.size(); ++message) {
          GraphSlot slot{.id = name_of(fmt::format("to{}", expert), messages.size(), message),
                         .bytes = messages[message] * dispatch_bytes};
          slot.from = maker.room(Space::kInput, slot.bytes);
          slot.op = to == rank ? GraphOp::kCopy : GraphOp::kPut;
          if (to == rank) {
            slot.to = maker.room(Space::kWork, slot.bytes);
          } else {
            slot.peer = static_cast<int>(to);
          }
          sent[rank][expert].push_back(maker.add(std::move(slot)));
        }
      }
    }
  }

  /// The rank has the tokens of an expert of its own. Returns what the expert needs.
  std::vector<GraphNeed> receive(RankMaker& maker, std::size_t rank, std::size_t expert) {
    std::vector<GraphNeed> needs;
    for (std::size_t step = static_cast<std::size_t>(ranks); step > 0; --step) {
      const std::size_t from = (rank + step) % static_cast<std::size_t>(ranks);
      if (from == rank) {
        needs.insert(needs.end(), sent[rank][expert].begin(), sent[rank][expert].end());
        continue;
      }
      const std::vector<std::uint64_t> messages = messages_of(counts[from][expert]);
      for (std::size_t message = 0; message < messages.size(); ++message) {
        GraphSlot wait{.id = name_of(fmt::format("of{}.{}", from, expert), messages.size(), message),
                       .op = GraphOp::kWait,
                       .needs = {sent[from][expert][message]}};
        wait.to = maker.room(Space::kWork, messages[message] * dispatch_bytes);
        wait.lands = true;
        needs.push_back(maker.add(std::move(wait)));
      }
    }
    return needs;
  }

  void compute(RankMaker& maker, std::size_t rank) {
    for (std::size_t expert = 0; expert < routing.experts; ++expert) {
      if (rank_of_expert(expert) != static_cast<int>(rank)) continue;
      GraphSlot work{.id = fmt::format("expert{}", expert), .op = GraphOp::kCompute};
      if (dispatches) work.needs = receive(maker, rank, expert);
      std::vector<GraphNeed> computed;  // none where results are there from the beginning
      if (dispatches && combines && !work.needs.empty()) {
        std::uint64_t tokens = 0;
        for (const std::vector<std::uint64_t>& from : counts) tokens += from[expert];
        const double ns = static_cast<double>(settings.compute_ps) / kPicosecondsPerNanosecond *
                          static_cast<double>(tokens) / graph.speed[rank];
        work.time_ns = static_cast<std::uint64_t>(ns + 0.5);
        computed.push_back(maker.add(std::move(work)));
      }
      if (combines) send_back(maker, rank, expert, computed);
    }
  }

  void send_back(RankMaker& maker, std::size_t rank, std::size_t expert, const std::vector<GraphNeed>& computed) {
    for (std::size_t step = 1; step <= static_cast<std::size_t>(ranks); ++step) {
      const std::size_t to = (rank + step) % static_cast<std::size_t>(ranks);
      if (to == rank) {
        made[rank][expert] = computed;
        continue;
      }
      const std::vector<std::uint64_t> messages = messages_of(counts[to][expert]);
      for (std::size_t message = 0; message < messages.size(); ++message) {
        GraphSlot back{.id = name_of(fmt::format("back{}.{}", to, expert), messages.size(), message),
                       .op = GraphOp::kPut,
                       .needs = computed,
                       .peer = static_cast<int>(to),
                       .channel = 1,
                       .bytes = messages[message] * combine_bytes};
        back.from = maker.room(Space::kMade, back.bytes);
        made[to][expert].push_back(maker.add(std::move(back)));
      }
    }
  }

  void combine(RankMaker& maker, std::size_t rank) {
    const auto [first, end] = share_of(routing.tokens.size(), static_cast<std::size_t>(ranks), rank);
    const Area output = maker.room(Space::kOutput, (end - first) * combine_bytes);
    std::optional<GraphNeed> before;
    for (std::size_t step = 0; step < static_cast<std::size_t>(ranks); ++step) {
      const std::size_t from = (rank + step) % static_cast<std::size_t>(ranks);
      for (std::size_t expert = 0; expert < routing.experts; ++expert) {
        if (rank_of_expert(expert) != static_cast<int>(from)) continue;
        const std::vector<std::uint64_t> messages = messages_of(counts[rank][expert]);
        for (std::size_t message = 0; message < messages.size(); ++message) {
          const std::uint64_t bytes = messages[message] * combine_bytes;
          GraphSlot sum{.id = name_of(fmt::format("sum{}", expert), messages.size(), message),
                        .op = GraphOp::kReduce,
                        .bytes = bytes / element_bytes};
          sum.with = sum.to = output;
          sum.from = maker.room(Space::kStaging, bytes);
          if (from == rank) {
            sum.needs = made[rank][expert];
          } else {
            GraphSlot wait{.id = name_of(fmt::format("made{}", expert), messages.size(), message),
                           .op = GraphOp::kWait,
                           .needs = {made[rank][expert][message]}};
            wait.to = sum.from;
            wait.lands = true;
            sum.needs.push_back(maker.add(std::move(wait)));
          }
          // The tokens of one expert are added up at a time.
          if (before) sum.needs.push_back(*before);
          before = maker.add(std::move(sum));
        }
      }
    }
  }
};

SlotGraph task_graph(const Workload& workload, int ranks) {
  const Megakernel& settings = workload.megakernel;
  const auto world = static_cast<std::size_t>(ranks);
  const auto steps = static_cast<std::size_t>(settings.layers), parts = static_cast<std::size_t>(settings.parts);
  SlotGraph graph;
  graph.ranks.resize(world);
  std::vector<RankMaker> makers;
  for (std::size_t rank = 0; rank < world; ++rank) {
    graph.speed.push_back(speed_of(settings, static_cast<int>(rank)));
    makers.emplace_back(graph.ranks[rank], static_cast<int>(rank));
  }
  std::vector<std::vector<GraphNeed>> tasks(world, std::vector<GraphNeed>(parts)), sent = tasks;
  for (std::size_t step = 0; step < steps; ++step) {
    const auto tasks_before = tasks, sent_before = sent;
    for (std::size_t rank = 0; rank < world; ++rank) {
      const std::size_t next = (rank + 1) % world, before = (rank + world - 1) % world;
      for (std::size_t part = 0; part < parts; ++part) {
        GraphSlot task{.id = fmt::format("task{}.{}", step, part)};
        task.time_ns = static_cast<std::uint64_t>(
            static_cast<double>(settings.compute_ps / kPicosecondsPerNanosecond) / graph.speed[rank] + 0.5);
        if (step > 0) {
          task.needs.push_back(tasks_before[rank][part]);
          if (workload.bytes == 0) {
            task.needs.push_back(tasks_before[next][part]);
          } else {
            GraphSlot wait{
                .id = fmt::format("come{}.{}", step, part), .op = GraphOp::kWait, .needs = {sent_before[next][part]}};
            wait.to = makers[rank].room(Space::kStaging, workload.bytes);
            wait.lands = true;
            task.needs.push_back(makers[rank].add(std::move(wait)));
          }
        }
        tasks[rank][part] = makers[rank].add(std::move(task));
        if (workload.bytes == 0 || step + 1 == steps) continue;
        GraphSlot put{.id = fmt::format("send{}.{}", step, part),
                      .op = GraphOp::kPut,
                      .needs = {tasks[rank][part]},
                      .peer = static_cast<int>(before),
                      .channel = static_cast<int>(part),
                      .bytes = workload.bytes};
        put.from = {.space = Space::kInput, .offset_bytes = part * workload.bytes};
        sent[rank][part] = makers[rank].add(std::move(put));
      }
    }
  }
  return graph;
}

}  // namespace

Result<Routing> parse_routing(const std::string& text, const std::string& path, int top_k) {
  Routing routing;
  std::istringstream in(text);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    std::vector<double> scores;
    const char* const begin = line.data();
    const char* const end = begin + line.size();
    for (const char* at = begin; at != end;) {
      if (*at == ' ' || *at == '\t' || *at == ',' || *at == '\r') {
        ++at;
        continue;
      }
      double score = 0;
      const auto [last, error] = std::from_chars(at, end, score);
      if (error != std::errc() || !(score >= 0)) {
        return wrong_key(
            fmt::format("{}:{}:{}: expects a score, 0 or more, for each expert", path, number, at - begin + 1));
      }
      scores.push_back(score);
      at = last;
    }
    if (scores.empty()) continue;
    if (routing.experts == 0) routing.experts = scores.size();
    if (scores.size() != routing.experts) {
      return wrong_key(fmt::format("{}:{}: {} scores; the lines before have {}, one for each expert", path, number,
                                   scores.size(), routing.experts));
    }
    std::vector<std::size_t> experts;
    for (std::size_t expert = 0; expert < scores.size(); ++expert) {
      if (scores[expert] > 0) experts.push_back(expert);
    }
    if (top_k > 0) {
      const auto wanted = static_cast<std::size_t>(top_k);
      if (experts.size() < wanted) {
        return wrong_key(
            fmt::format("{}:{}: top_k = {}, and {} scores are above 0", path, number, top_k, experts.size()));
      }
      std::stable_sort(experts.begin(), experts.end(),
                       [&](std::size_t left, std::size_t right) { return scores[left] > scores[right]; });
      experts.resize(wanted);
      std::sort(experts.begin(), experts.end());
    }
    routing.tokens.push_back(std::move(experts));
  }
  if (routing.tokens.empty()) {
    return wrong_key(fmt::format("{}: expects a line for each token, with a score for each expert", path));
  }
  return routing;
}

Routing random_routing(std::size_t tokens, std::size_t experts, std::size_t top_k, std::uint64_t seed) {
  Routing routing{.experts = experts, .tokens = std::vector<std::vector<std::size_t>>(tokens)};
  Prng random(seed);
  std::vector<std::size_t> order(experts);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::vector<std::size_t>& chosen : routing.tokens) {
    // The first steps of a shuffle; where the last token's left off is as good a beginning as any.
    for (std::size_t at = 0; at < top_k; ++at) std::swap(order[at], order[at + random.below(experts - at)]);
    chosen.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top_k));
    std::sort(chosen.begin(), chosen.end());
  }
  return routing;
}

namespace {

Result<Routing> routing_of_file(const Megakernel& settings, int ranks, const std::string& scenario_path) {
  const std::string path = (std::filesystem::path(scenario_path).parent_path() / settings.routing).string();
  std::string text;
  try {
    text = read_text_file(path);
  } catch (const std::runtime_error& error) {
    return wrong_key(fmt::format("routing: {}", error.what()));
  }
  Result<Routing> routing = parse_routing(text, path, settings.top_k);
  if (!routing) return wrong_key("routing: " + routing.error().text);
  if (routing->experts < static_cast<std::size_t>(ranks)) {
    return wrong_key(
        fmt::format("routing: {}: {} experts for {} ranks; each rank has one at least", path, routing->experts, ranks));
  }
  if (routing->tokens.size() < static_cast<std::size_t>(ranks)) {
    return wrong_key(fmt::format("routing: {}: {} tokens for {} ranks; each rank has one at least", path,
                                 routing->tokens.size(), ranks));
  }
  return routing;
}

Result<Routing> drawn_routing(const Megakernel& settings, int ranks, std::uint64_t seed) {
  constexpr int kUsualTopK = 8;
  const int top_k = settings.top_k > 0 ? settings.top_k : kUsualTopK;
  if (settings.experts < ranks) {
    return wrong_key(fmt::format("experts: {} for {} ranks; each rank has one at least", settings.experts, ranks));
  }
  if (top_k > settings.experts) {
    return wrong_key(fmt::format("top_k: {}, and there are {} experts", top_k, settings.experts));
  }
  return random_routing(static_cast<std::size_t>(settings.tokens) * static_cast<std::size_t>(ranks),
                        static_cast<std::size_t>(settings.experts), static_cast<std::size_t>(top_k), seed);
}

}  // namespace

bool is_generated_graph(const Megakernel& settings) {
  return settings.program == "task_graph" || (settings.program == "moe" && !settings.routing.empty());
}

Result<SlotGraph> generate_slot_graph(const Workload& workload, int ranks, const std::string& scenario_path,
                                      std::uint64_t seed) {
  const Megakernel& settings = workload.megakernel;
  if (settings.program == "task_graph") return task_graph(workload, ranks);
  Result<Routing> routing = settings.routing == kRandomRouting ? drawn_routing(settings, ranks, seed)
                                                               : routing_of_file(settings, ranks, scenario_path);
  if (!routing) return routing.error();
  MoeMaker maker{.workload = workload, .routing = *routing, .ranks = ranks};
  if (maker.combine_bytes % maker.element_bytes != 0) {
    return wrong_key(
        fmt::format("combine_dtype: a token of {} bytes is not a whole number of {} (dtype), in which it is "
                    "added up",
                    maker.combine_bytes, workload.dtype));
  }
  maker.count();
  constexpr std::uint64_t kMessagesMost = 1 << 20;
  if (const std::uint64_t messages = maker.messages(); messages > kMessagesMost) {
    return wrong_key(
        fmt::format("message_tokens: {} messages to the experts; at most {}: more tokens in each, or fewer", messages,
                    kMessagesMost));
  }
  return maker.make();
}

}  // namespace meshbed::testbed
