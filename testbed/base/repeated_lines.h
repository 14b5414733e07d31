#pragma once
// RepeatedLines: writes the warnings of many ranks to standard error. Repeated warnings are counted, and their number
// is written once, at the end. Any thread.

#include <cstddef>
#include <iosfwd>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace meshbed::testbed {

class RepeatedLines {
 public:
  /// `out` must outlive this object.
  explicit RepeatedLines(std::ostream& out) : out_(out) {}
  /// Writes a line for each kind of warning that was suppressed, with the number.
  ~RepeatedLines();
  RepeatedLines(const RepeatedLines&) = delete;
  RepeatedLines& operator=(const RepeatedLines&) = delete;

  /// Warnings that differ only in numbers are of one kind. Of each kind the first eight different texts are written,
  /// each once, whichever rank it comes from. `rank`: -1: not known.
  void warn(int rank, const std::string& text);

 private:
  static constexpr std::size_t kShownOfKind = 8;
  struct Kind {
    std::string first;
    std::set<std::string> shown;
    std::set<int> ranks;  // whose warnings were suppressed
    std::size_t left_out = 0;
    bool varied = false;  // some suppressed texts were never written
  };

  std::ostream& out_;
  std::mutex mutex_;
  std::map<std::string, Kind> kinds_;  // by their texts, each number a #
};

}  // namespace meshbed::testbed
