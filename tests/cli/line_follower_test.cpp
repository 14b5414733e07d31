// What a program writes is handed on in bounded steps, however fast it writes.
#include "testbed/world/line_follower.h"

#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/command.h"

namespace line_follower_test {

using namespace meshbed;
using namespace meshbed::testbed;
using namespace meshbed::test;

namespace {

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::app) << text;
}

}  // namespace

TEST_CASE("lines are handed on when they are whole, and the last one at the end") {
  const std::string path = scratch_folder("line_follower") + "/lines";
  std::vector<std::string> lines;
  LineFollower follower(path, [&](std::string_view line) { lines.emplace_back(line); });
  CHECK_FALSE(follower.follow());  // there is no file yet
  CHECK(follower.written_bytes() == 0);
  append(path, "one\n\ntw");
  CHECK_FALSE(follower.follow());
  CHECK(lines == std::vector<std::string>{"one", ""});
  append(path, "o\nthree");
  follower.finish([] { return false; });
  CHECK(lines == std::vector<std::string>{"one", "", "two", "three"});
}

TEST_CASE("a step ends while a writer floods the file, and the rest is counted where the caller stops") {
  const std::string path = scratch_folder("line_follower_flood") + "/flood";
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> written{0};
  std::thread writer([&] {
    std::string block;
    for (int line = 0; line < 1024; ++line) block += "a line that says the same again and again, as fast as it can\n";
    std::ofstream file(path, std::ios::binary);
    // The size bounds the test's disk, not the follower's steps.
    while (!stop.load() && written.load() < 64 * LineFollower::kStepBytes) {
      file << block << std::flush;
      written.fetch_add(block.size());
    }
  });
  std::size_t handed_on = 0;
  std::string last;
  LineFollower follower(path, [&](std::string_view line) {
    handed_on += line.size() + 1;
    last = line;
  });
  while (written.load() < 4 * LineFollower::kStepBytes) std::this_thread::yield();
  for (std::size_t step = 1; step <= 3; ++step) {
    CHECK(follower.follow());
    CHECK(handed_on <= step * LineFollower::kStepBytes);
  }
  follower.finish([] { return true; });
  CHECK_MESSAGE(last.find("bytes of output are left out") != std::string::npos, last);
  stop.store(true);
  writer.join();
  CHECK(follower.written_bytes() == written.load());
}

TEST_CASE("a line without an end is cut, and costs no memory") {
  const std::string path = scratch_folder("line_follower_long") + "/long";
  const std::string block(LineFollower::kStepBytes, 'x');
  for (int count = 0; count < 8; ++count) append(path, block);
  append(path, "\nshort\n");
  std::vector<std::string> lines;
  LineFollower follower(path, [&](std::string_view line) { lines.emplace_back(line); });
  follower.finish([] { return false; });
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == std::string(CutLines::kLineBytesMax, 'x') + " ... (" +
                        std::to_string(8 * block.size() - CutLines::kLineBytesMax) +
                        " bytes of this line are left out)");
  CHECK(lines[1] == "short");
}

}  // namespace line_follower_test
