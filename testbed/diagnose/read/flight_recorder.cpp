// PyTorch's flight recorder: the last operations of a rank, as its JSON dump has them, one file a rank
// (torch/csrc/distributed/c10d/FlightRecorder.hpp of PyTorch 2.8: version, pg_config, entries with collective_seq_id,
// profiling_name, input_sizes, state).

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "testbed/base/json_text.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

std::string member(const document::Value& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return "";
  const document::Value& value = object.at(key);
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : json_text(value);
}

std::optional<int> rank_of(const document::Value& value, const std::string& file) {
  if (value.contains("rank") && value.at("rank").is_number()) {
    return static_cast<int>(std::clamp(value.at("rank").get<double>(), 0.0, 1e6));
  }
  // PyTorch names the files by rank: "nccl_trace_rank_3", "fr_dump_3.json".
  const std::string name = file.substr(file.rfind('/') + 1);
  const std::size_t end = name.find_last_of("0123456789");
  if (end == std::string::npos) return std::nullopt;
  const std::size_t before = name.find_last_not_of("0123456789", end);
  const std::string digits = name.substr(before == std::string::npos ? 0 : before + 1,
                                         end - (before == std::string::npos ? std::string::npos : before));
  return static_cast<int>(std::clamp(leading_number(digits).value_or(-1), -1.0, 1e6));
}

}  // namespace

bool read_flight_recorder(const document::Value& value, const std::string& file, Case& found) {
  if (!value.is_object() || !value.contains("entries") || !value.at("entries").is_array()) return false;
  const int rank = rank_of(value, file).value_or(-1);
  found.formats.insert("flight recorder");
  found.add_fact("flight_recorder.rank", rank, {.file = file, .number = 0, .text = ""});
  for (const document::Value& entry : value.at("entries")) {
    if (!entry.is_object()) continue;
    const char* const key = entry.contains("collective_seq_id") ? "collective_seq_id" : "seq_id";
    if (!entry.contains(key) || !entry.at(key).is_number()) continue;
    const auto sequence = static_cast<std::int64_t>(std::clamp(entry.at(key).get<double>(), 0.0, 1e15));
    const std::string group = member(entry, entry.contains("process_group") ? "process_group" : "pg_id");
    const std::string operation =
        member(entry, "profiling_name") + " " + member(entry, "input_sizes") + member(entry, "input_dtypes");
    const std::string state = member(entry, "state");
    const Line at{
        .file = file, .number = 0, .text = fmt::format("rank {}: {} {} {}, {}", rank, key, sequence, operation, state)};
    found.progress.push_back({.communicator = "group " + group,
                              .rank = rank,
                              .operation = operation,
                              .launched = sequence,
                              .kind = "flight recorder",
                              .at = at});
    if (state != "completed" && !state.empty()) found.add_fact("unfinished_operation", at.text, at);
  }
  return true;
}

}  // namespace meshbed::testbed::diagnose
