#pragma once
// RepeatedLines: warnings of many ranks on their way to standard error. One that says what an earlier one said is
// counted, and told of once, at the end. Any thread.

#include <cstddef>
#include <iosfwd>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace meshbed::testbed {

class RepeatedLines {
 public:
  /// `out` must live as long.
  explicit RepeatedLines(std::ostream& out) : out_(out) {}
  /// Writes a line for each kind of warning of which some were left out, with their number.
  ~RepeatedLines();
  RepeatedLines(const RepeatedLines&) = delete;
  RepeatedLines& operator=(const RepeatedLines&) = delete;

  /// Warnings that differ in nothing but numbers are of one kind: the first eight that differ are written, and none
  /// twice, whichever rank it comes from. `rank`: -1: not known.
  void warn(int rank, const std::string& text);

 private:
  static constexpr std::size_t kShownOfKind = 8;
  struct Kind {
    std::string first;
    std::set<std::string> shown;
    std::set<int> ranks;  // whose were left out
    std::size_t left_out = 0;
    bool varied = false;  // some that were left out were never shown
  };

  std::ostream& out_;
  std::mutex mutex_;
  std::map<std::string, Kind> kinds_;  // by their texts, each number a #
};

}  // namespace meshbed::testbed
