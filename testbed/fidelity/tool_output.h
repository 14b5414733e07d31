#pragma once
// Converts the output of nccl-tests, `meshbed perf` and perftest to a measured file (measured_file.h).

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace meshbed::testbed {

struct ToolOutput {
  std::string text;  // of a measured file
  std::size_t rows = 0;
  /// Where line n of the text comes from, at n - 1: a line of the output, or a result of the JSON, from 1.
  std::vector<int> lines;
};

/// nccl-tests' text (all_reduce_perf, ...; older ones, too, and what mpirun's --tag-output made of it), its JSON (-J,
/// any version), the same of `meshbed perf`, the text of an ib_*_bw or ib_*_lat of perftest, or a form of
/// testbed/fidelity/tool_output_forms.h; nothing where it is none of them. Several tests one behind the other are all
/// read.
///
/// nccl-tests: rows of both placements; the collective is the one that "Collective test starting" or the command line
/// names, else left to the file's name; ranks and nodes are counted in its list of ranks and hosts; NCCL_ALGO and
/// NCCL_PROTO are taken from a command line or from NCCL's own words; sizes of 0 bytes are no rows. Columns are found
/// by their names; cputime (-C 1) is no time of an operation, nor is that of a wrong result. perftest: the average rate
/// in MB/s of 2^20 bytes, or in Gb/s, or the typical time; two ranks on two nodes. Throws std::runtime_error where
/// nccl-tests' JSON is broken or ends early.
std::optional<ToolOutput> measured_text_of(const std::string& output);

}  // namespace meshbed::testbed
