// PyTorch's flight recorder: the last operations of a rank, as its JSON dump has them, one file a rank
// (torch/csrc/distributed/c10d/FlightRecorder.hpp of PyTorch 2.8: version, pg_config, entries with collective_seq_id,
// profiling_name, input_sizes, state).

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "testbed/base/json_text.h"
#include "testbed/base/words.h"
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
  // PyTorch names the files by rank: "nccl_trace_rank_3", "fr_dump_3.json", "rank3.json". Another number is a date.
  const std::string name = file.substr(file.rfind('/') + 1);
  const std::string stem = name.substr(0, name.find('.'));
  const std::vector<std::string> words = words_of(stem, "_-");
  std::string number = words.size() > 1 ? words.back() : "";
  if (const auto behind = between(stem, "rank", "")) {
    const std::vector<std::string> of_rank = words_of(*behind, "_-");
    number = of_rank.empty() ? "" : of_rank.front();
  }
  if (!is_digits(number)) return std::nullopt;
  return static_cast<int>(std::clamp(leading_number(number).value_or(0), 0.0, 1e6));
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
