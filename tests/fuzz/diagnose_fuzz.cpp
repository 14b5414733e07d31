// Arbitrary logs, JSON and tables: read or refused in words, and a diagnosis of what was read is made of it. Seeds:
// seeds/diagnose.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fuzz/diagnose_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::string problem = meshbed::test::diagnose_problem(meshbed::test::diagnose_text(input));
  if (problem.empty()) return 0;
  std::fprintf(stderr, "%s\n", problem.c_str());
  std::abort();
}
