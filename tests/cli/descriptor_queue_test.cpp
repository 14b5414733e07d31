// Descriptor queues between lanes and proxy: what is written comes out as it was, and when a place is given back.
#include "testbed/workload/megakernel/descriptor_queue.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace descriptor_queue_test {

using namespace meshbed::testbed;

namespace {

RingDescriptor put(meshbed::ring::Word message) {
  return {.connection = 3, .space = 2, .offset = 0x1000 + message, .bytes = 4096, .message = message};
}
RingDescriptor signal(meshbed::ring::Word message) {
  return {.is_put = false, .is_signal = true, .connection = 3, .message = message};
}
RingDescriptor put_and_signal(meshbed::ring::Word message) {
  RingDescriptor both = put(message);
  both.is_signal = true;
  return both;
}

void push(DescriptorQueue& queue, const RingDescriptor& what) { queue.show(queue.push(what)); }

}  // namespace

TEST_CASE("puts and signals come out of either queue as they went in, over many laps") {
  for (const auto& queue : {make_gin_queue(4), make_fifo_queue(4)}) {
    for (meshbed::ring::Word message = 0; message < 100; ++message) {
      for (const RingDescriptor& what : {put(message), signal(message), put_and_signal(message)}) {
        REQUIRE(queue->has_room());
        push(*queue, what);
        const auto taken = queue->take();
        REQUIRE(taken);
        CHECK(taken->what == what);
        queue->posted(taken->position);
        queue->completed(taken->position);
      }
    }
    CHECK_FALSE(queue->take());
  }
}

TEST_CASE("what is not seen yet is not taken") {
  const auto queue = make_gin_queue(4);
  const std::uint64_t position = queue->push(put(0));
  CHECK_FALSE(queue->take());
  queue->show(position);
  CHECK(queue->take());
}

TEST_CASE("gin: a place is given back once its descriptor and all before it are complete") {
  const auto queue = make_gin_queue(2);
  push(*queue, put(0));
  push(*queue, put(1));
  CHECK_FALSE(queue->has_room());
  for (const std::uint64_t position : {0, 1}) {
    REQUIRE(queue->take());
    queue->posted(position);
  }
  CHECK_FALSE(queue->has_room());
  queue->completed(1);
  CHECK_FALSE(queue->has_room());
  queue->completed(0);
  CHECK(queue->has_room());
  push(*queue, put(2));
  CHECK(queue->has_room());  // both came back
}

TEST_CASE("fifo: a place is given back once its trigger is posted") {
  const auto queue = make_fifo_queue(2);
  push(*queue, put(0));
  push(*queue, signal(0));
  CHECK_FALSE(queue->has_room());
  const auto taken = queue->take();
  REQUIRE(taken);
  CHECK_FALSE(queue->has_room());
  queue->posted(taken->position);
  CHECK(queue->has_room());
}

TEST_CASE("places that are reserved first are taken in their order, and a hole holds back all behind it") {
  for (const auto& queue : {make_gin_queue(2), make_fifo_queue(2)}) {
    const std::uint64_t first = queue->reserve(), second = queue->reserve(), third = queue->reserve();
    CHECK(queue->overcommitted() == 1);
    CHECK(queue->is_free(second));
    CHECK_FALSE(queue->is_free(third));
    queue->write(second, put(1));
    queue->show(second);
    CHECK_FALSE(queue->take());  // the first was reserved, and is not written
    queue->write(first, put(0));
    CHECK_FALSE(queue->take());  // nor seen
    queue->show(first);
    auto taken = queue->take();
    REQUIRE(taken);
    CHECK(taken->what == put(0));
    queue->posted(taken->position);
    queue->completed(taken->position);
    CHECK(queue->is_free(third));
    CHECK(queue->overcommitted() == 0);
    taken = queue->take();
    REQUIRE(taken);
    CHECK(taken->what == put(1));
    CHECK_FALSE(queue->take());
  }
}

}  // namespace descriptor_queue_test
