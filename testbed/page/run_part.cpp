#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/page/chart.h"
#include "testbed/page/drawing.h"
#include "testbed/page/parts.h"
#include "testbed/page/timeline.h"

namespace meshbed::testbed::page {
namespace {

using document::Field;
using document::Row;
using document::Section;
using document::Table;

double number_of(const Value& object, const char* key) {
  return object.at(key).is_null() ? 0 : object.at(key).get<double>();
}

std::vector<const Row*> broken(const Table& checks) {
  std::vector<const Row*> rows;
  for (const Row& row : checks.rows) {
    if (!row.cells[1].get<bool>()) rows.push_back(&row);
  }
  return rows;
}

/// The first reason why the run failed.
std::string reason_of(const RunSource& source) {
  const Table& errors = source.table("Failures", "errors");
  if (!errors.rows.empty()) {
    return fmt::format("rank {}: {}", errors.rows.front().cells[0].get<int>(),
                       errors.rows.front().cells[3].get<std::string>());
  }
  for (const char* table : {"proofs", "expected"}) {
    if (const auto rows = broken(source.table("Checks", table)); !rows.empty()) {
      return fmt::format("{}: {}", rows.front()->cells[0].get<std::string>(),
                         rows.front()->cells[2].get<std::string>());
    }
  }
  const std::string outcome = source.summary.at("outcome");
  return outcome == "finished" ? "see the checks below" : outcome;
}

/// The whole is in the table of failures.
std::string shortened(const std::string& reason) {
  constexpr std::size_t kMost = 240;
  if (reason.size() <= kMost) return reason;
  return reason.substr(0, reason.find_last_of(' ', kMost)) + " ...";
}

std::string lead_of(const RunSource& source) {
  const Value& summary = source.summary;
  const auto ranks = summary.at("ranks").get<std::uint64_t>();
  const auto bytes = summary.at("bytes").get<std::uint64_t>();
  const std::string what = fmt::format("{}{} on {}", summary.at("collective").get<std::string>(),
                                       bytes > 0 ? " of " + size_text(bytes) : "", counted(ranks, "rank"));
  std::string lead = what;
  const double time_ns = number_of(summary, "time_ns");
  const auto iterations = summary.at("iterations").get<std::uint64_t>();
  if (time_ns > 0)
    lead += fmt::format(" took {}{}", short_time(time_ns),
                        iterations > 1 ? fmt::format(" an iteration, on average over {}", iterations) : "");
  const double over = number_of(summary, "over_bound"), busbw = number_of(summary, "busbw_GBps");
  if (over > 0) lead += fmt::format(", {:.2f} times the lower bound of this cabling", over);
  if (time_ns > 0 && busbw > 0) lead += fmt::format("{} a bus bandwidth of {:.2f} GB/s", over > 0 ? ":" : ",", busbw);
  lead += ".";
  if (const std::size_t faults = source.table("Faults", "faults").rows.size(); faults > 0) {
    lead += fmt::format(" {}: {}{}.", counted(faults, "fault step"),
                        source.table("Faults", "faults").rows.front().cells[0].get<std::string>(),
                        faults > 1 ? ", ..." : "");
  }
  const std::size_t checks =
      source.table("Checks", "proofs").rows.size() + source.table("Checks", "expected").rows.size();
  if (summary.at("passed").get<bool>() && !source.table("Failures", "errors").rows.empty()) {
    lead += " As the scenario expects, it ends with an error: " + shortened(reason_of(source)) + ".";
  }
  if (summary.at("passed").get<bool>()) {
    lead += fmt::format(" {} hold.", checks == 1 ? "1 check" : fmt::format("All {} checks", checks));
  } else {
    lead += " It failed: " + shortened(reason_of(source));
    if (lead.back() != '.') lead += ".";
  }
  return lead;
}

std::string tiles(const RunSource& source) {
  const Value& summary = source.summary;
  std::string html = "<dl class=\"tiles\">\n";
  if (const double time_ns = number_of(summary, "time_ns"); time_ns > 0) {
    html += tile_html("Time", short_time(time_ns),
                      fmt::format("{} timed, {} warm-up", summary.at("iterations").get<std::uint64_t>(),
                                  summary.at("warmup_iterations").get<std::uint64_t>()));
  }
  if (const double busbw = number_of(summary, "busbw_GBps"); busbw > 0) {
    html += tile_html("Bus bandwidth", fmt::format("{:.2f} GB/s", busbw),
                      fmt::format("algorithm {:.2f} GB/s", number_of(summary, "algbw_GBps")));
  }
  if (const double over = number_of(summary, "over_bound"); over > 0) {
    html += tile_html("Over the bound", fmt::format("{:.3f} ×", over),
                      "bound " + short_time(number_of(summary, "bound_ns")));
  }
  html += tile_html("Messages", grouped(std::to_string(summary.at("messages").get<std::uint64_t>())),
                    counted(summary.at("retransmissions").get<std::uint64_t>(), "retransmission"));
  if (!summary.at("wrong").is_null()) {
    html += tile_html("Wrong elements", grouped(std::to_string(summary.at("wrong").get<std::uint64_t>())),
                      "of " + grouped(std::to_string(summary.at("checked").get<std::uint64_t>())) + " checked");
  }
  if (const Section& rings = source.section("Rings"); rings.has_values) {
    html += tile_html("Ring slots", grouped(std::to_string(summary.at("rings").at("slots_done").get<std::uint64_t>())),
                      "done");
  }
  html += tile_html("Simulated", short_time(number_of(summary, "simulated_ns")),
                    "world: " + summary.at("world").get<std::string>());
  return html + "</dl>\n";
}

/// Columns "what" and "value".
std::string values_html(const std::vector<std::pair<Field, Value>>& fields, const std::string& caption) {
  std::string rows;
  for (const auto& [field, value] : fields) {
    if (field.varies || value.is_null() || (value.is_array() && value.empty()) || value == "") continue;
    std::string name = field.key;
    std::replace(name.begin(), name.end(), '_', ' ');
    const std::string unit = cell_unit(field);
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"v\">{}{}</td><td>{}</td></tr>\n", xml_text(name),
                        xml_text(cell_text(field, value)), unit.empty() ? "" : " " + xml_text(unit),
                        xml_text(field.meaning));
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr><th scope=\"col\">what</th><th "
      "scope=\"col\">value</th><th scope=\"col\">meaning</th></tr></thead>\n<tbody>{1}</tbody></table></div>\n",
      xml_text(caption), rows);
}

/// "each rank over its timed calls" -> "Each rank over its timed calls."
std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text + ".";
}

std::string table_of(const Table& table, const Budget& budget, std::vector<std::string_view> hidden = {}) {
  return table_html(table, {.caption = sentence(table.meaning),
                            .hidden = std::move(hidden),
                            .rows_max = std::min<std::size_t>(500, budget.rows)});
}

std::string generic_html(const Section& section, const Budget& budget) {
  if (!section.has_values) return "";
  std::string html = values_html(section.fields, section.title + ".");
  for (const Table& table : section.tables) html += table_of(table, budget);
  return html;
}

std::string iterations_html(const RunSource& source, const Budget& budget) {
  constexpr std::size_t kColumnsMost = 400, kMarksMost = 12;
  const Value& summary = source.summary;
  const Table& times = source.table("Iterations", "iteration_times");
  // Elsewhere ranks have clocks of their own, and faults the time of their host.
  const bool simulated = !summary.at("fabric").is_null();
  ColumnChart chart{.title = "Time of each iteration in the order in which they ran",
                    .x_name = simulated ? "since the start of the run, ms" : "since the first iteration, ms",
                    .y_name = "time, µs"};
  for (std::size_t index = 0; index < std::min(times.rows.size(), kColumnsMost); ++index) {
    const double start_ns = times.rows[index].cells[0], time_ns = times.rows[index].cells[1];
    chart.columns.push_back({start_ns / 1e6, (start_ns + time_ns) / 1e6, time_ns / 1e3});
  }
  if (const double bound_ns = number_of(summary, "bound_ns"); bound_ns > 0) {
    chart.level = bound_ns / 1e3;
    chart.level_name = "lower bound: " + short_time(bound_ns);
  }
  const Table& faults = source.table("Faults", "faults");
  for (std::size_t index = 0; simulated && index < std::min(faults.rows.size(), kMarksMost); ++index) {
    const double at_ns = faults.rows[index].cells[5];
    chart.marks.push_back(
        {at_ns / 1e6, fmt::format("{} at {}", faults.rows[index].cells[0].get<std::string>(), short_time(at_ns))});
  }
  std::string html;
  // One column says nothing that the tiles do not, unless there is a fault to see beside it.
  if (times.rows.size() > 1 || (!times.rows.empty() && !chart.marks.empty())) {
    html += "<div class=\"scroll figure\" tabindex=\"0\" role=\"region\" aria-label=\"Chart of iterations\">" +
            column_svg(chart) + "</div>\n";
    if (times.rows.size() > kColumnsMost)
      html += note_html(fmt::format("The first {} of {} iterations.", kColumnsMost, times.rows.size()));
  }
  html += table_of(source.table("Result", "fault_phases"), budget);
  Table table{.key = "iterations",
              .meaning = "the timed iterations, in order",
              .columns = {document::integer("iteration", "", "its number"),
                          document::number("start_ns", "ns",
                                           simulated ? "since the start of the run" : "since the first iteration"),
                          document::number("time_ns", "ns", "of the iteration"),
                          document::number("busbw", "GB/s", "as nccl-tests defines it"),
                          document::number("over_bound", "", "time over the lower bound").or_null()}};
  const double busbw_ns = number_of(summary, "busbw_GBps") * number_of(summary, "time_ns"),
               bound_ns = number_of(summary, "bound_ns");
  for (const Row& row : times.rows) {
    const double time_ns = row.cells[1];
    table.add({table.rows.size(), row.cells[0], row.cells[1], time_ns > 0 ? busbw_ns / time_ns : 0,
               document::known_value(bound_ns > 0, time_ns / std::max(bound_ns, 1e-9))});
  }
  return html +
         table_html(
             table,
             {.caption = sentence(table.meaning), .hidden = {}, .rows_max = std::min<std::size_t>(100, budget.rows)}) +
         table_of(source.table("Result", "cases"), budget, {"data"});
}

std::string arrival_html(const RunSource& source, const Budget& budget) {
  if (!source.section("Calls").has_values) return "";
  return note_html(
             "Skew: from the first rank's call to the last rank's. A collective cannot end before its last rank has "
             "called it.") +
         table_of(source.table("Calls", "by_rank"), budget) +
         table_html(source.table("Calls", "iterations"), {.caption = "Each collective; warm-ups have negative numbers.",
                                                          .hidden = {},
                                                          .rows_max = std::min<std::size_t>(100, budget.rows)});
}

std::string problems_html(const RunSource& source, const Budget& budget) {
  std::string html = table_of(source.table("Failures", "errors"), budget);
  const Value& waiters = source.summary.at("waiters");
  if (!waiters.empty()) {
    html += "<p>What waits for what:</p><ul>";
    for (const Value& waiter : waiters) html += "<li>" + xml_text(waiter.get<std::string>()) + "</li>";
    html += "</ul>\n";
  }
  return html;
}

std::string provenance_html(const RunSource& source) {
  // Not the command line, the scenario's path and the compiler: they may differ where the digest is equal.
  constexpr std::array kShown{std::pair{"meshbed", "the version that ran it"},
                              std::pair{"scenario_sha256", "of the scenario's file"},
                              std::pair{"overrides", "of the scenario, by --set and --fault"},
                              std::pair{"seed", "of everything random"},
                              std::pair{"fabric", "how the network is computed"},
                              std::pair{"plugin_sha256", "of the net plugin that the ranks loaded"},
                              std::pair{"engine_sha256", "of libmeshcoll.so that the ranks loaded"},
                              std::pair{"digest", "over every message, datum and error: equal for equal runs"}};
  std::vector<std::pair<Field, Value>> fields;
  for (const auto& [key, meaning] : kShown) {
    if (source.provenance.contains(key)) fields.emplace_back(document::any(key, meaning), source.provenance[key]);
  }
  // A seed is a number, and no count.
  for (auto& [field, value] : fields) {
    if (value.is_number()) value = json_text(value);
  }
  return values_html(fields, "Where the figures come from.") +
         table_html(source.table("Scenario", "bonds"), {.caption = "Bonds of the nodes."});
}

}  // namespace

Part run_part(const RunSource& source, const std::string& prefix, const Budget& budget) {
  const Value& summary = source.summary;
  Part part{.title = fmt::format("{} ({})", summary.at("scenario").get<std::string>(),
                                 summary.at("world").get<std::string>()),
            .good = summary.at("passed"),
            .verdict = summary.at("passed").get<bool>() ? "Passed" : "Failed",
            .lead = lead_of(source),
            .contents = "",
            .html = ""};
  Sections sections(prefix);
  sections.add("failures", "Failures", problems_html(source, budget));
  sections.add("topology", "Topology and links", topology_html(source));
  sections.add("time", "Time of each iteration", iterations_html(source, budget));
  sections.add("arrival", "Arrival and time of each rank", arrival_html(source, budget));
  sections.add("timeline", "Timeline", timeline_html(source, prefix, budget));
  for (const Section& section : source.document.sections) {
    constexpr std::array<std::string_view, 11> kElsewhere{"Scenario",   "Paths",  "Result",   "Operations",
                                                          "Iterations", "Faults", "Failures", "Checks",
                                                          "Topology",   "Calls",  "End"};
    if (std::find(kElsewhere.begin(), kElsewhere.end(), section.title) != kElsewhere.end()) continue;
    std::string name = section.title;
    std::replace(name.begin(), name.end(), ' ', '-');
    sections.add(name, section.title, generic_html(section, budget));
  }
  sections.add("paths", "Paths and operations",
               table_of(source.table("Paths", "pairs"), budget) +
                   table_of(source.table("Operations", "operations"), budget, {"paths", "paths_of"}));
  sections.add("plugin", "What the plugin reports", job_reports_html(source.job_reports));
  sections.add("faults", "Faults", table_of(source.table("Faults", "faults"), budget));
  const std::string findings = table_of(source.table("Scenario", "findings"), budget);
  sections.add("findings", "Findings",
               findings.empty() ? note_html("The checks of lint find nothing in this scenario.") : findings);
  sections.add("checks", "Proofs and promises",
               table_of(source.table("Checks", "proofs"), budget) +
                   table_of(source.table("Checks", "expected"), budget) +
                   table_of(source.table("Checks", "nothing_to_check"), budget));
  sections.add("provenance", "Provenance", provenance_html(source));
  sections.move_into(part);
  part.html = tiles(source) + part.html;
  return part;
}

}  // namespace meshbed::testbed::page
