#include "testbed/base/progress.h"

#include <doctest/doctest.h>

namespace progress_test {

using namespace meshbed::testbed;

TEST_CASE("progress writes nothing where nobody watches") {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  {
    Progress progress("all_reduce", 3, file);
    for (int step = 0; step < 3; ++step) progress.step();
  }
  std::fseek(file, 0, SEEK_END);
  CHECK(std::ftell(file) == 0);
  std::fclose(file);
}

}  // namespace progress_test
