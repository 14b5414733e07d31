#include "plugin/base/crowd.h"

#include <algorithm>
#include <vector>

namespace meshbed {

std::optional<std::size_t> select_victim(std::span<const Waiting> waiting) {
  struct Crowd {
    std::size_t first = 0;
    std::size_t size = 0;
  };
  const bool all_spared = std::all_of(waiting.begin(), waiting.end(), [](const Waiting& one) { return one.spared; });
  std::vector<Crowd> crowds;  // one an address
  for (std::size_t index = 0; index < waiting.size(); ++index) {
    if (waiting[index].spared != all_spared) continue;
    auto crowd = std::find_if(crowds.begin(), crowds.end(),
                              [&](const Crowd& other) { return waiting[other.first].from == waiting[index].from; });
    if (crowd == crowds.end()) crowd = crowds.insert(crowds.end(), {.first = index, .size = 0});
    ++crowd->size;
  }
  const auto largest = std::max_element(crowds.begin(), crowds.end(),
                                        [](const Crowd& one, const Crowd& other) { return one.size < other.size; });
  if (largest == crowds.end()) return std::nullopt;
  return largest->first;
}

}  // namespace meshbed
