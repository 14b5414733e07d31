// Peers without a cable between them: the real plugin on every node of a ring or a line, and its relay service.
#include <doctest/doctest.h>

#include <algorithm>

#include "plugin/net/wire/piece.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "tests/net/state_ranks.h"

namespace relay_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// Ranks `first` and `second` are connected both ways and run the body; the others only are there.
WorldResult run_apart(const models::Cluster& cluster, int first, int second,
                      const std::function<void(MeshRank&, const Comms&, int peer)>& body) {
  const int ranks = static_cast<int>(cluster.nodes.size());
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() == first || rank.rank() == second) {
      const int peer = first + second - rank.rank();
      const Comms comms = rank.connect_both(peer, 0);
      CHECK(rank.infos().find("no subnet shared with the peer: through") != std::string::npos);
      body(rank, comms, peer);
    }
    rank.meet("end", ranks);
  });
}

void expect_pattern(const Buffer& buffer, std::size_t size, std::uint32_t seed) {
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < size; ++at) wrong += buffer.bytes[at] != MeshRank::pattern(at, seed) ? 1 : 0;
  CHECK(wrong == 0);
}

/// Sends messages of these sizes and receives as many from the peer, one at a time.
void exchange(MeshRank& rank, const Comms& comms, const std::vector<std::size_t>& sizes) {
  for (const std::size_t size : sizes) {
    const auto seed = static_cast<std::uint32_t>(size);
    Buffer out = rank.buffer(comms.send, size, seed);
    Buffer in = rank.buffer(comms.receive, size + 10, 99);
    void* receive = rank.receive(comms.receive, in);
    void* send = rank.send(comms.send, out, size);
    CHECK(rank.finish(send) == static_cast<int>(size));
    CHECK(rank.finish(receive) == static_cast<int>(size));
    expect_pattern(in, size, seed);
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
  }
}

void send_one(MeshRank& rank, const Comms& comms, std::size_t size) {
  Buffer out = rank.buffer(comms.send, size, 5);
  CHECK(rank.finish(rank.send(comms.send, out, size)) == static_cast<int>(size));
  rank.release(comms.send, out);
}

void receive_one(MeshRank& rank, const Comms& comms, std::size_t size) {
  Buffer in = rank.buffer(comms.receive, size, 1);
  CHECK(rank.finish(rank.receive(comms.receive, in)) == static_cast<int>(size));
  expect_pattern(in, size, 5);
  rank.release(comms.receive, in);
}

const std::vector<std::size_t> kSizes{0,
                                      1,
                                      8,
                                      net::kPieceBytes - 1,
                                      net::kPieceBytes,
                                      net::kPieceBytes + 1,
                                      std::size_t{net::kPieceBytes} * net::kPieceSlots + 5,
                                      5'000'003};

}  // namespace

TEST_CASE("a ring's diagonal: messages of every size arrive through a neighbour, both ways at once") {
  run_apart(ring_cluster(4), 0, 2, [](MeshRank& rank, const Comms& comms, int) {
    exchange(rank, comms, kSizes);
    rank.close(comms);
  });
}

TEST_CASE("a ring's diagonal beside a neighbour's stream: a new connection begins on the lighter chain, if it may") {
  // By node 1 in its turn; by node 3.
  for (const auto& [balance, way] :
       {std::pair("0", "relayed through 192.168.100.2"), std::pair("1", "relayed through 192.168.103.1")}) {
    CAPTURE(balance);
    const auto result = run_mesh(with(ring_cluster(4), "NCCL_MESH_RING_LOAD_BALANCE", balance), [way](MeshRank& rank) {
      constexpr int kReceiver = 2;
      constexpr std::size_t kBytes = 64 * kMiB;
      const bool streams = rank.rank() == 1, receives = rank.rank() == kReceiver;
      Comms beside;
      if (streams) beside = rank.connect_both(kReceiver, 0);
      if (receives) beside = rank.connect_both(1, 0);
      Buffer large = streams    ? rank.buffer(beside.send, kBytes, 1)
                     : receives ? rank.buffer(beside.receive, kBytes, 2)
                                : Buffer{};
      rank.meet("beside", 4);
      void* request = streams    ? rank.send(beside.send, large, kBytes)  // 5.5 ms
                      : receives ? rank.receive(beside.receive, large)
                                 : nullptr;
      if (rank.rank() == 0 || receives) {
        const Comms across = rank.connect_both(kReceiver - rank.rank(), 0);
        if (rank.rank() == 0) CHECK(text_of(connection_of(state_of(rank), "send"), "way") == way);
        rank.meet("seen", 2);
        rank.close(across);
      }
      if (request != nullptr) CHECK(rank.finish(request) == static_cast<int>(kBytes));
      rank.meet("done", 4);
      if (streams || receives) {
        rank.release(streams ? beside.send : beside.receive, large);
        rank.close(beside);
      }
      rank.meet("end", 4);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a line's ends: three cables, two relays") {
  run_apart(line_cluster(4), 0, 3, [](MeshRank& rank, const Comms& comms, int) {
    CHECK(rank.infos().find("through 2 relays") != std::string::npos);
    exchange(rank, comms, kSizes);
    rank.close(comms);
  });
}

TEST_CASE("cables that have IPv6 alone: chains are found over them too") {
  models::Cluster cluster = line_cluster(4);
  for (models::Node& node : cluster.nodes) {
    for (models::Nic& nic : node.nics) {
      // 192.168.C.N becomes fd00:0:0:C::N.
      const auto bytes = nic.addresses.front().address.bytes;
      models::IpPrefix prefix{.address = {.family = models::Family::kIpv6, .bytes = {0xfd}}, .length_bits = 64};
      prefix.address.bytes[7] = bytes[2];
      prefix.address.bytes[15] = bytes[3];
      nic.addresses = {prefix};
      for (models::GidEntry& entry : nic.gids) entry.gid = models::gid_of(prefix.address);
    }
  }
  run_apart(cluster, 0, 3, [](MeshRank& rank, const Comms& comms, int) {
    CHECK(rank.infos().find("through 2 relays") != std::string::npos);
    exchange(rank, comms, {1, 100'000});
    rank.close(comms);
  });
}

TEST_CASE("pieces travel on all cables of a chain at once: 4 MiB over two to four within 10 % of one") {
  constexpr std::size_t kBytes = 4U << 20U;
  // The worlds run in child processes, so the limit is a closed form: the bits at 100 Gb/s with their headers (1.03).
  constexpr Picoseconds kOneCable = kBytes * 8 * 10 * 103 / 100;
  for (const int nodes : {3, 4, 5}) {
    run_apart(line_cluster(nodes), 0, nodes - 1, [=](MeshRank& rank, const Comms& comms, int) {
      if (rank.rank() == 0) {
        Buffer out = rank.buffer(comms.send, kBytes, 5);
        rank.meet("posted", 2);
        sim::World::get().sleep(kPicosecondsPerMillisecond);  // until the clear-to-send is here
        const Picoseconds before = sim::World::get().now();
        void* send = rank.send(comms.send, out, kBytes);
        rank.finish(send);
        rank.meet("arrived", 2);
        const Picoseconds taken = sim::World::get().now() - before;
        CAPTURE(nodes);
        CHECK(taken > kOneCable * 95 / 100);
        CHECK(taken < kOneCable * 110 / 100);
      } else {
        Buffer in = rank.buffer(comms.receive, kBytes, 1);
        void* receive = rank.receive(comms.receive, in);
        rank.meet("posted", 2);
        CHECK(rank.finish(receive) == static_cast<int>(kBytes));
        rank.meet("arrived", 2);
        expect_pattern(in, kBytes, 5);
      }
      rank.close(comms);
    });
  }
}

TEST_CASE("grouped receives through a relay: parts by tag in any order, an empty one among them") {
  run_apart(ring_cluster(4), 0, 2, [](MeshRank& rank, const Comms& comms, int) {
    constexpr int kParts = 8;
    const auto size_of = [](int part) {
      return part == 3 ? std::size_t{0} : static_cast<std::size_t>(30'000 * part + 1);
    };
    std::vector<Buffer> in, out;
    void* data[kParts];
    std::size_t sizes[kParts];
    int tags[kParts];
    void* memories[kParts];
    for (int part = 0; part < kParts; ++part) {
      in.push_back(rank.buffer(comms.receive, 300'000, 1));
      out.push_back(rank.buffer(comms.send, 300'000, static_cast<std::uint32_t>(part)));
      data[part] = in.back().bytes.data();
      sizes[part] = in.back().bytes.size();
      tags[part] = 100 + part;
      memories[part] = in.back().memory;
    }
    void* receive = nullptr;
    CHECK(rank.net().irecv(comms.receive, kParts, data, sizes, tags, memories, nullptr, &receive) == 0);
    std::vector<void*> sends;
    for (int part = kParts - 1; part >= 0; --part) {
      sends.push_back(rank.send(comms.send, out[static_cast<std::size_t>(part)], size_of(part), 100 + part));
    }
    for (void* send : sends) CHECK(rank.finish(send) >= 0);
    int got[kParts];
    CHECK(rank.finish(receive, got) >= 0);
    for (int part = 0; part < kParts; ++part) {
      CHECK(got[part] == static_cast<int>(size_of(part)));
      expect_pattern(in[static_cast<std::size_t>(part)], size_of(part), static_cast<std::uint32_t>(part));
    }
    rank.close(comms);
  });
}

TEST_CASE("no receive, no send: clear-to-sends travel to the sender, and nothing piles up in the relay") {
  run_apart(ring_cluster(4), 0, 2, [](MeshRank& rank, const Comms& comms, int) {
    constexpr std::size_t kBytes = 3'000'000;
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, kBytes, 5);
      for (int look = 0; look < 100; ++look) CHECK(rank.send_once(comms.send, out, kBytes) == nullptr);
      rank.meet("nothing went", 2);
      // Eight of them at a time, more than the relay can hold.
      std::vector<void*> sends;
      for (int message = 0; message < 8; ++message) sends.push_back(rank.send(comms.send, out, kBytes));
      for (void* send : sends) CHECK(rank.finish(send) == static_cast<int>(kBytes));
    } else {
      rank.meet("nothing went", 2);
      for (int message = 0; message < 8; ++message) {
        sim::World::get().sleep(kPicosecondsPerMillisecond);  // a slow receiver
        receive_one(rank, comms, kBytes);
      }
    }
    rank.close(comms);
  });
}

TEST_CASE("a message longer than its receive ends both ends through a relay too; nothing is cut off") {
  run_apart(ring_cluster(4), 0, 2, [](MeshRank& rank, const Comms& comms, int) {
    int done = 0, size = 0;
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, 200'000, 5);
      void* request = nullptr;
      int result = 0;
      while (result == 0 && request == nullptr) {
        result = rank.net().isend(comms.send, out.bytes.data(), 200'000, 0, out.memory, nullptr, &request);
      }
      CHECK(result != 0);
      CHECK(rank.warnings().find("a send of 200000 bytes meets a receive of 100000 bytes") != std::string::npos);
    } else {
      Buffer in = rank.buffer(comms.receive, 100'000, 1);
      void* receive = rank.receive(comms.receive, in);
      int result = 0;
      while (result == 0 && done == 0) result = rank.net().test(receive, &done, &size);
      CHECK(result != 0);
      CHECK(rank.warnings().find("longer than this receive") != std::string::npos);
    }
    rank.meet("failed", 2);
    rank.close(comms);
  });
}

TEST_CASE("bytes that a relay has taken arrive although the sender has closed") {
  run_apart(line_cluster(4), 0, 3, [](MeshRank& rank, const Comms& comms, int) {
    constexpr std::size_t kBytes = 900'000;
    if (rank.rank() == 0) {
      send_one(rank, comms, kBytes);
    } else {
      receive_one(rank, comms, kBytes);
    }
    rank.close(comms);
  });
}

TEST_CASE("a relay that has finalized serves those who still use it") {
  run_mesh(line_cluster(3), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      rank.meet("connected", 3);
      return;  // finalize follows
    }
    const Comms comms = rank.connect_both(2 - rank.rank(), 0);
    rank.meet("connected", 3);
    exchange(rank, comms, kSizes);
    rank.close(comms);
  });
}

TEST_CASE("a relay that is used without a pause stays open when it finalizes, unnoticed by others") {
  run_mesh(line_cluster(3), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      rank.meet("connected", 3);
      rank.stop();
      CHECK(rank.infos().find("so its relay stays") != std::string::npos);
      CHECK(sim::World::get().now() > 10 * kPicosecondsPerSecond);
      rank.start();  // what is still there is used again
      rank.meet("end", 3);
      return;
    }
    const Comms comms = rank.connect_both(2 - rank.rank(), 0);
    rank.meet("connected", 3);
    while (sim::World::get().now() < 12 * kPicosecondsPerSecond) {
      exchange(rank, comms, {1000});
      sim::World::get().sleep(100 * kPicosecondsPerMillisecond);
    }
    rank.close(comms);
    rank.meet("end", 3);
  });
}

TEST_CASE("a cable beyond the relay is pulled: the sender's error names the relay and what it met") {
  run_mesh(with(line_cluster(3), "NCCL_IB_TIMEOUT", "10"), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      rank.meet("over", 3);
      return;
    }
    const Comms comms = rank.connect_both(2 - rank.rank(), 0);
    constexpr int kBytes = 100'000;
    if (rank.rank() == 2) {
      Buffer in = rank.buffer(comms.receive, kBytes, 1);
      void* first = rank.receive(comms.receive, in);
      for (int more = 0; more < 4; ++more) CHECK(rank.receive(comms.receive, in) != nullptr);
      rank.meet("announced", 2);
      CHECK(rank.finish(first) == kBytes);
      rank.meet("one came", 2);
    } else {
      Buffer out = rank.buffer(comms.send, kBytes, 5);
      rank.meet("announced", 2);
      CHECK(rank.finish(rank.send(comms.send, out, kBytes)) == kBytes);
      rank.meet("one came", 2);
      sim::World::get().network().set_port_up({1, 1}, false);
      int result = 0;
      while (result == 0) {
        void* request = nullptr;
        result = rank.net().isend(comms.send, out.bytes.data(), kBytes, 0, out.memory, nullptr, &request);
        for (int done = 0; result == 0 && request != nullptr && done == 0;) {
          result = rank.net().test(request, &done, nullptr);
        }
      }
      INFO(rank.warnings());
      CHECK(rank.warnings().find("the relay gave up: failure peer=192.168.101.2") != std::string::npos);
    }
    rank.meet("over", 3);
    rank.close(comms);
  });
}

/// Rank 0 connects to `far` in vain; its warning has `text`, and not `lie`.
void refused(const models::Cluster& cluster, int far, const std::string& text, const std::string& lie) {
  run_mesh(cluster, [&](MeshRank& rank) {
    if (rank.rank() == far) rank.listen(0, "door");
    if (rank.rank() == 0) {
      HandleBytes handle = rank.look_up("door");
      void* send = nullptr;
      int result = 0;
      while (result == 0 && send == nullptr) {
        result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
      }
      CHECK(result != 0);
      CHECK(send == nullptr);
      INFO(rank.warnings());
      CHECK(rank.warnings().find("no path") != std::string::npos);
      CHECK(rank.warnings().find(text) != std::string::npos);
      CHECK(rank.warnings().find(lie) == std::string::npos);
    }
    rank.meet("end", static_cast<int>(cluster.nodes.size()));
  });
}

TEST_CASE("where relays are off, or there is no chain, the error says so and why") {
  refused(with(ring_cluster(4), "NCCL_MESH_ENABLE_RELAY", "0"), 2, "relays are off: NCCL_MESH_ENABLE_RELAY=0",
          "there is one of");
  models::Cluster apart = with(ring_cluster(4), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1");
  std::erase_if(apart.cables, [](const models::Cable& cable) { return cable.a.node % 2 == 1; });  // 1-2, 3-0
  refused(apart, 2, "no chain of at most 8 cables", "no node answered from");
}

TEST_CASE("a cable from which no node answered is named, with the likely cause at its other end") {
  const auto line = with(line_cluster(3), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1");
  models::Cluster deaf = line;
  deaf.nodes[1].environment.push_back({"NCCL_MESH_ENABLE_RELAY", "0"});
  refused(deaf, 2,
          "0 nodes answered on UDP port 27180 (NCCL_MESH_RELAY_PORT); no node answered from 192.168.100.0/24 on "
          "rocep1s0f0: is the node there up, with relays on (NCCL_MESH_ENABLE_RELAY), that port in use",
          "there is one of");
}

TEST_CASE("a port that is left out on the way to the peer is named") {
  models::Cluster slow = with(ring_cluster(3), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1");
  std::erase_if(slow.cables, [](const models::Cable& cable) { return cable.a.node != 0 && cable.b.node != 0; });
  for (const models::Cable& cable : slow.cables) {
    if (cable.a.node != 2 && cable.b.node != 2) continue;
    for (const models::PortRef& end : {cable.a, cable.b}) {
      slow.nodes[static_cast<std::size_t>(end.node)].nics[static_cast<std::size_t>(end.nic)].rate_bps = 25'000'000'000;
    }
  }
  std::erase_if(slow.nodes[2].nics, [](const models::Nic& nic) { return nic.rate_bps > 25'000'000'000; });
  for (models::Cable& cable : slow.cables) {
    for (models::PortRef* end : {&cable.a, &cable.b}) {
      if (end->node == 2) end->nic = 0;
    }
  }
  refused(slow, 2, " here, which belongs to no port in use: if it is one, NCCL_DEBUG=INFO logs why it was left out",
          "no node answered from");
}

TEST_CASE("a chain that is there and too long is named, with what would have it taken") {
  const auto line = [](int nodes) { return with(line_cluster(nodes), "NCCL_MESH_CONNECT_TIMEOUT_SEC", "1"); };
  refused(with(line(6), "NCCL_MESH_MAX_RELAY_HOPS", "2"), 5,
          "was found within 1 s: 5 nodes answered on UDP port 27180 (NCCL_MESH_RELAY_PORT); there is one of 5 cables: "
          "set NCCL_MESH_MAX_RELAY_HOPS=5 on all nodes",
          "never used");
  refused(with(line(3), "NCCL_MESH_MAX_RELAY_HOPS", "1"), 2,
          "no chain of at most 1 cable (NCCL_MESH_MAX_RELAY_HOPS) was found within 1 s: 2 nodes answered", "1 cables");
  refused(line(12), 11, "; there is one of 11 cables: more than 8 are never used, and a cable is needed that shortens",
          "set NCCL_MESH_MAX_RELAY_HOPS");
}

TEST_CASE("D21: all nodes look for chains and relay for others at once, and none waits for itself") {
  constexpr int kNodes = 5;
  run_mesh(ring_cluster(kNodes), [](MeshRank& rank) {
    std::vector<int> peers;
    for (int peer = 0; peer < kNodes; ++peer) {
      if (peer != rank.rank()) peers.push_back(peer);
    }
    std::vector<void*> listeners;
    std::vector<HandleBytes> handles;
    for (const int peer : peers) listeners.push_back(rank.listen(0, MeshRank::name(rank.rank(), peer, "")));
    for (const int peer : peers) handles.push_back(rank.look_up(MeshRank::name(peer, rank.rank(), "")));
    std::vector<Comms> comms(peers.size());
    // All of them a step at a time, neighbours and others.
    for (bool all = false; !all;) {
      all = true;
      for (std::size_t index = 0; index < peers.size(); ++index) {
        Comms& pair = comms[index];
        int result = 0;
        if (pair.send == nullptr) {
          result = rank.net().connect(rank.context, 0, handles[index].data(), &pair.send, nullptr);
        }
        if (result == 0 && pair.receive == nullptr) {
          result = rank.net().accept(listeners[index], &pair.receive, nullptr);
        }
        REQUIRE(result == 0);
        all = all && pair.send != nullptr && pair.receive != nullptr;
      }
    }
    // In rounds of pairs, as all-to-all.
    for (int round = 0; round < kNodes; ++round) {
      const int peer = (round - rank.rank() + kNodes) % kNodes;
      const auto found = std::find(peers.begin(), peers.end(), peer);
      if (found == peers.end()) continue;
      exchange(rank, comms[static_cast<std::size_t>(found - peers.begin())], {1, 200'000});
    }
    rank.meet("exchanged", kNodes);
    for (const Comms& pair : comms) rank.close(pair);
    for (void* listener : listeners) CHECK(rank.net().closeListen(listener) == 0);
    rank.meet("end", kNodes);
  });
}

}  // namespace relay_test
