// The queue between a GPU and its proxy: NCCL's GIN and MSCCL++'s FIFO, one implementation.
#include "plugin/ring/queue/proxy_queue.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <thread>

namespace proxy_queue_test {

using namespace meshbed;
using namespace meshbed::ring;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kOperations = 20'000;  // each access is a call there
#else
constexpr std::uint64_t kOperations = 400'000;
#endif
constexpr std::int64_t kLong_ms = 60'000;

template <typename Scheme>
struct Queue {
  explicit Queue(std::size_t depth, typename Scheme::Index at = 0)
      : words(depth * std::tuple_size_v<typename Scheme::Item>), head(at), tail(at) {}
  ProxyQueueMemory<Scheme> memory() { return {words, &head, &tail}; }
  ProxyQueueProducer<Scheme> producer() { return *ProxyQueueProducer<Scheme>::over(memory()); }
  ProxyQueueConsumer<Scheme> consumer() { return *ProxyQueueConsumer<Scheme>::over(memory()); }
  std::vector<std::uint64_t> words;
  typename Scheme::Index head, tail;
};

GinWords put_of(std::uint64_t size_bytes) { return *encode_gin({.size_bytes = size_bytes}); }
GinWords item_of(std::uint64_t number, const GinScheme*) {
  return *encode_gin({.size_bytes = number, .source_offset = number * 3, .destination_offset = number ^ 0x5555});
}
FifoWords item_of(std::uint64_t number, const FifoScheme*) {
  return *encode_trigger({.size_bytes = static_cast<std::uint32_t>(number),
                          .source_offset = static_cast<std::uint32_t>(number * 3),
                          .destination_offset = static_cast<std::uint32_t>(number ^ 0x5555)});
}
WqeWords item_of(std::uint64_t number, const IbgdaScheme*) {
  return *encode_wqe({.queue_pair = 7,
                      .remote_address = number ^ 0x5555,
                      .local_address = number * 3,
                      .size_bytes = static_cast<std::uint32_t>(number)});
}
std::uint64_t number_of(const WqeWords& words) {
  const IbgdaWqe what = *decode_wqe(words);
  CHECK(what.local_address == std::uint64_t{what.size_bytes} * 3);
  CHECK(what.remote_address == (what.size_bytes ^ 0x5555U));
  return what.size_bytes;
}
std::uint64_t number_of(const GinWords& words) {
  const GinDescriptor what = *decode_gin(words);
  CHECK(what.source_offset == what.size_bytes * 3);
  CHECK(what.destination_offset == (what.size_bytes ^ 0x5555));
  return what.size_bytes;
}
std::uint64_t number_of(const FifoWords& words) {
  const FifoTrigger what = decode_trigger(words);
  CHECK(what.source_offset == what.size_bytes * 3);
  CHECK(what.destination_offset == (what.size_bytes ^ 0x5555));
  return what.size_bytes;
}

/// Three producers, a proxy that posts and completes in an order of its own: every operation once, each producer's in
/// order, its words its own.
template <typename Scheme>
void hand_over(typename Scheme::Index first) {
  constexpr std::uint64_t kProducers = 3;
  Queue<Scheme> queue(64, first);
  std::atomic<int> errors = 0;
  std::vector<std::thread> producers;
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&, producer] {
      auto own = queue.producer();
      for (std::uint64_t item = producer; item < kOperations; item += kProducers) {
        if (!own.push(item_of(item, static_cast<Scheme*>(nullptr)), kLong_ms)) ++errors;
      }
    });
  }
  auto consumer = queue.consumer();
  std::vector<std::uint64_t> next(kProducers);
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) next[producer] = producer;
  std::vector<typename Scheme::Index> under_way;
  std::uint64_t taken_count = 0, wrong = 0;
  while (taken_count < kOperations) {
    const auto taken = consumer.take(kLong_ms);
    REQUIRE(taken);
    if (*taken) {
      const std::uint64_t number = number_of((*taken)->item);
      wrong += number != next[number % kProducers];
      next[number % kProducers] = number + kProducers;
      ++taken_count;
      consumer.posted((*taken)->position);
      under_way.push_back((*taken)->position);
    }
    // Completions come two at a time, the later one first.
    if (under_way.size() >= 2 || (!*taken && !under_way.empty())) {
      for (auto one = under_way.rbegin(); one != under_way.rend(); ++one) consumer.completed(*one);
      under_way.clear();
    }
    if (!*taken) std::this_thread::yield();
  }
  for (const auto position : under_way) consumer.completed(position);
  for (std::thread& producer : producers) producer.join();
  CHECK(errors == 0);
  CHECK(wrong == 0);
  CHECK(queue.head == queue.tail);
  CHECK(static_cast<typename Scheme::Index>(queue.head - first) == kOperations);
  CHECK_FALSE(*consumer.take(0));
}

}  // namespace

TEST_CASE("three producers and a proxy hand over every operation once and in order, over the end of 32 bits too") {
  hand_over<GinScheme>(0);
  hand_over<GinScheme>(0xFFFFFFFF - 500);
  hand_over<FifoScheme>(0);
  hand_over<IbgdaScheme>(0);
  hand_over<IbgdaScheme>(0x10000 - 500);  // over the end of the 16 bits that a WQE has of its index
}

TEST_CASE("a WQE has the bytes that the NIC reads, and a doorbell record 16 bits of the producer's index") {
  const auto bytes_of = [](const WqeWords& words) {
    std::string text;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(words.data());
    for (std::size_t at = 0; at < sizeof words; ++at) {
      if (at % 4 == 0) text += ' ';
      text += fmt::format("{:02x}", bytes[at]);
    }
    return text;
  };
  const IbgdaWqe write{.index = 5,
                       .queue_pair = 0x123,
                       .remote_address = 0x1122334455667788,
                       .local_address = 0xaabbccddeeff0011,
                       .remote_key = 0xdead,
                       .local_key = 0xbeef,
                       .size_bytes = 4096};
  CHECK(bytes_of(*encode_wqe(write)) ==
        " 00000508 00012303 00000008 00000000 11223344 55667788 0000dead 00000000 00001000 0000beef aabbccdd eeff0011"
        " 00000000 00000000 00000000 00000000");
  const IbgdaWqe atomic{
      .opcode = WqeOpcode::kFetchAdd, .queue_pair = 0x123, .completion = false, .size_bytes = 8, .add = 1};
  CHECK(bytes_of(*encode_wqe(atomic)) ==
        " 00000012 00012304 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001 00000000 00000000"
        " 00000008 00000000 00000000 00000000");
  for (const IbgdaWqe& one : {write, atomic, IbgdaWqe{.opcode = WqeOpcode::kWriteImmediate, .immediate = 9},
                              IbgdaWqe{.opcode = WqeOpcode::kRead, .size_bytes = 1}}) {
    CHECK(*decode_wqe(*encode_wqe(one)) == one);
  }
  CHECK(decode_wqe(with_index(*encode_wqe(write), 0xfffe))->index == 0xfffe);
  CHECK(is_wqe_at((*encode_wqe(write))[0], 5));
  CHECK_FALSE(is_wqe_at((*encode_wqe(write))[0], 6));
  CHECK_FALSE(is_wqe_at(0, 0));  // fresh memory
  CHECK(doorbell_record(0x10005) == 0x05000000);
  CHECK(producer_of(doorbell_record(0x1fffe)) == 0xfffe);
  CHECK(decode_wqe({}).error().text ==
        "a WQE with opcode 0; known are WRITE, WRITE with immediate, READ and FETCH_ADD");
  CHECK(encode_wqe({.queue_pair = 1U << 24U}).error().text == "a WQE's queue pair has 24 bits, and 16777216 has more");
  CHECK(encode_wqe({.immediate = 1}).error().text == "a WQE has immediate data, and its opcode does not carry any");
  CHECK(encode_wqe({.add = 1}).error().text == "a WQE adds, and its opcode is not a fetch-and-add");
}

TEST_CASE("IBGDA: a place comes back when its WQE and all before it are complete, and is known by its lap") {
  Queue<IbgdaScheme> queue(4);
  auto producer = queue.producer();
  auto consumer = queue.consumer();
  for (std::uint64_t lap = 0; lap < 3; ++lap) {
    for (std::uint64_t item = 0; item < 4; ++item) {
      CHECK(producer.try_push(item_of(item, static_cast<IbgdaScheme*>(nullptr))) == lap * 4 + item);
    }
    CHECK_FALSE(producer.try_push(item_of(4, static_cast<IbgdaScheme*>(nullptr))));
    for (std::uint64_t item = 0; item < 4; ++item) CHECK((*consumer.take(0))->position == lap * 4 + item);
    CHECK_FALSE(*consumer.take(0));  // the lap before is no work
    for (const std::uint64_t item : {1, 2, 3}) consumer.completed(lap * 4 + item);
    CHECK_FALSE(producer.try_push(item_of(4, static_cast<IbgdaScheme*>(nullptr))));
    consumer.completed(lap * 4);
  }
}

TEST_CASE("GIN, depth 256: index 256 waits until the first is complete; credit comes for a finished prefix alone") {
  Queue<GinScheme> queue(256);
  auto producer = queue.producer();
  auto consumer = queue.consumer();
  for (std::uint64_t item = 0; item < 256; ++item) CHECK(producer.try_push(put_of(item)) == item);
  CHECK_FALSE(producer.try_push(put_of(256)));
  for (std::uint64_t item = 0; item < 256; ++item) CHECK((*consumer.take())->position == item);
  CHECK_FALSE(producer.try_push(put_of(256)));  // taken is not complete
  consumer.completed(1);
  consumer.completed(2);
  CHECK(queue.tail == 0);
  CHECK_FALSE(producer.try_push(put_of(256)));
  consumer.completed(0);
  CHECK(queue.tail == 3);
  CHECK(producer.try_push(put_of(256)) == 256);
}

TEST_CASE("GIN: index 0xFFFFFFFF passes at a tail of 0xFFFFFF00, and 0 comes after it") {
  Queue<GinScheme> queue(256, 0xFFFFFF00);
  auto producer = queue.producer();
  auto consumer = queue.consumer();
  for (int item = 0; item < 256; ++item) REQUIRE(producer.try_push(put_of(1)));
  CHECK_FALSE(producer.try_push(put_of(1)));
  for (int item = 0; item < 256; ++item) consumer.completed((*consumer.take())->position);
  CHECK(producer.try_push(put_of(1)) == 0);
}

TEST_CASE("the FIFO gives a place back when its operation is posted, and a slot is never cleared") {
  Queue<FifoScheme> queue(512);
  auto producer = queue.producer();
  auto consumer = queue.consumer();
  const FifoWords nothing{};
  for (int lap = 0; lap < 3; ++lap) {
    for (int item = 0; item < 512; ++item) CHECK(producer.try_push(nothing));
    CHECK_FALSE(producer.try_push(nothing));
    const auto taken = *consumer.take();
    REQUIRE(taken);
    CHECK(taken->item == nothing);  // an operation of zeros is one
    consumer.posted(taken->position);
    CHECK(producer.try_push(nothing));
    for (int item = 0; item < 512; ++item) consumer.posted((*consumer.take())->position);
    CHECK_FALSE(*consumer.take(0));
  }
}

TEST_CASE("a trigger has the words of MSCCL++ 0.9.0, with the parity of its lap") {
  const FifoTrigger data{.size_bytes = 0x400,
                         .source_offset = 0x2000,
                         .destination_offset = 0x1000,
                         .source_memory = 2,
                         .destination_memory = 3,
                         .type = fifo_type::kData | fifo_type::kFlag,
                         .semaphore = 5};
  const auto words = encode_trigger(data);
  REQUIRE(words);
  CHECK((*words)[0] == 0x200000000400);
  CHECK(((*words)[1] | fifo_commit(0, 512)) == 0x80ac060200001000);
  CHECK(((*words)[1] | fifo_commit(512, 512)) == 0x00ac060200001000);
  CHECK(decode_trigger(*words) == data);
  const auto signal = encode_trigger({.type = fifo_type::kFlag, .semaphore = 5});
  CHECK((*signal)[0] == 0);
  CHECK(((*signal)[1] | fifo_commit(0, 512)) == 0x80a8000000000000);
  CHECK(encode_trigger({.source_memory = 512}).error().text == "a trigger's source memory is at most 511, not 512");
  CHECK(encode_trigger({.semaphore = 1024}).error().text == "a trigger's semaphore is at most 1023, not 1024");
}

TEST_CASE("a producer that waits in vain says for what, and leaves nothing; so does a proxy at a half-written slot") {
  Queue<GinScheme> queue(2);
  auto producer = queue.producer();
  auto consumer = queue.consumer();
  CHECK(producer.try_push(put_of(1)));
  CHECK(producer.try_push(put_of(2)));
  CHECK(producer.push(put_of(3), 5).error().text ==
        "all 2 places are taken, and operation 0 has not been completed within 5 ms");
  CHECK(queue.head == 2);
  queue.words[7] = 0;  // as a producer that was stopped in the middle leaves it
  CHECK(consumer.take(5).error().text == "operation 0 was begun, and its word 7 not written within 5 ms");
  queue.words[7] = put_of(1)[7];
  CHECK((*consumer.take())->position == 0);
}

TEST_CASE("a queue lies over whole slots, a power of two of them") {
  std::uint32_t head = 0, tail = 0;
  std::vector<std::uint64_t> words(96 * kGinWords);
  const auto error = [&](std::size_t count) {
    const auto queue = ProxyQueueConsumer<GinScheme>::over({std::span(words).first(count), &head, &tail});
    return queue ? "" : queue.error().text;
  };
  CHECK(error(96 * kGinWords) == "a queue's depth is a power of two, not 96");
  CHECK(error(17) == "a queue of 17 words holds no whole number of slots");
  CHECK(error(0) == "a queue's depth is a power of two, not 0");
  CHECK(error(64 * kGinWords).empty());
}

}  // namespace proxy_queue_test
