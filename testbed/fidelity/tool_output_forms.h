#pragma once
// Converts other benchmark output than that of testbed/fidelity/tool_output.h: perftest's report file (--out_json), OSU
// micro-benchmarks, and the records of rccl-tests (JSON). Each becomes the text of a measured file (measured_file.h).

#include <optional>
#include <string>

#include "testbed/fidelity/tool_output.h"

namespace meshbed::testbed {

/// perftest --out_json: one object, or several one behind the other (a file for each size). The report does not contain
/// the unit of its bandwidths (src/perftest_parameters.c, write_bw_report_to_file @00b55b6): the time is 1 / MsgRate.
/// Latencies are the typical time, else the average. Throws std::runtime_error where an object is broken.
std::optional<ToolOutput> perftest_json(const std::string& output);

/// "# OSU MPI Latency Test v7.5", "# OSU MPI-CUDA Allreduce Latency Test v7.0", ...: average latencies, or MB/s of 10^6
/// bytes. Sizes of all_gather, alltoall, gather and scatter are those of one rank (column bytes_each); ranks are those
/// of "-n", "-np" of a command line in the output. Multi-pair and one-sided tests are named as unusable.
std::optional<ToolOutput> osu_text(const std::string& output);

/// rccl-tests --output_format json: a list of records with name, nodes, ranks, size, inPlace, time, algBw, busBw.
std::optional<ToolOutput> rccl_json(const std::string& output);

}  // namespace meshbed::testbed
