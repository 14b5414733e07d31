#pragma once
// What the plans' walks are about: who has contributed to an element.

#include <cstdint>

namespace meshbed::test {

/// A bit for each rank that has contributed to it, and for each that has more than once.
struct Element {
  std::uint64_t who = 0, twice = 0;
  bool operator==(const Element&) const = default;
};
inline constexpr std::uint64_t kElementBytes = 8;

inline Element contribution(int rank) { return {.who = std::uint64_t{1} << rank}; }

inline Element together(const Element& one, const Element& other) {
  return {.who = one.who | other.who, .twice = one.twice | other.twice | (one.who & other.who)};
}

}  // namespace meshbed::test
