#pragma once
// Perftest: Debian's ib_write_bw and ib_write_lat between two ranks, as a reference. Rank 0's program listens, rank 1's
// connects to it over the management network and writes over the cable.

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::testbed {

struct PerftestPeer {
  std::string address;  // of rank 0
  int port = 0;         // TCP, of rank 0's program
  std::string device;   // this rank's verbs device
  int gid_index = 0;
  bool writes = false;  // rank 1
};

struct PerftestCase {
  std::string program;  // "ib_write_bw"
  std::uint64_t size_bytes = 0;
  std::uint64_t iterations = 0;  // perftest wants 5
  std::uint64_t depth = 0;       // work requests under way, each with its completion; 0: perftest's own
};

/// The program's command line at this rank.
std::vector<std::string> perftest_command(const PerftestPeer& peer, const PerftestCase& wanted);

/// Runs this rank's half to its end; the row of figures behind the size and the number of iterations, which perftest
/// prints at both ends. An error carries the program's last line. Throws std::runtime_error where it does not start.
Result<std::vector<double>> run_perftest(const PerftestPeer& peer, const PerftestCase& wanted);

/// The figures of perftest's output for messages of that size; empty: there are none.
std::vector<double> perftest_figures(const std::string& output, std::uint64_t size_bytes);

/// The GID that has this text in a verbs device's table, for RoCE v2: "0000:...:ffff:c0a8:6401". -1: there is none.
int gid_index_of(const std::string& device, const std::string& gid);

}  // namespace meshbed::testbed
