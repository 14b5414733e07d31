// Callgrind's file format (Valgrind's manual, "Callgrind Format Specification"); the text is callgrind 3.19's own, cut
// down.
#include "cli/bench/callgrind.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace callgrind_test {

using namespace meshbed::testbed;

namespace {

const std::string kFile =
    "# callgrind format\nversion: 1\npositions: line\nevents: Ir\nsummary: 60\n\n\n"
    "ob=/bin/driver\nfl=driver.cpp\nfn=counted_send\n31 4\n"
    "cob=/lib/plugin.so\ncfi=???\ncfn=send\ncalls=2 0 \n33 50\n34 2\n\n"
    "ob=/lib/plugin.so\nfl=???\nfn=post\n0 30\n\n"
    "fn=send\n0 15\nfi=inlined.h\n12 5\ncfn=post\ncalls=2 0 \n0 30\n\n"
    "ob=/bin/driver\nfl=driver.cpp\nfn=counted_send\n35 4\n\ntotals: 60\n";

CountedFunction only(const std::vector<CountedFunction>& all, const std::string& name) {
  CountedFunction found;
  for (const CountedFunction& function : all) {
    if (function.name == name) found = function;
  }
  return found;
}

}  // namespace

TEST_CASE("a function has what is its own, and what it called, wherever in the file they stand") {
  const auto functions = read_callgrind(kFile);
  REQUIRE(functions.size() == 3);
  CHECK(only(functions, "counted_send").self == 10);
  CHECK(only(functions, "counted_send").called == 50);
  CHECK(only(functions, "counted_send").object == "/bin/driver");
  CHECK(only(functions, "send").self == 20);
  CHECK(only(functions, "send").called == 30);
  CHECK(only(functions, "post").object == "/lib/plugin.so");
}

TEST_CASE("a file that was cut off, or does not add up, is refused") {
  CHECK_THROWS_WITH_AS(read_callgrind(kFile.substr(0, kFile.find("totals"))), doctest::Contains("no totals"),
                       std::runtime_error);
  std::string other = kFile;
  other.replace(other.rfind("60"), 2, "61");
  CHECK_THROWS_WITH_AS(read_callgrind(other), doctest::Contains("make 60 instructions, its total is 61"),
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(read_callgrind("fn=f\n12\n"), doctest::Contains("this is not a cost line"), std::runtime_error);
}

}  // namespace callgrind_test
