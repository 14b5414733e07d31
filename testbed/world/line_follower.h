#pragma once
// LineFollower: passes on the lines of a file that a program is writing. Each step is bounded, so that its caller can
// check the time and signals however fast the file grows; long lines are cut (cut_lines.h). One thread.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plugin/base/cut_lines.h"

namespace meshbed::testbed {

class LineFollower {
 public:
  static constexpr std::size_t kStepBytes = std::size_t{1} << 20U;
  using Say = std::function<void(std::string_view line)>;

  LineFollower(std::string path, Say say) : path_(std::move(path)), say_(std::move(say)) {}

  /// The lines that are whole by now, of at most kStepBytes of the file. True: there may be more to read.
  bool follow();
  /// The program writes no more: the rest, and a last line without an end. Where `stops` returns true before that, the
  /// number of bytes that are left out instead.
  void finish(const std::function<bool()>& stops);
  /// The file's size by now.
  std::uint64_t written_bytes() const;

 private:
  std::string path_;
  Say say_;
  std::uint64_t read_bytes_ = 0;
  CutLines lines_;
};

}  // namespace meshbed::testbed
