// meshbed-cost PLUGIN MESSAGES BYTES VAIN: that many messages through a null pair, or, where VAIN is "relay", through a
// null relay, for callgrind to look at (meshbed bench cost). Where VAIN is "bursts", that many bursts of one, of two
// and of eight messages through a null relay; it prints what one of each took its service, in nanoseconds of CPU.
// Otherwise silent; one line on standard error where something is wrong.

#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS static_cast<void>(0)  // who counts has Valgrind
#endif

#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <utility>

#include "cli/bench/cost/null_pair.h"
#include "cli/bench/cost/null_relay.h"
#include "cli/bench/cost/null_wire.h"

namespace {

/// The caller's settings of NCCL are for his cluster, and would change what is counted; so would whoever asks for the
/// state of all processes meanwhile.
void forget_nccl_variables() {
  for (char** entry = environ; *entry != nullptr;) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.rfind("NCCL_", 0) == 0) {
      ::unsetenv(name.c_str());  // what follows moves up
    } else {
      ++entry;
    }
  }
  ::setenv("NCCL_MESH_STATE_SOCKET", "0", 1);
}

void print_bursts(const std::string& plugin, std::uint64_t bursts, std::size_t message_bytes) {
  meshbed::cost::NullRelay relay(plugin, message_bytes);
  // Headers, clear-to-sends and sizes; the rest is an adapter's work.
  meshbed_null_wire_copy_at_most(meshbed::cost::kControlBytesMost);
  relay.burst(meshbed::cost::NullRelay::kBurstMost);
  const char* space = "";
  for (const std::size_t messages : {std::size_t{1}, std::size_t{2}, meshbed::cost::NullRelay::kBurstMost}) {
    const std::int64_t before_ns = relay.service_cpu_ns();
    for (std::uint64_t burst = 0; burst < bursts; ++burst) relay.burst(messages);
    const auto taken_ns = static_cast<double>(relay.service_cpu_ns() - before_ns);
    std::cout << std::exchange(space, " ") << taken_ns / static_cast<double>(bursts);
  }
  std::cout << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      std::cerr << "usage: meshbed-cost PLUGIN MESSAGES BYTES VAIN|relay|bursts (see meshbed bench cost)\n";
      return 2;
    }
    forget_nccl_variables();
    const std::uint64_t messages = std::stoull(argv[2]);
    if (std::string(argv[4]) == "relay") {
      meshbed::cost::NullRelay relay(argv[1], std::stoul(argv[3]));
      relay.message(0);
      // How often the service looked while the chain was being made is a matter of time, and differs from run to run.
      CALLGRIND_ZERO_STATS;
      for (std::uint64_t number = 1; number < messages; ++number) relay.message(number);
      return 0;
    }
    if (std::string(argv[4]) == "bursts") {
      print_bursts(argv[1], messages, std::stoul(argv[3]));
      return 0;
    }
    const int vain = std::stoi(argv[4]);
    meshbed::cost::NullPair pair(argv[1], std::stoul(argv[3]));
    for (std::uint64_t number = 0; number < messages; ++number) pair.message(number, vain);
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "meshbed-cost: " << problem.what() << "\n";
    return 1;
  }
}
