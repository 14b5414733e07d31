#pragma once
// Silence: how long nothing has come, and when to ask whether the way still stands. Pure values: times in, answers out.
//
// It is asked after 5 s, and whenever the silence has lasted twice as long, but every 20 s at the latest: in a row of
// ranks that wait for one another each learns only then that the next one has given up.

#include <algorithm>
#include <cstdint>

namespace meshbed::net {

class Silence {
 public:
  static constexpr std::int64_t kFirstNs = 5'000'000'000, kLongestNs = 20'000'000'000;

  void end() {
    since_ns_ = 0;
    patience_ns_ = kFirstNs;
  }
  bool has_begun() const { return since_ns_ != 0; }
  /// 0: it has not begun.
  std::int64_t since_ns() const { return since_ns_; }
  /// `mark`: what the waiting had come to.
  void begin(std::int64_t now_ns, std::uint64_t mark) {
    since_ns_ = now_ns;
    mark_ = mark;
  }
  std::uint64_t mark() const { return mark_; }
  /// True once for each time at which it is to be asked.
  bool is_due(std::int64_t now_ns) {
    if (now_ns - since_ns_ < patience_ns_) return false;
    patience_ns_ += std::min(patience_ns_, kLongestNs);
    return true;
  }

 private:
  std::int64_t since_ns_ = 0;
  std::uint64_t mark_ = 0;
  std::int64_t patience_ns_ = kFirstNs;
};

}  // namespace meshbed::net
