// Of each transfer the earlier receives that it shares elements with, against a look at all of them.
#include "plugin/coll/plan/earlier_receives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/base/prng.h"

namespace earlier_receives_test {

using namespace meshbed::coll;

TEST_CASE("the receives that a transfer shares elements with are those that all of them would be looked through for") {
  meshbed::Prng prng(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Transfer> transfers(static_cast<std::size_t>(prng.below(40)));
    for (Transfer& each : transfers) {
      each.receives = prng.below(2) == 0;
      each.range = {prng.below(50), prng.below(round % 2 == 0 ? 5 : 40)};
    }
    EarlierReceives earlier;
    earlier.find(transfers);
    for (std::size_t index = 0; index < transfers.size(); ++index) {
      std::vector<std::uint32_t> wanted, found(earlier.of(index).begin(), earlier.of(index).end());
      const Range& own = transfers[index].range;
      for (std::uint32_t other = 0; other < index; ++other) {
        const Range& range = transfers[other].range;
        if (!transfers[other].receives || range.count == 0) continue;
        if (range.begin < end_of(own) && own.begin < end_of(range)) wanted.push_back(other);
      }
      std::sort(found.begin(), found.end());
      CHECK(found == wanted);
    }
  }
}

}  // namespace earlier_receives_test
