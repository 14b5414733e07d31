// meshbed-cost PLUGIN MESSAGES BYTES VAIN: that many messages through a null pair, for callgrind to look at (meshbed
// bench cost). Silent; one line on standard error where something is wrong.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>

#include "cli/cost/null_pair.h"

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
      std::cerr << "usage: meshbed-cost PLUGIN MESSAGES BYTES VAIN (see meshbed bench cost)\n";
      return 2;
    }
    forget_nccl_variables();
    meshbed::cost::NullPair pair(argv[1], std::stoul(argv[3]));
    const std::uint64_t messages = std::stoull(argv[2]);
    const int vain = std::stoi(argv[4]);
    for (std::uint64_t number = 0; number < messages; ++number) pair.message(number, vain);
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "meshbed-cost: " << problem.what() << "\n";
    return 1;
  }
}
