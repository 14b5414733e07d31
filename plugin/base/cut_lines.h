#pragma once
// CutLines: text that arrives in pieces, handed on line by line. A program may write without ever ending its line, so
// a long one is cut, and what was left out of it is counted. One thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace meshbed {

class CutLines {
 public:
  static constexpr std::size_t kLineBytesMax = 16384;

  /// Calls `line` with each line that ends in `text`, without its end.
  template <typename Line>
  void take(std::string_view text, const Line& line) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      add(text.substr(0, end));
      if (end == std::string_view::npos) return;
      hand_on(line);
      text.remove_prefix(end + 1);
    }
  }
  /// The last line, where its end never came.
  template <typename Line>
  void finish(const Line& line) {
    if (!begun_.empty()) hand_on(line);
  }

 private:
  void add(std::string_view part) {
    const std::string_view kept = part.substr(0, kLineBytesMax - begun_.size());
    begun_ += kept;
    left_out_ += part.size() - kept.size();
  }
  template <typename Line>
  void hand_on(const Line& line) {
    if (left_out_ > 0) begun_ += " ... (" + std::to_string(left_out_) + " bytes of this line are left out)";
    const std::string whole = std::move(begun_);
    begun_.clear();
    left_out_ = 0;
    line(std::string_view(whole));
  }

  std::string begun_;
  std::size_t left_out_ = 0;
};

}  // namespace meshbed
