// The pool of requests, and pointers that are refused.
#include "plugin/net/link/request.h"

#include <doctest/doctest.h>

#include <memory>
#include <set>

#include "plugin/net/wire/ring.h"

namespace request_test {

using namespace meshbed::net;

TEST_CASE("D7: the pool holds 32 requests per grouped receive, gives each once, and takes all back for ever") {
  auto pool = std::make_unique<RequestPool>(nullptr);
  for (int round = 0; round < 1000; ++round) {
    std::set<Request*> taken;
    while (!pool->empty()) CHECK(taken.insert(&pool->take()).second);
    CHECK(taken.size() == 32 * 8);
    for (Request* request : taken) pool->give_back(*request);
    CHECK(pool->in_use() == 0);
    if (round > 2) round += 100;
  }
}

TEST_CASE("D6: a late completion finds no request once its own is gone, even if its place is taken again") {
  auto pool = std::make_unique<RequestPool>(nullptr);
  Request& first = pool->take();
  const std::uint64_t late = first.work_id();
  CHECK(pool->find(late) == &first);
  pool->give_back(first);
  CHECK(pool->find(late) == nullptr);
  Request& second = pool->take();
  CHECK(&second == &first);
  CHECK(pool->find(late) == nullptr);
  CHECK(pool->find(second.work_id()) == &second);
}

TEST_CASE("invalid work ids are refused: control bit, index beyond the pool, generation of the future") {
  auto pool = std::make_unique<RequestPool>(nullptr);
  Request& request = pool->take();
  CHECK(pool->find(request.work_id() | RequestPool::kControlBit) == nullptr);
  CHECK(pool->find(request.work_id() + (std::uint64_t{1} << 16U)) == nullptr);
  CHECK(pool->find(0xffff) == nullptr);
}

TEST_CASE("a pointer is followed only to a living object of the right kind") {
  auto pool = std::make_unique<RequestPool>(nullptr);
  Request& request = pool->take();
  void* pointer = to_pointer(&request);
  CHECK(object_cast<Request>(pointer) == &request);
  pool->give_back(request);
  CHECK(object_cast<Request>(pointer) == nullptr);
  CHECK(object_cast<Request>(nullptr) == nullptr);
  std::array<std::uint64_t, 8> foreign{};
  CHECK(object_cast<Request>(foreign.data()) == nullptr);
}

TEST_CASE("groups never wrap: whatever their sizes, live entries stand in different slots of the ring") {
  // Walks every start in the ring with every group size before it and after it.
  for (std::uint64_t start = 0; start < kRingEntries; ++start) {
    std::set<std::uint32_t> slots;
    std::uint64_t entry = start;
    for (std::uint32_t size = 1; entry + kMaxGroup <= start + kRingEntries; size = size % kMaxGroup + 1) {
      for (std::uint32_t part = 0; part < size; ++part) {
        const std::uint32_t slot = slot_of(entry) + part;
        CHECK(slot < kRingSlots);
        CHECK(slots.insert(slot).second);
      }
      entry += size;
    }
  }
}

TEST_CASE("an entry has arrived when its own sequence stands there, not that of a lap before") {
  ClearToSend slot;
  CHECK_FALSE(has_arrived(slot, 0));
  slot.sequence = sequence_of(5);
  CHECK(has_arrived(slot, 5));
  CHECK_FALSE(has_arrived(slot, 5 + kRingEntries));
  CHECK_FALSE(has_arrived(slot, 4));
  // 32 bits of sequence: the lap in which it passes zero also separates old from new.
  const std::uint64_t wrap = (std::uint64_t{1} << 32U) - 1;
  slot.sequence = sequence_of(wrap - kRingEntries);
  CHECK_FALSE(has_arrived(slot, wrap));
  slot.sequence = sequence_of(wrap);
  CHECK(has_arrived(slot, wrap));
}

}  // namespace request_test
