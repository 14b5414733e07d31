// Columns of integers: times in ticks, starts as the difference from the one before. A tick is a power of ten of
// picoseconds, the smallest for which the run has 1e8 ticks at most.

#include "testbed/page/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "plugin/ring/kernel/wait_chain.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/page/drawing.h"

namespace meshbed::testbed::page {
namespace {

using document::Row;

/// What stands in the lanes of one kind, sorted by start.
struct Items {
  Value lane = Value::array(), start = Value::array(), length = Value::array();
  std::int64_t last = 0;

  void add(std::size_t in_lane, std::int64_t from, std::int64_t to) {
    lane.push_back(in_lane);
    start.push_back(from - last);
    length.push_back(to - from);
    last = from;
  }
  Value take() { return {{"lane", std::move(lane)}, {"start", std::move(start)}, {"length", std::move(length)}}; }
};

/// Every so many-th of what is more than fits.
std::size_t stride_of(std::size_t count, std::size_t most) {
  return count <= most ? 1 : (count + most - 1) / std::max<std::size_t>(1, most);
}

struct SlotSpan {
  std::int64_t from_ps = 0, to_ps = 0;
  int rank = 0, ring = 0;
  std::uint32_t slot = 0, opcode = 0;
  std::string end;
};

/// From each claim to what ends it.
std::vector<SlotSpan> spans_of(const std::vector<SlotEvent>& events) {
  static const std::set<std::string, std::less<>> kEnds{"done", "yield", "requeue", "fault", "abandoned"};
  std::map<std::tuple<int, int, std::uint32_t>, std::int64_t> claimed;
  std::vector<SlotSpan> spans;
  for (const SlotEvent& event : events) {
    const std::tuple key(event.rank, event.ring, event.slot);
    if (event.event == "claim") claimed[key] = event.at_ps;
    if (!kEnds.contains(event.event)) continue;
    const auto found = claimed.find(key);
    if (found == claimed.end()) continue;
    spans.push_back({found->second, event.at_ps, event.rank, event.ring, event.slot, event.opcode, event.event});
    claimed.erase(found);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const SlotSpan& left, const SlotSpan& right) { return left.from_ps < right.from_ps; });
  return spans;
}

class Timeline {
 public:
  Timeline(const RunSource& source, const Budget& budget) : source_(source), budget_(budget) {
    const double span_ps = source.summary.at("simulated_ns").get<double>() * 1e3;
    while (span_ps / static_cast<double>(tick_ps_) > 1e8) tick_ps_ *= 10;
  }

  bool is_empty() const {
    return (!source_.messages || source_.messages->empty()) && source_.slots.empty() &&
           !source_.section("Calls").has_values;
  }

  std::string json() {
    add_rank_lanes();
    Value data{{"tick_ps", tick_ps_},
               {"end", ticks(static_cast<std::int64_t>(source_.summary.at("simulated_ns").get<double>() * 1e3))}};
    data["calls"] = calls();
    if (source_.messages) data["messages"] = messages();
    if (!source_.slots.empty()) data["slots"] = slots();
    data["faults"] = faults();
    data["lanes"] = std::move(lanes_);
    return json_text(data);
  }

  /// After json().
  std::string thinned() const {
    std::string text = fmt::format("Times are exact to {}.", time_text(tick_ps_));
    const auto part = [&](std::size_t stride, const char* what, std::size_t count) {
      if (stride > 1) {
        text += fmt::format(" One of {} of the {} {} is shown; the tables count all.", stride,
                            grouped(std::to_string(count)), what);
      }
    };
    part(message_stride_, "messages", source_.messages ? source_.messages->size() : 0);
    part(slot_stride_, "ring slots", slot_count_);
    if (!source_.messages) text += " The run kept no messages (--no-trace); run it again without that to see them.";
    if (unknown_ > 0) text += fmt::format(" {} without known times are left out.", counted(unknown_, "message"));
    return text;
  }

 private:
  std::int64_t ticks(std::int64_t time_ps) const { return time_ps / tick_ps_; }
  std::int64_t ticks_of_ns(const Value& time_ns) const {
    return ticks(static_cast<std::int64_t>(time_ns.get<double>() * 1e3));
  }

  std::size_t lane(const char* kind, const std::string& name) {
    const auto [found, is_new] = lane_of_.emplace(std::pair(std::string(kind), name), lanes_.size());
    if (is_new) lanes_.push_back({{"kind", kind}, {"name", name}});
    return found->second;
  }
  std::size_t rank_lane(int rank) {
    const Value& nodes = source_.summary.at("topology").at("rank_nodes");
    const auto index = static_cast<std::size_t>(rank);
    return lane("rank", rank >= 0 && index < nodes.size()
                            ? fmt::format("rank {} ({})", rank, nodes[index].get<std::string>())
                            : fmt::format("rank {}", rank));
  }
  void add_rank_lanes() {
    constexpr int kLanesMost = 512;
    const int ranks = std::min(kLanesMost, source_.summary.at("ranks").get<int>());
    for (int rank = 0; rank < ranks; ++rank) rank_lane(rank);
  }

  Value calls() {
    Items items;
    Value iterations = Value::array();
    if (source_.section("Calls").has_values) {
      std::vector<const Row*> rows;
      for (const Row& row : source_.table("Calls", "calls").rows) rows.push_back(&row);
      std::stable_sort(rows.begin(), rows.end(),
                       [](const Row* left, const Row* right) { return left->cells[2] < right->cells[2]; });
      for (const Row* row : rows) {
        items.add(rank_lane(row->cells[1]), ticks_of_ns(row->cells[2]), ticks_of_ns(row->cells[3]));
        iterations.push_back(row->cells[0]);
      }
    }
    Value data = items.take();
    data["iteration"] = std::move(iterations);
    data["name"] = source_.summary.at("collective");
    return data;
  }

  /// The lanes of what one port sends another: [sending rank, sending port, receiving port, link directions...].
  std::vector<std::size_t> lanes_between(const TracedMessage& message) {
    std::vector<std::size_t> lanes{rank_lane(message.source_rank), lane("nic", message.source + " sends"),
                                   lane("nic", message.destination + " receives")};
    for (const std::string& link : links_between(message)) lanes.push_back(lane("link", link));
    return lanes;
  }

  std::vector<std::string> links_between(const TracedMessage& message) {
    if (link_names_.empty()) {
      for (const LinkUse& link : links_of(source_)) link_names_.insert(link.name);
    }
    std::string direct = message.source + ">" + message.destination;
    if (link_names_.contains(direct)) return {std::move(direct)};
    // Over one switch or more: the first and the last link.
    std::vector<std::string> found;
    const auto up = link_names_.lower_bound(message.source + ">");
    if (up != link_names_.end() && up->rfind(message.source + ">", 0) == 0) found.push_back(*up);
    const std::string ending = ">" + message.destination;
    const auto down = std::find_if(link_names_.begin(), link_names_.end(), [&](const std::string& name) {
      return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0 &&
             name.find('/') >= name.find('>');  // from a switch, whose name has no port
    });
    if (down != link_names_.end()) found.push_back(*down);
    return found;
  }

  Value messages() {
    std::vector<const TracedMessage*> known;
    for (const TracedMessage& message : *source_.messages) {
      if (message.posted_ps >= 0 && end_of(message) >= message.posted_ps) known.push_back(&message);
    }
    unknown_ = source_.messages->size() - known.size();
    std::stable_sort(known.begin(), known.end(), [](const TracedMessage* left, const TracedMessage* right) {
      return left->posted_ps < right->posted_ps;
    });
    message_stride_ = stride_of(known.size(), budget_.messages);
    std::map<std::tuple<int, int, std::string, std::string>, std::size_t> pair_of;
    Value pairs = Value::array(), pair = Value::array(), start = Value::array(), wait = Value::array(),
          wire = Value::array(), length = Value::array(), bytes = Value::array(), opcode = Value::array(),
          names = Value::object();
    std::int64_t last = 0;
    for (std::size_t index = 0; index < known.size(); index += message_stride_) {
      const TracedMessage& message = *known[index];
      const auto [found, is_new] = pair_of.emplace(
          std::tuple(message.source_rank, message.destination_rank, message.source, message.destination), pairs.size());
      if (is_new)
        pairs.push_back(
            {{"from", message.source_rank}, {"to", message.destination_rank}, {"lanes", lanes_between(message)}});
      const std::int64_t posted = ticks(message.posted_ps);
      const std::int64_t started = message.started_ps < 0 ? posted : ticks(message.started_ps);
      const std::int64_t delivered = message.delivered_ps < 0 ? started : ticks(message.delivered_ps);
      pair.push_back(found->second);
      start.push_back(posted - last);
      wait.push_back(started - posted);
      wire.push_back(delivered - started);
      length.push_back(ticks(end_of(message)) - posted);
      bytes.push_back(message.payload_bytes);
      opcode.push_back(message.opcode);
      names[std::to_string(message.opcode)] = opcode_name(message.opcode);
      last = posted;
    }
    return {{"pairs", std::move(pairs)}, {"pair", std::move(pair)},     {"start", std::move(start)},
            {"wait", std::move(wait)},   {"wire", std::move(wire)},     {"length", std::move(length)},
            {"bytes", std::move(bytes)}, {"opcode", std::move(opcode)}, {"opcodes", std::move(names)}};
  }

  static std::int64_t end_of(const TracedMessage& message) {
    return message.completed_ps >= 0 ? message.completed_ps : message.delivered_ps;
  }

  Value slots() {
    const std::vector<SlotSpan> spans = spans_of(source_.slots);
    slot_count_ = spans.size();
    slot_stride_ = stride_of(spans.size(), budget_.messages / 2);
    bool several = false;
    for (const SlotSpan& span : spans) several = several || span.ring > 0;
    // Lanes in order of ranks, whichever is the first to claim.
    std::set<std::pair<int, int>> rings;
    for (const SlotSpan& span : spans) rings.emplace(span.rank, span.ring);
    const auto name = [&](int rank, int ring) {
      return several ? fmt::format("rank {}, ring {}", rank, ring) : fmt::format("ring of rank {}", rank);
    };
    for (const auto& [rank, ring] : rings) lane("ring", name(rank, ring));
    Items items;
    Value slot = Value::array(), opcode = Value::array(), end = Value::array(), names = Value::object();
    for (std::size_t index = 0; index < spans.size(); index += slot_stride_) {
      const SlotSpan& span = spans[index];
      items.add(lane("ring", name(span.rank, span.ring)), ticks(span.from_ps), ticks(span.to_ps));
      slot.push_back(span.slot);
      opcode.push_back(span.opcode);
      end.push_back(span.end);
      names[std::to_string(span.opcode)] = ring::operation_name(span.opcode);
    }
    Value data = items.take();
    data["slot"] = std::move(slot);
    data["opcode"] = std::move(opcode);
    data["opcodes"] = std::move(names);
    data["end"] = std::move(end);
    return data;
  }

  Value faults() const {
    Value faults = Value::array();
    for (const Row& row : source_.table("Faults", "faults").rows)
      faults.push_back({{"at", ticks_of_ns(row.cells[5])}, {"text", row.cells[0]}});
    return faults;
  }

  const RunSource& source_;
  const Budget& budget_;
  std::int64_t tick_ps_ = 1;
  std::map<std::pair<std::string, std::string>, std::size_t> lane_of_;
  Value lanes_ = Value::array();
  std::set<std::string> link_names_;
  std::size_t message_stride_ = 1, slot_stride_ = 1, slot_count_ = 0, unknown_ = 0;
};

}  // namespace

std::string timeline_html(const RunSource& source, const std::string& prefix, const Budget& budget) {
  Timeline timeline(source, budget);
  if (timeline.is_empty()) return "";
  const std::string json = timeline.json();
  return note_html("Each rank, port, direction of a link and work ring on one time line. " + timeline.thinned()) +
         "<noscript><p class=\"note\">The timeline needs JavaScript; all other parts of this page do "
         "not.</p></noscript>\n" +
         fmt::format("<div class=\"timeline\" data-timeline=\"{}-data\"></div>\n", prefix) +
         data_html(prefix + "-data", json);
}

}  // namespace meshbed::testbed::page
