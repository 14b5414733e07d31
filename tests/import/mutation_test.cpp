// Mutated files of machines: each is read or refused in words, and what is read becomes TOML.
// tests/fuzz/import_*_fuzz.cpp go on from the same seeds with coverage feedback. MESHBED_TEST_MUTATIONS=N goes through
// as many a format.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "testbed/base/files.h"
#include "tests/fuzz/import_input.h"
#include "tests/support/walk.h"

namespace mutation_test {

using meshbed::Prng;

namespace {

std::size_t mutations() {
  if (const char* const wanted = std::getenv("MESHBED_TEST_MUTATIONS")) return std::strtoul(wanted, nullptr, 10);
  return meshbed::test::walks_whole() ? 50'000 : 1'000;
}

std::vector<std::string> seeds(const std::string& format) {
  std::vector<std::string> paths, texts;
  const std::string folder = std::string(MESHBED_SOURCE_DIR) + "/tests/fuzz/seeds/import_" + format;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) texts.push_back(meshbed::testbed::read_text_file(path));
  return texts;
}

void mutate(std::string& text, const std::vector<std::string>& others, Prng& prng) {
  static const char* const kWords[] = {"0", "-1", "999999999999", "[[[[", "}", "\"", ":", "\n\n", "&a *a", "<a>", "::"};
  const std::size_t at = prng.below(text.size() + 1);
  switch (prng.below(6)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << prng.below(8)));
      break;
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(prng.below(256));
      break;
    case 2: {
      const std::string& other = others[prng.below(others.size())];
      text = text.substr(0, at) + other.substr(prng.below(other.size() + 1));
      break;
    }
    case 3:
      text.insert(at, kWords[prng.below(std::size(kWords))]);
      break;
    case 4:
      text.erase(at, prng.below(20));
      break;
    default: {
      const std::size_t from = prng.below(text.size() + 1);
      text.insert(at, text.substr(from, prng.below(60)));
      break;
    }
  }
}

void check_format(const std::string& format, const std::string& path) {
  const std::vector<std::string> texts = seeds(format);
  REQUIRE(texts.size() >= 3);
  for (const std::string& text : texts) CHECK(meshbed::test::import_problem(path, text).empty());
  Prng prng(7);
  for (std::size_t number = 0; number < mutations(); ++number) {
    std::string text = texts[prng.below(texts.size())];
    for (std::size_t times = prng.below(4) + 1; times > 0; --times) mutate(text, texts, prng);
    const std::string problem = meshbed::test::import_problem(path, text);
    REQUIRE_MESSAGE(problem.empty(), problem, "\nof\n", text);
  }
}

}  // namespace

TEST_CASE("mutated YAML is read or refused") { check_format("yaml", "x.yaml"); }
TEST_CASE("mutated XML is read or refused") { check_format("xml", "x.xml"); }
TEST_CASE("mutated JSON is read or refused") { check_format("json", "x.json"); }
TEST_CASE("mutated key files are read or refused") { check_format("key", "x.nmconnection"); }
TEST_CASE("mutated output of commands is read or refused") { check_format("text", "x.txt"); }

}  // namespace mutation_test
