// When the requests of a slot graph's tenants arrive.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "plugin/base/prng.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/scenario/megakernel/slot_graph_spec.h"

namespace meshbed::testbed {
namespace {

std::uint64_t ns_of(Picoseconds time_ps) { return static_cast<std::uint64_t>(time_ps / kPicosecondsPerNanosecond); }

/// The exponential law in steps of 1/1024 of its mean, so that no library's logarithm decides a digest.
std::uint64_t exponential_ns(Prng& prng, std::uint64_t mean_ns) {
  constexpr std::uint64_t kSteps = 1024;
  std::uint64_t steps = 0;
  while (prng.below(kSteps) != 0) ++steps;
  return mean_ns * steps / kSteps;
}

/// A time a line, "120us"; '#' begins a comment.
std::vector<std::uint64_t> recorded_times(const GraphTenantSpec& tenant, const std::string& graph_path,
                                          std::size_t wanted, Diagnostics& diagnostics) {
  const std::string path = (std::filesystem::path(graph_path).parent_path() / tenant.times).string();
  std::vector<std::uint64_t> times;
  std::string text;
  try {
    text = read_text_file(path);
  } catch (const std::runtime_error& error) {
    diagnostics.add(tenant.at("times"), fmt::format("times: {}", error.what()));
    return times;
  }
  std::istringstream in(text);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line.resize(std::min(line.size(), line.find('#')));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    const auto time_ps = parse_time_ps(line);
    if (!time_ps) {
      diagnostics.add(tenant.at("times"), fmt::format("times: {}:{}: {}", path, number, time_ps.error().text));
      return times;
    }
    times.push_back(ns_of(*time_ps));
    if (times.size() > 1 && times[times.size() - 2] > times.back()) {
      diagnostics.add(tenant.at("times"),
                      fmt::format("times: {}:{}: '{}' is before the line before; sort the file", path, number, line));
      return times;
    }
  }
  if (times.size() < wanted) {
    diagnostics.add(tenant.at("times"), fmt::format("times: {} has {} times for {} requests; add times, or lower the "
                                                    "loop's count",
                                                    path, times.size(), wanted));
  }
  return times;
}

}  // namespace

GraphArrivals graph_arrivals(const GraphSpec& spec, const std::string& path, Diagnostics& diagnostics) {
  GraphArrivals all;
  for (const GraphTenantSpec& tenant : spec.tenants) {
    std::size_t requests = 0;
    for (const GraphSlotSpec& slot : spec.slots) {
      if (slot.tenant == tenant.name) requests = std::max(requests, static_cast<std::size_t>(slot.iteration) + 1);
    }
    std::vector<std::uint64_t>& times = all.emplace_back();
    const std::uint64_t first_ns = ns_of(tenant.first_ps), gap_ns = ns_of(tenant.gap_ps);
    if (tenant.arrivals == "recorded") {
      times = recorded_times(tenant, path, requests, diagnostics);
      for (std::uint64_t& time_ns : times) time_ns += first_ns;
      continue;
    }
    Prng prng(mix64(static_cast<std::uint64_t>(tenant.seed)) ^ mix64(all.size()));
    std::uint64_t at_ns = first_ns;
    for (std::size_t request = 0; request < requests; ++request) {
      if (tenant.arrivals == "poisson") at_ns += exponential_ns(prng, gap_ns);
      if (tenant.arrivals == "periodic") at_ns = first_ns + request * gap_ns;
      if (tenant.arrivals == "bursts" && tenant.burst > 0) {
        at_ns = first_ns + request / static_cast<std::uint64_t>(tenant.burst) * gap_ns;
      }
      times.push_back(at_ns);
    }
  }
  return all;
}

}  // namespace meshbed::testbed
