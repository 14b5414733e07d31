#pragma once
// For tests of what programs print.

#include <cstddef>
#include <string>

namespace meshbed::test {

inline int lines_with(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace meshbed::test
