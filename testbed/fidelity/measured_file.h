#pragma once
// A file of measured times: a header of comments, then rows with the columns collective, ranks, nodes, bytes, time_us,
// algbw_GBps, busbw_GBps, placement and variant, in any order. Others are ignored.
//
// A variant with the word "concurrent2" is the time in which two such calls end that are started together.
//
// Missing values are derived from others: the time from a bandwidth, the collective from the file's name, the nodes
// from the profile. A row that cannot be used is kept with its line and the reason.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/fit/sweep.h"
#include "testbed/fidelity/stated_rate.h"

namespace meshbed::testbed {

struct MeasuredRow {
  int line = 0;
  std::string collective, placement, variant;
  bool nodes_are_known = true;  // false: assumed, until the profile gives the ranks per node
  models::SweepPoint point;
};

struct BadRow {
  int line = 0;
  std::string reason;
};

struct MeasuredFile {
  std::string path, name;  // name: without folders
  std::string source, topology_class, quality;
  std::string set_up;              // all set-up and note lines
  std::string units;               // the units that the header states
  std::optional<StatedRate> rate;  // of a node's adapters, where class or set-up states it
  std::vector<MeasuredRow> rows;
  std::vector<BadRow> bad;

  models::Sweep sweep() const;
};

struct MeasuredOptions {
  std::optional<int> ranks;           // of every row; overrides the file
  std::optional<int> ranks_per_node;  // likewise
};

/// The ASCII letters of a text: how classes, set-ups and variants are compared.
std::string lower_case(std::string text);

/// Such a file, or what nccl-tests, `meshbed perf` or perftest printed (tool_output.h). Throws std::runtime_error, with
/// the cause, where the file cannot be read, has no row of column names or no usable row.
MeasuredFile read_measured_file(const std::string& path, const MeasuredOptions& options);
/// The same from text. `line_numbers`: the numbers to report for its lines; empty: counted from 1.
MeasuredFile parse_measured(const std::string& text, const std::string& path, const MeasuredOptions& options,
                            const std::vector<int>& line_numbers = {});

}  // namespace meshbed::testbed
