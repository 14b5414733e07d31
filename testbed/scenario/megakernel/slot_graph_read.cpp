// A slot graph's file, read: each slot as a table of fields, then the names in it looked up.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "testbed/base/closest_name.h"
#include "testbed/scenario/megakernel/slot_graph_spec.h"
#include "testbed/scenario/scenario.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {

namespace {

void read_speed(const toml::node& node, GraphSpec& out, Diagnostics& diagnostics) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) return diagnostics.add(node.source(), "speed: expects a list of numbers, one for each rank");
  for (const toml::node& each : *list) {
    const auto value = each.value<double>();
    if (!value || !(*value > 0.001) || *value > 1000) {
      return diagnostics.add(each.source(),
                             "speed: expects numbers from 0.001 to 1000; 0.8: computes take 1.25 times as long");
    }
    out.speed.push_back(*value);
  }
}

template <typename Spec>
void read_tables(const toml::node& node, const char* name, std::vector<Spec>& out, Diagnostics& diagnostics) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) {
    return diagnostics.add(node.source(), fmt::format("{0}: expects [[{0}]] tables, or {0} = [{{...}}, ...]", name));
  }
  for (const toml::node& each : *list) Value(each, name, diagnostics).table(out.emplace_back());
}

GraphSpec read_toml(const toml::table& table, Diagnostics& diagnostics) {
  GraphSpec spec;
  spec.place = table.source();
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    if (name == "ranks") {
      Value(node, "ranks", diagnostics).integer(spec.ranks, {1, kGraphRanksMost});
    } else if (name == "speed") {
      read_speed(node, spec, diagnostics);
    } else if (name == "slot") {
      read_tables(node, "slot", spec.slots, diagnostics);
    } else if (name == "loop") {
      read_tables(node, "loop", spec.loops, diagnostics);
    } else if (name == "tenant") {
      read_tables(node, "tenant", spec.tenants, diagnostics);
    } else {
      refuse_key(key, node, "a slot graph", {"ranks", "speed", "tenant", "loop", "slot"}, diagnostics);
    }
  }
  return spec;
}

/// `text`, which is JSON, as TOML; nothing where a slot graph has no such value.
std::optional<std::string> toml_of(const nlohmann::ordered_json& json) {
  if (json.is_string() || json.is_number() || json.is_boolean()) return json.dump();
  if (json.is_object()) {
    std::string fields;
    for (const auto& [key, value] : json.items()) {
      const auto one = toml_of(value);
      if (!one) return std::nullopt;
      fields += (fields.empty() ? "" : ", ") + nlohmann::json(key).dump() + " = " + *one;
    }
    return "{" + fields + "}";
  }
  if (!json.is_array()) return std::nullopt;
  std::string text = "[";
  for (const nlohmann::ordered_json& each : json) {
    const auto one = toml_of(each);
    if (!one) return std::nullopt;
    text += (text.size() > 1 ? ", " : "") + *one;
  }
  return text + "]";
}

/// Each line as a TOML inline table on the same line, so that places are right.
std::string toml_of_lines(const std::string& text, const std::string& path, Diagnostics& diagnostics) {
  std::string keys, slots = "slot = [";
  std::istringstream in(text);
  std::uint32_t number = 0;
  bool is_first = true;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const Place place{{number, 1}, {number, 1}, std::make_shared<const std::string>(path)};
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      slots += "\n";
      continue;
    }
    const nlohmann::ordered_json json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!json.is_object()) {
      diagnostics.add(place, "expects one JSON object a line");
      continue;
    }
    std::string entry;
    for (const auto& [key, value] : json.items()) {
      const auto written = toml_of(value);
      if (!written) {
        diagnostics.add(place, fmt::format("'{}': expects text, a number, true, false, or a list or object of them",
                                           key.substr(0, 64)));
        continue;
      }
      entry += (entry.empty() ? "" : ", ") + nlohmann::json(key).dump() + " = " + *written;
    }
    // The first line may have the file's own keys, which stand behind the list, so that lines stay where they are.
    if (is_first && json.contains("ranks")) {
      for (const auto& [key, value] : json.items()) {
        if (const auto written = toml_of(value)) keys += nlohmann::json(key).dump() + " = " + *written + "\n";
      }
      slots += "\n";
    } else {
      slots += "{" + entry + "},\n";
    }
    is_first = false;
  }
  return slots + "]\n" + keys;
}

class Names {
 public:
  Names(const GraphSpec& spec, const GraphArrivals& arrivals, SlotGraph& graph, Diagnostics& diagnostics)
      : spec_(spec), arrivals_(arrivals), graph_(graph), diagnostics_(diagnostics) {}

  void look_up() {
    ids_.resize(graph_.ranks.size());
    std::vector<std::size_t> next(graph_.ranks.size());
    for (const GraphSlotSpec& slot : spec_.slots) {
      if (slot.rank >= static_cast<int>(ids_.size())) {
        diagnostics_.add(slot.at("rank"), fmt::format("rank: there is no rank {}; ranks = {}", slot.rank, ids_.size()));
        continue;
      }
      const auto rank = static_cast<std::size_t>(slot.rank);
      const std::size_t index = next[rank]++;
      if (slot.id.empty()) continue;
      if (!ids_[rank].emplace(slot.id, index).second) {
        diagnostics_.add(slot.at("id"),
                         fmt::format("id: rank {} has two slots '{}'", slot.rank, slot.id.substr(0, 64)));
      }
    }
    if (!diagnostics_.empty()) return;
    for (const GraphSlotSpec& slot : spec_.slots)
      graph_.ranks[static_cast<std::size_t>(slot.rank)].push_back(slot_of(slot));
  }

 private:
  GraphSlot slot_of(const GraphSlotSpec& said) const {
    GraphSlot slot{.place = said.place, .id = said.id};
    slot.mark = mark_of(said);
    slot.op = static_cast<GraphOp>(std::find(kGraphOps.begin(), kGraphOps.end(), said.op) - kGraphOps.begin());
    for (const auto& [text, place] : said.needs) {
      if (const auto need = need_of(text, said.rank, place)) slot.needs.push_back(*need);
    }
    slot.time_ns = static_cast<std::uint64_t>(static_cast<double>(said.time_ps) / kPicosecondsPerNanosecond /
                                                  graph_.speed[static_cast<std::size_t>(said.rank)] +
                                              0.5);
    slot.peer = said.peer;
    slot.channel = said.channel;
    slot.bytes = slot.op == GraphOp::kReduce ? static_cast<std::uint64_t>(said.elements) : said.bytes;
    slot.form =
        static_cast<coll::Form>(std::find(kGraphForms.begin(), kGraphForms.end(), said.form) - kGraphForms.begin());
    slot.from = area_of(said, "from", said.from, coll::Space::kInput);
    slot.with = area_of(said, "with", said.with, coll::Space::kInput);
    slot.to = area_of(said, "to", said.to, slot.op == GraphOp::kWait ? coll::Space::kStaging : coll::Space::kOutput);
    slot.lands = slot.op == GraphOp::kWait && said.has("to");
    slot.begins = said.begins;
    slot.on_chip = said.on_chip;
    check(said, slot);
    return slot;
  }

  SlotMark mark_of(const GraphSlotSpec& said) const {
    SlotMark mark;
    const auto tenant = std::find_if(spec_.tenants.begin(), spec_.tenants.end(),
                                     [&](const GraphTenantSpec& one) { return one.name == said.tenant; });
    std::uint64_t arrives_ns = 0;
    std::string priority = said.priority;
    if (tenant != spec_.tenants.end()) {
      const auto index = static_cast<std::size_t>(tenant - spec_.tenants.begin());
      mark.tenant = static_cast<ring::Word>(index);
      const std::vector<std::uint64_t>& arrivals = arrivals_[index];
      if (said.iteration < arrivals.size()) arrives_ns = arrivals[said.iteration];
      if (!said.has("priority")) priority = tenant->priority;
    } else if (!said.tenant.empty()) {
      std::vector<std::string> names;
      for (const GraphTenantSpec& one : spec_.tenants) names.push_back(one.name);
      const std::string close = closest_name(said.tenant, names);
      diagnostics_.add(said.at("tenant"),
                       fmt::format("tenant: there is no [[tenant]] '{}'{}", said.tenant.substr(0, 64),
                                   close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
    }
    const auto level = std::find(kGraphLevels.begin(), kGraphLevels.end(), priority);
    mark.level = static_cast<ring::Word>(level - kGraphLevels.begin());
    mark.arrives_ns = arrives_ns + static_cast<std::uint64_t>(said.at_ps / kPicosecondsPerNanosecond);
    return mark;
  }

  void check(const GraphSlotSpec& said, const GraphSlot& slot) const {
    const auto only = [&](const char* key, bool read) {
      if (said.has(key) && !read) {
        diagnostics_.add(said.at(key), fmt::format("{}: op = \"{}\" does not read it; leave it out", key, said.op));
      }
    };
    const bool puts = slot.op == GraphOp::kPut, reduces = slot.op == GraphOp::kReduce,
               copies = slot.op == GraphOp::kCopy;
    only("time", slot.op == GraphOp::kCompute);
    only("peer", puts);
    only("channel", puts);
    only("bytes", puts || copies);
    only("elements", reduces);
    only("form", reduces);
    only("on_chip", reduces && slot.form != coll::Form::kOnly);
    only("from", puts || reduces || copies);
    only("with", reduces);
    only("to", reduces || copies || slot.op == GraphOp::kWait);
    const int ranks = static_cast<int>(graph_.ranks.size());
    if (puts && (slot.peer < 0 || slot.peer >= ranks || slot.peer == said.rank)) {
      diagnostics_.add(said.at("peer"), fmt::format("peer: a put needs another rank, 0 to {}; it has {}", ranks - 1,
                                                    slot.peer < 0 ? "none" : std::to_string(slot.peer)));
    }
    if ((puts || copies) && slot.bytes == 0) {
      diagnostics_.add(said.at("bytes"), fmt::format("bytes: a {} of nothing; give bytes", said.op));
    }
    if (reduces && slot.bytes == 0)
      diagnostics_.add(said.at("elements"), "elements: a reduce of nothing; give elements");
    constexpr std::uint64_t kTimeMost_ns = 0xffff'ffff;
    if (slot.time_ns > kTimeMost_ns) diagnostics_.add(said.at("time"), "time: a slot computes at most 4.29 s");
  }

  std::optional<GraphNeed> need_of(const std::string& text, int own, const Place& place) const {
    const std::size_t colon = text.find(':');
    int rank = own;
    if (colon != std::string::npos) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + colon, rank);
      if (error != std::errc() || end != text.data() + colon || rank < 0 || rank >= static_cast<int>(ids_.size())) {
        diagnostics_.add(
            place, fmt::format("needs: '{}' names no rank; there are 0 to {}", text.substr(0, 64), ids_.size() - 1));
        return std::nullopt;
      }
    }
    const std::string id = colon == std::string::npos ? text : text.substr(colon + 1);
    const auto& known = ids_[static_cast<std::size_t>(rank)];
    const auto found = known.find(id);
    if (found != known.end()) return GraphNeed{rank, found->second};
    std::vector<std::string> names;
    for (const auto& [name, index] : known) names.push_back(name);
    const std::string close = closest_name(id, names);
    diagnostics_.add(place, fmt::format("needs: rank {} has no slot '{}'{}", rank, id.substr(0, 64),
                                        close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
    return std::nullopt;
  }

  /// "input+4096"
  coll::Area area_of(const GraphSlotSpec& said, const char* key, const std::string& text, coll::Space otherwise) const {
    if (text.empty()) return {otherwise, 0};
    const std::size_t plus = text.find('+');
    const std::string name = text.substr(0, plus);
    const auto found = std::find(kGraphSpaces.begin(), kGraphSpaces.end(), name);
    std::uint64_t offset = 0;
    bool is_number = plus == std::string::npos;
    if (!is_number) {
      const char* const end = text.data() + text.size();
      const auto [last, error] = std::from_chars(text.data() + plus + 1, end, offset);
      is_number = error == std::errc() && last == end && plus + 1 < text.size();
    }
    if (found == kGraphSpaces.end() || !is_number || offset > 0xffff'ffffU) {
      diagnostics_.add(said.at(key),
                       fmt::format("{}: '{}': expects SPACE or SPACE+BYTES, as in input+4096; spaces are {}", key,
                                   text.substr(0, 64), fmt::join(kGraphSpaces, ", ")));
      return {otherwise, 0};
    }
    return {static_cast<coll::Space>(found - kGraphSpaces.begin()), offset};
  }

  const GraphSpec& spec_;
  const GraphArrivals& arrivals_;
  SlotGraph& graph_;
  Diagnostics& diagnostics_;
  std::vector<std::map<std::string, std::size_t>> ids_;  // by rank
};

/// A message has one place where it lands.
void check_landings(const SlotGraph& graph, Diagnostics& diagnostics) {
  for (const std::vector<GraphSlot>& slots : graph.ranks) {
    std::map<std::pair<int, std::size_t>, const GraphSlot*> landed;
    const auto own = static_cast<int>(&slots - graph.ranks.data());
    for (const GraphSlot& slot : slots) {
      const auto is_message = [&](const GraphNeed& need) {
        const GraphSlot& other = graph.ranks[static_cast<std::size_t>(need.rank)][need.slot];
        return need.rank != own && other.op == GraphOp::kPut && other.peer == own;
      };
      const auto messages = std::count_if(slot.needs.begin(), slot.needs.end(), is_message);
      const auto elsewhere = std::find_if(slot.needs.begin(), slot.needs.end(), [&](const GraphNeed& need) {
        const GraphSlot& other = graph.ranks[static_cast<std::size_t>(need.rank)][need.slot];
        return other.op == GraphOp::kPut && other.peer != own;
      });
      if (slot.op == GraphOp::kWait && messages == 0 && elsewhere != slot.needs.end()) {
        const GraphSlot& put = graph.ranks[static_cast<std::size_t>(elsewhere->rank)][elsewhere->slot];
        diagnostics.add(slot.place, fmt::format("needs: '{}' of rank {} puts to rank {}, and this wait is of rank {}; "
                                                "its peer is wrong, or the wait's rank",
                                                put.id, elsewhere->rank, put.peer, own));
      } else if (slot.op == GraphOp::kWait && messages != 1) {
        diagnostics.add(slot.place,
                        fmt::format("needs: a wait needs one put to rank {}, as in needs = [\"0:ID\"]; this has {}",
                                    own, messages));
      }
      if (!slot.lands || messages != 1) continue;
      const GraphNeed& need = *std::find_if(slot.needs.begin(), slot.needs.end(), is_message);
      if (!landed.emplace(std::pair(need.rank, need.slot), &slot).second) {
        diagnostics.add(slot.place,
                        fmt::format("to: the message of '{}' of rank {} lands in two places",
                                    graph.ranks[static_cast<std::size_t>(need.rank)][need.slot].id, need.rank));
      }
    }
  }
}

}  // namespace

SlotGraph parse_slot_graph(const std::string& text, const std::string& path, Diagnostics& diagnostics) {
  SlotGraph graph{.path = path};
  const bool is_lines = path.size() > 6 && path.compare(path.size() - 6, 6, ".jsonl") == 0;
  const std::string toml = is_lines ? toml_of_lines(text, path, diagnostics) : text;
  if (!diagnostics.empty()) return graph;
  GraphSpec spec = read_toml(parse_toml(toml, path), diagnostics);
  if (!diagnostics.empty()) return graph;
  if (spec.slots.empty()) {
    diagnostics.add("a slot graph needs [[slot]] tables; meshbed ring program decode prints one");
    return graph;
  }
  if (spec.ranks == 0) {
    for (const GraphSlotSpec& slot : spec.slots) spec.ranks = std::max(spec.ranks, slot.rank + 1);
  }
  graph.ranks.resize(static_cast<std::size_t>(spec.ranks));
  if (!spec.speed.empty() && spec.speed.size() != graph.ranks.size()) {
    diagnostics.add(fmt::format("speed: {} numbers for {} ranks", spec.speed.size(), spec.ranks));
    return graph;
  }
  graph.speed = spec.speed.empty() ? std::vector<double>(graph.ranks.size(), 1.0) : spec.speed;
  check_graph_names(spec, diagnostics);
  if (diagnostics.empty()) expand_graph_loops(spec, diagnostics);
  const GraphArrivals arrivals = graph_arrivals(spec, path, diagnostics);
  if (!diagnostics.empty()) return graph;
  for (const GraphTenantSpec& tenant : spec.tenants) graph.tenants.push_back(tenant.name);
  Names(spec, arrivals, graph, diagnostics).look_up();
  if (diagnostics.empty()) check_landings(graph, diagnostics);
  return graph;
}

SlotGraph read_slot_graph(const std::string& path) {
  Diagnostics diagnostics(path);
  SlotGraph graph = parse_slot_graph(read_scenario_text(path), path, diagnostics);
  diagnostics.throw_if_any();
  return graph;
}

}  // namespace meshbed::testbed
