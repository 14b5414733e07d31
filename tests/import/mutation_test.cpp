// Mutated files of machines: each is read or refused in words, and what is read becomes TOML.
// tests/fuzz/import_*_fuzz.cpp go on from the same seeds with coverage feedback.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/fuzz/import_input.h"
#include "tests/fuzz/mutations.h"

namespace mutation_test {

namespace {

void check_format(const std::string& format, const std::string& path) {
  const std::vector<std::string> texts = meshbed::test::seeds_in("import_" + format);
  REQUIRE(texts.size() >= 3);
  for (const std::string& text : texts) CHECK(meshbed::test::import_problem(path, text).empty());
  meshbed::Prng prng = meshbed::test::mutation_prng();
  for (std::size_t number = 0; number < meshbed::test::mutations(); ++number) {
    const std::string text = meshbed::test::mutated(texts, prng);
    const std::string problem = meshbed::test::import_problem(path, text);
    REQUIRE_MESSAGE(problem.empty(), problem, "\nof\n", text);
    meshbed::test::report_mutations(format, number + 1);
  }
}

}  // namespace

TEST_CASE("mutated YAML is read or refused") { check_format("yaml", "x.yaml"); }
TEST_CASE("mutated XML is read or refused") { check_format("xml", "x.xml"); }
TEST_CASE("mutated JSON is read or refused") { check_format("json", "x.json"); }
TEST_CASE("mutated key files are read or refused") { check_format("key", "x.nmconnection"); }
TEST_CASE("mutated output of commands is read or refused") { check_format("text", "x.txt"); }

}  // namespace mutation_test
