// Loops of a slot graph, written out.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "testbed/base/closest_name.h"
#include "testbed/scenario/megakernel/slot_graph_spec.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kSlotsMost = 1 << 20;  // of a ring, and of all loops together

/// "RANK:ID@ITERATION" in its parts. `ok` is false where the iteration is no number.
struct NeedText {
  std::string rank, id;
  std::optional<std::int64_t> iteration{};  // negative: so many before
  bool ok = true;
};

NeedText parts_of(const std::string& text) {
  NeedText parts;
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) parts.rank = text.substr(0, colon);
  parts.id = colon == std::string::npos ? text : text.substr(colon + 1);
  const std::size_t at = parts.id.find('@');
  if (at == std::string::npos) return parts;
  std::int64_t number = 0;
  const char* const end = parts.id.data() + parts.id.size();
  const auto [last, error] = std::from_chars(parts.id.data() + at + 1, end, number);
  parts.ok = error == std::errc() && last == end && at + 1 < parts.id.size();
  parts.iteration = number;
  parts.id.resize(at);
  return parts;
}

class LoopWriter {
 public:
  LoopWriter(GraphSpec& spec, Diagnostics& diagnostics) : spec_(spec), diagnostics_(diagnostics) {}

  void run() {
    for (const GraphLoopSpec& loop : spec_.loops) counts_[loop.name] = loop.count;
    for (const GraphSlotSpec& slot : spec_.slots) {
      if (!slot.loop.empty() && !counts_.contains(slot.loop)) unknown_loop(slot);
      if (!slot.id.empty()) loop_of_[{slot.rank, slot.id}] = slot.loop;
    }
    if (!diagnostics_.empty()) return;
    std::vector<GraphSlotSpec> written;
    std::map<int, std::vector<const GraphSlotSpec*>> by_rank;
    for (const GraphSlotSpec& slot : spec_.slots) by_rank[slot.rank].push_back(&slot);
    for (const auto& [rank, slots] : by_rank) {
      std::set<std::string> over;
      for (std::size_t begin = 0; begin < slots.size();) {
        const std::string& loop = slots[begin]->loop;
        std::size_t end = begin + 1;
        while (end < slots.size() && slots[end]->loop == loop) ++end;
        if (!loop.empty() && !over.insert(loop).second) {
          return diagnostics_.add(slots[begin]->at("loop"),
                                  fmt::format("loop: the slots of '{}' on rank {} do not stand together; put the other "
                                              "slots before or behind them",
                                              loop, rank));
        }
        const std::int64_t count = loop.empty() ? 1 : counts_.at(loop);
        for (std::int64_t iteration = 0; iteration < count; ++iteration) {
          for (std::size_t at = begin; at < end; ++at) {
            written.push_back(one(*slots[at], iteration));
            if (written.size() <= kSlotsMost) continue;
            return diagnostics_.add(slots[at]->place, fmt::format("loop: more than {} slots in all", kSlotsMost));
          }
        }
        if (!diagnostics_.empty()) return;
        begin = end;
      }
    }
    spec_.slots = std::move(written);
  }

 private:
  void unknown_loop(const GraphSlotSpec& slot) {
    std::vector<std::string> names;
    for (const auto& [name, count] : counts_) names.push_back(name);
    const std::string close = closest_name(slot.loop, names);
    diagnostics_.add(slot.at("loop"), fmt::format("loop: there is no [[loop]] '{}'{}", slot.loop.substr(0, 64),
                                                  close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
  }

  GraphSlotSpec one(const GraphSlotSpec& slot, std::int64_t iteration) {
    GraphSlotSpec result = slot;
    result.iteration = static_cast<std::uint64_t>(iteration);
    if (!slot.loop.empty() && !slot.id.empty()) result.id = fmt::format("{}@{}", slot.id, iteration);
    result.needs.clear();
    for (const auto& need : slot.needs) {
      if (auto text = need_in(slot, need, iteration)) result.needs.push_back({std::move(*text), need.place});
    }
    for (std::string GraphSlotSpec::*area : {&GraphSlotSpec::from, &GraphSlotSpec::with, &GraphSlotSpec::to}) {
      result.*area = area_in(slot, slot.*area, iteration);
    }
    return result;
  }

  /// Nothing: there is no such iteration yet.
  std::optional<std::string> need_in(const GraphSlotSpec& slot, const Located<std::string>& need,
                                     std::int64_t iteration) {
    const NeedText parts = parts_of(need.value);
    int rank = slot.rank;
    if (!parts.rank.empty()) std::from_chars(parts.rank.data(), parts.rank.data() + parts.rank.size(), rank);
    const auto found = loop_of_.find({rank, parts.id});
    const std::string loop = found == loop_of_.end() ? "" : found->second;
    const auto wrong = [&](const std::string& text) {
      diagnostics_.add(need.place, fmt::format("needs: '{}': {}", need.value.substr(0, 64), text));
      return std::nullopt;
    };
    if (!parts.ok) return wrong("expects a number behind '@', as in 'sum@-1' or 'sum@3'");
    if (loop.empty()) {
      if (parts.iteration && found != loop_of_.end()) return wrong("is in no loop; leave out '@' and its number");
      return need.value;
    }
    const std::int64_t count = counts_.at(loop);
    const bool is_same = loop == slot.loop;
    std::int64_t at = is_same ? iteration : count - 1;
    if (parts.iteration && *parts.iteration >= 0) {
      at = *parts.iteration;
      if (at >= count) return wrong(fmt::format("'{}' has iterations 0 to {}", loop, count - 1));
    } else if (parts.iteration) {
      if (!is_same) return wrong(fmt::format("counts back, and this slot is not in loop '{}'", loop));
      at += *parts.iteration;
      if (at < 0) return std::nullopt;
    }
    return fmt::format("{}{}@{}", parts.rank.empty() ? "" : parts.rank + ":", parts.id, at);
  }

  /// "input+4096*i": so many bytes further in each iteration.
  std::string area_in(const GraphSlotSpec& slot, const std::string& text, std::int64_t iteration) {
    constexpr std::string_view kTimes = "*i";
    if (!text.ends_with(kTimes)) return text;
    const std::size_t plus = text.rfind('+');
    std::uint64_t stride = 0, base = 0;
    const std::size_t first_plus = text.find('+');
    bool ok = plus != std::string::npos && !slot.loop.empty();
    if (ok) {
      const char* const end = text.data() + text.size() - kTimes.size();
      const auto [last, error] = std::from_chars(text.data() + plus + 1, end, stride);
      ok = error == std::errc() && last == end;
    }
    if (ok && first_plus != plus) {
      const auto [last, error] = std::from_chars(text.data() + first_plus + 1, text.data() + plus, base);
      ok = error == std::errc() && last == text.data() + plus;
    }
    if (!ok) {
      diagnostics_.add(slot.place, fmt::format("'{}': expects SPACE+BYTES*i or SPACE+BYTES+BYTES*i, in a slot with a "
                                               "loop",
                                               text.substr(0, 64)));
      return text;
    }
    return fmt::format("{}+{}", text.substr(0, first_plus), base + stride * static_cast<std::uint64_t>(iteration));
  }

  GraphSpec& spec_;
  Diagnostics& diagnostics_;
  std::map<std::string, std::int64_t> counts_;
  std::map<std::pair<int, std::string>, std::string> loop_of_;  // by rank and id; "": none
};

template <typename Spec>
void check_names(const std::vector<Spec>& all, const char* what, Diagnostics& diagnostics) {
  std::set<std::string> known;
  for (const Spec& one : all) {
    if (one.name.empty()) {
      diagnostics.add(one.place, fmt::format("name: a [[{}]] has one, by which slots are of it", what));
    } else if (!known.insert(one.name).second) {
      diagnostics.add(one.at("name"), fmt::format("name: there are two [[{}]] '{}'", what, one.name.substr(0, 64)));
    }
  }
}

}  // namespace

void check_graph_names(const GraphSpec& spec, Diagnostics& diagnostics) {
  check_names(spec.loops, "loop", diagnostics);
  check_names(spec.tenants, "tenant", diagnostics);
  for (const GraphLoopSpec& loop : spec.loops) {
    if (!loop.has("count")) diagnostics.add(loop.place, "count: a [[loop]] has one, its iterations");
  }
  for (const GraphSlotSpec& slot : spec.slots) {
    if (slot.id.find_first_of(":@") != std::string::npos) {
      diagnostics.add(slot.at("id"), "id: has no ':' or '@', which stand between rank, id and iteration");
    }
  }
  for (const GraphTenantSpec& tenant : spec.tenants) {
    const auto goes_with = [&](const char* key, bool fits, const char* process) {
      if (tenant.has(key) == fits) return;
      diagnostics.add(tenant.at(fits ? "arrivals" : key),
                      fits ? fmt::format("arrivals = \"{}\" needs {}", tenant.arrivals, key)
                           : fmt::format("{}: goes with arrivals = {}", key, process));
    };
    const std::string& process = tenant.arrivals;
    goes_with("gap", process == "periodic" || process == "poisson" || process == "bursts",
              "\"periodic\", \"poisson\" or \"bursts\"");
    goes_with("burst", process == "bursts", "\"bursts\"");
    goes_with("times", process == "recorded", "\"recorded\"");
    if (tenant.has("seed") && process != "poisson")
      diagnostics.add(tenant.at("seed"), "seed: goes with arrivals = \"poisson\"");
  }
}

void expand_graph_loops(GraphSpec& spec, Diagnostics& diagnostics) { LoopWriter(spec, diagnostics).run(); }

}  // namespace meshbed::testbed
