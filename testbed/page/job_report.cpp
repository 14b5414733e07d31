#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "testbed/page/parts.h"

namespace meshbed::testbed::page {
namespace {

/// The value of that key; null where it is missing or of another kind.
Value text_of_key(const Value& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? *found : Value("");
}

Value count_of_key(const Value& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? *found : Value(nullptr);
}

std::string process_of(const Value& report) {
  const Value pid = count_of_key(report, "pid");
  return fmt::format("{} {}", text_of_key(report, "host").get<std::string>(),
                     pid.is_null() ? "" : std::to_string(pid.get<std::uint64_t>()));
}

document::Table process_table(const std::vector<Value>& reports) {
  using document::integer, document::text;
  document::Table table{.key = "job_reports", .meaning = "", .columns = {text("process", "host and process number")}};
  for (const char* key : {"sent_bytes", "received_bytes"}) table.columns.push_back(integer(key, "B", "of messages"));
  constexpr const char* kCounts[] = {"connections", "failovers", "failbacks", "failed", "warnings"};
  for (const char* key : kCounts) table.columns.push_back(integer(key, "", "by the plugin's count"));
  for (const Value& report : reports) {
    std::vector<Value> cells{process_of(report), count_of_key(report, "sent_bytes"),
                             count_of_key(report, "received_bytes")};
    for (const char* key : kCounts) cells.push_back(count_of_key(report, key));
    table.add(std::move(cells));
  }
  return table;
}

document::Table reported_cable_table(const std::vector<Value>& reports) {
  using document::integer, document::text;
  document::Table table{.key = "reported_cables",
                        .meaning = "",
                        .columns = {text("process", "host and process number"), text("nic", "of the process"),
                                    text("address", "its address"), text("peer_nic", "at the other end"),
                                    text("peer_address", "its address"), integer("sent_bytes", "B", ""),
                                    integer("received_bytes", "B", "")}};
  for (const Value& report : reports) {
    const auto cables = report.find("cables");
    if (cables == report.end() || !cables->is_array()) continue;
    for (const Value& cable : *cables) {
      if (!cable.is_object()) continue;
      table.add({process_of(report), text_of_key(cable, "nic"), text_of_key(cable, "address"),
                 text_of_key(cable, "peer_nic"), text_of_key(cable, "peer_address"), count_of_key(cable, "sent_bytes"),
                 count_of_key(cable, "received_bytes")});
    }
  }
  return table;
}

}  // namespace

std::string job_reports_html(const std::vector<Value>& reports) {
  if (reports.empty()) return "";
  return table_html(process_table(reports), {.caption = "Each process at its end (NCCL_MESH_REPORT)."}) +
         table_html(reported_cable_table(reports), {.caption = "What went over each cable, at each end."});
}

}  // namespace meshbed::testbed::page
