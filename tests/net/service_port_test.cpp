// Who comes to the doors of a process and means no good, or nothing: what that costs those who do. (What happens on a
// accept queue alone is in accept_queue_test.cpp.)
#include <doctest/doctest.h>

#include <algorithm>

#include "plugin/net/wire/ring.h"
#include "plugin/net/wire/wire.h"
#include "sim/host/host_state.h"
#include "tests/host/probe/probe.h"
#include "tests/net/addresses.h"
#include "tests/net/failover_streams.h"

namespace service_port_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// Sockets of the simulated world, for the calling rank.
class Stranger {
 public:
  Stranger() {
    void* library = sim::load_for(*sim::World::current_process(), MESHBED_BINARY_DIR "/lib/libhost_probe.so");
    using TableFunction = const ProbeTable*();
    sockets_ = reinterpret_cast<TableFunction*>(sim::symbol_of(library, "probe_table"))();
  }
  ~Stranger() {
    for (const int descriptor : descriptors_) sockets_->close_descriptor(descriptor);
  }

  int call(const char* address, int port) {
    int descriptor = -1;
    CHECK(sockets_->connect_to(address, port, &descriptor).error == 0);
    descriptors_.push_back(descriptor);
    return descriptor;
  }
  void say(int descriptor, const net::WireMessage& message) const {
    std::array<std::uint8_t, net::kWireLargestBytes> bytes{};
    const std::size_t length = net::encode_message(message, bytes);
    const char* text = reinterpret_cast<const char*>(bytes.data());
    CHECK(sockets_->send_all(descriptor, text, length) == static_cast<long>(length));
  }
  /// Until something comes.
  void hear(int descriptor) const {
    char byte = 0;
    CHECK(sockets_->receive(descriptor, &byte, 1, 0) == 1);
  }
  /// The type of the next message.
  net::WireType hear_type(int descriptor) const {
    std::array<std::uint8_t, net::kWireHeaderBytes> header{};
    for (std::size_t have = 0; have < header.size();) {
      char* into = reinterpret_cast<char*>(header.data()) + have;
      const std::int64_t count = sockets_->receive(descriptor, into, header.size() - have, 0);
      REQUIRE(count > 0);
      have += static_cast<std::size_t>(count);
    }
    CHECK(net::message_bytes(header).has_value());
    return static_cast<net::WireType>(header[6] << 8U | header[7]);
  }

 private:
  const ProbeTable* sockets_ = nullptr;
  std::vector<int> descriptors_;
};

/// Of a node where nothing else listens.
int service_port_of(int node) {
  const std::vector<std::uint16_t> ports = sim::host().tcp.listening_ports(node);
  CHECK(ports.size() == 1);
  return ports.empty() ? 0 : ports.front();
}

net::WireMessage route_to(const HandleBytes& handle, std::uint64_t circuit) {
  net::WireMessage message{.type = net::WireType::kRoute, .cookie = circuit, .end = {}, .reason = ""};
  message.route = {.origin = 1, .hop = 1, .hop_limit = 4, .onward = {}, .handle = {}};
  std::copy(handle.begin(), handle.end(), message.route.handle.begin());
  return message;
}

/// From the one at `address`, which is "192.168.100.1/24".
net::WireMessage request_of(const std::string& address, std::uint64_t circuit) {
  net::WireMessage message{.type = net::WireType::kRequest, .cookie = circuit, .end = {}, .reason = ""};
  message.end.qp_number = 0x123;
  message.end.lane_qp_number = 0x124;
  message.end.mtu = 3;
  message.end.max_recvs = 1;
  message.end.memory_address = 4096;
  message.end.memory_rkey = 7;
  message.end.address = prefix(address);
  message.end.gid = net::gid_of(message.end.address.address);
  message.end.memory_entries = net::kRingEntries;
  message.end.nic = "rocep1s0f0";
  return message;
}

/// Lines with both words in them.
std::size_t lines_with(const std::string& lines, const std::string& one, const std::string& other) {
  std::size_t found = 0;
  for (std::size_t at = 0, end = 0; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = lines.substr(at, end - at);
    found += line.find(one) != std::string::npos && line.find(other) != std::string::npos ? 1 : 0;
  }
  return found;
}

struct AddressChange {
  models::PortRef port;
  const char *from, *to;
};

/// Now, and kept until the process ends.
void change_address(const AddressChange& change) {
  static std::deque<AddressChange> changes;
  changes.push_back(change);
  const auto take_place = [](void* self, std::uint64_t) {
    const auto& one = *static_cast<const AddressChange*>(self);
    sim::change_address(sim::World::get(), one.port, *models::read_prefix(one.from), *models::read_prefix(one.to));
  };
  sim::World::get().after(0, change.port.node, take_place, &changes.back(), 0);
  sim::World::get().sleep(kMs);
}

void accept_for(MeshRank& rank, void* listener, Picoseconds duration) {
  const Picoseconds end = sim::World::get().now() + duration;
  while (sim::World::get().now() < end) {
    void* nobody = nullptr;
    CHECK(rank.net().accept(listener, &nobody, nullptr) == 0);
    CHECK(nobody == nullptr);
  }
}

}  // namespace

TEST_CASE("three hundred who say by which way, and not who they are, do not keep a peer's route out of a relay") {
  // From the management network, and from a neighbour, over the cable by which the peer's route comes, too.
  for (const char* door : {"10.0.0.2", "192.168.101.1"}) {
    CAPTURE(door);
    const auto result = run_mesh(line_cluster(3), [door](MeshRank& rank) {
      rank.meet("begun", 3);
      if (rank.rank() == 2) {
        Stranger stranger;
        const int port = service_port_of(1);
        for (std::uint64_t circuit = 0; circuit < 300; ++circuit) {
          stranger.say(stranger.call(door, port), route_to({}, circuit));
        }
        rank.meet("the crowd is there", 2);
        rank.close(rank.connect_both(0, 0));
        rank.meet("end", 3);
        return;
      }
      if (rank.rank() == 0) {
        rank.meet("the crowd is there", 2);
        const Picoseconds begun = sim::World::get().now();
        rank.close(rank.connect_both(2, 0));
        // Their REQUEST is due after a second.
        CHECK(sim::World::get().now() - begun < 300 * kMs);
      }
      rank.meet("end", 3);
      if (rank.rank() == 1) CHECK(count(rank.warnings(), "chains already") <= 9);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("those whom a listener or a service drops or refuses cost a warning at each doubling") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    constexpr int kStrangers = 64;
    constexpr std::size_t kLogged = 8;  // 1, 2, 3, 4, 8, 16, 32, 64
    if (rank.rank() == 1) {
      rank.publish("service", HandleBytes{static_cast<char>(service_port_of(1) & 0xff),
                                          static_cast<char>(service_port_of(1) >> 8)});
      void* listener = rank.listen(0, "door");
      accept_for(rank, listener, 300 * kMs);
      CHECK(lines_with(rank.warnings(), "is dropped", "its cookie is not that of this listener") == kLogged);
      CHECK(lines_with(rank.warnings(), "is refused", "is not that of its address") == kLogged);
      CHECK(lines_with(rank.warnings(), "relay: ", "it did not begin with a route") == kLogged);
      CHECK(lines_with(rank.warnings(), "relay: ", "but it came from 192.168.100.1") == kLogged);
      CHECK(rank.warnings().find("; 64 were refused so far") != std::string::npos);
      CHECK(rank.net().closeListen(listener) == 0);
      return;
    }
    const HandleBytes said = rank.look_up("service"), handle = rank.look_up("door");
    const int service = static_cast<std::uint8_t>(said[0]) + 256 * static_cast<std::uint8_t>(said[1]);
    std::array<std::uint8_t, net::kHandleBytes> bytes;
    std::copy(handle.begin(), handle.end(), bytes.begin());
    const auto door = net::decode_handle(bytes);
    net::WireMessage foreign = request_of("192.168.100.1/24", door->cookie);
    foreign.end.gid = net::gid_of(prefix("192.168.100.77/24").address);
    Stranger stranger;
    for (int each = 0; each < kStrangers; ++each) {
      stranger.say(stranger.call("192.168.100.2", door->tcp_port), request_of("192.168.100.1/24", door->cookie + 1));
      stranger.say(stranger.call("192.168.100.2", door->tcp_port), foreign);
      stranger.say(stranger.call("192.168.100.2", service), request_of("192.168.100.1/24", 7));
      const int liar = stranger.call("192.168.100.2", service);
      stranger.say(liar, route_to(handle, 8));
      stranger.say(liar, request_of("192.168.100.77/24", 8));
    }
    sim::World::get().sleep(300 * kMs);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a peer whose cable has another address by now is no stranger, though it comes with 200 connections") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "door");
      accept_for(rank, listener, 10 * kMs);
      change_address({{1, 0}, "192.168.100.2/24", "192.168.100.9/24"});
      rank.meet("changed", 2);
      accept_for(rank, listener, 200 * kMs);
      CHECK(rank.warnings().empty());
      rank.meet("counted", 2);
      CHECK(rank.net().closeListen(listener) == 0);
      return;
    }
    const HandleBytes handle = rank.look_up("door");
    std::array<std::uint8_t, net::kHandleBytes> bytes;
    std::copy(handle.begin(), handle.end(), bytes.begin());
    const int port = net::decode_handle(bytes)->tcp_port;
    Stranger peer;
    peer.call("192.168.100.2", port);  // the listener has looked at its cables
    rank.meet("changed", 2);
    for (int each = 0; each < 200; ++each) peer.call("192.168.100.9", port);
    rank.meet("counted", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "a chain whose beginner has closed is given up, though the receiver never looks and nothing has a time limit") {
  const models::Cluster cluster = with(line_cluster(3), "NCCL_MESH_ACCEPT_TIMEOUT_SEC", "0");
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    const auto objects = [] { return sim::verbs_counters().live_objects; };
    rank.meet("begun", 3);
    if (rank.rank() == 0) {
      const std::uint64_t before = objects();
      {
        Stranger neighbour;
        const int begins = neighbour.call("192.168.100.2", service_port_of(1));
        neighbour.say(begins, route_to(rank.look_up("door"), 8));
        neighbour.say(begins, request_of("192.168.100.1/24", 8));
        sim::World::get().sleep(20 * kMs);
        CHECK(objects() > before);
      }
      sim::World::get().sleep(300 * kMs);
      CHECK(objects() == before);
    }
    void* listener = rank.rank() == 2 ? rank.listen(0, "door") : nullptr;
    rank.meet("end", 3);
    if (listener != nullptr) CHECK(rank.net().closeListen(listener) == 0);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

// ibv_modify_qp() towards an address that does not resolve blocks for a second, and with it the service's thread.
TEST_CASE("a neighbour that began a chain and is gone when the chain is complete delays no other client at the relay") {
  const auto result = run_mesh(line_cluster(3), [](MeshRank& rank) {
    if (rank.rank() == 2) {
      void* listener = rank.listen(0, "door");
      rank.meet("gone", 2);
      accept_for(rank, listener, 100 * kMs);
      rank.meet("end", 3);
      CHECK(rank.net().closeListen(listener) == 0);
      return;
    }
    if (rank.rank() == 0) {
      const HandleBytes handle = rank.look_up("door");
      const int port = service_port_of(1);
      Stranger neighbour;
      const int begins = neighbour.call("192.168.100.2", port);
      neighbour.say(begins, route_to(handle, 8));
      neighbour.say(begins, request_of("192.168.100.1/24", 8));
      sim::World::get().sleep(20 * kMs);  // the relay has asked the receiver, which does not look yet
      change_address({{0, 0}, "192.168.100.1/24", "192.168.100.77/24"});
      rank.meet("gone", 2);
      for (int liveness_check = 0; liveness_check < 50; ++liveness_check) {
        const Picoseconds before = sim::World::get().now();
        const int other = neighbour.call("192.168.100.2", port);
        neighbour.say(other, {.type = net::WireType::kLivenessCheck, .cookie = 5, .end = {}, .reason = ""});
        neighbour.hear(other);
        CHECK(sim::World::get().now() - before < 10 * kMs);
        sim::World::get().sleep(kMs);
      }
    }
    rank.meet("end", 3);
    if (rank.rank() == 1) CHECK(count(rank.infos(), "connected, GID") == 2);  // both of its ends were joined
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a stranger that reports a moved receiver without a valid session is refused and changes nothing") {
  const auto result = run_mesh(pair_cluster(1), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    if (rank.rank() == 0) {
      Stranger neighbour;
      const int port = service_port_of(1);
      for (std::uint64_t session = 0; session < 20; ++session) {
        const int caller = neighbour.call("192.168.100.2", port);
        net::WireMessage moved = request_of("192.168.100.1/24", session);
        moved.type = net::WireType::kMoved;
        neighbour.say(caller, moved);
        CHECK(neighbour.hear_type(caller) == net::WireType::kGone);
      }
    }
    rank.meet("refused", 2);
    Buffer buffer = rank.buffer(rank.rank() == 0 ? comms.receive : comms.send, 100, 3);
    void* request =
        rank.rank() == 0 ? rank.receive(comms.receive, buffer) : rank.send(comms.send, buffer, buffer.bytes.size());
    CHECK(rank.finish(request) == 100);
    rank.release(rank.rank() == 0 ? comms.receive : comms.send, buffer);
    CHECK(rank.warnings().empty());
    rank.close(comms);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace service_port_test
