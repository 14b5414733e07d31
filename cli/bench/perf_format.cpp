// The columns of nccl-tests 2.19 (its src/util.cu), and the sizes of its sweep.

#include "cli/bench/perf_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace meshbed::testbed {
namespace {

std::string statistics_text(const CaseResults& board, int skip) {
  const IterationStatistics times = iteration_statistics(board, skip);
  return fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", figure(times.min_us, 7), figure(times.max_us, 7),
                     figure(times.p99_us, 7), figure(times.deviation_percent(), 7));
}

std::string half_row(const CollectiveShape& shape, const CaseResults& board, double bus_factor,
                     const PerfColumns& columns) {
  const auto time_ps = static_cast<double>(board.average_ps());
  const double algbw_GBps = time_ps > 0 ? static_cast<double>(shape.bytes) / time_ps * 1e3 : 0;
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", figure(time_ps / 1e6, 7), figure(algbw_GBps, 6),
                     figure(algbw_GBps * bus_factor, 6), columns.check ? fmt::format("{}", board.wrong) : "N/A") +
         (columns.iterations ? statistics_text(board, *columns.iterations) : "");
}

[[noreturn]] void refuse_size(const std::string& text) {
  throw std::runtime_error("\"" + text +
                           "\" is not a size: a number, whole or with a point, or one with K, M or G behind it");
}

}  // namespace

std::uint64_t parse_size(const std::string& text) {
  std::size_t used = 0;
  std::uint64_t whole = 0;
  double number = 0;
  try {
    if (text.empty() || text.front() < '0' || text.front() > '9') refuse_size(text);
    whole = std::stoull(text, &used);
    // Digits and a point alone: no exponents, no hexadecimal numbers.
    const std::size_t end = text.find_first_not_of("0123456789.");
    number = std::stod(text.substr(0, end), &used);
    if (used != std::min(end, text.size())) refuse_size(text);
  } catch (const std::logic_error&) {
    refuse_size(text);
  }
  const std::string unit = text.substr(used);
  std::uint64_t factor = 1;
  if (!unit.empty()) {
    const std::string behind = unit.substr(1);
    const char letter = static_cast<char>(unit.front() & ~0x20);
    factor = letter == 'K' ? kKiB : letter == 'M' ? kMiB : letter == 'G' ? kGiB : 0;
    if (factor == 0 || !(behind.empty() || behind == "B" || behind == "iB")) refuse_size(text);
  }
  const bool is_whole = text.find('.') == std::string::npos;
  if (!(number * static_cast<double>(factor) < 0x1p63)) {
    throw std::runtime_error("\"" + text + "\" is not a size: it has 2^63 bytes or more");
  }
  return is_whole ? whole * factor : static_cast<std::uint64_t>(number * static_cast<double>(factor));
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

IterationStatistics iteration_statistics(const CaseResults& board, int skip) {
  IterationStatistics found;
  for (const IterationTime& time : board.iterations) {
    found.times_us.push_back(static_cast<double>(time.end_ps - time.start_ps) / board.operations / 1e6);
  }
  std::vector<double> sorted(found.times_us.begin() + skip, found.times_us.end());
  if (sorted.empty()) return found;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  const auto percentile = [&](std::size_t percent) {
    return sorted[std::min(count - 1, (count * percent + 99) / 100 - 1)];
  };
  found.min_us = sorted.front();
  found.max_us = sorted.back();
  found.p50_us = sorted[count / 2];
  found.p95_us = percentile(95);
  found.p99_us = percentile(99);
  for (const double time_us : sorted) found.average_us += time_us / static_cast<double>(count);
  double variance = 0;
  for (const double time_us : sorted) variance += (time_us - found.average_us) * (time_us - found.average_us);
  found.deviation_us = std::sqrt(variance / static_cast<double>(count));
  return found;
}

std::string reduction_text(const CollectiveCase& wanted) {
  return models::reduces(wanted.op) ? name_of(wanted.reduction) : "none";
}

int root_text(const CollectiveCase& wanted) { return models::has_root(wanted.op) ? wanted.root : -1; }

std::string perf_heading(const PerfColumns& columns) {
  const auto line = [&](const std::vector<const char*>& names, const std::vector<const char*>& halves) {
    std::string text =
        fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", names[0], names[1], names[2], names[3], names[4]);
    for (int half = 0; half < 2; ++half) {
      text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", halves[0], halves[1], halves[2], halves[3]);
      for (std::size_t index = 4; columns.iterations && index < halves.size(); ++index) {
        text += fmt::format("  {:>7}", halves[index]);
      }
    }
    return text + " \n";
  };
  const std::string blank = fmt::format("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
  const char* const halves =
      columns.iterations
          ? "              out-of-place (+ per-iteration)                                in-place (+ per-iteration)\n"
          : "           out-of-place                       in-place          \n";
  return blank + halves +
         line({"size", "count", "type", "redop", "root"},
              {"time", "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"}) +
         line({"(B)", "(elements)", "", "", ""}, {"(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)"});
}

std::string perf_row(const CollectiveCase& wanted, const CollectiveShape& shape, const CaseResults& out_of_place,
                     const CaseResults& in_place, double bus_factor, const PerfColumns& columns) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", shape.bytes, shape.count, name_of(wanted.type),
                     reduction_text(wanted), root_text(wanted)) +
         half_row(shape, out_of_place, bus_factor, columns) + half_row(shape, in_place, bus_factor, columns) + "\n";
}

}  // namespace meshbed::testbed
