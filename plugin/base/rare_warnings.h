#pragma once
// What strangers can cause as often as they like must not fill a log: of such warnings the first four are given,
// and then one at each doubling of their number. The others appear at the trace level.

#include <bit>
#include <cstdint>
#include <string>

#include "plugin/base/log.h"

namespace meshbed {

/// Of one kind, in one place. Not for several threads.
class RareWarnings {
 public:
  /// One more. `level`: that of the lines that are given.
  LogLevel next(LogLevel level = LogLevel::kWarn) {
    ++count_;
    return count_ <= kOneByOne || std::has_single_bit(count_) ? level : LogLevel::kTrace;
  }
  std::uint64_t count() const { return count_; }
  /// "; 512 were dropped so far" behind a line, once not each of them is given. `what`: "were dropped"
  std::string so_far(const char* what) const {
    return count_ > kOneByOne ? "; " + std::to_string(count_) + " " + what + " so far" : "";
  }

 private:
  static constexpr std::uint64_t kOneByOne = 4;
  std::uint64_t count_ = 0;
};

}  // namespace meshbed
