// meshbed-cost PLUGIN MESSAGES BYTES VAIN: that many messages through a null pair, or, where VAIN is "relay", through a
// null relay, for callgrind to look at (meshbed bench cost). Silent; one line on standard error where something is
// wrong.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include "cli/cost/null_pair.h"
#include "cli/cost/null_relay.h"

namespace {

/// The caller's settings of NCCL are for his cluster, and would change what is counted.
void forget_nccl_variables() {
  for (char** entry = environ; *entry != nullptr;) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.rfind("NCCL_", 0) == 0) {
      ::unsetenv(name.c_str());  // what follows moves up
    } else {
      ++entry;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) {
      std::cerr << "usage: meshbed-cost PLUGIN MESSAGES BYTES VAIN|relay (see meshbed bench cost)\n";
      return 2;
    }
    forget_nccl_variables();
    const std::uint64_t messages = std::stoull(argv[2]);
    if (std::string(argv[4]) == "relay") {
      meshbed::cost::NullRelay relay(argv[1], std::stoul(argv[3]));
      for (std::uint64_t number = 0; number < messages; ++number) relay.message(number);
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
