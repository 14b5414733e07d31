#pragma once
// Sections of `meshbed models`: what one prediction, a point-to-point matrix, calls at once and computing beside them
// print, as text and JSON.

#include <optional>
#include <string>
#include <vector>

#include "models/time/concurrent_time.h"
#include "models/time/exchange_time.h"
#include "testbed/result/document.h"

namespace meshbed::testbed {

/// "parts": name and microseconds of each part of a time.
document::Table part_table();
/// One row of it, and its line of text with the share of `whole_us`; in text, parts below 0.005 us are left out.
void add_part(document::Section& section, const models::TimePart& part, double whole_us);

/// us, low_us, high_us and basis.
std::vector<document::Field> interval_fields();
void explain_interval(document::Section& section, const models::Interval& interval, double us);

/// --matrix FILE on a class, `topology` being empty for its own cabling, or switch, ring, mesh or a scenario's path.
/// Throws std::runtime_error with the option, the place and the cause.
document::Section matrix_section(const models::Machine& machine, const std::string& path, const std::string& topology);

/// "all_reduce:48K,all_gather:4M": calls of the class, those without a size of `bytes`, the whole list `times` times.
/// Throws std::runtime_error with the option.
std::vector<models::CollectiveCall> calls_at_once(const models::Machine& machine, const std::string& list,
                                                  std::uint64_t bytes, std::optional<int> ranks, int times);
document::Section at_once_section(const models::Machine& machine, const models::ConcurrentTime& time);

/// --compute, --overlap, --gpu and --sms as the command line has them.
struct OverlapOptions {
  std::string compute, share, gpu, sms;
};
/// 0.5 of --overlap. Throws std::runtime_error.
double parse_overlap(const std::string& text);
/// SMs of `--gpu`. Throws std::runtime_error with the names that there are.
int sms_of_gpu(const std::string& gpu);
/// Computing beside the calls. Throws std::runtime_error with the option.
document::Section overlap_section(const models::Machine& machine, const models::ConcurrentTime& time,
                                  const OverlapOptions& options);

/// 20000 us of "20ms"; also us and s. Throws std::runtime_error with `option`.
double duration_us(const std::string& option, const std::string& text);

}  // namespace meshbed::testbed
