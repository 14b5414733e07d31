#pragma once
// Arrows: which folders may include which. tests/tidy_test.cpp checks them against every include.

#include <string>
#include <vector>

namespace meshbed::test {

/// A room, and the folders whose headers it may include beside its own.
struct Arrow {
  std::string room;
  std::vector<std::string> allowed;
  const char* reason;
};
std::vector<Arrow> every_arrow();

}  // namespace meshbed::test
