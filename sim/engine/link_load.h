#pragma once
// LinkLoad: what a link carried when, where a run asks for it: bytes in bins of time.
//
// Bins are of equal width, whole nanoseconds, at most kMostBins; where the run goes on past the last one, their width
// doubles. Memory and what a trace shows are bounded by that, and each byte that the link carried is in one bin.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/base/units.h"

namespace meshbed::sim {

class LinkLoad {
 public:
  static constexpr std::size_t kMostBins = 4096;

  /// From now on; add() does nothing before.
  void keep() { kept_ = true; }

  /// The link carried `bytes` from `from_ps` to `to_ps`, evenly.
  void add(Picoseconds from_ps, Picoseconds to_ps, std::uint64_t bytes) {
    if (!kept_ || bytes == 0) return;
    while (to_ps > width_ps_ * static_cast<Picoseconds>(kMostBins)) widen();
    const auto first = static_cast<std::size_t>(from_ps / width_ps_);
    const auto last = to_ps > from_ps ? static_cast<std::size_t>((to_ps - 1) / width_ps_) : first;
    if (bins_.size() <= last) bins_.resize(last + 1);
    std::uint64_t before = 0;  // bytes up to the bin
    for (std::size_t bin = first; bin < last; ++bin) {
      const Picoseconds passed_ps = static_cast<Picoseconds>(bin + 1) * width_ps_ - from_ps;
      const auto share = static_cast<__uint128_t>(bytes) * static_cast<std::uint64_t>(passed_ps);
      const auto until = static_cast<std::uint64_t>(share / static_cast<std::uint64_t>(to_ps - from_ps));
      bins_[bin] += until - before;
      before = until;
    }
    bins_[last] += bytes - before;
  }

  Picoseconds width_ps() const { return width_ps_; }
  const std::vector<std::uint64_t>& bins() const { return bins_; }  // from time 0

 private:
  void widen() {
    width_ps_ *= 2;
    const std::size_t wider = (bins_.size() + 1) / 2;
    for (std::size_t bin = 0; bin < wider; ++bin) {
      const std::size_t right = 2 * bin + 1;
      bins_[bin] = bins_[2 * bin] + (right < bins_.size() ? bins_[right] : 0);
    }
    bins_.resize(wider);
  }

  bool kept_ = false;
  Picoseconds width_ps_ = kPicosecondsPerNanosecond;
  std::vector<std::uint64_t> bins_;
};

}  // namespace meshbed::sim
