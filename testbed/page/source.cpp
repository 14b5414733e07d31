#include "testbed/page/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "testbed/base/files.h"
#include "testbed/result/run_document.h"

namespace meshbed::testbed::page {
namespace {

namespace fs = std::filesystem;

using document::Document;
using document::Empty;
using document::Field;
using document::Section;
using document::Table;
using document::ValueKind;

constexpr const char* kRunAgain = "run the scenario again";

bool is_of_kind(ValueKind kind, const Value& value) {
  switch (kind) {
    case ValueKind::kText:
      return value.is_string();
    case ValueKind::kInteger:
      return value.is_number_integer();
    case ValueKind::kNumber:
      return value.is_number();
    case ValueKind::kBool:
      return value.is_boolean();
    case ValueKind::kTexts:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Value& each) { return each.is_string(); });
    case ValueKind::kObject:
      return value.is_object();
    case ValueKind::kObjects:
      return value.is_array();
    case ValueKind::kAny:
      return true;
  }
  return false;
}

/// Takes the values of one file into a shape.
class Filler {
 public:
  explicit Filler(const std::string& path) : path_(path) {}

  void fill(Section& section, const Value& json) const {
    const Value* object = &json;
    if (!section.key.empty()) {
      if (!json.contains(section.key)) {
        if (section.empty != Empty::kAbsent) throw other_version(section.key);
        section.has_values = false;
        return;
      }
      object = &json[section.key];
      if (object->is_null() && section.empty == Empty::kNull) {
        section.has_values = false;
        return;
      }
    }
    if (!object->is_object()) throw other_version(section.key);
    for (auto& [field, value] : section.fields) value = value_of(field, *object);
    for (Table& table : section.tables) fill(table, *object);
  }

 private:
  std::runtime_error other_version(const std::string& key) const {
    return std::runtime_error(
        fmt::format("{}: has no {} as this version of Meshbed writes it: another version wrote the file; {}", path_,
                    key, kRunAgain));
  }

  void fill(Table& table, const Value& object) const {
    if (!object.contains(table.key)) {
      if (table.may_be_absent) return;
      throw other_version(table.key);
    }
    const Value& rows = object[table.key];
    if (!rows.is_array()) throw other_version(table.key);
    for (const Value& row : rows) {
      if (!row.is_object()) throw other_version(table.key);
      std::vector<Value> cells;
      for (const Field& column : table.columns) cells.push_back(value_of(column, row));
      table.add(std::move(cells));
    }
  }

  Value value_of(const Field& field, const Value& object) const {
    const auto found = object.find(field.key);
    if (found == object.end()) {
      if (field.may_be_absent) return nullptr;
      throw other_version(field.key);
    }
    if (found->is_null() && field.may_be_null) return nullptr;
    if (!is_of_kind(field.kind, *found)) throw other_version(field.key);
    return *found;
  }

  const std::string& path_;
};

Value read_json(const std::string& path) {
  const std::string text = read_text_file(path);
  try {
    Value json = Value::parse(text);
    if (json.is_object()) return json;
  } catch (const nlohmann::json::exception&) {
    // Said below.
  }
  throw std::runtime_error(
      fmt::format("{}: is not whole JSON: the run was cut off, or the file was changed; {}", path, kRunAgain));
}

/// Lines of numbers and names without quotes, below a header.
class SlotReader {
 public:
  explicit SlotReader(const std::string& path) : path_(path), text_(read_text_file(path)) {}

  std::vector<SlotEvent> read() {
    constexpr std::string_view kHeader =
        "at_ps,rank,slot,opcode,event,source,destination,channel,epoch,message,ring,tenant,priority";
    std::vector<SlotEvent> events;
    if (line() != kHeader) throw wrong();
    while (at_ < text_.size()) {
      words_ = split_line(line());
      if (words_.size() != 13) throw wrong();
      SlotEvent& event = events.emplace_back();
      read(0, event.at_ps);
      read(1, event.rank);
      read(2, event.slot);
      read(3, event.opcode);
      event.event = words_[4];
      read(10, event.ring);
    }
    return events;
  }

 private:
  std::runtime_error wrong() const {
    return std::runtime_error(fmt::format(
        "{}:{}: is not a line that this version of Meshbed writes: the file is cut off, or of another version; {}",
        path_, number_, kRunAgain));
  }

  std::string_view line() {
    ++number_;
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string::npos) throw wrong();
    const std::string_view found = std::string_view(text_).substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  template <typename Number>
  void read(std::size_t column, Number& out) const {
    const std::string_view word = words_[column];
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), out);
    if (problem != std::errc() || end != word.data() + word.size()) throw wrong();
  }

  const std::string path_, text_;
  std::size_t at_ = 0;
  int number_ = 0;
  std::vector<std::string_view> words_;
};

std::optional<std::vector<TracedMessage>> read_messages(const std::string& path, const Value& summary) {
  if (!fs::exists(path)) return std::nullopt;
  std::vector<TracedMessage> messages;
  try {
    messages = read_trace_file(path);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(
        fmt::format("{}: the file is cut off, or of another version; {}", problem.what(), kRunAgain));
  }
  const auto expected = summary.at("messages").get<std::uint64_t>();
  if (messages.size() != expected) {
    throw std::runtime_error(fmt::format("{}: has {} messages where summary.json counts {}: the file is cut off; {}",
                                         path, messages.size(), expected, kRunAgain));
  }
  return messages;
}

/// The folder's files that the plugin wrote, by name. A file that is none of them, or of a newer format, is left out.
std::vector<Value> read_job_reports(const std::string& folder) {
  constexpr std::uintmax_t kLargestBytes = std::uintmax_t{4} << 20U;
  constexpr int kFormat = 1;  // plugin/net/report/job_report.h
  std::vector<std::string> paths;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, problem)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".json") || name == "summary.json" || name == "provenance.json") continue;
    if (entry.is_regular_file(problem) && entry.file_size(problem) <= kLargestBytes) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Value> reports;
  for (const std::string& path : paths) {
    Value json = Value::parse(read_text_file(path), nullptr, false);
    if (json.is_object() && json.value("report", Value()) == "mesh" && json.value("format", Value()) == kFormat) {
      reports.push_back(std::move(json));
    }
  }
  return reports;
}

RunSource read_run(const std::string& folder) {
  RunSource source;
  const std::string path = folder + "/summary.json";
  source.summary = read_json(path);
  source.document = filled(document::run_document_shape(), source.summary, path);
  source.provenance = read_json(folder + "/provenance.json");
  source.messages = read_messages(folder + "/messages.csv", source.summary);
  source.job_reports = read_job_reports(folder);
  if (fs::exists(folder + "/slots.csv")) source.slots = SlotReader(folder + "/slots.csv").read();
  return source;
}

/// Of what testbed/sweep writes; the varied keys are the columns before "failed".
Document sweep_shape(const Value& json) {
  using document::number, document::text;
  Table table{.key = "points", .meaning = "the points of the sweep, in order", .columns = {}};
  const Value* const points = json.contains("points") ? &json["points"] : nullptr;
  if (points != nullptr && points->is_array() && !points->empty() && points->front().is_object()) {
    for (const auto& [key, value] : points->front().items()) {
      if (key == "failed") break;
      table.columns.push_back(text(key, "as varied"));
    }
  }
  for (Field& field : std::vector<Field>{
           text("failed", "what was taken away; empty: nothing"),
           text("status", "ok, failed, unreachable, refused, time limit or error"),
           number("time_us", "us", "of one iteration").or_null(),
           number("busbw_GBps", "GB/s", "as nccl-tests defines it").or_null(),
           number("ratio_baseline", "", "time over the baseline's").or_null(),
           number("over_bound", "", "time over the lower bound of this cabling").or_null(),
           text("algorithm", "algorithm, protocol and channels of the engine"),
           text("busiest_link", "carried something for the longest time"),
           number("low_us", "us", "time less the class's error").or_null(),
           number("high_us", "us", "time and that error").or_null(), text("reason", "why the status is not ok")}) {
    table.columns.push_back(std::move(field));
  }
  Section section{.title = "Sweep"};
  section.with({text("scenario", "the name of its file"), text("scenario_sha256", "of the scenario's file"),
                document::texts("overrides", "of all points"), document::integer("count", "", "of the points")});
  section.with(std::move(table));
  return {.title = "sweep", .sections = {std::move(section)}};
}

SweepSource read_sweep(const std::string& folder) {
  SweepSource source;
  const std::string path = folder + "/sweep.json";
  source.sweep = read_json(path);
  source.document = filled(sweep_shape(source.sweep), source.sweep, path);
  return source;
}

/// nullopt: the folder is of neither.
std::optional<Source> read_one(const std::string& folder) {
  Source source;
  if (fs::exists(folder + "/sweep.json")) {
    source.sweep = read_sweep(folder);
  } else if (fs::exists(folder + "/summary.json")) {
    source.run = read_run(folder);
  } else {
    return std::nullopt;
  }
  return source;
}

}  // namespace

const Section& RunSource::section(std::string_view title) const {
  return *std::find_if(document.sections.begin(), document.sections.end(),
                       [&](const Section& section) { return section.title == title; });
}

const Table& RunSource::table(std::string_view title, std::string_view key) const {
  const Section& found = section(title);
  return *std::find_if(found.tables.begin(), found.tables.end(), [&](const Table& table) { return table.key == key; });
}

std::size_t SweepSource::varied() const {
  const auto& columns = points().columns;
  const auto failed =
      std::find_if(columns.begin(), columns.end(), [](const Field& one) { return one.key == "failed"; });
  return static_cast<std::size_t>(failed - columns.begin());
}

Document filled(Document shape, const Value& json, const std::string& path) {
  const Filler filler(path);
  for (Section& section : shape.sections) filler.fill(section, json);
  return shape;
}

std::vector<Source> read_results(const std::string& folder) {
  std::error_code problem;
  if (!fs::is_directory(folder, problem)) {
    throw std::runtime_error(
        fmt::format("{}: is not a folder; name the results of a run or a sweep, as in results/ring4/sim", folder));
  }
  if (std::optional<Source> one = read_one(folder)) {
    std::vector<Source> sources;
    sources.push_back(*std::move(one));
    return sources;
  }
  std::vector<std::string> below;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory(problem)) below.push_back(entry.path());
  }
  std::sort(below.begin(), below.end());
  std::vector<Source> sources;
  for (const std::string& each : below) {
    if (std::optional<Source> one = read_one(each)) sources.push_back(*std::move(one));
  }
  if (!sources.empty()) return sources;
  throw std::runtime_error(
      fmt::format("{}: holds neither summary.json nor sweep.json, nor does a folder in it; name the results of a run "
                  "or a sweep, as "
                  "in results/ring4/sim",
                  folder));
}

}  // namespace meshbed::testbed::page
