// Ten thousand connections of a stranger, with whatever frames, at each door of a process; beside them a job goes on
// and ends right, and memory does not grow with their number. (The engine's store: tests/coll.)
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "plugin/base/descriptor.h"
#include "plugin/base/prng.h"
#include "plugin/net/state/state_socket.h"
#include "plugin/net/wire/wire.h"
#include "sim/host/host_state.h"
#include "tests/host/probe/probe.h"
#include "tests/net/failover_streams.h"
#include "tests/support/command.h"
#include "tests/support/heap.h"

namespace hostile_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr int kConnections = 10'000;
constexpr int kWarm = 1'000;                       // until pools and buffers have their size
constexpr std::uint64_t kGrowthBytes = 2U << 20U;  // less than 300 bytes for each of the others

/// Bytes of every kind: noise, the beginning of a real frame, a real frame with noise in it, a size that is a lie.
std::vector<std::uint8_t> hostile_bytes(Prng& prng) {
  std::array<std::uint8_t, net::kWireLargestBytes> frame{};
  const std::array kinds{net::WireType::kRequest, net::WireType::kRoute, net::WireType::kReady};
  net::WireMessage message{
      .type = kinds[prng.below(kinds.size())], .cookie = prng.below(1000), .end = {}, .reason = ""};
  std::size_t size = net::encode_message(message, frame);
  switch (prng.below(4)) {
    case 0:
      size = 1 + prng.below(200);
      for (std::size_t at = 0; at < size; ++at) frame[at] = static_cast<std::uint8_t>(prng.below(256));
      break;
    case 1:
      size = 1 + prng.below(size);
      break;
    case 2:
      frame[prng.below(size)] = static_cast<std::uint8_t>(prng.below(256));
      break;
    case 3:  // the header's last bytes are its length
      frame[net::kWireHeaderBytes - 1] = frame[net::kWireHeaderBytes - 2] = 0xff;
      break;
  }
  return {frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size)};
}

}  // namespace

TEST_CASE("a stranger's 10,000 connections and frames at a plugin's ports change nothing of the job beside them") {
  const auto result = run_mesh(ring_cluster(3), [](MeshRank& rank) {
    const Stream stream{.messages = 200};
    if (rank.rank() == 2) {
      void* const library = sim::load_for(*sim::World::current_process(), MESHBED_BINARY_DIR "/lib/libhost_probe.so");
      using TableFunction = const ProbeTable*();
      const ProbeTable& sockets = *reinterpret_cast<TableFunction*>(sim::symbol_of(library, "probe_table"))();
      Prng prng(20'261'128);
      std::uint64_t warm_bytes = 0;
      int connected = 0;
      rank.meet("under way", 3);
      for (int number = 0; number < kConnections; ++number) {
        if (number == kWarm) warm_bytes = heap_in_use_bytes();
        const int node = number % 2;
        const std::vector<std::uint16_t> ports = sim::host().tcp.listening_ports(node);
        int descriptor = -1;
        // By a cable, or by the management network.
        const char* const address =
            number % 3 == 0 ? (node == 0 ? "10.0.0.1" : "10.0.0.2") : (node == 0 ? "192.168.102.2" : "192.168.101.1");
        if (sockets.connect_to(address, ports[prng.below(ports.size())], &descriptor).error != 0) continue;
        ++connected;
        const std::vector<std::uint8_t> bytes = hostile_bytes(prng);
        (void)sockets.send_all(descriptor, reinterpret_cast<const char*>(bytes.data()),
                               static_cast<long>(bytes.size()));
        if (number % 7 == 0) rank.pause();
        sockets.close_descriptor(descriptor);
      }
      sim::World::get().sleep(3'000 * kMs);  // what waits for the rest of a frame is given up
      CHECK(connected > kConnections * 9 / 10);
      CHECK(heap_in_use_bytes() < warm_bytes + kGrowthBytes);
      rank.meet("over", 3);
      return;
    }
    const Comms comms = rank.connect_both(1 - rank.rank(), rank.rank() == 0 ? 0 : 1);
    rank.meet("under way", 3);
    for (int round = 0; round < 3; ++round) {
      rank.rank() == 0 ? stream.send(rank, comms) : stream.receive(rank, comms);
    }
    // New connections come through as well.
    const Comms more = rank.connect_both(1 - rank.rank(), rank.rank() == 0 ? 0 : 1, "more");
    rank.meet("over", 3);
    rank.rank() == 0 ? stream.send(rank, more) : stream.receive(rank, more);
    rank.close(more);
    rank.close(comms);
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

TEST_CASE("10,000 clients of the state socket with any bytes block no request, and cost no memory") {
  const auto door = net::StateSocket::open(scratch_folder("hostile_door") + "/f", 4711);
  REQUIRE_MESSAGE(door, door.error().text);
  const std::string path = (*door)->path();
  const auto document = [] { return std::string("{\"format\":1}"); };
  const auto call = [&path] {
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
    CHECK(::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
    return socket;
  };
  Prng prng(20'261'128);
  std::vector<Descriptor> silent;
  std::uint64_t warm_bytes = 0;
  for (int number = 0; number < kConnections; ++number) {
    if (number == kWarm) warm_bytes = heap_in_use_bytes();
    Descriptor stranger = call();
    const std::vector<std::uint8_t> bytes = hostile_bytes(prng);
    (void)::send(stranger.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (prng.below(4) == 0) silent.push_back(std::move(stranger));
    if (silent.size() > 64) silent.clear();
    (*door)->advance(document);
    if (number % 100 != 0) continue;
    const Descriptor client = call();
    CHECK(::send(client.number(), "state\n", 6, MSG_NOSIGNAL) == 6);
    (*door)->advance(document);
    std::array<char, 64> answer{};
    CHECK(::recv(client.number(), answer.data(), answer.size(), 0) == 13);
    CHECK(std::string(answer.data()) == "{\"format\":1}\n");
  }
  silent.clear();
  (*door)->advance(document);
  CHECK(heap_in_use_bytes() < warm_bytes + kGrowthBytes);
}

}  // namespace hostile_test
