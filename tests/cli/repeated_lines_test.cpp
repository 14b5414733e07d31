#include "testbed/base/repeated_lines.h"

#include <doctest/doctest.h>

#include <sstream>

namespace repeated_lines_test {

using meshbed::testbed::RepeatedLines;

TEST_CASE("a warning that many ranks give is written once, and counted at the end") {
  std::ostringstream out;
  {
    RepeatedLines lines(out);
    for (int rank = 0; rank < 780; ++rank) lines.warn(rank % 20, "no more memory");
    lines.warn(3, "another one");
  }
  CHECK(out.str() ==
        "meshbed: warning: rank 0: no more memory\n"
        "meshbed: warning: rank 3: another one\n"
        "meshbed: warning: repeated 779 times, by 20 ranks: no more memory\n");
}

TEST_CASE("warnings that differ in numbers alone are of one kind: eight of them are written") {
  std::ostringstream out;
  {
    RepeatedLines lines(out);
    for (int rank = 0; rank < 40; ++rank) lines.warn(rank, "lost 10.0.0." + std::to_string(rank));
  }
  const std::string text = out.str();
  CHECK(text.find("rank 7: lost 10.0.0.7\n") != std::string::npos);
  CHECK(text.find("rank 8: ") == std::string::npos);
  CHECK(text.find("repeated 32 times, some with other numbers, by 32 ranks: lost 10.0.0.0\n") != std::string::npos);
}

}  // namespace repeated_lines_test
