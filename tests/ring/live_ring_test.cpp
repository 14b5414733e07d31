// A ring that is worked on while it is published into: every slot is executed exactly once, waits end, tenants stay
// out.
#include "plugin/ring/queue/live_ring.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "tests/ring/rings.h"
#include "tests/support/walk.h"

namespace live_ring_test {

using namespace meshbed::ring;
using namespace meshbed::test;

namespace {

// A tenth of the ten million, but in the stage walks. Sanitizers make each access a call: a hundredth of the slots runs
// through the same orders many thousand times.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr Word kSlotsOfRun = 100'000;
#else
const Word kSlotsOfRun = walks_whole() ? 10'000'000 : 1'000'000;
#endif
constexpr std::int64_t kLong_ms = 60'000;

struct Shared {
  explicit Shared(Word slots) : control(control_of()), ring(*encode_empty_ring(slots)) {}
  LiveRing open() { return *LiveRing::over(control, ring, kLayout2026_05); }
  Buffer control, ring;
};

/// Publishes the items `first`, `first` + `stride`, ... below `end`, each once, into the slots of this publisher alone.
void publish_all(Shared& shared, Word publisher, Word publishers, Word end, std::atomic<int>& errors) {
  LiveRing ring = shared.open();
  const Word own = ring.slots() / publishers;
  Word turn = 0;
  for (Word item = publisher; item < end; item += publishers, turn = turn + 1 == own ? 0 : turn + 1) {
    const Publication what{
        .slot = publisher * own + turn, .opcode = opcode::kUserFirst, .args = {item, ~item, 0, 0, 0, item}};
    if (!ring.publish_within(what, kLong_ms)) ++errors;
  }
  for (Word slot = publisher * own; slot < (publisher + 1) * own; ++slot) {
    if (ring.status_of(slot) != status::kEmpty && !ring.done_within(slot, kLong_ms)) ++errors;
  }
}

}  // namespace

TEST_CASE("ten million slots, two publishers and six lanes: each is executed exactly once, with its own words") {
  constexpr Word kPublishers = 2, kLanes = 6;
  MESSAGE("walks ", kSlotsOfRun, " of 10000000 slots; all: MESHBED_TEST_WALKS=full");
  Shared shared(64);
  auto executed = std::make_unique<std::atomic<std::uint8_t>[]>(kSlotsOfRun);
  std::atomic<int> errors = 0;
  std::vector<std::thread> lanes, publishers;
  for (Word lane = 0; lane < kLanes; ++lane) {
    lanes.emplace_back([&] {
      LiveRing ring = shared.open();
      while (true) {
        const auto claim = ring.claim_within(kLong_ms);
        if (!claim) {
          if (claim.error().code != meshbed::ErrorCode::kClosed) ++errors;
          return;
        }
        const auto& args = claim->words.args;
        if (args[0] >= kSlotsOfRun || args[1] != ~args[0] || args[5] != args[0]) {
          ++errors;
        } else {
          executed[args[0]].fetch_add(1, std::memory_order_relaxed);
        }
        if (!ring.finish(claim->slot)) ++errors;
      }
    });
  }
  for (Word publisher = 0; publisher < kPublishers; ++publisher) {
    publishers.emplace_back([&, publisher] { publish_all(shared, publisher, kPublishers, kSlotsOfRun, errors); });
  }
  for (std::thread& thread : publishers) thread.join();
  shared.open().shut_down();
  for (std::thread& thread : lanes) thread.join();
  CHECK(errors == 0);
  Word wrong = 0;
  for (Word item = 0; item < kSlotsOfRun; ++item) wrong += executed[item] != 1;
  CHECK(wrong == 0);
  CHECK(shared.open().done_count() == kSlotsOfRun);
}

TEST_CASE("two processes over one mapping: what the parent publishes the child executes, in its own address space") {
  constexpr Word kItems = 20'000;
  const Buffer empty_control = control_of(), empty_ring = *encode_empty_ring(8);
  const std::size_t size = empty_control.size() + empty_ring.size() + kItems;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const std::span<std::uint8_t> bytes(static_cast<std::uint8_t*>(memory), size);
  std::copy(empty_control.begin(), empty_control.end(), bytes.begin());
  const auto open = [&] {
    return *LiveRing::over(bytes.first(empty_control.size()), bytes.subspan(empty_control.size(), empty_ring.size()),
                           kLayout2026_05);
  };
  std::uint8_t* executed = bytes.data() + empty_control.size() + empty_ring.size();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    LiveRing ring = open();
    while (const auto claim = ring.claim_within(kLong_ms)) {
      ++executed[claim->words.args[0] % kItems];
      if (!ring.finish(claim->slot)) _exit(2);
    }
    _exit(ring.is_shut_down() ? 0 : 1);
  }
  LiveRing ring = open();
  int refused = 0;
  for (Word item = 0; item < kItems; ++item) {
    refused += !ring.publish_within({.slot = item % 8, .opcode = opcode::kUserFirst, .args = {item}}, kLong_ms);
  }
  for (Word slot = 0; slot < 8; ++slot) refused += !ring.done_within(slot, kLong_ms);
  ring.shut_down();
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(refused == 0);
  CHECK(std::count(executed, executed + kItems, 1) == kItems);
  CHECK(ring.done_count() == kItems);
  munmap(memory, size);
}

TEST_CASE("waits end, and say what they waited for") {
  Shared shared(1);
  LiveRing ring = shared.open();
  const auto none = ring.claim_within(1);
  REQUIRE_FALSE(none);
  CHECK(none.error().text == "none of 1 slots was published for a tenant that may run within 1 ms");
  REQUIRE(ring.publish({.opcode = opcode::kNop}));
  const auto twice = ring.publish_within({.opcode = opcode::kNop}, 1);
  REQUIRE_FALSE(twice);
  CHECK(twice.error().text == "slot 0 is PUBLISHED, and has not become free within 1 ms");
  CHECK_FALSE(ring.publish({.opcode = opcode::kNop}));
  const auto undone = ring.done_within(0, 1);
  REQUIRE_FALSE(undone);
  CHECK(undone.error().code == meshbed::ErrorCode::kTimeout);
  REQUIRE(ring.claim());
  REQUIRE(ring.finish(0, status::kFault));
  CHECK(ring.done_within(0, kLong_ms).error().text == "slot 0 is FAULT, and will not become DONE");
  ring.shut_down();
  CHECK(ring.claim_within(kLong_ms).error().code == meshbed::ErrorCode::kClosed);
  CHECK(ring.publish_within({.opcode = opcode::kNop}, kLong_ms).error().code == meshbed::ErrorCode::kClosed);
}

TEST_CASE("a slot of a tenant that may not run is left, and claimed once it may; a requeued one is claimed again") {
  Shared shared(2);
  LiveRing ring = shared.open();
  REQUIRE(ring.publish({.slot = 1, .tenant = 4, .opcode = opcode::kNop, .args = {9}}));
  CHECK_FALSE(ring.claim());
  CHECK(ring.status_of(1) == status::kPublished);
  ring.set_tenant(4, true);
  const auto claim = ring.claim();
  REQUIRE(claim);
  CHECK(claim->slot == 1);
  CHECK(claim->words.tenant == 4);
  CHECK(claim->words.args[0] == 9);
  REQUIRE(ring.finish(1, status::kRequeue));
  REQUIRE(ring.claim());
  REQUIRE(ring.finish(1));
  CHECK(ring.done_count() == 1);
  CHECK_FALSE(ring.finish(1));
  CHECK_FALSE(ring.finish(2));
  CHECK_FALSE(ring.publish({.slot = 0, .tenant = 29}));
  REQUIRE(ring.publish({.slot = 0}));
  REQUIRE(ring.claim());
  CHECK_FALSE(ring.finish(0, status::kEmpty));
}

TEST_CASE("a ring is opened over whole words alone") {
  Buffer control(644), ring(128);
  CHECK(LiveRing::over(std::span(control).first(640), std::span(ring).first(64), kLayout2026_05));
  CHECK_FALSE(LiveRing::over(std::span(control).subspan(1, 640), std::span(ring).first(64), kLayout2026_05));
  CHECK_FALSE(LiveRing::over(std::span(control).first(640), std::span(ring).first(63), kLayout2026_05));
  CHECK_FALSE(LiveRing::over(std::span(control).first(636), std::span(ring).first(64), kLayout2026_05));
}

}  // namespace live_ring_test
