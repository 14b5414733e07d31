// The columns of nccl-tests 2.19 (its src/util.cu), and the sizes of its sweep.

#include "cli/bench/perf_format.h"

#include <fmt/format.h>

#include <stdexcept>

namespace meshbed::cli {
namespace {

std::string half_row(const CollectiveShape& shape, const CaseResults& board, double bus_factor, bool check) {
  const auto time_ps = static_cast<double>(board.average_ps());
  const double algbw_GBps = time_ps > 0 ? static_cast<double>(shape.bytes) / time_ps * 1e3 : 0;
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", figure(time_ps / 1e6, 7), figure(algbw_GBps, 6),
                     figure(algbw_GBps * bus_factor, 6), check ? fmt::format("{}", board.wrong) : "N/A");
}

}  // namespace

std::uint64_t parse_size(const std::string& text) {
  std::size_t used = 0;
  std::uint64_t value = 0;
  try {
    if (text.empty() || text.front() < '0' || text.front() > '9') throw std::invalid_argument(text);
    value = std::stoull(text, &used);
  } catch (const std::logic_error&) {
    throw std::runtime_error("\"" + text + "\" is not a size: a number, or a number with K, M or G");
  }
  const std::string unit = text.substr(used);
  std::uint64_t factor = 0;
  if (unit.empty()) factor = 1;
  if (unit == "K" || unit == "k") factor = kKiB;
  if (unit == "M" || unit == "m") factor = kMiB;
  if (unit == "G" || unit == "g") factor = kGiB;
  if (factor == 0 || value > UINT64_MAX / factor) {
    throw std::runtime_error("\"" + text + "\" is not a size: a number, or a number with K, M or G");
  }
  return value * factor;
}

std::vector<std::uint64_t> sweep_sizes(const SweepOptions& options) {
  constexpr std::size_t kMost = 100'000;
  if (options.min_bytes > options.max_bytes) throw std::runtime_error("-b is larger than -e: there is no size to run");
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
    sizes.push_back(bytes);
    const std::uint64_t next = options.step_factor > 1 ? bytes * options.step_factor : bytes + options.step_bytes;
    if (next <= bytes) {
      if (bytes == options.max_bytes) break;
      throw std::runtime_error("the sizes never reach -e: -f needs -b above 0, -i needs a step");
    }
    if (sizes.size() > kMost) throw std::runtime_error("more than 100000 sizes: use a larger -f or -i");
    bytes = next;
  }
  return sizes;
}

std::string figure(double value, int width) {
  int digits = 0;  // before the point
  for (double bound = 1; value >= bound; bound *= 10) ++digits;
  if (digits < width - 2) return fmt::format("{:{}.2f}", value, width);
  if (digits < width - 1) return fmt::format("{:{}.1f}", value, width);
  if (digits < width + 1) return fmt::format("{:{}.0f}", value, width);
  return width >= 7 ? fmt::format("{:{}.1e}", value, width) : fmt::format("{:{}.0e}", value, width);
}

std::string perf_heading() {
  return fmt::format(
             "#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place          "
             "\n",
             "", "", "", "", "") +
         fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6} \n",
                     "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
                     "busbw", "#wrong") +
         fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6} \n",
                     "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
}

std::string perf_row(const CollectiveCase& wanted, const CollectiveShape& shape, const CaseResults& out_of_place,
                     const CaseResults& in_place, double bus_factor, bool check) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", shape.bytes, shape.count, name_of(wanted.type),
                     models::reduces(wanted.op) ? name_of(wanted.reduction) : "none",
                     models::has_root(wanted.op) ? wanted.root : -1) +
         half_row(shape, out_of_place, bus_factor, check) + half_row(shape, in_place, bus_factor, check) + "\n";
}

}  // namespace meshbed::cli
