#pragma once
// Mutated files for tests that go through many: seeds of a folder, and changes as a seed draws them.
// MESHBED_TEST_MUTATIONS=N goes through as many a format, MESHBED_TEST_SEED=N draws others.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "testbed/base/files.h"
#include "tests/support/walk.h"

namespace meshbed::test {

inline std::size_t mutations() {
  if (const char* const wanted = std::getenv("MESHBED_TEST_MUTATIONS")) return std::strtoul(wanted, nullptr, 10);
  return walks_whole() ? 50'000 : 1'000;
}

inline Prng mutation_prng() {
  const char* const wanted = std::getenv("MESHBED_TEST_SEED");
  return Prng(wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 7);
}

/// A line for each 100,000, so that a long run shows how far it is.
inline void report_mutations(const std::string& format, std::size_t number) {
  constexpr std::size_t kEach = 100'000;
  if (number % kEach == 0) std::fprintf(stderr, "%s: %zu inputs\n", format.c_str(), number);
}

/// The texts in tests/fuzz/seeds/FOLDER, in the order of their names.
inline std::vector<std::string> seeds_in(const std::string& folder) {
  std::vector<std::string> paths, texts;
  const std::string path = std::string(MESHBED_SOURCE_DIR) + "/tests/fuzz/seeds/" + folder;
  for (const auto& entry : std::filesystem::directory_iterator(path)) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& each : paths) texts.push_back(testbed::read_text_file(each));
  return texts;
}

/// One change: a bit, a byte, another seed's end, a word, a gap, or a repeated part.
inline void mutate(std::string& text, const std::vector<std::string>& others, Prng& prng) {
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

/// One to four changes of one of the texts.
inline std::string mutated(const std::vector<std::string>& texts, Prng& prng) {
  std::string text = texts[prng.below(texts.size())];
  for (std::size_t times = prng.below(4) + 1; times > 0; --times) mutate(text, texts, prng);
  return text;
}

}  // namespace meshbed::test
