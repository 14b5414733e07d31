// meshbed-cost PLUGIN MESSAGES BYTES VAIN: sends MESSAGES messages through a null pair or, if VAIN is "relay", through
// a null relay, while callgrind counts (meshbed bench cost). If VAIN is "bursts", it sends that many bursts of one, of
// two and of eight messages through a null relay, and prints the CPU time of its service for one of each, in
// nanoseconds. Otherwise it prints nothing, except one line on standard error after a failure.

#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS static_cast<void>(0)  // counting needs Valgrind's header
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

/// The caller's NCCL settings are for another cluster and would change the counts; so would state requests of other
/// processes.
void forget_nccl_variables() {
  for (char** entry = environ; *entry != nullptr;) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.rfind("NCCL_", 0) == 0) {
      ::unsetenv(name.c_str());  // later entries move up
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
      // The number of the service's polls during set-up depends on timing, and differs from run to run.
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
