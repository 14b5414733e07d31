// NCCL's Inspector (plugins/profiler/inspector of NVIDIA/nccl): a JSON object a line, one for each collective, v4.0 to
// v4.3: header, metadata, coll_perf.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

class InspectorLog final : public LineReader {
 public:
  const char* format() const override { return "Inspector"; }
  bool take(const Line& line, Case& found) override;
};

double number_in(const document::Value& object, const char* key, double otherwise) {
  return object.is_object() && object.contains(key) && object.at(key).is_number() ? object.at(key).get<double>()
                                                                                  : otherwise;
}

bool InspectorLog::take(const Line& line, Case& found) {
  if (line.text[0] != '{' || (line.text.find("\"coll_perf\"") == std::string::npos &&
                              line.text.find("\"inspector_output_format_version\"") == std::string::npos &&
                              line.text.find("\"dump_stats\"") == std::string::npos))
    return false;
  document::Value value;
  try {
    value = parse_json(line.text, line.file);
  } catch (const std::runtime_error&) {
    return false;  // cut off, as the last line of a process that was killed
  }
  if (!value.is_object()) return false;
  if (value.contains("metadata") && value.at("metadata").is_object() &&
      value.at("metadata").contains("inspector_output_format_version")) {
    found.add_fact("inspector_version", value.at("metadata").at("inspector_output_format_version"), line);
  }
  if (!value.contains("coll_perf") || !value.at("coll_perf").is_object() || !value.contains("header")) return true;
  const document::Value& header = value.at("header");
  const document::Value& performance = value.at("coll_perf");
  const std::string communicator = header.is_object() && header.contains("id")
                                       ? header.at("id").dump(-1, ' ', false, document::Value::error_handler_t::replace)
                                       : "";
  const double rank = std::clamp(number_in(header, "rank", -1), -1.0, 1e6);
  const double sequence = std::clamp(number_in(performance, "coll_sn", 0), 0.0, 1e15);
  const std::string operation = performance.contains("coll") && performance.at("coll").is_string()
                                    ? performance.at("coll").get<std::string>()
                                    : "";
  const double bytes = number_in(performance, "coll_msg_size_bytes", 0);
  found.progress.push_back({.communicator = communicator,
                            .rank = static_cast<int>(rank),
                            .operation = fmt::format("{} {:.0f} B", operation, bytes),
                            .launched = static_cast<std::int64_t>(sequence),
                            .kind = "Inspector " + operation,
                            .at = line});
  const double busbw = number_in(performance, "coll_busbw_gbs", 0);
  if (busbw > 0) found.add_fact("busbw_GBps." + operation, busbw, line);
  return true;
}

}  // namespace

std::unique_ptr<LineReader> inspector_reader() { return std::make_unique<InspectorLog>(); }

}  // namespace meshbed::testbed::diagnose
