#include "plugin/coll/reduce.h"

#include <doctest/doctest.h>

#include <vector>

#include "plugin/base/prng.h"

using meshbed::coll::sum_float32;

TEST_CASE("float32 sum: one rounding per element, at every length, alignment and in place") {
  meshbed::Prng prng(7);
  for (std::size_t count = 0; count < 70; ++count) {
    for (const std::size_t shift : {0, 1, 3}) {
      std::vector<float> arrived(count + shift), own(count + shift), result(count + shift, -1);
      for (float& value : arrived) value = static_cast<float>(prng.below(1U << 24U)) * 0.1F;
      for (float& value : own) value = static_cast<float>(prng.below(1U << 24U)) * 1e-3F;
      sum_float32(result.data() + shift, arrived.data() + shift, own.data(), count);
      std::vector<float> in_place = arrived;
      sum_float32(in_place.data() + shift, in_place.data() + shift, own.data(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = arrived[i + shift] + own[i];
        CHECK(result[i + shift] == expected);
        CHECK(in_place[i + shift] == expected);
      }
    }
  }
}
