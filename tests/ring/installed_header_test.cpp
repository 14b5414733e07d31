// The headers that users install are the layouts of this room, in C and C++; tests/own_kernel_test.cpp has the
// device's.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/ring/abi/control.h"
#include "plugin/ring/abi/slot.h"
#include "plugin/ring/include/meshbed/ring.h"
#include "plugin/ring/queue/gin_descriptor.h"
#include "plugin/ring/queue/proxy_queue.h"

namespace installed_header_test {

using namespace meshbed::ring;

static_assert(MESHBED_SLOT_WORDS == kSlotWords && MESHBED_SLOT_STATUS == slot_word::kStatus);
static_assert(MESHBED_SLOT_OPCODE == slot_word::kOpcode && MESHBED_SLOT_TENANT == slot_word::kTenant);
static_assert(MESHBED_SLOT_PRIORITY == kLayout2026_05.priority_word && MESHBED_SLOT_ARGS == kLayout2026_05.arg0_word);
static_assert(MESHBED_SLOT_ARGS_MOST == kLayout2026_05.args_per_slot);
static_assert(MESHBED_SLOT_EMPTY == status::kEmpty && MESHBED_SLOT_PUBLISHED == status::kPublished);
static_assert(MESHBED_SLOT_CLAIMED == status::kClaimed && MESHBED_SLOT_DONE == status::kDone);
static_assert(MESHBED_SLOT_YIELD == status::kYield && MESHBED_SLOT_REQUEUE == status::kRequeue);
static_assert(MESHBED_SLOT_FAULT == status::kFault && MESHBED_OPCODE_USER_FIRST == opcode::kUserFirst);
static_assert(MESHBED_CONTROL_SHUTDOWN == control_word::kShutdown);
static_assert(MESHBED_CONTROL_DONE_COUNT == control_word::kDoneCount);
static_assert(MESHBED_CONTROL_TENANT_BASE == control_word::kTenantBase);
static_assert(MESHBED_CONTROL_TENANT_MASKS == control_word::kTenantMasks);
static_assert(MESHBED_CONTROL_TENANTS_MOST == kTenantMasksMost);
static_assert(MESHBED_CONTROL_WORDS_LEAST == kLayout2026_05.control_min_words);
// NCCL 2.30.7, src/include/nccl_device/gin/proxy/gin_proxy_device_host_common.h.
static_assert(MESHBED_GIN_PUT == 1 && MESHBED_GIN_INLINE == 2 && MESHBED_GIN_COUNTER == 4);
static_assert(MESHBED_GIN_SIGNAL_INC == 8 && MESHBED_GIN_SIGNAL_ADD == 16 && MESHBED_GIN_VA_SIGNAL == 32);
static_assert(MESHBED_GIN_GET == 64 && MESHBED_GIN_FLUSH == 128 && MESHBED_GIN_WORDS == 16);

namespace {

std::uint64_t bits_of(meshbed::Prng& random, unsigned count) {
  return random.next() & ((std::uint64_t{1} << count) - 1);
}

}  // namespace

TEST_CASE(
    "a published slot is the codec's, is not overwritten while it is taken, and a fresh control buffer likewise") {
  std::vector<std::uint32_t> ring(2 * MESHBED_SLOT_WORDS), control(MESHBED_CONTROL_WORDS_LEAST);
  const std::uint32_t args[] = {7, 8, 9};
  CHECK(meshbed_slot_publish(ring.data(), 1, 3, 12, 2, args, 3) == 0);
  const Bytes bytes(reinterpret_cast<const std::uint8_t*>(ring.data()), ring.size() * sizeof(std::uint32_t));
  const auto slot = decode_slot(bytes, kLayout2026_05, 1);
  REQUIRE(slot);
  CHECK(*slot == Slot{.status = status::kPublished, .opcode = 12, .tenant = 3, .priority = 2, .args = {7, 8, 9}});
  CHECK(meshbed_slot_publish(ring.data(), 1, 3, 13, 2, args, 3) == -1);
  CHECK(meshbed_slot_publish(ring.data(), 0, 3, 13, 2, args, 13) == -1);
  CHECK(ring[1 * MESHBED_SLOT_WORDS + MESHBED_SLOT_OPCODE] == 12);
  ring[MESHBED_SLOT_WORDS] = MESHBED_SLOT_DONE;
  CHECK(meshbed_slot_poll(ring.data(), 1) == MESHBED_SLOT_DONE);
  CHECK(meshbed_slot_publish(ring.data(), 1, 0, 13, 2, nullptr, 0) == 0);
  CHECK(ring[1 * MESHBED_SLOT_WORDS + MESHBED_SLOT_ARGS] == 0);

  meshbed_control_init(control.data(), 2);
  const auto word = [&](std::uint64_t at) { return control[at]; };
  CHECK(tenant_may_run(1, control.size(), Mode::kSafe, word));
  CHECK_FALSE(tenant_may_run(2, control.size(), Mode::kSafe, word));
  meshbed_control_shutdown(control.data());
  control[MESHBED_CONTROL_DONE_COUNT] = 5;
  CHECK(control[MESHBED_CONTROL_SHUTDOWN] == 1);
  CHECK(meshbed_control_done(control.data()) == 5);
}

TEST_CASE("random operations come back from their descriptors, also through the codecs that check them") {
  meshbed::Prng random(7);
  for (int turn = 0; turn < 20'000; ++turn) {
    const FifoTrigger trigger{.size_bytes = static_cast<std::uint32_t>(random.next()),
                              .source_offset = static_cast<std::uint32_t>(random.next()),
                              .destination_offset = static_cast<std::uint32_t>(random.next()),
                              .source_memory = static_cast<std::uint16_t>(bits_of(random, 9)),
                              .destination_memory = static_cast<std::uint16_t>(bits_of(random, 9)),
                              .type = static_cast<std::uint8_t>(bits_of(random, 3)),
                              .semaphore = static_cast<std::uint16_t>(bits_of(random, 10))};
    const auto words = encode_trigger(trigger);
    REQUIRE(words);
    const meshbed_fifo_trigger taken{meshbed_fifo_first(trigger.size_bytes, trigger.source_offset),
                                     meshbed_fifo_second(trigger.destination_offset, trigger.source_memory,
                                                         trigger.destination_memory, trigger.type, trigger.semaphore)};
    CHECK(FifoWords{taken.first, taken.second} == *words);
    CHECK(FifoTrigger{.size_bytes = meshbed_fifo_size_bytes(taken),
                      .source_offset = meshbed_fifo_source_offset(taken),
                      .destination_offset = meshbed_fifo_destination_offset(taken),
                      .source_memory = static_cast<std::uint16_t>(meshbed_fifo_source_memory(taken)),
                      .destination_memory = static_cast<std::uint16_t>(meshbed_fifo_destination_memory(taken)),
                      .type = static_cast<std::uint8_t>(meshbed_fifo_type(taken)),
                      .semaphore = static_cast<std::uint16_t>(meshbed_fifo_semaphore(taken))} == trigger);

    meshbed_gin_operation what{};
    what.op = turn % 2 == 0 ? MESHBED_GIN_PUT | MESHBED_GIN_SIGNAL_ADD | MESHBED_GIN_COUNTER : MESHBED_GIN_GET;
    what.size_bytes = bits_of(random, 57);
    what.source_offset = bits_of(random, 63);
    what.source_handle = bits_of(random, 63);
    what.destination_offset = bits_of(random, 63);
    what.destination_handle = bits_of(random, 63);
    what.counter = static_cast<std::uint32_t>(bits_of(random, 23));
    what.signal = static_cast<std::uint32_t>(bits_of(random, 24));
    what.signal_value = random.next();
    const auto op = static_cast<std::uint16_t>(what.op);
    const auto expected = encode_gin({.op = op,
                                      .size_bytes = what.size_bytes,
                                      .source_offset = what.source_offset,
                                      .source_handle = what.source_handle,
                                      .destination_offset = what.destination_offset,
                                      .destination_handle = what.destination_handle,
                                      .counter = what.counter,
                                      .signal = what.signal,
                                      .signal_value = what.signal_value});
    REQUIRE(expected);
    const meshbed_gin_descriptor made = meshbed_gin_encode(&what);
    const GinWords mask = gin_mask(op);
    for (std::size_t word = 0; word < kGinWords; ++word) {
      CHECK((made.words[word] & mask[word]) == ((*expected)[word] & mask[word]));
    }
    const meshbed_gin_operation back = meshbed_gin_decode(&made);
    CHECK(back.size_bytes == what.size_bytes);
    CHECK(back.source_handle == what.source_handle);
    CHECK(back.destination_offset == what.destination_offset);
    CHECK(back.counter == what.counter);
    CHECK(back.signal == what.signal);
    CHECK(back.signal_value == what.signal_value);
    const auto checked = decode_gin(*expected);
    REQUIRE(checked);
    CHECK(checked->size_bytes == what.size_bytes);
    if (turn % 2 == 0) CHECK(checked->signal_value == what.signal_value);
  }
}

TEST_CASE("the host's loops take what other threads push meanwhile, in order and once") {
  constexpr std::uint64_t kDepth = 8, kItems = 20'000;
  std::vector<std::uint64_t> triggers(2 * kDepth), words(kGinWords * kDepth);
  std::uint64_t fifo_head = 0, fifo_tail = 0;
  std::uint32_t gin_head = 0, gin_tail = 0;
  const meshbed_fifo fifo{triggers.data(), &fifo_head, &fifo_tail, kDepth};
  const meshbed_gin gin{words.data(), &gin_head, &gin_tail, kDepth};
  std::thread pusher([&] {
    const ProxyQueueMemory<FifoScheme> fifo_memory{.words = triggers, .head = &fifo_head, .tail = &fifo_tail};
    const ProxyQueueMemory<GinScheme> gin_memory{.words = words, .head = &gin_head, .tail = &gin_tail};
    auto fifo_side = *ProxyQueueProducer<FifoScheme>::over(fifo_memory);
    auto gin_side = *ProxyQueueProducer<GinScheme>::over(gin_memory);
    for (std::uint32_t item = 0; item < kItems; ++item) {
      while (!fifo_side.try_push({item, std::uint64_t{item} * 3})) std::this_thread::yield();
      while (!gin_side.try_push(*encode_gin({.op = gin_op::kPut, .size_bytes = item}))) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint32_t item = 0; item < kItems; ++item) {
    meshbed_fifo_trigger trigger;
    while (meshbed_fifo_poll(&fifo, item, &trigger) == 0) {
    }
    meshbed_fifo_pop(&fifo, item);
    meshbed_gin_descriptor descriptor;
    while (meshbed_gin_poll(&gin, item, &descriptor) == 0) {
    }
    meshbed_gin_complete(&gin, item);
    wrong += trigger.first != item || trigger.second != std::uint64_t{item} * 3 ||
             meshbed_gin_decode(&descriptor).size_bytes != item;
  }
  pusher.join();
  CHECK(wrong == 0);
}

}  // namespace installed_header_test
