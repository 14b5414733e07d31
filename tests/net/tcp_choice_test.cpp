// When data go over TCP: NCCL_MESH_DISABLE_RDMA, NCCL_MESH_HYBRID_TCP; and strangers on a data connection.
#include <doctest/doctest.h>

#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/tcp_frame.h"
#include "plugin/net/wire/wire.h"
#include "sim/engine/world.h"
#include "tests/host/probe/probe.h"
#include "tests/net/mesh_ranks.h"

namespace tcp_choice_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr Picoseconds kSecond = kPicosecondsPerSecond;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Raw sockets in the simulated world.
const ProbeTable& stranger() {
  void* library = sim::load_for(*sim::World::current_process(), MESHBED_BINARY_DIR "/lib/libhost_probe.so");
  using TableFunction = const ProbeTable*();
  return *reinterpret_cast<TableFunction*>(sim::symbol_of(library, "probe_table"))();
}

/// A socket that has shaken hands with this listener as a sender does.
int connect_as_sender(const HandleBytes& handle) {
  std::array<std::uint8_t, net::kHandleBytes> bytes;
  std::copy(handle.begin(), handle.end(), bytes.begin());
  const auto listener = net::decode_handle(bytes);
  CHECK(listener.has_value());
  int descriptor = -1;
  CHECK(stranger().connect_to("10.0.0.2", listener->tcp_port, &descriptor).error == 0);
  net::WireMessage message{.type = net::WireType::kTcpRequest,
                           .cookie = listener->cookie,
                           .end = {},
                           .reason = "",
                           .tcp = {.node = 1, .netdev = "strange0"}};
  for (const auto type : {net::WireType::kTcpRequest, net::WireType::kReady}) {
    std::array<std::uint8_t, net::kWireLargestBytes> buffer{};
    message.type = type;
    const std::size_t length = net::encode_message(message, buffer);
    CHECK(stranger().send_all(descriptor, reinterpret_cast<const char*>(buffer.data()), length) ==
          static_cast<std::int64_t>(length));
  }
  return descriptor;
}

void send_frame(int descriptor, const net::TcpFrame& frame, bool damaged) {
  std::array<std::uint8_t, net::kTcpFrameBytes> bytes{};
  net::encode_frame(frame, bytes);
  if (damaged) bytes[17] ^= 0x40U;
  CHECK(stranger().send_all(descriptor, reinterpret_cast<const char*>(bytes.data()), bytes.size()) == 32);
}

}  // namespace

TEST_CASE("over TCP: whatever a stranger sends in place of a message ends its connection, with the reason") {
  using net::TcpFrameType;
  struct Line {
    net::TcpFrame frame;
    const char* reason;
    bool damaged = false;
  };
  // What waits: one receive of 100 bytes with tag 5, entry 0.
  const std::vector<Line> table{
      {{.type = TcpFrameType::kData, .parts = 1, .length_bytes = 101, .tag = 5}, "101 bytes for a receive of 100"},
      {{.type = TcpFrameType::kData, .parts = 1, .length_bytes = 9, .tag = 6}, "a message out of turn"},
      {{.type = TcpFrameType::kData, .parts = 2, .length_bytes = 9, .tag = 5}, "a message out of turn"},
      {{.type = TcpFrameType::kData, .part = 1, .parts = 2, .tag = 5}, "a message out of turn"},
      {{.type = TcpFrameType::kData, .parts = 1, .number = 1, .tag = 5}, "a message that nothing waits for"},
      {{.type = TcpFrameType::kData, .parts = 1, .number = ~0ULL, .tag = 5}, "a message that nothing waits for"},
      {{.type = TcpFrameType::kAnnounce, .parts = 1}, "an announcement, but it only sends here"},
      {{.type = TcpFrameType::kData, .parts = 1, .length_bytes = 9, .tag = 5}, "whose checksum does not fit", true},
      {{.type = TcpFrameType::kData, .parts = 9, .length_bytes = 9, .tag = 5}, "1 to 8 parts"}};
  const auto cluster = with(with(ring_cluster(2), "NCCL_MESH_DISABLE_RDMA", "1"), "NCCL_SOCKET_IFNAME", "=mgmt0");
  const auto result = run_mesh(cluster, [&](MeshRank& rank) {
    void* listener = rank.rank() == 1 ? rank.listen(0, "door") : nullptr;
    const HandleBytes handle = rank.look_up("door");
    for (std::size_t index = 0; index < table.size(); ++index) {
      const std::string round = std::to_string(index);
      if (rank.rank() == 0) {
        const int descriptor = connect_as_sender(handle);
        rank.meet("posted" + round, 2);
        send_frame(descriptor, table[index].frame, table[index].damaged);
        rank.meet("refused" + round, 2);
        stranger().close_descriptor(descriptor);
      } else {
        rank.forget_warnings();
        void* receive = nullptr;
        while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
        Buffer in = rank.buffer(receive, 100, 2);
        void* request = rank.receive(receive, in, 5);
        rank.meet("posted" + round, 2);
        CHECK(rank.finish(request) == -1);
        CHECK_MESSAGE(rank.warnings().find(table[index].reason) != std::string::npos, rank.warnings());
        CHECK(in.bytes[0] == MeshRank::pattern(0, 2));
        rank.meet("refused" + round, 2);
        rank.release(receive, in);
        CHECK(rank.net().closeRecv(receive) == 0);
      }
    }
    if (listener != nullptr) CHECK(rank.net().closeListen(listener) == 0);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "NCCL_MESH_DISABLE_RDMA: each interface is a device with its name and speed; a ring's neighbours use its cables") {
  const auto result = run_mesh(with(ring_cluster(3), "NCCL_MESH_DISABLE_RDMA", "1"), [](MeshRank& rank) {
    int devices = 0;
    CHECK(rank.net().devices(&devices) == 0);
    CHECK(devices == 3);
    nccl::PropertiesV11 properties{};
    CHECK(rank.net().getProperties(2, &properties) == 0);
    CHECK(std::string(properties.name) == "mgmt0");
    CHECK(properties.speed == 10'000);
    CHECK(rank.net().getProperties(0, &properties) == 0);
    CHECK(properties.speed == 100'000);
    for (int first = 0; first < 3; ++first) {  // pairs in an order that all agree on
      const int second = (first + 1) % 3;
      if (rank.rank() != first && rank.rank() != second) continue;
      const Comms comms = rank.connect_both(rank.rank() == first ? second : first, 0, std::to_string(first));
      const Buffer out = rank.buffer(comms.send, 100, 1);
      Buffer in = rank.buffer(comms.receive, 100, 2);
      void* receive = rank.receive(comms.receive, in);
      rank.finish(rank.send(comms.send, out, 100));
      CHECK(rank.finish(receive) == 100);
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
      rank.close(comms);
    }
    CHECK(rank.infos().find("transport=tcp direction=send peer=192.168.10") != std::string::npos);
    CHECK(rank.infos().find("transport=rdma") == std::string::npos);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

/// body(rank) in two processes of one node, with RDMA off and these interfaces.
WorldResult run_on_one_node(const std::string& interfaces, const RankBody& body) {
  Shared shared;
  g_shared = &shared;
  return run_world({.cluster = ring_cluster(2)}, [&](sim::World& world) {
    sim::install_host(world, {});
    sim::install_verbs(world, std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1", nullptr);
    for (int number = 0; number < 2; ++number) {
      auto& process = world.add_process(number, 0, "process" + std::to_string(number));
      process.environment["NCCL_MESH_DISABLE_RDMA"] = "1";
      process.environment["NCCL_SOCKET_IFNAME"] = interfaces;
      world.spawn(process, "main", [&shared, &body, number] {
        MeshRank self(shared, number);
        self.start();
        body(self);
        self.stop();
      });
    }
  });
}

}  // namespace

TEST_CASE("NCCL_SOCKET_IFNAME=lo: two processes of one node meet there, without a warning about it") {
  const auto result = run_on_one_node("lo", [](MeshRank& rank) {
    int devices = 0;
    CHECK(rank.net().devices(&devices) == 0);
    CHECK(devices == 1);
    nccl::PropertiesV11 properties{};
    CHECK(rank.net().getProperties(0, &properties) == 0);
    CHECK(std::string(properties.name) == "lo");
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const Buffer out = rank.buffer(comms.send, 100, 1);
    Buffer in = rank.buffer(comms.receive, 100, 2);
    void* receive = rank.receive(comms.receive, in);
    rank.finish(rank.send(comms.send, out, 100));
    CHECK(rank.finish(receive) == 100);
    CHECK(in.bytes == out.bytes);
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
    rank.close(comms);
    CHECK(rank.infos().find("transport=tcp direction=send peer=127.0.0.1 nic=lo") != std::string::npos);
    CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("NCCL_MESH_DISABLE_RDMA where no interface is left: one warning says which there are, and of nothing else") {
  const auto result = run_on_one_node("=eth7", [](MeshRank& rank) {
    int devices = -1;
    CHECK(rank.net().devices(&devices) == 0);
    CHECK(devices == 0);
    CHECK_MESSAGE(
        rank.warnings().find("NCCL_MESH_DISABLE_RDMA=1, and for TCP there is none of the interfaces that are up (") !=
            std::string::npos,
        rank.warnings());
    CHECK(rank.warnings().find("lo, mgmt0) (NCCL_SOCKET_IFNAME==eth7)") != std::string::npos);
    CHECK(count_of(rank.warnings(), "\n") == 1);
    CHECK(rank.warnings().find("HYBRID") == std::string::npos);
    CHECK(rank.warnings().find("relay") == std::string::npos);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("RDMA is off at one end only: the words speak of what was set there, and of no relay") {
  auto cluster = ring_cluster(2);
  cluster.nodes[0].environment.emplace_back("NCCL_MESH_DISABLE_RDMA", "1");
  run_mesh(with(cluster, "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"), [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    HandleBytes handle = rank.look_up(std::to_string(1 - rank.rank()));
    void* send = nullptr;
    int outcome = 0;
    while (rank.rank() == 0 && outcome == 0)
      outcome = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
    if (rank.rank() == 0) {
      CHECK_MESSAGE(rank.warnings().find("the peer offers no address for TCP: NCCL_MESH_DISABLE_RDMA=1 must be set "
                                         "there too") != std::string::npos,
                    rank.warnings());
      CHECK(rank.warnings().find("HYBRID") == std::string::npos);
      CHECK(rank.warnings().find("relay") == std::string::npos);
      CHECK(rank.warnings().find("NCCL_IB_HCA") == std::string::npos);
      CHECK(count_of(rank.warnings(), "\n") == 1);
    }
    rank.meet("refused", 2);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

TEST_CASE("NCCL_MESH_HYBRID_TCP: chains of cables win; peers without any go over TCP, with one warning each") {
  auto cluster = ring_cluster(4);
  SUBCASE("the ring is whole: the diagonal is relayed") {
    run_mesh(with(cluster, "NCCL_MESH_HYBRID_TCP", "1"), [](MeshRank& rank) {
      const Comms comms = rank.connect_both((rank.rank() + 2) % 4, 0);
      rank.meet("connected", 4);
      rank.close(comms);
      CHECK(rank.infos().find("through 1 relay: ") != std::string::npos);
      CHECK(rank.warnings().empty());
    });
  }
  SUBCASE("no node is joined to another: TCP, once the search is over, and the second channel does not search again") {
    cluster.cables.clear();
    run_mesh(with(cluster, "NCCL_MESH_HYBRID_TCP", "1"), [](MeshRank& rank) {
      const int peer = (rank.rank() + 2) % 4;
      const Comms first = rank.connect_both(peer, 0, "/first");
      const Picoseconds searched = sim::World::get().now();
      CHECK(searched > 10 * kSecond);
      const Comms second = rank.connect_both(peer, 0, "/second");
      CHECK(sim::World::get().now() - searched < kSecond);
      CHECK(count_of(rank.warnings(), "is reached over TCP on mgmt0 (10.0.0.") == 1);
      CHECK(rank.warnings().find("no path: this node has") != std::string::npos);
      CHECK(count_of(rank.warnings(), "\n") == 1);
      rank.meet("connected", 4);
      rank.close(first);
      rank.close(second);
    });
  }
  SUBCASE("one end does not ask for it: refused, and both variables are named") {
    cluster.cables.clear();
    cluster.nodes[0].environment.emplace_back("NCCL_MESH_HYBRID_TCP", "1");
    run_mesh(with(cluster, "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"), [](MeshRank& rank) {
      void* listener = rank.listen(0, std::to_string(rank.rank()));
      if (rank.rank() == 0 || rank.rank() == 2) {
        HandleBytes handle = rank.look_up(std::to_string(2 - rank.rank()));
        void* send = nullptr;
        int result = 0;
        while (result == 0) result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
        CHECK(send == nullptr);
        CHECK(rank.warnings().find(rank.rank() == 0 ? "the peer offers no address for TCP: NCCL_MESH_HYBRID_TCP=1 must"
                                                    : "the peer offers TCP: set NCCL_MESH_HYBRID_TCP=1 here, too") !=
              std::string::npos);
      }
      rank.meet("refused", 4);
      CHECK(rank.net().closeListen(listener) == 0);
    });
  }
}

}  // namespace tcp_choice_test
