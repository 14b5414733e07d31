// Perftest's command line and its output. The outputs are perftest 4.5's own, from two virtual machines.
#include "cli/bench/perftest.h"

#include <doctest/doctest.h>

namespace perftest_test {

using namespace meshbed::testbed;

TEST_CASE("both ends get the same options, and the end that writes the other's address") {
  PerftestPeer peer{.address = "10.0.0.1", .port = 29'503, .device = "rocep1s0f0", .gid_index = 1, .writes = false};
  const PerftestCase wanted{.program = "ib_write_bw", .size_bytes = 65'536, .iterations = 512, .depth = 8};
  std::vector<std::string> words{"ib_write_bw", "-d",    "rocep1s0f0", "-x",  "1",  "-F", "-p", "29503",
                                 "-s",          "65536", "-n",         "512", "-t", "8",  "-Q", "1"};
  CHECK(perftest_command(peer, wanted) == words);
  peer.writes = true;
  words.emplace_back("10.0.0.1");
  CHECK(perftest_command(peer, wanted) == words);
}

TEST_CASE("the figures are the numbers behind size and iterations; no such row, no figures") {
  const std::string bandwidth =
      " local address: LID 0000 QPN 0x0012 PSN 0x4c2f\n"
      "---------------------------------------------------------------------------------------\n"
      " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
      " 65536      512              58.92              46.76		   0.000748\n";
  CHECK(perftest_figures(bandwidth, 65'536) == std::vector<double>{58.92, 46.76, 0.000748});
  CHECK(perftest_figures(bandwidth, 512).empty());
  CHECK(perftest_figures("Couldn't connect to 10.0.0.1:29503\n", 8).empty());
  const std::string latency =
      " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
      "99% percentile[usec]   99.9% percentile[usec] \n"
      " 8       1000          119.02         9435.10      160.31     	       435.47      	51.15		201.01 "
      "		4105.02 \n";
  const auto figures = perftest_figures(latency, 8);
  REQUIRE(figures.size() == 7);
  CHECK(figures[2] == 160.31);
}

TEST_CASE("a device that is not there has no GID") { CHECK(gid_index_of("no-such-device", "") == -1); }

}  // namespace perftest_test
