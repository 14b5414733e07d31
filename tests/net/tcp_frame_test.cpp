// What goes over TCP, and over which interfaces: frames, NCCL_SOCKET_IFNAME, pairs of addresses, handles that offer
// TCP.
#include "plugin/net/wire/tcp_frame.h"

#include <doctest/doctest.h>

#include <set>

#include "plugin/base/prng.h"
#include "plugin/net/tcp/tcp_interfaces.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/ring.h"
#include "plugin/net/wire/wire.h"
#include "tests/net/addresses.h"
#include "tests/support/layout.h"

namespace tcp_frame_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

using FrameBytes = std::array<std::uint8_t, kTcpFrameBytes>;

FrameBytes encoded(const TcpFrame& frame) {
  FrameBytes bytes{};
  encode_frame(frame, bytes);
  return bytes;
}

const TcpFrame kSamples[] = {
    {.type = TcpFrameType::kAnnounce, .part = 2, .parts = 8, .number = 258, .length_bytes = 1U << 30U, .tag = -7},
    {.type = TcpFrameType::kData, .part = 0, .parts = 1, .number = 1, .length_bytes = 0, .tag = 3},
    {.type = TcpFrameType::kRefuse, .part = 1, .parts = 2, .number = 9, .length_bytes = 4096, .tag = 5},
    {.type = TcpFrameType::kHello}};

InterfaceAddress interface(const std::string& netdev, const std::string& address, bool up = true) {
  return {.netdev = netdev, .prefix = test::prefix(address), .up = up};
}

std::string names_of(const std::vector<InterfaceAddress>& interfaces) {
  std::string text;
  for (const InterfaceAddress& one : interfaces) {
    text += (text.empty() ? "" : " ") + one.netdev + (one.prefix.address.family == Family::kIpv6 ? "/6" : "");
  }
  return text;
}

std::string text_of(const std::vector<TcpRoute>& routes) {
  std::string text;
  for (const TcpRoute& route : routes) {
    text +=
        (text.empty() ? "" : ", ") + route.netdev + " " + to_text(route.local.address) + ">" + to_text(route.remote);
  }
  return text;
}

}  // namespace

TEST_CASE("a frame has the layout that its header documents, and comes back as it was") {
  const FrameBytes bytes = encoded(kSamples[0]);
  using test::big_endian;
  CHECK(test::layout_problem("plugin/net/wire/tcp_frame.h", "a frame", bytes,
                             {test::text_field("magic", "MSHT"), big_endian("version", 1, 1), big_endian("type", 1, 1),
                              big_endian("part", 2, 1), big_endian("parts", 8, 1), big_endian("number", 258, 8),
                              big_endian("length", 1U << 30U, 8), big_endian("tag", 0xfffffff9, 4),
                              big_endian("checksum", checksum_of(std::span(bytes).first<28>()), 4)}) == "");
  for (const TcpFrame& sample : kSamples) {
    const auto decoded = decode_frame(encoded(sample));
    REQUIRE(decoded);
    CHECK(*decoded == sample);
  }
}

TEST_CASE("a frame is refused for each field that does not fit") {
  struct Wrong {
    std::size_t at;
    std::uint8_t value;
    const char* why;
  };
  const Wrong table[] = {{0, 'X', "magic"},
                         {4, 2, "version 2"},
                         {5, 0, "unknown type"},
                         {5, 5, "unknown type"},
                         {6, 8, "part that its group does not have"},
                         {7, 0, "1 to 8 parts"},
                         {7, 9, "1 to 8 parts"},
                         {16, 1, "beyond 1 GiB"}};
  for (const Wrong& wrong : table) {
    CAPTURE(wrong.why);
    FrameBytes bytes = encoded(kSamples[0]);
    bytes[wrong.at] = wrong.value;
    seal_frame(bytes);
    const auto decoded = decode_frame(bytes);
    REQUIRE_FALSE(decoded);
    CHECK(decoded.error().text.find(wrong.why) != std::string::npos);
  }
  FrameBytes damaged = encoded(kSamples[1]);
  damaged[20] ^= 1;
  CHECK(decode_frame(damaged).error().text == "a frame whose checksum does not fit");
  FrameBytes greeting = encoded(kSamples[3]);
  greeting[15] = 1;
  seal_frame(greeting);
  CHECK_FALSE(decode_frame(greeting));
}

TEST_CASE("a million mutated frames: refused with a reason, or decoded to fields in range") {
  Prng prng(23);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 1'000'000; ++round) {
    FrameBytes bytes = encoded(kSamples[prng.below(std::size(kSamples))]);
    for (std::uint64_t change = 0, changes = 1 + prng.below(3); change < changes; ++change) {
      bytes[prng.below(bytes.size())] = static_cast<std::uint8_t>(prng.below(2) == 0 ? prng.below(10) : prng.next());
    }
    if (prng.below(4) != 0) seal_frame(bytes);  // gets past the checksum, into the parser
    const auto frame = decode_frame(bytes);
    if (!frame) {
      ++refused;
      REQUIRE_FALSE(frame.error().text.empty());
      continue;
    }
    ++accepted;
    REQUIRE(frame->length_bytes <= kMaxMessageBytes);
    REQUIRE((frame->type == TcpFrameType::kHello || (frame->parts <= kMaxGroup && frame->part < frame->parts)));
  }
  CHECK(accepted > 100'000);
  CHECK(refused > 100'000);
}

TEST_CASE("TCP_REQUEST and TCP_REPLY come back as they were; the sizes of the others are what they were") {
  const WireMessage sample{.type = WireType::kTcpRequest,
                           .cookie = 77,
                           .end = {},
                           .reason = "",
                           .tcp = {.node = 0x0102030405060708, .netdev = "mgmt0"}};
  std::array<std::uint8_t, kWireLargestBytes> buffer{};
  CHECK(encode_message(sample, buffer) == 64);
  const auto decoded = decode_message(std::span<const std::uint8_t>(buffer).first(64));
  REQUIRE(decoded);
  CHECK(decoded->tcp == sample.tcp);
  CHECK(decoded->cookie == 77);
  CHECK(kWireEndBytes == 128);
  CHECK(kWireHeaderBytes == 24);
}

TEST_CASE("NCCL_SOCKET_IFNAME: beginnings, whole names, exclusion, lists; named ones in the order of the list") {
  struct Line {
    const char* list;
    const char* usable;
  };
  const std::vector<InterfaceAddress> all{interface("enp1s0f0np0", "192.168.100.1/24"),
                                          interface("eth0", "10.0.0.1/16"),
                                          interface("eth1", "10.1.0.1/16"),
                                          interface("docker0", "172.17.0.1/16"),
                                          interface("eth0", "fd00::1/64"),
                                          interface("eth10", "10.2.0.1/16"),
                                          interface("virbr0", "192.168.122.1/24"),
                                          interface("eth2", "10.3.0.1/16", false),
                                          interface("eth3", "169.254.3.3/16"),
                                          interface("lo", "127.0.0.1/8"),
                                          interface("lo", "::1/128")};
  const std::set<std::string> cables{"enp1s0f0np0"};
  const Line table[] = {{"", "eth0 eth1 eth10 eth0/6"},
                        {"eth1", "eth1 eth10"},
                        {"=eth1", "eth1"},
                        {"=eth10,eth1", "eth10 eth1"},
                        {"eth10,eth0,", "eth10 eth0 eth0/6"},
                        {"^eth1", "eth0 eth0/6"},
                        {"^=eth1", "eth0 eth10 eth0/6"},
                        {"^=eth1,eth0", "eth10"},
                        {"docker", "docker0"},
                        {"enp,virbr", "enp1s0f0np0 virbr0"},
                        {"=eth", ""},
                        {"eth2", ""},
                        {"lo", "lo lo/6"},
                        {"=lo,eth1", "lo lo/6 eth1"},
                        {"eth0, lo", "eth0 eth0/6 lo lo/6"},
                        {"l", ""},
                        {"^docker", "eth0 eth1 eth10 eth0/6"},
                        {"^", "eth0 eth1 eth10 eth0/6"}};
  for (const Line& line : table) {
    CAPTURE(line.list);
    CHECK(names_of(usable_interfaces(all, {.list = line.list, .family = {}, .cables = &cables})) == line.usable);
  }
  CHECK(names_of(usable_interfaces(all, {.list = "eth0", .family = Family::kIpv6, .cables = &cables})) == "eth0/6");
  CHECK(names_of(usable_interfaces(all, {.list = "eth0", .family = Family::kIpv4, .cables = &cables})) == "eth0");
}

TEST_CASE("pairs of addresses: the wanted interface on its subnet, others on theirs, then what routers may lead to") {
  const std::vector<InterfaceAddress> own{interface("eth0", "10.0.0.1/16"), interface("eth1", "10.1.0.1/16"),
                                          interface("br0", "172.17.0.1/16"), interface("eth0", "fd00::1/64")};
  const auto peer = test::as_peer({test::nic("p", {"10.1.0.2/16", "10.0.0.2/16", "172.17.0.1/16"})});
  const std::string on_link = "eth0 10.0.0.1>10.0.0.2, eth1 10.1.0.1>10.1.0.2";
  const std::string all = text_of(tcp_routes(own, peer, "eth0", false));
  CHECK(all.substr(0, on_link.size()) == on_link);
  // The bridge's address is ours as well: that one never leads to the peer.
  CHECK(all.find("172.17.0.1>172.17.0.1") == std::string::npos);
  CHECK(text_of(tcp_routes(own, peer, "eth1", false)).rfind("eth1 10.1.0.1>10.1.0.2, eth0 10.0.0.1>10.0.0.2", 0) == 0);
  CHECK(text_of(tcp_routes(own, test::as_peer({test::nic("p", {"172.17.0.1/16"})}), "br0", true))
            .rfind("br0 172.17.0.1>172.17.0.1", 0) == 0);
  CHECK(text_of(tcp_routes({interface("eth0", "10.0.0.1/16")}, test::as_peer({test::nic("p", {"10.9.0.2/16"})}), "",
                           false)) == "eth0 10.0.0.1>10.9.0.2");
  CHECK(tcp_routes(own, test::as_peer({test::nic("p", {"fd01::2/64"})}), "", false).size() == 1);
}

TEST_CASE("a handle that offers TCP says where; one that does not has the bytes that it always had") {
  Handle handle;
  handle.tcp_port = 4000;
  handle.addresses = test::as_peer({test::nic("a0", {"192.168.100.1/24"}), test::nic("a1", {"192.168.101.1/24"})});
  std::array<std::uint8_t, kHandleBytes> plain{}, offering{};
  encode_handle(handle, plain);
  CHECK(plain[5] == 0);
  CHECK(plain[7] == 2);
  CHECK(decode_handle(plain)->tcp_addresses.empty());

  handle.tcp_addresses = {{.prefix = test::prefix("10.0.0.1/16"), .nic = kTcpNic},
                          {.prefix = test::prefix("fd00::1/64"), .nic = kTcpNic}};
  encode_handle(handle, offering);
  const auto decoded = decode_handle(offering);
  REQUIRE(decoded);
  CHECK(*decoded == handle);

  offering[5] = 2;
  seal_handle(offering);
  CHECK(decode_handle(offering).error().text.find("flags") != std::string::npos);
  plain[5] = 1;
  seal_handle(plain);
  CHECK(decode_handle(plain).error().text == "the handle offers TCP at no address");

  // However many cables there are, an address for TCP has its place.
  for (int more = 0; more < 20; ++more) handle.addresses.push_back(handle.addresses.front());
  encode_handle(handle, offering);
  CHECK(decode_handle(offering)->tcp_addresses == handle.tcp_addresses);
  CHECK(decode_handle(offering)->not_listed > 0);
}

}  // namespace tcp_frame_test
