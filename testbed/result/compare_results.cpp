#include "testbed/result/compare_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "testbed/base/json_text.h"

namespace meshbed::testbed {
namespace {

using document::integer, document::known_value, document::number, document::text;
using document::Value;
using json = nlohmann::json;

constexpr std::size_t kLinksShown = 5;
constexpr std::size_t kRowsShown = 20;

/// "+12.7 %"; empty where one of both has no time.
std::string change_text(double left, double right) {
  return left > 0 && right > 0 ? fmt::format("{:+.1f} %", 100 * (right / left - 1)) : "";
}

void widen(std::optional<double>& change, double left, double right) {
  if (!(left > 0 && right > 0)) return;
  change = std::max(change.value_or(0), std::abs(right / left - 1));
}

Value percent_or_null(double left, double right) {
  return known_value(left > 0 && right > 0, 100 * (right / left - 1));
}

document::Field percent(const char* meaning) {
  return number("change_percent", "%", meaning).or_null().shown("change %", 9, "  ").rounded(1);
}

/// Why a run is not right; empty: it is.
std::string fault_of(const json& summary) {
  if (summary.value("outcome", "finished") != "finished") return summary.at("outcome");
  if (const json errors = summary.value("errors", json::array()); !errors.empty()) {
    return "error: " + errors[0].value("class", "");
  }
  for (const json& proof : summary.at("proofs")) {
    if (!proof.at("ok").get<bool>()) return "broken proof: " + proof.at("name").get<std::string>();
  }
  const json wrong = summary.value("wrong", json());
  return wrong.is_number() && wrong != 0 ? fmt::format("{} elements are wrong", wrong.get<std::uint64_t>()) : "";
}

/// A timed operation of a run: in the mean over its iterations.
struct TimedOperation {
  std::string name;
  std::uint64_t bytes = 0;
  std::string way;  // algorithm, protocol and channels
  double time_ns = 0;
};

std::vector<TimedOperation> operations_of(const json& summary) {
  std::vector<TimedOperation> operations;
  const json times = summary.value("iteration_times", json::array());
  for (const json& one : summary.value("operations", json::array())) {
    if (!one.at("timed").get<bool>()) continue;
    const auto first = one.at("first_iteration").get<std::size_t>(), count = one.at("iterations").get<std::size_t>();
    double sum_ns = 0;
    std::size_t counted = 0;
    for (std::size_t index = first; index < std::min(first + count, times.size()); ++index, ++counted) {
      sum_ns += times[index].at("time_ns").get<double>();
    }
    operations.push_back({.name = one.at("operation"),
                          .bytes = one.at("bytes"),
                          .way = fmt::format("{} {} {}", one.at("algorithm").get<std::string>(),
                                             one.at("protocol").get<std::string>(), one.at("channels").get<int>()),
                          .time_ns = counted > 0 ? sum_ns / static_cast<double>(counted) : 0});
  }
  return operations;
}

document::Table operations_table(const json& left, const json& right) {
  document::Table table{.key = "operations", .meaning = "timed operations, in order", .columns = {}};
  table.columns = {text("operation", "collective").shown("operation", 15, "").left(),
                   integer("bytes", "B", "its size").shown("size (B)", 12),
                   number("left_us", "us", "mean over its iterations").or_null().shown("left (us)", 12).rounded(3),
                   number("right_us", "us", "likewise").or_null().shown("right (us)", 12).rounded(3),
                   percent("of the time"),
                   text("left_algorithm", "algorithm, protocol and channels").shown("left", 22, "  ").left(),
                   text("right_algorithm", "likewise").shown("right", 22).left()};
  const std::vector<TimedOperation> one = operations_of(left), other = operations_of(right);
  for (std::size_t index = 0; index < std::max(one.size(), other.size()); ++index) {
    const TimedOperation missing;
    const TimedOperation& before = index < one.size() ? one[index] : missing;
    const TimedOperation& after = index < other.size() ? other[index] : missing;
    const bool same = before.name == after.name || before.name.empty() || after.name.empty();
    table.add({before.name.empty() ? after.name
               : same              ? before.name
                                   : before.name + " / " + after.name,
               before.name.empty() ? after.bytes : before.bytes, known_value(before.time_ns > 0, before.time_ns / 1e3),
               known_value(after.time_ns > 0, after.time_ns / 1e3), percent_or_null(before.time_ns, after.time_ns),
               before.way, after.way});
  }
  return table;
}

struct LinkUse {
  std::uint64_t bytes = 0;
  double busy_us = 0;
};

std::map<std::string, LinkUse> links_of(const json& summary) {
  std::map<std::string, LinkUse> links;
  for (const json& link : summary.value("links", json::array())) {
    links[link.at("name")] = {link.at("wire_bytes"), link.at("busy_ps").get<double>() / 1e6};
  }
  return links;
}

/// Those that carried another number of bytes, or for another time; the greatest change first.
document::Table links_table(const json& left, const json& right) {
  document::Table table{.key = "links", .meaning = "links whose use differs, the greatest change first", .columns = {}};
  table.columns = {text("name", "from port to port").shown("link", 40, "").left(),
                   integer("left_bytes", "B", "on the wire").shown("left (B)", 14),
                   integer("right_bytes", "B", "likewise").shown("right (B)", 14),
                   number("left_busy_us", "us", "it carried something").shown("busy (us)", 12).rounded(1),
                   number("right_busy_us", "us", "likewise").shown("busy (us)", 12).rounded(1)};
  std::map<std::string, LinkUse> one = links_of(left), other = links_of(right);
  std::vector<std::pair<double, std::string>> order;
  std::set<std::string> names;
  for (const auto& each : one) names.insert(each.first);
  for (const auto& each : other) names.insert(each.first);
  for (const std::string& name : names) {
    const LinkUse before = one[name], after = other[name];
    if (before.bytes == after.bytes && before.busy_us == after.busy_us) continue;
    order.emplace_back(-std::abs(after.busy_us - before.busy_us), name);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [change, name] : order) {
    table.add({name, one[name].bytes, other[name].bytes, one[name].busy_us, other[name].busy_us});
  }
  return table;
}

std::string time_line(const char* what, const char* unit, double left, double right, double scale) {
  const auto value = [&](double number) { return number > 0 ? fmt::format("{:.3f} {}", number / scale, unit) : "-"; };
  return fmt::format("{:<9} {:>18} -> {:>18}  {}", what, value(left), value(right), change_text(left, right));
}

/// What a sweep measured of a point; its other keys are varied values and what failed, which name it.
constexpr const char* kMeasured[] = {"status",    "time_us",      "busbw_GBps", "ratio_baseline", "over_bound",
                                     "algorithm", "busiest_link", "low_us",     "high_us",        "reason"};

std::string name_of_point(const json& point) {
  std::string name;
  for (const auto& [key, value] : point.items()) {
    if (std::find(std::begin(kMeasured), std::end(kMeasured), key) != std::end(kMeasured) || value == "") continue;
    name += fmt::format("{}{}={}", name.empty() ? "" : " ", key,
                        value.is_string() ? value.get<std::string>() : json_text(value));
  }
  return name.empty() ? "the only point" : name;
}

}  // namespace

ResultComparison compare_runs(const json& left, const json& right) {
  const auto number_at = [](const json& summary, const char* key) {
    const json value = summary.value(key, json());
    return value.is_number() ? value.get<double>() : 0.0;
  };
  ResultComparison comparison{.section = {.title = "Comparison"}, .change = {}, .broken = ""};
  document::Section& section = comparison.section;
  const double before_ns = number_at(left, "time_ns"), after_ns = number_at(right, "time_ns");
  widen(comparison.change, before_ns, after_ns);
  section.with({number("left_time_ns", "ns", "of an iteration").or_null(),
                number("right_time_ns", "ns", "likewise").or_null(),
                number("change_percent", "%", "of the time").or_null()});
  section.set("left_time_ns", known_value(before_ns > 0, before_ns));
  section.set("right_time_ns", known_value(after_ns > 0, after_ns));
  section.set("change_percent", percent_or_null(before_ns, after_ns));
  section.with(operations_table(left, right)).with(links_table(left, right));
  section.line("{}", time_line("time", "us", before_ns, after_ns, 1e3));
  section.line("{}", time_line("busbw", "GB/s", number_at(left, "busbw_GBps"), number_at(right, "busbw_GBps"), 1));
  section.line("{:<9} {:>18} -> {:>18}", "messages", number_at(left, "messages"), number_at(right, "messages"));
  if (!section.table("operations").rows.empty()) {
    section.blank();
    section.show("operations", kRowsShown);
  }
  if (!section.table("links").rows.empty()) {
    section.blank();
    section.show("links", kLinksShown);
  }
  section.blank();
  const std::string one = fault_of(left), other = fault_of(right);
  if (one != other) {
    comparison.broken =
        fmt::format("left: {}; right: {}", one.empty() ? "right data" : one, other.empty() ? "right data" : other);
  }
  return comparison;
}

ResultComparison compare_sweeps(const json& left, const json& right) {
  ResultComparison comparison{.section = {.title = "Comparison"}, .change = {}, .broken = ""};
  document::Table table{
      .key = "points", .meaning = "points that differ, in the order of the left sweep", .columns = {}};
  table.columns = {text("point", "varied values, and what failed").shown("point", 56, "").left(),
                   number("left_us", "us", "its time").or_null().shown("left (us)", 12).rounded(3),
                   number("right_us", "us", "its time").or_null().shown("right (us)", 12).rounded(3),
                   percent("of the time"),
                   text("left_status", "as the sweep has it"),
                   text("right_status", "likewise")};
  std::map<std::string, json> others;
  for (const json& point : right.at("points")) others[name_of_point(point)] = point;
  const auto time_of = [](const json& point) {
    const json value = point.is_null() ? json() : point.at("time_us");
    return value.is_number() ? value.get<double>() : 0.0;
  };
  const auto status_of = [](const json& point) {
    return point.is_null() ? std::string("no such point") : point.at("status").get<std::string>();
  };
  std::size_t same = 0, slower = 0, faster = 0;
  const auto add = [&](const std::string& name, const json& one, const json& other) {
    const double before = time_of(one), after = time_of(other);
    widen(comparison.change, before, after);
    const std::string status = status_of(one), other_status = status_of(other);
    if (status != other_status && comparison.broken.empty()) {
      comparison.broken = fmt::format("{}: {} and {}", name, status, other_status);
    }
    if (status == other_status && before == after) {
      ++same;
      return;
    }
    if (before > 0 && after > 0) ++(after > before ? slower : faster);
    table.add({name, known_value(before > 0, before), known_value(after > 0, after), percent_or_null(before, after),
               status, other_status},
              status == other_status ? "" : status + " / " + other_status);
  };
  for (const json& point : left.at("points")) {
    const std::string name = name_of_point(point);
    const auto found = others.find(name);
    add(name, point, found == others.end() ? json() : found->second);
    if (found != others.end()) others.erase(found);
  }
  for (const auto& [name, point] : others) add(name, json(), point);
  document::Section& section = comparison.section;
  section.with({integer("same", "", "points with the same time and status"),
                integer("faster", "", "points that take less time on the right"),
                integer("slower", "", "points that take more time there")});
  section.set("same", same);
  section.set("faster", faster);
  section.set("slower", slower);
  section.with(std::move(table));
  section.line("{} points the same, {} faster, {} slower", same, faster, slower);
  if (!section.table("points").rows.empty()) {
    section.blank();
    section.show("points", kRowsShown);
  }
  section.blank();
  return comparison;
}

}  // namespace meshbed::testbed
