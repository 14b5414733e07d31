// The Inspector's lines as they are made: what a long run leaves in memory.
#include "testbed/result/inspector.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ostream>
#include <streambuf>
#include <string>

#include "tests/support/heap.h"

namespace inspector_test {

using namespace meshbed;
using namespace meshbed::testbed;
using meshbed::test::heap_in_use_bytes;

namespace {

/// Takes lines, keeps none, and looks at the memory that is in use meanwhile.
class Sink : public std::streambuf {
 public:
  std::size_t taken_bytes = 0, lines = 0, most_in_use_bytes = 0;

 private:
  void look() { most_in_use_bytes = std::max(most_in_use_bytes, heap_in_use_bytes()); }
  int_type overflow(int_type letter) override {
    ++taken_bytes;
    if (letter != '\n') return letter;
    if (++lines % 1000 == 0) look();
    return letter;
  }
  std::streamsize xsputn(const char*, std::streamsize count) override {
    taken_bytes += static_cast<std::size_t>(count);
    return count;
  }
};

}  // namespace

TEST_CASE("a log of 20 000 calls is written line by line: no memory grows with it") {
  constexpr std::size_t kCalls = 20'000, kMostBytes = 1U << 20U;
  const Scenario scenario = read_scenario(MESHBED_SOURCE_DIR "/scenarios/pair.toml", {});
  RunResult result;
  result.simulation.process_ids = {10'000, 11'000};
  result.calls.collective.bytes = 4096;
  for (std::size_t call = 0; call < kCalls; ++call) {
    const auto start_ps = static_cast<Picoseconds>(call) * 1'000'000;
    result.calls.times.push_back({.rank = 0, .start_ps = start_ps, .returned_ps = start_ps, .end_ps = start_ps + 500});
  }
  Sink sink;
  std::ostream out(&sink);
  const std::size_t before_bytes = heap_in_use_bytes();
  write_inspector_log(scenario, result, 0, out);
  CHECK(sink.lines == kCalls + 1);
  CHECK(sink.taken_bytes > 5 * kMostBytes);
  CHECK(sink.most_in_use_bytes < before_bytes + kMostBytes);
}

}  // namespace inspector_test
