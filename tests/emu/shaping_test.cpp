// A guest's commands that delay, drop and limit its packets: tc(8), tc-netem(8).
#include "emu/shaping.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shaping_test {

using namespace meshbed::emu;

namespace {

std::string command(const Shaping& shaping) {
  return fmt::format("{}", fmt::join(shaping_command("eth0", shaping), " "));
}

}  // namespace

TEST_CASE("a shaping is one netem queue in the place of the last, with what is asked for and no more") {
  const std::string always = "tc qdisc replace dev eth0 root netem limit 1000000";
  CHECK(command({}) == always);
  CHECK(command({.loss = 0.01}) == always + " loss 1.000000%");
  CHECK(command({.loss = 1e-6, .delay_us = 1000.5}) == always + " delay 1000.500us loss 0.000100%");
  CHECK(command({.reorder = 0.25, .delay_us = 1000, .rate_bps = 10'000'000'000}) ==
        always + " delay 1000.000us reorder 25.000000% rate 10000000000bit");
}

}  // namespace shaping_test
