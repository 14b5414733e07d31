#include "testbed/base/memory.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "plugin/base/units.h"

namespace memory_test {

using namespace meshbed;
using namespace meshbed::testbed;

TEST_CASE("buffers that fit are taken, and what does not fit is refused with what would") {
  CHECK_NOTHROW(refuse_too_large({.ranks = 2, .buffers_per_rank = 2, .buffer_bytes = kGiB}, 4 * kGiB, "-e"));
  CHECK_THROWS_WITH_AS(
      refuse_too_large({.ranks = 2, .buffers_per_rank = 2, .buffer_bytes = kGiB}, 3 * kGiB, "-e"),
      "-e: 2 ranks with 2 buffers each of 1 GiB need 4 GiB of memory, and this machine has 3 GiB left; lower it to 768 "
      "MiB or less, or take fewer ranks",
      std::runtime_error);
  CHECK_THROWS_AS(refuse_too_large({.ranks = 4096, .buffers_per_rank = 2, .buffer_bytes = ~0ULL}, kGiB, "-e"),
                  std::runtime_error);
  CHECK_NOTHROW(refuse_too_large({.ranks = 0}, 0, "-e"));
}

TEST_CASE("this machine has memory") { CHECK(available_memory_bytes() > kMiB); }

}  // namespace memory_test
