// NCCL 2.30.7, src/include/nccl_device/gin/proxy: golden words were made by compiling that header.
#include "plugin/ring/queue/gin_descriptor.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "plugin/base/prng.h"

namespace gin_descriptor_test {

using namespace meshbed;
using namespace meshbed::ring;

namespace {

const GinDescriptor kPutWithSignal{.op = gin_op::kPut | gin_op::kCounter | gin_op::kSignalInc,
                                   .size_bytes = 4096,
                                   .source_offset = 0x1000,
                                   .source_handle = 0x7f0000001000,
                                   .destination_offset = 0x2000,
                                   .destination_handle = 0x7f0000002000,
                                   .counter = 3,
                                   .signal = 5,
                                   .signal_value = 1,
                                   .strong = true};

std::string error_of(const GinDescriptor& what) {
  const auto words = encode_gin(what);
  return words ? "" : words.error().text;
}

}  // namespace

TEST_CASE("a put with a counter and a strong signal has the words that NCCL's header makes") {
  const auto words = encode_gin(kPutWithSignal);
  REQUIRE(words);
  CHECK(*words == GinWords{0x80005, 0x2001, 0xfe0000002001, 0x4001, 0xfe0000004001, 0x1000005000007, 3, 0xd01,  //
                           1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(*decode_gin(*words) == kPutWithSignal);
}

TEST_CASE("an inline value, a flush and a VA signal have the words that NCCL's header makes") {
  const GinDescriptor value{.op = gin_op::kPut | gin_op::kInline | gin_op::kSignalAdd,
                            .size_bytes = 8,
                            .destination_offset = 0x40,
                            .inline_value = 0x1122334455667788,
                            .signal = 7,
                            .signal_value = 0xAABBCCDDEEFF0011};
  const auto words = encode_gin(value);
  REQUIRE(words);
  CHECK((*words)[0] == 0x405);
  CHECK((*words)[1] == 0x33445566778801);
  CHECK((*words)[2] == 0x112201);
  CHECK((*words)[3] == 0x81);
  CHECK((*words)[5] == 0x11000007000001);
  CHECK((*words)[6] == 0xaabbccddeeff01);
  CHECK((*words)[7] == 0x1301);
  CHECK(*decode_gin(*words) == value);
  const auto flush = encode_gin({.op = gin_op::kFlush});
  REQUIRE(flush);
  CHECK((*flush)[0] == 5);
  CHECK((*flush)[7] == 0x8001);
  CHECK((*encode_gin({.op = gin_op::kVaSignal | gin_op::kSignalAdd, .signal_value = 1}))[7] == 0x3001);
}

TEST_CASE("any descriptor comes back, whatever stands in the bits that its operation does not mean") {
  Prng prng(3);
  constexpr std::uint16_t kOps[] = {1, 5, 9, 13, 17, 21, 3, 7, 11, 19, 40, 48, 64, 68, 128};
  for (int round = 0; round < 20'000; ++round) {
    const std::uint16_t op = kOps[prng.below(std::size(kOps))];
    GinDescriptor what{.op = op};
    const bool flush = op == gin_op::kFlush, va = (op & gin_op::kVaSignal) != 0, in = (op & gin_op::kInline) != 0;
    if (!flush) {
      what.size_bytes = in ? prng.below(9) : prng.next() >> 7U;
      if (in) what.inline_value = prng.next();
      if (!in) what.source_offset = prng.next() >> 1U, what.source_handle = prng.next() >> 1U;
      if (!va) what.destination_offset = prng.next() >> 1U, what.destination_handle = prng.next() >> 1U;
      if ((op & gin_op::kCounter) != 0) what.counter = static_cast<std::uint32_t>(prng.below(1U << 23U));
      if ((op & (gin_op::kSignalInc | gin_op::kSignalAdd)) != 0) {
        if (!va) what.signal = static_cast<std::uint32_t>(prng.below(1U << 24U));
        what.signal_value = prng.next();
        what.strong = prng.below(2) == 0;
      }
    }
    auto words = encode_gin(what);
    REQUIRE(words);
    const GinWords mask = gin_mask(op);
    for (std::size_t word = 0; word < kGinWords; ++word) {
      CHECK(((*words)[word] & ~mask[word]) == 0);  // nothing is said where nothing is meant
      (*words)[word] |= prng.next() & ~mask[word];
    }
    const auto decoded = decode_gin(*words);
    REQUIRE(decoded);
    REQUIRE(*decoded == what);
  }
}

TEST_CASE("a flush with a size is a flush: what is read and written again has the bits that its mask means") {
  GinWords words = *encode_gin({.op = gin_op::kFlush});
  words[0] |= std::uint64_t{90} << 7U;
  const auto decoded = decode_gin(words);
  REQUIRE(decoded);
  const GinWords again = *encode_gin(*decoded), mask = gin_mask(decoded->op);
  for (std::size_t word = 0; word < kGinWords; ++word) CHECK((words[word] & mask[word]) == (again[word] & mask[word]));
}

TEST_CASE("a descriptor that cannot be is refused, and one that is not whole yet") {
  CHECK(error_of({.op = 0}) == "there is no GIN operation 0");
  CHECK(error_of({.op = gin_op::kPut | gin_op::kSignalInc | gin_op::kSignalAdd}) ==
        "a signal is either counted up or added to");
  CHECK(error_of({.op = gin_op::kPut | gin_op::kVaSignal | gin_op::kSignalInc}) ==
        "a VA signal is a descriptor of its own, after the put's");
  CHECK(error_of({.op = gin_op::kInline}) == "without a put, a get or a flush there is nothing to do");
  CHECK(error_of({.op = gin_op::kPut | gin_op::kInline, .size_bytes = 9}) ==
        "an inline value has at most 8 bytes, not 9");
  CHECK(error_of({.counter = 1U << 23U}) == "a counter's number has 23 bits: 8388608");
  CHECK(error_of({.source_offset = ~std::uint64_t{0}}) == "offsets and handles have 63 bits");
  GinWords words = *encode_gin(kPutWithSignal);
  words[9] = 0;
  CHECK(decode_gin(words).error().text == "word 9 is not written yet");
  words = *encode_gin(kPutWithSignal);
  words[0] ^= 6U;
  CHECK(decode_gin(words).error().text == "a descriptor of version 1; known: 2");
}

TEST_CASE("a long put is cut at 2^30 bytes, exactly 2^30 is not; the last piece carries signal and counter") {
  GinDescriptor what = kPutWithSignal;
  what.size_bytes = kGinPutMost;
  CHECK(split_gin(what) == std::vector<GinDescriptor>{what});
  what.size_bytes = 2 * kGinPutMost + 1;
  const auto pieces = split_gin(what);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].op == gin_op::kPut);
  CHECK(pieces[0].size_bytes == kGinPutMost);
  CHECK(pieces[1].source_offset == 0x1000 + kGinPutMost);
  CHECK(pieces[2].destination_offset == 0x2000 + 2 * kGinPutMost);
  CHECK(pieces[2].size_bytes == 1);
  CHECK(pieces[2].op == what.op);
  CHECK(pieces[2].signal == 5);
  CHECK(pieces[0].signal == 0);
}

TEST_CASE("the queue's depth is a power of two up to 32 times the receives, as NCCL reads the variable") {
  CHECK(gin_queue_depth(std::nullopt, 8, true) == 256);
  CHECK(gin_queue_depth(64, 8, true) == 64);
  for (const std::int64_t wrong : {0L, -1L, 100L, 512L}) CHECK(gin_queue_depth(wrong, 8, true) == 256);
  CHECK(gin_queue_depth(std::nullopt, 3, true) == 96);  // NCCL's, whose mask 95 puts index 32 into slot 0
  CHECK((32U & (96U - 1)) == 0);
  CHECK(gin_queue_depth(std::nullopt, 3, false) == 64);
}

TEST_CASE("rolling comparisons hold over the end of the numbers") {
  CHECK(rolling_not_after(0xFFFFFFFF, 0, 32));
  CHECK_FALSE(rolling_not_after(0, 0x80000000, 32));
  CHECK(rolling_not_after(5, 5, 64));
  CHECK(rolling_not_after(~std::uint64_t{0}, 3, 64));
  CHECK_FALSE(rolling_not_after(3, ~std::uint64_t{0}, 64));
}

}  // namespace gin_descriptor_test
