#include "emu/microvm/host_tsc.h"

#if defined(__x86_64__)
#include <x86intrin.h>

#include "plugin/base/deadline.h"
#endif

namespace meshbed::emu {

#if defined(__x86_64__)
namespace {

struct Reading {
  std::uint64_t cycles = 0;
  std::int64_t at_ns = 0;
};

/// Both at one time: of many pairs the one that took the least time, so that the thread was not preempted between them.
Reading read_both() {
  constexpr int kPairs = 100;
  Reading best;
  std::uint64_t least = UINT64_MAX;
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::uint64_t before = __rdtsc();
    const std::int64_t at_ns = now_ns();
    const std::uint64_t after = __rdtsc();
    if (after - before >= least) continue;
    least = after - before;
    best = {.cycles = before + least / 2, .at_ns = at_ns};
  }
  return best;
}

std::uint64_t measure() {
  constexpr std::int64_t kWindowNs = 20'000'000;
  const Reading begin = read_both();
  while (now_ns() - begin.at_ns < kWindowNs) {
  }
  const Reading end = read_both();
  const auto elapsed_ns = static_cast<std::uint64_t>(end.at_ns - begin.at_ns);
  return (end.cycles - begin.cycles) * 1'000'000 / elapsed_ns;
}

}  // namespace

std::uint64_t host_tsc_khz() {
  static const std::uint64_t measured = measure();
  return measured;
}
#else
std::uint64_t host_tsc_khz() { return 0; }
#endif

}  // namespace meshbed::emu
