// Copies: between pinned or pageable memory and the GPU, and inside the GPU.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "testbed/fidelity/gpu/session.h"

namespace meshbed::testbed {
namespace {

constexpr double kPsOfMicrosecond = 1e6;
constexpr std::uint64_t kSmallBytes = 4 * kKiB;
constexpr double kPsOfSecond = 1e12, kGiga = 1e9;

/// Start and rate from the times of small and large copies; what differs in size differs by the rate alone.
struct CopyLine {
  Measured start, rate;
};
CopyLine line_through(const std::string& what, const std::vector<double>& small_ps, const std::vector<double>& large_ps,
                      std::uint64_t small_bytes, std::uint64_t large_bytes) {
  const Spread small = spread_of(small_ps), large = spread_of(large_ps);
  const auto more = static_cast<double>(large_bytes - small_bytes);
  const std::string of_start = what + ": beside its bytes", of_rate = what + ": bytes a second";
  if (small.high >= large.low) {
    const std::string reason =
        fmt::format("{} B took {:.2f} us (90 %), {} B {:.2f} us (10 %): too little apart for a rate", small_bytes,
                    small.high / kPsOfMicrosecond, large_bytes, large.low / kPsOfMicrosecond);
    return {without_value(of_start, "us", reason), without_value(of_rate, "GB/s", reason)};
  }
  const auto rate = [&](double small_time, double large_time) {
    return more / (large_time - small_time) * kPsOfSecond / kGiga;
  };
  const Spread rates{
      .value = rate(small.value, large.value), .low = rate(small.low, large.high), .high = rate(small.high, large.low)};
  const double bytes_ps = static_cast<double>(small_bytes) / (rates.value * kGiga) * kPsOfSecond;
  const Spread starts{.value = std::max(0.0, small.value - bytes_ps) / kPsOfMicrosecond,
                      .low = std::max(0.0, small.low - bytes_ps) / kPsOfMicrosecond,
                      .high = std::max(0.0, small.high - bytes_ps) / kPsOfMicrosecond};
  return {{.what = of_start, .unit = "us", .spread = starts, .repeats = small_ps.size(), .reason = ""},
          {.what = of_rate, .unit = "GB/s", .spread = rates, .repeats = large_ps.size(), .reason = ""}};
}

}  // namespace

void measure_copies(const GpuSession& session, const GpuAttributes& gpu, std::uint64_t copy_bytes,
                    MeasuredValues& values) {
  const cuda::Driver& driver = session.driver();
  const cuda::Stream& stream = session.stream();
  const auto here = taken(cuda::PinnedMemory::allocate(driver, copy_bytes));
  const auto there = taken(cuda::DeviceMemory::allocate(driver, copy_bytes));
  const auto beside = taken(cuda::DeviceMemory::allocate(driver, copy_bytes));
  require_done(stream.fill(there.data(), 1, copy_bytes));
  require_done(stream.fill(beside.data(), 2, copy_bytes));
  session.synchronize();

  struct Way {
    const char* name;
    const char* what;
    char* target;
    const char* source;
  };
  for (const Way& way : {Way{"copy_in", "copy host to device", there.data(), here.data()},
                         Way{"copy_out", "copy device to host", here.data(), there.data()},
                         Way{"copy_inside", "copy device to device", beside.data(), there.data()}}) {
    const auto copy = [&](std::uint64_t bytes) { require_done(stream.copy(way.target, way.source, bytes)); };
    copy(copy_bytes);
    copy(kSmallBytes);
    session.synchronize();
    constexpr int kFew = 2, kMany = 18;
    const auto small = session.device_ps_each(kFew, kMany, session.repeats(), [&] { copy(kSmallBytes); });
    const auto large = session.device_ps_each(1, 2, session.few_repeats(), [&] { copy(copy_bytes); });
    CopyLine line = line_through(way.what, small, large, kSmallBytes, copy_bytes);
    // Source and target are twice the bytes, but what is written last may stay in the L2.
    if (std::string(way.name) == "copy_inside" && copy_bytes < static_cast<std::uint64_t>(gpu.l2_bytes)) {
      line.rate = without_value(
          line.rate.what, line.rate.unit,
          fmt::format("{} B stay in the L2 of {} B: give --bytes of at least that", copy_bytes, gpu.l2_bytes));
    }
    values[std::string(way.name) + "_start"] = std::move(line.start);
    values[std::string(way.name) + "_rate"] = std::move(line.rate);
  }

  // The calls wait, so by the host's clock; a quarter of the bytes for what does not grow with them.
  std::vector<char> pageable(copy_bytes, 3);
  const std::uint64_t part = std::max(kSmallBytes, copy_bytes / 4);
  for (const Way& way : {Way{"pageable_in", "copy pageable host memory to device", there.data(), pageable.data()},
                         Way{"pageable_out", "copy device to pageable host memory", pageable.data(), there.data()}}) {
    const auto timed = [&](std::uint64_t bytes) {
      const auto copy_and_wait = [&] {
        require_done(stream.copy(way.target, way.source, bytes));
        session.synchronize();
      };
      copy_and_wait();
      return session.host_ps_of(session.few_repeats(), copy_and_wait);
    };
    const std::vector<double> small = timed(part), large = timed(copy_bytes);
    values[std::string(way.name) + "_rate"] = line_through(way.what, small, large, part, copy_bytes).rate;
  }
}

}  // namespace meshbed::testbed
