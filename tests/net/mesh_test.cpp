// Clusters of more than one cable: which one a connection takes, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "sim/engine/world.h"
#include "tests/net/mesh_ranks.h"

namespace mesh_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// A pair with `rails` cables, each its own subnet 192.168.(100+rail).0/24.
models::Cluster rails_cluster(int rails) {
  models::Cluster cluster = ring_cluster(2);
  for (int rail = 1; rail < rails; ++rail) {
    for (int node = 0; node < 2; ++node) {
      models::Nic nic = cluster.nodes[node].nics[0];
      nic.device = "rocep1s0f" + std::to_string(rail);
      nic.netdev += "_" + std::to_string(rail);
      nic.addresses[0].address.bytes[2] = static_cast<std::uint8_t>(100 + rail);
      for (models::GidEntry& gid : nic.gids) gid.gid = models::gid_of(nic.addresses[0].address);
      cluster.nodes[node].nics.push_back(nic);
    }
    models::Cable cable = cluster.cables[0];
    cable.name += "_" + std::to_string(rail);
    cable.a.nic = cable.b.nic = rail;
    cluster.cables.push_back(cable);
  }
  return cluster;
}

/// Sends one message each way and checks it.
void ping(MeshRank& rank, const Comms& comms) {
  const Buffer out = rank.buffer(comms.send, 3000, 8);
  Buffer in = rank.buffer(comms.receive, 4000, 9);
  void* receive = rank.receive(comms.receive, in);
  void* send = rank.send(comms.send, out, 3000);
  CHECK(rank.finish(receive) == 3000);
  CHECK(rank.finish(send) == 3000);
  CHECK(std::equal(out.bytes.begin(), out.bytes.end(), in.bytes.begin()));
  rank.release(comms.send, out);
  rank.release(comms.receive, in);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("D26: triangle, two channels to each neighbour on devices 0 and 1, device order reversed on one node") {
  auto cluster = ring_cluster(3);
  std::swap(cluster.nodes[1].nics[0], cluster.nodes[1].nics[1]);
  for (models::Cable& cable : cluster.cables) {
    for (models::PortRef* end : {&cable.a, &cable.b}) end->nic = end->node == 1 ? 1 - end->nic : end->nic;
  }
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    for (int other = 1; other < 3; ++other) {
      // Pairs meet in an order that all agree on: 0-1, 0-2, 1-2.
      for (int channel = 0; channel < 2; ++channel) {
        const int peer = other == 1 ? (rank.rank() == 0       ? 1
                                       : rank.rank() - 1 == 0 ? 0
                                                              : 1)
                                    : (rank.rank() == 2 ? 0 : 2);
        if (peer == rank.rank()) continue;
        const Comms comms = rank.connect_both(peer, channel, "/" + std::to_string(channel));
        ping(rank, comms);
        rank.close(comms);
      }
    }
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D4: three ranks that connect to both neighbours before any rank accepts succeed") {
  const auto result = run_mesh(ring_cluster(3), [](MeshRank& rank) {
    const int next = (rank.rank() + 1) % 3;
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    HandleBytes handle = rank.look_up(std::to_string(next));
    void *send = nullptr, *receive = nullptr;
    while (send == nullptr) CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
    while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
    CHECK(rank.net().closeListen(listener) == 0);
    rank.close({.send = send, .receive = receive});
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D4: connect and accept return at once, however long the peer takes") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    if (rank.rank() == 0) {
      HandleBytes handle = rank.look_up("1");
      void *send = nullptr, *receive = nullptr;
      for (int call = 0; call < 50; ++call) {
        const Picoseconds before = sim::World::get().now();
        CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
        CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
        CHECK(sim::World::get().now() - before < 100 * kPicosecondsPerMillisecond);
        CHECK(send == nullptr);
        CHECK(receive == nullptr);
      }
    }
    rank.meet("enough", 2);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

TEST_CASE("ring of four without relays: neighbours connect, the diagonal is refused at once with both sides' subnets") {
  const auto result = run_mesh(with(ring_cluster(4), "NCCL_MESH_ENABLE_RELAY", "0"), [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    HandleBytes handle = rank.look_up(std::to_string((rank.rank() + 2) % 4));
    void* send = nullptr;
    const Picoseconds before = sim::World::get().now();
    CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == nccl::kNcclRemoteError);
    CHECK(sim::World::get().now() - before < kPicosecondsPerMillisecond);
    CHECK(send == nullptr);
    CHECK(rank.warnings().find("no path: this node has 192.168.") != std::string::npos);
    CHECK(rank.warnings().find("the peer has 192.168.") != std::string::npos);
    CHECK(rank.warnings().find("no shared subnet: a cable or a relay is needed") != std::string::npos);
    CHECK(count_of(rank.warnings(), "\n") == 1);
    rank.forget_warnings();
    CHECK(rank.net().closeListen(listener) == 0);
    for (int step = 0; step < 2; ++step) {
      // 0-1 and 2-3, then 1-2 and 3-0.
      const int peer = (rank.rank() + 4 + ((rank.rank() + step) % 2 == 0 ? 1 : -1)) % 4;
      const Comms comms = rank.connect_both(peer, 0, "/neighbours");
      ping(rank, comms);
      rank.close(comms);
    }
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D26: two rails: each channel stays on its device, and nothing is overridden") {
  // Rails would say that they are connected, too.
  run_mesh(with(rails_cluster(2), "NCCL_MESH_STRIPE_BYTES", "0"), [](MeshRank& rank) {
    for (int dev = 0; dev < 2; ++dev) {
      const Comms comms = rank.connect_both(1 - rank.rank(), dev, "/" + std::to_string(dev));
      ping(rank, comms);
      rank.close(comms);
    }
    CHECK(rank.infos().find("has no path to the peer") == std::string::npos);
    CHECK(count_of(rank.infos(), "send rocep1s0f0") == 1);
    CHECK(count_of(rank.infos(), "send rocep1s0f1") == 1);
    CHECK(rank.warnings().empty());
  });
}

TEST_CASE("D27: a rail whose link is down is not taken, and one line says so") {
  auto cluster = rails_cluster(2);
  cluster.nodes[0].nics[0].link_up = false;
  run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    ping(rank, comms);
    CHECK(count_of(rank.infos(), "send rocep1s0f1") == 1);
    if (rank.rank() == 0) CHECK(count_of(rank.infos(), "device 0 (rocep1s0f0) has no path to the peer") == 1);
    rank.close(comms);
  });
}

TEST_CASE("D19: netdevs of MTU 9000 and 1500: both ends use 1024") {
  auto cluster = ring_cluster(2);
  cluster.nodes[1].nics[0].mtu_bytes = 1500;
  run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    ping(rank, comms);
    CHECK(count_of(rank.infos(), "path MTU 1024") == 2);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
}

TEST_CASE("D30: a RoCE v1 peer and a v2 peer are distinguished before any queue pair waits for packets") {
  auto cluster = ring_cluster(2);
  auto& gids = cluster.nodes[1].nics[0].gids;
  gids.erase(std::remove_if(gids.begin(), gids.end(),
                            [](const models::GidEntry& gid) { return gid.type == models::GidType::kRoceV2; }),
             gids.end());
  run_mesh(cluster, [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    if (rank.rank() == 0) {
      HandleBytes handle = rank.look_up("1");
      void* send = nullptr;
      int result = 0;
      while (result == 0 && send == nullptr)
        result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      CHECK(result == nccl::kNcclRemoteError);
      CHECK(rank.warnings().find("the peer refuses: it uses a RoCE v2 GID, but rocep1s0f0 has none") !=
            std::string::npos);
      rank.meet("refused", 1);
    } else {
      void* receive = nullptr;
      for (int call = 0; call < 1000 && rank.warnings().empty(); ++call) {
        CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
        CHECK(receive == nullptr);
        MeshRank::pause();
      }
      CHECK(count_of(rank.warnings(), "is refused: it uses a RoCE v2 GID") == 1);
      for (int call = 0; call < 1000; ++call) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
    }
    rank.meet("both", 2);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

TEST_CASE("two ranks of one node meet through their own NIC, polled by one thread") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() != 0) return;
    void* listener = rank.listen(0, "self");
    HandleBytes handle = rank.look_up("self");
    void *send = nullptr, *receive = nullptr;
    while (send == nullptr || receive == nullptr) {
      if (send == nullptr) CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
      if (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
    }
    CHECK(rank.net().closeListen(listener) == 0);
    ping(rank, {.send = send, .receive = receive});
    rank.close({.send = send, .receive = receive});
    CHECK(rank.warnings().empty());
  });
}

TEST_CASE(
    "D5, D16, D29: forty clients before the first accept; each gets a connection of its own, and counts what came") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    constexpr int kConnections = 40;
    std::vector<void*> comms(kConnections, nullptr);
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "many");
      rank.meet("all dialled", 2);
      for (void*& receive : comms) {
        while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
      }
      CHECK(rank.net().closeListen(listener) == 0);
    } else {
      std::vector<HandleBytes> handles(kConnections, rank.look_up("many"));
      int open = 0;
      for (int turn = 0; open < kConnections; ++turn) {
        for (int index = 0; index < kConnections; ++index) {
          if (comms[index] != nullptr) continue;
          CHECK(rank.net().connect(rank.context, 0, handles[index].data(), &comms[index], nullptr) == 0);
          open += comms[index] != nullptr ? 1 : 0;
        }
        if (turn == 5) rank.meet("all dialled", 2);
      }
    }
    rank.meet("all connected", 2);
    // Which of the connections met which is the network's business: each carries its own size.
    Buffer bytes = rank.buffer(comms[0], 64, 1);
    std::vector<void*> requests;
    for (int index = 0; index < kConnections; ++index) {
      requests.push_back(rank.rank() == 0 ? rank.send(comms[index], bytes, static_cast<std::size_t>(index))
                                          : rank.receive(comms[index], bytes));
    }
    std::set<int> sizes;
    for (void* request : requests) sizes.insert(rank.finish(request));
    CHECK(sizes.size() == kConnections);
    CHECK(*sizes.rbegin() == kConnections - 1);
    rank.release(comms[0], bytes);
    for (void* comm : comms) {
      CHECK((rank.rank() == 0 ? rank.net().closeSend(comm) : rank.net().closeRecv(comm)) == 0);
    }
    // D29: what is counted is what came, not what was posted.
    CHECK(rank.infos().find("ops=1 bytes=39 unfinished=0 errors=0") != std::string::npos);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D14: a connect that fails holds up no other, and none remembers where its handle stood") {
  run_mesh(with(ring_cluster(2), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"), [](MeshRank& rank) {
    void* gone = rank.listen(0, "gone" + std::to_string(rank.rank()));
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    CHECK(rank.net().closeListen(gone) == 0);
    rank.meet("one is gone", 2);
    const int peer = 1 - rank.rank();
    HandleBytes bad = rank.look_up("gone" + std::to_string(peer));
    std::vector<HandleBytes> places(64, rank.look_up(std::to_string(peer)));
    HandleBytes note = places[0];
    Comms comms;
    void* never = nullptr;
    int failed = 0;
    for (std::size_t step = 0; comms.send == nullptr || comms.receive == nullptr || failed == 0; ++step) {
      if (failed == 0) failed = rank.net().connect(rank.context, 0, bad.data(), &never, nullptr);
      if (comms.send == nullptr) {
        // The handle is handed on from place to place, and the last place is written over.
        HandleBytes& place = places[step % places.size()];
        place = note;
        CHECK(rank.net().connect(rank.context, 0, place.data(), &comms.send, nullptr) == 0);
        note = place;
        place.fill('x');
      }
      if (comms.receive == nullptr) CHECK(rank.net().accept(listener, &comms.receive, nullptr) == 0);
    }
    CHECK(failed == nccl::kNcclRemoteError);
    CHECK(never == nullptr);
    CHECK(rank.warnings().find("Connection refused (attempt 3)") != std::string::npos);
    rank.meet("both", 2);
    rank.close(comms);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

TEST_CASE("crossed cables: links are up, subnets are shared, no reply comes: connect gives up and asks for the cable") {
  auto cluster = ring_cluster(3);
  std::swap(cluster.cables[0].b, cluster.cables[1].b);
  run_mesh(cluster, [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    if (rank.rank() < 2) {
      HandleBytes handle = rank.look_up(std::to_string(1 - rank.rank()));
      void* send = nullptr;
      int result = 0;
      while (result == 0 && send == nullptr) {
        result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      }
      CHECK(result == nccl::kNcclRemoteError);
      CHECK(sim::World::get().now() < 12 * kPicosecondsPerSecond);
      CHECK(rank.warnings().find("no connection rocep1s0f") != std::string::npos);
      CHECK(rank.warnings().find("is the cable in these two ports, and is the link up?") != std::string::npos);
      CHECK(count_of(rank.warnings(), "\n") == 1);
    }
    rank.meet("all", 3);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

TEST_CASE("a port without a cable has no link: without relays connect is refused at once and says so") {
  auto cluster = with(ring_cluster(2), "NCCL_MESH_ENABLE_RELAY", "0");
  cluster.cables.clear();
  run_mesh(cluster, [](MeshRank& rank) {
    void* listener = rank.listen(0, std::to_string(rank.rank()));
    HandleBytes handle = rank.look_up(std::to_string(1 - rank.rank()));
    void* send = nullptr;
    CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == nccl::kNcclRemoteError);
    CHECK(rank.warnings().find("192.168.100.0/24 on rocep1s0f0 has its link down") != std::string::npos);
    rank.meet("both", 2);
    CHECK(rank.net().closeListen(listener) == 0);
  });
}

TEST_CASE("D30: a cable with IPv6 addresses only") {
  auto cluster = ring_cluster(2);
  for (std::size_t node = 0; node < 2; ++node) {
    models::Nic& nic = cluster.nodes[node].nics[0];
    nic.addresses = {*models::read_prefix("fd00:100::" + std::to_string(node + 1) + "/64")};
    for (models::GidEntry& gid : nic.gids) gid.gid = models::gid_of(nic.addresses[0].address);
  }
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    ping(rank, comms);
    rank.close(comms);
    CHECK(rank.infos().find("fd00:100::") != std::string::npos);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace mesh_test
