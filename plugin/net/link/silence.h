#pragma once
// Silence: how long nothing has arrived, and when to probe the path. Pure values.
//
// A probe is due after 5 s, and whenever the silence has doubled, but every 20 s at the latest: in a chain of ranks
// that wait for one another, each learns only by its probe that the next one has given up.

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
  /// `mark`: a position of the owner, by which it recognises this silence.
  void begin(std::int64_t now_ns, std::uint64_t mark) {
    since_ns_ = now_ns;
    mark_ = mark;
  }
  std::uint64_t mark() const { return mark_; }
  /// Returns true once for each probe that is due.
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
