#pragma once
// What nccl-tests and perftest print, as the measured file (measured_file.h) that it amounts to.

#include <optional>
#include <string>

namespace meshbed::cli {

/// The text of a measured file, made of the output of an nccl-tests program (all_reduce_perf, ...) or of an ib_*_bw or
/// ib_*_lat of perftest; nothing where the text is neither.
///
/// nccl-tests: rows of both placements; the collective is the one that "Collective test starting" names, else left to
/// the file's name; ranks and nodes are counted in its list of ranks and hosts. perftest: the average rate in MB/s of
/// 2^20 bytes, or in Gb/s, or the typical time; two ranks on two nodes.
std::optional<std::string> measured_text_of(const std::string& output);

}  // namespace meshbed::cli
