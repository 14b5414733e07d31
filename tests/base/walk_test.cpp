// Walks: a sample is the same each time, in order, with both ends; and the whole walk is all of it.
#include "tests/support/walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace walk_test {

using namespace meshbed::test;

namespace {

/// Sets a variable of the environment, or takes it away, for as long as it lives.
class WithVariable {
 public:
  WithVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~WithVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

TEST_CASE("a walk is a sample of so many cases in their order, both ends among them, and the same each time") {
  const WithVariable part("MESHBED_TEST_WALKS", nullptr), seed("MESHBED_TEST_SEED", nullptr);
  const std::vector<int> sample = walk(numbers(100), 7);
  CHECK(sample.size() == 7);
  CHECK(sample.front() == 0);
  CHECK(sample.back() == 99);
  CHECK(std::is_sorted(sample.begin(), sample.end()));
  CHECK(std::adjacent_find(sample.begin(), sample.end()) == sample.end());
  CHECK(walk(numbers(100), 7) == sample);
  CHECK(walk(numbers(3), 7) == numbers(3));
  CHECK(walk(numbers(3), 1).size() == 1);
}

TEST_CASE("another seed draws another sample, and the seeds between them come to every case") {
  const WithVariable part("MESHBED_TEST_WALKS", nullptr);
  std::vector<int> met;
  for (int number = 1; number <= 60; ++number) {
    const WithVariable seed("MESHBED_TEST_SEED", std::to_string(number).c_str());
    const std::vector<int> sample = walk(numbers(20), 5);
    met.insert(met.end(), sample.begin(), sample.end());
  }
  std::sort(met.begin(), met.end());
  met.erase(std::unique(met.begin(), met.end()), met.end());
  CHECK(met == numbers(20));
}

TEST_CASE("MESHBED_TEST_WALKS=full goes all the way") {
  const WithVariable part("MESHBED_TEST_WALKS", "full");
  CHECK(walks_whole());
  CHECK(walk(numbers(100), 7) == numbers(100));
}

TEST_CASE("MESHBED_TEST_WALKS=ends takes the first and the last") {
  const WithVariable part("MESHBED_TEST_WALKS", "ends");
  CHECK_FALSE(walks_whole());
  CHECK(walk(numbers(100), 7) == std::vector<int>{0, 99});
  CHECK(walk(numbers(100), 1).size() == 1);
  CHECK(walk(numbers(2), 7) == numbers(2));
}

}  // namespace walk_test
