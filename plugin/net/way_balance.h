#pragma once
// When a connection that has two ways goes over to the other one. Pure values: loads and times in, a decision out.
//
// Loads are the bytes that others have in flight over the cable of a way that has most. They rise and fall with every
// message, and those of a collective by its rounds, so that no single look decides: looks that find the other way the
// lighter one by more than the threshold must outnumber the others by some, and those that find the opposite count
// three times. After a change the connection stays for a while, and for twice as long after each change that follows
// soon; so two connections that make way for one another do so a few times, and not for ever. Looks become rarer where
// there is no reason to change.

#include <algorithm>
#include <cstdint>

namespace meshbed::net {

class WayBalance {
 public:
  static constexpr int kLooksThatAgree = 8, kWeightOfOpposite = 3;
  static constexpr std::int64_t kLeastPauseNs = 4'000'000, kLongestPauseNs = 64'000'000;
  static constexpr std::int64_t kLeastStayNs = 50'000'000, kLongestStayNs = 60'000'000'000;
  /// A stay of so many times what was asked for ends the doubling.
  static constexpr std::int64_t kCalmStays = 10;

  explicit WayBalance(std::uint64_t threshold_bytes) : threshold_bytes_(threshold_bytes) {}

  struct Loads {
    std::uint64_t here_bytes = 0, there_bytes = 0;
  };
  /// One look. True: it is time to change.
  bool weigh(const Loads& loads, std::int64_t now_ns) {
    const bool lighter_there =
        loads.here_bytes > loads.there_bytes && loads.here_bytes - loads.there_bytes > threshold_bytes_;
    const bool lighter_here =
        loads.there_bytes > loads.here_bytes && loads.there_bytes - loads.here_bytes > threshold_bytes_;
    agreed_ = std::clamp(agreed_ + (lighter_there ? 1 : lighter_here ? -kWeightOfOpposite : -1), 0, kLooksThatAgree);
    pause_ns_ = agreed_ > 0 ? kLeastPauseNs : std::min(2 * pause_ns_, kLongestPauseNs);
    return lighter_there && agreed_ == kLooksThatAgree && now_ns >= stays_until_ns_;
  }
  /// There is no other way just now.
  void weigh_nothing() {
    agreed_ = 0;
    pause_ns_ = kLongestPauseNs;
  }
  /// Until the next look.
  std::int64_t pause_ns() const { return pause_ns_; }
  /// It is on another way from now on. `chance`: any number, of which two connections hardly ever have the same one; it
  /// makes the stay up to half as long again, so that they do not change at one moment each time.
  void changed(std::int64_t now_ns, std::uint64_t chance) {
    const bool calm = now_ns - stays_until_ns_ > kCalmStays * stay_ns_;
    stay_ns_ = calm ? kLeastStayNs : std::clamp(2 * stay_ns_, kLeastStayNs, kLongestStayNs);
    stays_until_ns_ = now_ns + stay_ns_ + static_cast<std::int64_t>(chance % static_cast<std::uint64_t>(stay_ns_ / 2));
    agreed_ = 0;
    pause_ns_ = kLeastPauseNs;
  }

 private:
  std::uint64_t threshold_bytes_;
  int agreed_ = 0;  // looks, less those that did not
  std::int64_t pause_ns_ = kLeastPauseNs;
  std::int64_t stay_ns_ = 0, stays_until_ns_ = 0;  // at first it may change at any time
};

}  // namespace meshbed::net
