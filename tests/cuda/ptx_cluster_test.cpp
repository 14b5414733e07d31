// Clusters: blocks that are resident together, their barrier, and shared memory of one another.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda/ptx_bench.h"

namespace ptx_cluster_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

const std::string kHead = ".version 9.0\n.target sm_90\n.address_size 64\n";

/// Each thread writes 32 numbers: of each axis of the grid and its clusters.
const std::string kPlaces =
    kHead +
    ".visible .entry k(.param .u64 out) { .reg .b64 %l<4>; .reg .b32 %r<20>; .reg .pred %p;\n"
    " ld.param.u64 %l0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, "
    "%nctaid.x; mad.lo.u32 %r3, %r1, %r2, %r0; mad.wide.u32 %l0, %r3, 48, %l0;\n"
    " mov.u32 %r4, %clusterid.x; mov.u32 %r5, %clusterid.y; mov.u32 %r6, %nclusterid.x; mov.u32 "
    "%r7, %nclusterid.y; mov.u32 %r8, %cluster_ctaid.x; mov.u32 %r9, %cluster_ctaid.y;\n"
    " mov.u32 %r10, %cluster_nctaid.x; mov.u32 %r11, %cluster_nctaid.y; mov.u32 %r12, "
    "%cluster_ctarank; mov.u32 %r13, %cluster_nctarank; mov.pred %p, %is_explicit_cluster; selp.u32 "
    "%r14, 1, 0, %p;\n"
    " st.global.u32 [%l0], %r4; st.global.u32 [%l0+4], %r5; st.global.u32 [%l0+8], %r6; "
    "st.global.u32 [%l0+12], %r7; st.global.u32 [%l0+16], %r8; st.global.u32 [%l0+20], %r9; "
    "st.global.u32 [%l0+24], %r10; st.global.u32 [%l0+28], %r11; st.global.u32 [%l0+32], %r12; "
    "st.global.u32 [%l0+36], %r13; st.global.u32 [%l0+40], %r14; ret; }\n";

/// Each block puts its own number into shared memory, waits for its cluster, and reads the next rank's: by its address
/// in shared memory, by the generic one, and by an atomic that adds to it. Then all wait again.
const std::string kNeighbours =
    kHead +
    ".visible .entry k(.param .u64 out) { .shared .align 16 .u32 mine[4]; .reg .b64 %l<8>; .reg .b32 %r<20>; .reg "
    ".pred %p;\n ld.param.u64 %l0, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, "
    "%cluster_nctarank; mov.u32 %r3, %tid.x; setp.ne.u32 %p, %r3, 0;\n mad.lo.u32 %r4, %r0, 10, 7; @!%p st.shared.u32 "
    "[mine], %r4;\n barrier.cluster.arrive.release.aligned; add.u32 %r5, %r1, 1; rem.u32 %r5, %r5, %r2; "
    "barrier.cluster.wait.acquire.aligned;\n mapa.shared::cluster.u32 %r6, mine, %r5; ld.shared::cluster.u32 %r7, "
    "[%r6]; cvta.shared.u64 %l1, mine; mapa.u64 %l2, %l1, %r5; ld.u32 %r8, [%l2]; add.u32 %r7, %r7, %r8;\n "
    "getctarank.shared::cluster.u32 %r9, %r6; getctarank.u64 %r10, %l2; getctarank.u64 %r11, %l1;\n @!%p "
    "red.shared::cluster.add.u32 [%r6+4], 3; cvta.shared::cluster.u64 %l3, %l6;\n barrier.cluster.arrive; "
    "barrier.cluster.wait;\n ld.shared.u32 %r12, [mine+4]; @%p ret; mad.wide.u32 %l0, %r0, 20, %l0;\n st.global.u32 "
    "[%l0], %r7; st.global.u32 [%l0+4], %r9; st.global.u32 [%l0+8], %r10; st.global.u32 [%l0+12], %r11; st.global.u32 "
    "[%l0+16], %r12; ret; }\n";

}  // namespace

TEST_CASE("a block knows its cluster and its place in it, along each axis") {
  Device device(module_of(kPlaces));
  const auto out = device.memory.put(std::vector<unsigned>(24 * 12));
  CHECK(device.run("k", {.grid = 6, .grid_y = 4, .block = 1, .cluster = {3, 2, 1}}, out) == "");
  const auto found = device.memory.get<unsigned>(out, 24 * 12);
  for (unsigned y = 0; y < 4; ++y) {
    for (unsigned x = 0; x < 6; ++x) {
      const auto* at = &found[(y * 6 + x) * 12];
      CHECK(std::vector<unsigned>(at, at + 11) ==
            std::vector<unsigned>{x / 3, y / 2, 2, 2, x % 3, y % 2, 3, 2, x % 3 + y % 2 * 3, 6, 1});
    }
  }
  CHECK(device.run("k", {.grid = 2, .block = 1}, out) == "");
  const auto alone = device.memory.get<unsigned>(out, 24);
  CHECK(std::vector<unsigned>(&alone[12], &alone[23]) == std::vector<unsigned>{1, 0, 2, 1, 0, 0, 1, 1, 0, 1, 0});
}

TEST_CASE("blocks of a cluster read and change each other's shared memory, in any order of their turns") {
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    for (const std::uint32_t resident : {4U, 5U, 64U}) {
      CAPTURE(seed);
      CAPTURE(resident);
      Device device(module_of(kNeighbours));
      const auto out = device.memory.put(std::vector<unsigned>(12 * 5));
      CHECK(device.run("k", {.grid = 12, .block = 96, .resident = resident, .seed = seed, .cluster = {4, 1, 1}}, out) ==
            "");
      const auto found = device.memory.get<unsigned>(out, 12 * 5);
      for (unsigned block = 0; block < 12; ++block) {
        const unsigned next = (block % 4 + 1) % 4;
        const auto* at = &found[block * 5];
        CHECK(std::vector<unsigned>(at, at + 5) ==
              std::vector<unsigned>{2 * ((block / 4 * 4 + next) * 10 + 7), next, next, block % 4, 3});
      }
    }
  }
}

TEST_CASE("the cluster's barrier is one of all threads that have not ended, and of a block alone without clusters") {
  const std::string text =
      kHead +
      ".visible .entry k(.param .u64 out) { .reg .b64 %l<2>; .reg .b32 %r<4>; .reg .pred %p;\n ld.param.u64 %l0, "
      "[out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; setp.eq.u32 %p, %r0, 1; @%p ret; setp.gt.u32 %p, %r1, 40; "
      "@%p ret;\n barrier.cluster.arrive; barrier.cluster.wait; red.global.add.u32 [%l0], 1; ret; }\n";
  Device device(module_of(text));
  const auto out = device.memory.put(std::vector<unsigned>(1));
  CHECK(device.run("k", {.grid = 4, .block = 64, .cluster = {4, 1, 1}}, out) == "");
  CHECK(device.memory.get<unsigned>(out, 1)[0] == 3 * 41);
  CHECK(device.run("k", {.grid = 4, .block = 64}, out) == "");
  CHECK(device.memory.get<unsigned>(out, 1)[0] == 2 * 3 * 41);
}

TEST_CASE("what goes wrong at a cluster's barrier, and beyond a cluster, is named") {
  const auto run = [](const std::string& statements) {
    Device device(module_of(kHead +
                            ".visible .entry k() { .shared .u32 mine; .reg .b32 %r<4>; .reg .pred %p; mov.u32 "
                            "%r0, %cluster_ctarank; setp.eq.u32 %p, %r0, 0;\n" +
                            statements + "\nret; }\n"));
    return device.run("k", {.grid = 2, .block = 1, .cluster = {2, 1, 1}});
  };
  const std::string place = "kernel k, block (0,0,0), thread (0,0,0), PTX line 5: ";
  CHECK(run("barrier.cluster.wait;") == place + "barrier.cluster.wait without barrier.cluster.arrive before it");
  CHECK(run("barrier.cluster.arrive; barrier.cluster.arrive;") ==
        place + "a second barrier.cluster.arrive before barrier.cluster.wait");
  CHECK(run("mapa.shared::cluster.u32 %r1, mine, 2; ld.shared::cluster.u32 %r2, [%r1];")
            .find("the block has 4 bytes of it, the cluster 2 blocks") != std::string::npos);
  // One waits for the cluster, the other at a barrier of its block that one more thread should reach.
  CHECK(run("@%p bra other; barrier.cluster.arrive; barrier.cluster.wait; ret; other: bar.sync 0, 64;")
            .find("a barrier that not all reach: 1 threads wait at line 5") != std::string::npos);
}

TEST_CASE("a bulk copy to several blocks of a cluster comes to each, and counts at each one's mbarrier") {
  Device device(module_of(
      kHead +
      ".visible .entry k(.param .u64 in, .param .u64 out) { .shared .align 16 .b8 s[128]; .shared .align 8 .b64 m; "
      ".reg .pred %p; .reg .b16 %h; .reg .b32 %r<8>; .reg .b64 %l<8>;\n mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, m; "
      "mov.u32 %r3, s; ld.param.u64 %l1, [in]; ld.param.u64 %l2, [out];\n mbarrier.init.shared.b64 [%r2], 1; "
      "fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 64; setp.eq.u32 %p, %r1, 3; "
      "@%p mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], 64;\n barrier.cluster.arrive; "
      "barrier.cluster.wait;\n setp.ne.u32 %p, %r1, 0; @%p bra wait; mov.b16 %h, 7;\n "
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%l1], 64, [%r2], "
      "%h;\nwait: mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0; @!%p bra wait;\n ld.shared.u32 %r5, [s+60]; "
      "mad.wide.u32 %l2, %r1, 4, %l2; st.global.u32 [%l2], %r5; barrier.cluster.arrive; barrier.cluster.wait; ret; "
      "}\n"));
  std::vector<unsigned> values(16);
  std::iota(values.begin(), values.end(), 100U);
  const auto in = device.memory.put(values), out = device.memory.put(std::vector<unsigned>(4, 9));
  CHECK(device.run("k", {.grid = 4, .block = 1, .cluster = {4, 1, 1}}, in, out) == "");
  CHECK(device.memory.get<unsigned>(out, 4) == std::vector<unsigned>{115, 115, 115, 0});
}

}  // namespace ptx_cluster_test
