#pragma once
// Source: the input of a page, read from a results folder and checked against the schema of the documents that this
// version writes, so that the rest of the room may rely on every key.
//
// All functions throw std::runtime_error with one line: the problem, its place, and the remedy.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "testbed/page/html.h"
#include "testbed/page/measured_curves.h"
#include "testbed/result/document.h"
#include "testbed/result/trace_file.h"

namespace meshbed::testbed::page {

/// A line of slots.csv.
struct SlotEvent {
  std::int64_t at_ps = 0;
  int rank = 0, ring = 0;
  std::uint32_t slot = 0, opcode = 0;
  std::string event;
};

struct RunSource {
  document::Document document;
  Value summary, provenance;
  std::optional<std::vector<TracedMessage>> messages;  // nullopt: the run kept none
  std::vector<SlotEvent> slots;
  std::vector<Value> job_reports;  // of the plugin (NCCL_MESH_REPORT), those that lie in the folder

  /// By its title.
  const document::Section& section(std::string_view title) const;
  const document::Table& table(std::string_view title, std::string_view key) const;
};

struct SweepSource {
  document::Document document;
  Value sweep;
  std::vector<MeasuredCurve> measured{};  // of files that the caller names

  const document::Table& points() const { return *document.find_table("points"); }
  /// The first columns: what was varied.
  std::size_t varied() const;
};

/// One of both.
struct Source {
  std::optional<RunSource> run;
  std::optional<SweepSource> sweep;
};

/// Those of a folder of one run, of a sweep, or of the runs of a scenario (results/SCENARIO: each world's).
std::vector<Source> read_results(const std::string& folder);

/// The shape with the values of `json`; `path` is named in errors.
document::Document filled(document::Document shape, const Value& json, const std::string& path);

}  // namespace meshbed::testbed::page
