// Mutated logs: each is read or refused in words, and what is read gives causes with evidence. tests/fuzz/diagnose_fuzz
// goes on from the same seeds with coverage feedback.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/fuzz/diagnose_input.h"
#include "tests/fuzz/mutations.h"

namespace diagnose_mutation_test {

TEST_CASE("mutated logs are read or refused, and each cause has evidence") {
  const std::vector<std::string> texts = meshbed::test::seeds_in("diagnose");
  REQUIRE(texts.size() >= 3);
  meshbed::Prng prng = meshbed::test::mutation_prng();
  for (std::size_t number = 0; number < meshbed::test::mutations(); ++number) {
    const std::string text = meshbed::test::diagnose_text(meshbed::test::mutated(texts, prng));
    const std::string problem = meshbed::test::diagnose_problem(text);
    REQUIRE_MESSAGE(problem.empty(), problem, "\nof\n", text);
    meshbed::test::report_mutations("logs", number + 1);
  }
}

TEST_CASE("a number beyond those of a double is refused with its place") {
  meshbed::testbed::diagnose::Case found;
  std::string problem;
  try {
    meshbed::testbed::diagnose::read_text("{\"entries\":\n [9e9999999999999]}", "dump", found);
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  CHECK_MESSAGE(problem.rfind("dump:2:3: no JSON: ", 0) == 0, problem);
}

}  // namespace diagnose_mutation_test
