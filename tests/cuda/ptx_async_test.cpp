// Asynchronous copies and mbarriers.
#include <doctest/doctest.h>

#include <numeric>

#include "tests/cuda/ptx_bench.h"

namespace ptx_async_test {

using namespace meshbed;
using namespace meshbed::test;

TEST_CASE("a bulk copy and 64 arrivals complete an mbarrier; what was copied is there then") {
  Device device(module_of(
      ".version 9.0 .target sm_90 .address_size 64\n"
      ".visible .entry k(.param .u64 in, .param .u64 out) {\n"
      " .shared .align 16 .b8 s[512]; .shared .align 8 .b64 m; .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %l<8>;\n"
      " mov.u32 %r1, %tid.x; mov.u32 %r2, m; mov.u32 %r3, s; ld.param.u64 %l1, [in]; ld.param.u64 %l2, [out];\n"
      " setp.ne.u32 %p, %r1, 0; @%p bra ready; mbarrier.init.shared.b64 [%r2], 64; ready: bar.sync 0;\n"
      " @%p bra arrive;\n"
      " mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r2], 256;\n"
      " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%l1], 256, [%r2];\n"
      "arrive: mad.lo.u32 %r4, %r1, 4, %r3; mad.wide.u32 %l3, %r1, 4, %l1;\n"
      " cp.async.ca.shared.global [%r4+256], [%l3], 4, 4; cp.async.commit_group; cp.async.wait_group 0;\n"
      " mbarrier.arrive.shared.b64 %l4, [%r2];\n"
      "wait: mbarrier.try_wait.shared.b64 %p, [%r2], %l4; @!%p bra wait;\n"
      " ld.shared.u32 %r5, [%r4]; ld.shared.u32 %r6, [%r4+256]; add.u32 %r5, %r5, %r6;\n"
      " mad.wide.u32 %l5, %r1, 4, %l2; st.global.u32 [%l5], %r5; ret; }\n"));
  std::vector<unsigned> values(64);
  std::iota(values.begin(), values.end(), 5U);
  const auto in = device.memory.put(values);
  const auto out = device.memory.put(std::vector<unsigned>(64, 0));
  CHECK(device.run("k", {.block = 64}, in, out) == "");
  const auto found = device.memory.get<unsigned>(out, 64);
  for (unsigned index = 0; index < 64; ++index) CHECK(found[index] == 2 * (index + 5));
}

}  // namespace ptx_async_test
