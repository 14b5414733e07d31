#pragma once
// Walks: cases that a test goes through one by one, too many for every change. Ordinarily a seeded sample of them, the
// same one each time; all of them where MESHBED_TEST_WALKS=full (./meshbed test --full), the first and the last where
// it is `ends` (under Valgrind, which sees in those what it would see in the others). MESHBED_TEST_SEED draws others.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"

namespace meshbed::test {

inline bool walks_go(std::string_view how) {
  const char* wanted = std::getenv("MESHBED_TEST_WALKS");
  return wanted != nullptr && wanted == how;
}

/// Are all walks gone whole?
inline bool walks_whole() { return walks_go("full"); }

/// All of `cases`, or `count` of them in their order, where it is more than one the first and the last among them (the
/// smallest and the largest are where mistakes sit). The test's log says how many.
template <typename Case>
std::vector<Case> walk(std::vector<Case> cases, std::size_t count) {
  if (walks_go("ends")) count = std::min<std::size_t>(count, 2);
  if (walks_whole() || cases.size() <= count || count == 0) return cases;
  const char* wanted = std::getenv("MESHBED_TEST_SEED");
  const unsigned long seed = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 1;
  MESSAGE("walks ", count, " of ", cases.size(), " cases (seed ", seed, "); all: MESHBED_TEST_WALKS=full");
  Prng prng(seed);
  if (count == 1) return {cases[prng.below(cases.size())]};
  std::vector<std::size_t> between;
  for (std::size_t index = 1; index + 1 < cases.size(); ++index) between.push_back(index);
  for (std::size_t at = 0; at + 2 < count; ++at) {
    std::swap(between[at], between[at + prng.below(between.size() - at)]);
  }
  between.resize(count - 2);
  std::sort(between.begin(), between.end());
  std::vector<Case> sample{cases.front()};
  for (const std::size_t index : between) sample.push_back(cases[index]);
  sample.push_back(cases.back());
  return sample;
}

/// Of 0, 1, ... total - 1 a walk of about a sixth, five at least: the moments at which something happens.
inline std::vector<int> walk_moments(int total) {
  std::vector<int> moments(static_cast<std::size_t>(total));
  std::iota(moments.begin(), moments.end(), 0);
  return walk(std::move(moments), static_cast<std::size_t>(std::max(5, total / 6)));
}

}  // namespace meshbed::test
