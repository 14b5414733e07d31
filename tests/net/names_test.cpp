// NCCL's own names of settings that mean the same here: what the real plugin does with them.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "models/gid_table.h"
#include "sim/engine/world.h"
#include "sim/verbs/system.h"
#include "tests/net/addresses.h"
#include "tests/net/mesh_ranks.h"

namespace names_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// How many queue pairs of the whole world have each traffic class.
std::map<int, int> traffic_classes() {
  std::map<int, int> count;
  sim::verbs::system().queue_pairs.for_each(
      [&](const sim::verbs::QueuePair& pair) { ++count[pair.attr.ah_attr.grh.traffic_class]; });
  return count;
}

std::uint32_t most_inline_bytes() {
  std::uint32_t most = 0;
  sim::verbs::system().queue_pairs.for_each(
      [&](const sim::verbs::QueuePair& pair) { most = std::max(most, pair.cap.max_inline_data); });
  return most;
}

/// Messages of a few sizes each way, then check(rank), with the connections of ranks `first` and `second` open.
WorldResult talk(const models::Cluster& cluster, int first, int second, const RankBody& check) {
  const int ranks = static_cast<int>(cluster.nodes.size());
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() == first || rank.rank() == second) {
      const Comms comms = rank.connect_both(first + second - rank.rank(), 0);
      const Buffer out = rank.buffer(comms.send, 100'000, 3);
      Buffer in = rank.buffer(comms.receive, 100'000, 4);
      for (const std::size_t size : {8, 0, 100'000}) {
        void* receive = rank.receive(comms.receive, in);
        void* send = rank.send(comms.send, out, size);
        CHECK(rank.finish(receive) == static_cast<int>(size));
        CHECK(rank.finish(send) == static_cast<int>(size));
        CHECK(std::equal(out.bytes.begin(), out.bytes.begin() + static_cast<long>(size), in.bytes.begin()));
      }
      rank.meet("talked", 2);
      check(rank);
      rank.meet("looked", 2);
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
      rank.close(comms);
    }
    rank.meet("end", ranks);
    CHECK(rank.warnings().empty());
  });
}

/// A pair whose one cable has three addresses at each end.
models::Cluster pair_of_three_addresses() {
  models::Cluster cluster = ring_cluster(2);
  for (int node = 0; node < 2; ++node) {
    models::Nic& nic = cluster.nodes[node].nics[0];
    const std::string host = std::to_string(node + 1);
    for (const std::string& text : {"10.7.0." + host + "/24", "fd00:7::" + host + "/64"}) {
      nic.addresses.push_back(*models::read_prefix(text));
    }
    nic.gids = models::linux_gid_table({node, 0}, nic.addresses);
  }
  return cluster;
}

}  // namespace

TEST_CASE("a setting that fits no NIC, or no address, is one warning that names it and what there is") {
  const auto said_of = [](const std::string& name, const std::string& value, const std::string& what) {
    run_mesh(with(ring_cluster(2), name, value), [&](MeshRank& rank) {
      if (rank.rank() == 0) CHECK(rank.warnings() == "NET/Mesh : " + name + "=" + value + what + "\n");
    });
  };
  for (const char* list : {"mlx5", "=rocep1s0f0:2", "^roce"}) {
    said_of("NCCL_IB_HCA", list, " allows none of the existing ports: rocep1s0f0:1");
  }
  const std::string none = " fits no address, and changes nothing: there are 192.168.100.1/24 on rocep1s0f0";
  said_of("NCCL_IB_ADDR_RANGE", "10.0.0.0/8", none);
  said_of("NCCL_IB_ADDR_FAMILY", "AF_INET6", none);
  run_mesh(with(with(ring_cluster(2), "NCCL_IB_HCA", "rocep1"), "NCCL_IB_ADDR_RANGE", "192.168.0.0/16"),
           [](MeshRank& rank) { CHECK(rank.warnings().empty()); });
}

TEST_CASE("NCCL_IB_FIFO_TC marks clear-to-sends, NCCL_IB_TC all else; without the first the second marks both") {
  const auto marked = with(with(ring_cluster(2), "NCCL_IB_TC", "8"), "NCCL_IB_FIFO_TC", "16");
  auto result = talk(marked, 0, 1, [](MeshRank&) { CHECK(traffic_classes() == std::map<int, int>{{8, 2}, {16, 2}}); });
  CHECK(result.outcome == OutcomeKind::kFinished);
  result = talk(with(ring_cluster(2), "NCCL_IB_TC", "8"), 0, 1, [](MeshRank&) {
    CHECK(traffic_classes() == std::map<int, int>{{8, 4}});
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("through a relay, too: what goes back to the sender has the class of clear-to-sends") {
  const auto marked = with(with(ring_cluster(4), "NCCL_IB_TC", "8"), "NCCL_IB_FIFO_TC", "16");
  // Each way: the sender's two queue pairs and the relay's one towards the receiver; the relay's two towards the sender
  // and the receiver's one.
  const auto result = talk(marked, 0, 2, [](MeshRank&) {
    CHECK(traffic_classes() == std::map<int, int>{{8, 6}, {16, 6}});
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("NCCL_IB_USE_INLINE=0: no work request holds data, everything arrives as before; over a relay as well") {
  for (const int nodes : {2, 4}) {
    const int far = nodes / 2;
    auto result = talk(ring_cluster(nodes), 0, far, [](MeshRank&) { CHECK(most_inline_bytes() >= 32); });
    CHECK(result.outcome == OutcomeKind::kFinished);
    result = talk(with(ring_cluster(nodes), "NCCL_IB_USE_INLINE", "0"), 0, far,
                  [](MeshRank&) { CHECK(most_inline_bytes() == 0); });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("NCCL_IB_PKEY is the index of the partition key: where the port has none there, the error asks for it") {
  const auto result = run_mesh(with(ring_cluster(2), "NCCL_IB_PKEY", "1"), [](MeshRank& rank) {
    if (rank.rank() == 0) {
      void* listener = rank.listen(0, "here");
      rank.meet("end", 2);
      CHECK(rank.net().closeListen(listener) == nccl::kNcclSuccess);
      return;
    }
    HandleBytes handle = rank.look_up("here");
    void* send = nullptr;
    CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == nccl::kNcclSystemError);
    CHECK(rank.warnings().find("cannot go to INIT") != std::string::npos);
    CHECK(rank.warnings().find("a partition key at index 1 (NCCL_IB_PKEY)?") != std::string::npos);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("NCCL_IB_ADDR_FAMILY and NCCL_IB_ADDR_RANGE choose among a NIC's addresses, and with them its GIDs") {
  struct Choice {
    const char* variable;
    const char* value;
    const char* taken;
    int addresses;  // that are left
  };
  // Where all are left, the longest prefix wins.
  for (const Choice& choice : {Choice{"NCCL_IB_ADDR_FAMILY", "AF_INET", "rocep1s0f0 192.168.100.", 2},
                               Choice{"NCCL_IB_ADDR_FAMILY", "AF_INET6", "rocep1s0f0 fd00:7::", 1},
                               Choice{"NCCL_IB_ADDR_RANGE", "10.0.0.0/8", "rocep1s0f0 10.7.0.", 1},
                               Choice{"NCCL_IB_ADDR_RANGE", "fd00::/8", "rocep1s0f0 fd00:7::", 1},
                               Choice{"NCCL_IB_ADDR_RANGE", "172.16.0.0/12", "rocep1s0f0 fd00:7::", 3}}) {
    CAPTURE(std::string(choice.value));
    const auto result =
        talk(with(pair_of_three_addresses(), choice.variable, choice.value), 0, 1, [choice](MeshRank& rank) {
          const std::string& infos = rank.infos();
          CHECK(infos.find(std::string("send ") + choice.taken) != std::string::npos);
          CHECK(infos.find(std::string("recv ") + choice.taken) != std::string::npos);
          const std::string summary = infos.substr(0, infos.find('\n'));
          CHECK(std::count(summary.begin(), summary.end(), '/') == 2 + choice.addresses);  // NET/Mesh, Gb/s
          const bool fits_none = rank.warnings().find("fits no address, and changes nothing") != std::string::npos;
          CHECK(fits_none == (choice.addresses == 3));
          rank.forget_warnings();
        });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

}  // namespace names_test
