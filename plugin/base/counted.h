#pragma once
// Numbers of things in sentences.

#include <cstdint>
#include <string>

namespace meshbed {

/// "1 node", "2 nodes", "2 switches".
inline std::string counted(std::uint64_t count, const std::string& noun) {
  const bool hisses = noun.size() > 2 && noun.compare(noun.size() - 2, 2, "ch") == 0;
  return std::to_string(count) + " " + noun + (count == 1 ? "" : hisses ? "es" : "s");
}

}  // namespace meshbed
