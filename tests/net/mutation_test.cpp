// A million mutated handles, discovery messages and handshake messages each: clear errors or valid values, no crash.
// Run under ASan and UBSan too; tests/fuzz/handle_fuzz.cpp goes on from here.
#include <doctest/doctest.h>

#include <array>
#include <iterator>

#include "plugin/base/prng.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/wire/discovery_message.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/neighbour_map.h"
#include "plugin/net/wire/wire.h"
#include "tests/net/addresses.h"

namespace mutation_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

constexpr int kMutations = 1'000'000;

/// Flips, sets or copies a few bytes.
void mutate(std::span<std::uint8_t> bytes, Prng& prng) {
  for (std::uint64_t change = 0, changes = 1 + prng.below(4); change < changes; ++change) {
    const std::size_t at = prng.below(bytes.size());
    switch (prng.below(4)) {
      case 0:
        bytes[at] ^= static_cast<std::uint8_t>(1U << prng.below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::uint8_t>(prng.next());
        break;
      case 2:
        bytes[at] = prng.below(2) == 0 ? 0 : 0xff;
        break;
      default:
        bytes[at] = bytes[prng.below(bytes.size())];
        break;
    }
  }
}

}  // namespace

TEST_CASE("a million mutated handles: refused with a reason, or decoded to something that routing survives") {
  const std::vector<Nic> nics{test::nic("a0", {"192.168.100.1/24", "fd00:1::1/64"}), test::nic("a1", {"10.0.0.1/8"})};
  Handle sample;
  sample.tcp_port = 4000;
  sample.addresses =
      test::as_peer({test::nic("b0", {"192.168.100.2/24", "fd00:1::2/64"}), test::nic("b1", {"10.0.0.2/8"})});
  std::array<std::uint8_t, kHandleBytes> original;
  encode_handle(sample, original);

  Prng prng(20);
  int accepted = 0, refused = 0;
  for (int round = 0; round < kMutations; ++round) {
    auto bytes = original;
    mutate(bytes, prng);
    if (prng.below(2) == 0) seal_handle(bytes);  // gets past the checksum, into the parser
    const auto handle = decode_handle(bytes);
    if (!handle) {
      ++refused;
      REQUIRE_FALSE(handle.error().text.empty());
      continue;
    }
    ++accepted;
    const auto route =
        choose_route({.nics = &nics, .peer = handle->addresses, .dev = round % 2, .peer_dev = handle->dev});
    REQUIRE((route || !route.error().text.empty()));
  }
  // Both paths were walked, or the test proves nothing.
  CHECK(accepted > kMutations / 10);
  CHECK(refused > kMutations / 10);
}

TEST_CASE(
    "a million mutated discovery messages: refused with a reason, or decoded to something that a search survives") {
  const std::vector<Nic> nics{test::nic("a0", {"192.168.100.1/24", "fd00:1::1/64"}), test::nic("a1", {"10.0.0.1/8"})};
  const DiscoveryMessage sample{
      .type = DiscoveryMessageType::kAnswer,
      .hops = 1,
      .hop_limit = 4,
      .query = 1,
      .node = 2,
      .process = 3,
      .circuit_port = 4,
      .addresses = test::as_peer({test::nic("b0", {"192.168.100.2/24"}), test::nic("b1", {"10.0.0.2/8"})})};
  std::array<std::uint8_t, kDiscoveryMessageLargestBytes> original{};
  const std::size_t size = encode_discovery_message(sample, original);
  Prng prng(22);
  int accepted = 0, refused = 0;
  for (int round = 0; round < kMutations; ++round) {
    auto bytes = original;
    mutate(std::span(bytes).first(size), prng);
    // Gets past the checksum, into the parser.
    if (prng.below(2) == 0)
      ByteWriter(std::span(bytes).subspan(size - 4)).u32(checksum_of(std::span(bytes).first(size - 4)));
    const auto discovery_message = decode_discovery_message(std::span<const std::uint8_t>(bytes).first(size));
    if (!discovery_message) {
      ++refused;
      REQUIRE_FALSE(discovery_message.error().text.empty());
      continue;
    }
    ++accepted;
    NeighbourMap map;
    map.add(discovery_message->node, {.process = discovery_message->process,
                                      .port = discovery_message->circuit_port,
                                      .addresses = discovery_message->addresses});
    const auto chain = map.chain({.nics = &nics,
                                  .node = 1,
                                  .target = 9,
                                  .target_addresses = sample.addresses,
                                  .hop_limit = discovery_message->hop_limit,
                                  .dev = round % 2});
    REQUIRE((!chain || chain->size() == 1));
  }
  CHECK(accepted > kMutations / 10);
  CHECK(refused > kMutations / 10);
}

TEST_CASE("a million mutated handshake messages: refused with a reason, or decoded to fields in range") {
  WireEnd end;
  end.qp_number = 17;
  end.mtu = 5;
  end.max_recvs = 8;
  end.address = test::prefix("192.168.100.1/24");
  end.memory_entries = 256;
  end.nic = "rocep1s0f0";
  WireRoute route{.origin = 1, .hop = 1, .hop_limit = 4, .onward = {}, .handle = {}};
  route.onward.push_back({.node = 2, .address = test::prefix("192.168.101.2/24"), .port = 4000});
  const WireMessage samples[] = {
      {.type = WireType::kRequest, .cookie = 1, .end = end, .reason = ""},
      {.type = WireType::kReply, .cookie = 2, .end = end, .reason = ""},
      {.type = WireType::kReady, .cookie = 3, .end = {}, .reason = ""},
      {.type = WireType::kRefuse, .cookie = 4, .end = {}, .reason = "why"},
      {.type = WireType::kRoute, .cookie = 5, .end = {}, .reason = "", .route = route},
      {.type = WireType::kEnd, .cookie = 6, .end = {}, .reason = "", .pieces = 7},
      {.type = WireType::kResume, .cookie = 7, .end = end, .reason = ""},
      {.type = WireType::kResumed, .cookie = 8, .end = end, .reason = ""},
      {.type = WireType::kRailed, .cookie = 8, .end = end, .reason = ""},
      {.type = WireType::kRail, .cookie = 8, .end = end, .reason = "", .rail = {.number = 1, .sender_qp_link = 9}},
      {.type = WireType::kGone, .cookie = 9, .end = {}, .reason = "closed"},
      {.type = WireType::kTcpReply, .cookie = 10, .end = {}, .reason = "", .tcp = {3, "eth0"}}};
  Prng prng(21);
  int accepted = 0, refused = 0;
  for (int round = 0; round < kMutations; ++round) {
    std::array<std::uint8_t, kWireLargestBytes> buffer{};
    std::size_t length = encode_message(samples[static_cast<std::size_t>(round) % std::size(samples)], buffer);
    mutate(std::span(buffer).first(length), prng);
    if (prng.below(8) == 0) length = prng.below(length + 1);
    const auto message = decode_message(std::span<const std::uint8_t>(buffer).first(length));
    if (!message) {
      ++refused;
      REQUIRE_FALSE(message.error().text.empty());
      continue;
    }
    ++accepted;
    REQUIRE(message->end.qp_number <= 0xffffff);
    REQUIRE(message->end.psn <= 0xffffff);
    REQUIRE(message->end.mtu <= 5);
    REQUIRE(message->end.nic.size() < 28);
    REQUIRE(message->tcp.netdev.size() < 28);
    REQUIRE(message->route.onward.size() <= kWireHopsMax);
  }
  CHECK(accepted > kMutations / 10);
  CHECK(refused > kMutations / 10);
}

}  // namespace mutation_test
