// What a process says of itself: the real plugin in simulated ranks, asked through the function that it exports.
#include <doctest/doctest.h>

#include "tests/net/failover_streams.h"
#include "tests/net/state_ranks.h"

namespace state_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr std::int64_t kNoId = -1;

/// Polls an unfinished request for so long.
void poll_for(MeshRank& rank, void* request, Picoseconds duration) {
  const Picoseconds end = sim::World::get().now() + duration;
  while (sim::World::get().now() < end) {
    int done = 0;
    CHECK(rank.net().test(request, &done, nullptr) == nccl::kNcclSuccess);
    CHECK(done == 0);
  }
}

}  // namespace

TEST_CASE("state: before init there is none; a buffer that is too short gets the beginning") {
  run_mesh(
      ring_cluster(2),
      [](MeshRank& rank) {
        CHECK(state_function(rank)(0, nullptr, 0) == 0);
        rank.start();
        char little[8];
        const std::size_t whole = state_function(rank)(0, little, sizeof little);
        CHECK(whole > 100);
        CHECK(std::string(little) == "{\"forma");
        rank.stop();
        CHECK(state_function(rank)(0, nullptr, 0) == 0);
      },
      true);
}

TEST_CASE("state: the process, its NICs and what each connection has carried") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer out = rank.buffer(comms.send, 4000, 1), in = rank.buffer(comms.receive, 4000, 2);
    exchange_three(rank, comms, out, in);
    const Json state = state_of(rank);
    CHECK(state.at("format") == 1);
    CHECK(state.at("nics").size() == 1);
    CHECK(state.at("nics")[0].at("name") == "rocep1s0f0");
    CHECK(state.at("nics")[0].at("link_up") == true);
    CHECK(state.at("nics")[0].at("addresses")[0] == (rank.rank() == 0 ? "192.168.100.1/24" : "192.168.100.2/24"));
    CHECK(state.at("connections").size() == 2);
    for (const char* direction : {"send", "recv"}) {
      const Json connection = connection_of(state, direction);
      check_three_exchanged(connection);
      CHECK(connection.at("way") == "cable");
      CHECK(connection.at("comm") == "0x0000000000000001");
      CHECK(connection.at("theirs").at("address") == (rank.rank() == 0 ? "192.168.100.2/24" : "192.168.100.1/24"));
    }
    rank.meet("looked", 2);
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
    rank.close(comms);
    CHECK(state_of(rank).at("connections").empty());
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("state: a sender names the receiver whose clear-to-send is missing; a receiver the sender") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer bytes = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 64, 3);
    if (rank.rank() == 0) {
      CHECK(rank.send_once(comms.send, bytes, 48, 7) == nullptr);
      const Json send = connection_of(state_of(rank), "send");
      CHECK(text_of(send, "waits_for") ==
            "clear-to-send of 192.168.100.2 (rocep1s0f0) for a message of 48 bytes with tag 7");
      CHECK(send.at("posted") == 0);
    }
    rank.meet("sender looked", 2);
    void* request = nullptr;
    if (rank.rank() == 1) {
      request = rank.receive(comms.receive, bytes, 5);
      poll_for(rank, request, 2000 * kMs);  // the poll that pauses longest pauses for 10 ms
      const Json receive = connection_of(state_of(rank), "recv");
      CHECK(text_of(receive, "waits_for") == "a message with tag 5 of 192.168.100.1 (rocep1s0f0)");
      CHECK(receive.at("posted") == 1);
      CHECK(receive.at("done") == 0);
      CHECK(receive.at("outstanding").size() == 1);
      CHECK(receive.at("outstanding")[0].at("tags") == Json::array({5}));
      CHECK(receive.at("outstanding")[0].at("size_bytes") == 64);
      CHECK(receive.at("outstanding")[0].at("age_ms") >= 1000);
      CHECK(receive.at("quiet_ms") >= 1000);
      CHECK(receive.at("quiet_ms") <= 2000);
    }
    rank.meet("receive posted", 2);
    if (rank.rank() == 0) {
      // Seen in the ring before the caller asks again.
      sim::World::get().sleep(kMs);
      CHECK(text_of(connection_of(state_of(rank), "send"), "waits_for") ==
            "a receive with tag 7 of 192.168.100.2 (rocep1s0f0), whose next receive has tag 5");
      CHECK(rank.send_once(comms.send, bytes, 48, 7) == nullptr);
      CHECK(text_of(connection_of(state_of(rank), "send"), "waits_for") ==
            "a receive with tag 7 of 192.168.100.2 (rocep1s0f0), whose next receive has tag 5");
      request = rank.send(comms.send, bytes, 48, 5);
      const Json send = connection_of(state_of(rank), "send");
      CHECK(text_of(send, "waits_for") == "the acknowledgement of the adapter of 192.168.100.2 (rocep1s0f0)");
      CHECK(send.at("outstanding")[0].at("size_bytes") == 48);
      CHECK(send.at("outstanding")[0].at("tags") == Json::array({5}));
    }
    CHECK(rank.finish(request) == 48);
    CHECK(text_of(connection_of(state_of(rank), rank.rank() == 0 ? "send" : "recv"), "waits_for").empty());
    rank.meet("end", 2);
    rank.release(rank.rank() == 0 ? comms.send : comms.receive, bytes);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("state: who waits in accept(), and who in connect(), and for whom") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "door");
      const auto accept_of = [&] {
        const Json state = state_of(rank);
        CHECK(state.at("handshakes").size() == 1);
        return state.at("handshakes")[0];
      };
      CHECK(accept_of().at("side") == "accept");
      CHECK(accept_of().at("nic") == "rocep1s0f0");
      CHECK(accept_of().at("asked_ms").is_null());
      CHECK(text_of(accept_of(), "waits_for").find("a peer with its handle: none has connected at port ") == 0);
      void* connection = nullptr;
      CHECK(rank.net().accept(listener, &connection, nullptr) == nccl::kNcclSuccess);
      CHECK(connection == nullptr);
      rank.meet("asked", 2);
      rank.meet("dialled", 2);
      CHECK(accept_of().at("asked_ms") >= 40);
      CHECK(rank.net().accept(listener, &connection, nullptr) == nccl::kNcclSuccess);
      CHECK(connection == nullptr);
      CHECK(text_of(accept_of(), "waits_for") == "READY of 192.168.100.1");
      while (connection == nullptr) {
        CHECK(rank.net().accept(listener, &connection, nullptr) == nccl::kNcclSuccess);
        MeshRank::pause();
      }
      CHECK(accept_of().at("accepted") == 1);
      CHECK(text_of(accept_of(), "waits_for").empty());
      CHECK(rank.net().closeListen(listener) == nccl::kNcclSuccess);
      CHECK(state_of(rank).at("handshakes").empty());
      rank.meet("end", 2);
      CHECK(rank.net().closeRecv(connection) == nccl::kNcclSuccess);
    } else {
      HandleBytes handle = rank.look_up("door");
      rank.meet("asked", 2);
      void* connection = nullptr;
      const auto connect_once = [&] {
        CHECK(rank.net().connect(rank.context, 0, handle.data(), &connection, nullptr) == nccl::kNcclSuccess);
      };
      for (int call = 0; call < 50; ++call) {
        connect_once();
        CHECK(connection == nullptr);
        sim::World::get().sleep(kMs);
      }
      const Json state = state_of(rank);
      REQUIRE(state.at("handshakes").size() == 1);
      const Json& connect = state.at("handshakes")[0];
      CHECK(connect.at("side") == "connect");
      CHECK(connect.at("peer") == "192.168.100.2/24");
      CHECK(connect.at("age_ms") >= 49);
      CHECK(connect.at("asked_ms") <= 1);
      CHECK(text_of(connect, "waits_for").find("the reply of 192.168.100.2 port ") == 0);
      CHECK(text_of(connect, "waits_for").find(" over rocep1s0f0: its process has to call accept()") !=
            std::string::npos);
      rank.meet("dialled", 2);
      while (connection == nullptr) {
        connect_once();
        MeshRank::pause();
      }
      CHECK(state_of(rank).at("handshakes").empty());
      rank.meet("end", 2);
      CHECK(rank.net().closeSend(connection) == nccl::kNcclSuccess);
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("state: traffic through a relay is seen at its sender, in the relay and at its receiver") {
  const auto result = run_mesh(ring_cluster(4), [](MeshRank& rank) {
    const bool is_end = rank.rank() % 2 == 0;
    Comms comms;
    if (is_end) {
      comms = rank.connect_both(2 - rank.rank(), 0);
      Buffer out = rank.buffer(comms.send, 200'000, 1), in = rank.buffer(comms.receive, 200'000, 2);
      void* receive = rank.receive(comms.receive, in);
      CHECK(rank.finish(rank.send(comms.send, out, 200'000)) == 200'000);
      CHECK(rank.finish(receive) == 200'000);
      const Json state = state_of(rank);
      const Json send = connection_of(state, "send"), recv = connection_of(state, "recv");
      CHECK(send.at("relayed") == true);
      CHECK(text_of(send, "way").rfind("relayed through 192.168.10", 0) == 0);
      CHECK(send.at("bytes") == 200'000);
      CHECK(recv.at("relayed") == true);
      CHECK(recv.at("bytes") == 200'000);
      CHECK(rank.send_once(comms.send, out, 1) == nullptr);
      // The receiver itself is named, not the relay.
      CHECK(text_of(connection_of(state_of(rank), "send"), "waits_for").rfind("clear-to-send of 192.168.10", 0) == 0);
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
    }
    rank.meet("sent", 4);
    if (!is_end) {
      std::int64_t bytes = 0, pieces = 0;
      const Json state = state_of(rank);
      for (const Json& circuit : state.at("circuits")) {
        bytes += circuit.at("bytes").get<std::int64_t>();
        pieces += circuit.at("pieces").get<std::int64_t>();
        CHECK(circuit.at("held") == 0);
        CHECK(circuit.at("credits") >= 16);
        CHECK(text_of(circuit, "name").find(" -> ") != std::string::npos);
      }
      CHECK(bytes % 200'000 == 0);
      CHECK(pieces == bytes / 50'000);  // 200,000 bytes are four pieces of 64 KiB at most
      report(std::to_string(bytes) + " ");
    }
    rank.meet("looked", 4);
    if (is_end) rank.close(comms);
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
  // Both directions went through one relay or another: 400,000 bytes in all.
  CHECK((result.value == "400000 0 " || result.value == "0 400000 " || result.value == "200000 200000 "));
}

TEST_CASE("state: a connection without its cable is suspended, says why and for how long, and counts its return") {
  const auto result = run_mesh(pair_cluster(1), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer bytes = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 4096, 3);
    void* request = nullptr;
    if (rank.rank() == 1) request = rank.receive(comms.receive, bytes);
    rank.meet("posted", 2);
    if (rank.rank() == 0) {
      sim::World::get().sleep(kMs);  // the clear-to-send is here
      set_cable(0, false);
      set_cable(0, true, 20'000 * kMs);
      sim::World::get().sleep(kMs);
      request = rank.send(comms.send, bytes, 4096);
      std::string phase;
      for (int done = 0; phase != "suspended" && done == 0;) {
        CHECK(rank.net().test(request, &done, nullptr) == nccl::kNcclSuccess);
        CHECK(done == 0);
        phase = text_of(connection_of(state_of(rank), "send"), "state");
      }
      poll_for(rank, request, 500 * kMs);
      const Json send = connection_of(state_of(rank), "send");
      CHECK(text_of(send, "waits_for") == "a path to 192.168.100.2 (rocep1s0f0)");
      CHECK(text_of(send, "reason").find("op=send status=") != std::string::npos);
      CHECK(send.at("quiet_ms") >= 500);
      CHECK(send.at("outstanding_count") == 1);
      CHECK(send.at("resumed") == 0);
    }
    CHECK(rank.finish(request) == 4096);
    const Json back = connection_of(state_of(rank), rank.rank() == 0 ? "send" : "recv");
    CHECK(back.at("state") == "up");
    CHECK(back.at("resumed") == 1);
    rank.meet("end", 2);
    rank.release(rank.rank() == 0 ? comms.send : comms.receive, bytes);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("state: a failed connection keeps its reason and waits for nothing") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer bytes = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 100, 3);
    if (rank.rank() == 1) {
      Buffer& shorter = bytes;
      shorter.bytes.resize(10);
      rank.receive(comms.receive, shorter);
    }
    rank.meet("posted", 2);
    if (rank.rank() == 0) {
      void* request = nullptr;
      int outcome = 0;
      while (outcome == 0 && request == nullptr) {
        outcome = rank.net().isend(comms.send, bytes.bytes.data(), 100, 0, bytes.memory, nullptr, &request);
      }
      CHECK(outcome == nccl::kNcclInvalidArgument);
      const Json send = connection_of(state_of(rank), "send");
      CHECK(send.at("state") == "failed");
      CHECK(text_of(send, "reason").find("a send of 100 bytes meets a receive of 10 bytes") != std::string::npos);
      CHECK(send.at("waits_for") == "");
    }
    rank.meet("end", 2);
    rank.close(comms);
  });
}

TEST_CASE("what setNetAttr made of a connection's cables is shown with the connection") {
  run_mesh(ring_cluster(2, 100'000'000'000, kPicosecondsPerMicrosecond, 2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    CHECK(connection_of(state_of(rank), "send").at("way") == "cable, striped over 1 more");
    nccl::NetAttr attributes{};
    attributes.proto = 1;
    CHECK(rank.net().setNetAttr(rank.context, &attributes) == nccl::kNcclSuccess);
    CHECK(connection_of(state_of(rank), "send").at("way") == "cable, not striped: NCCL uses LL only");
    rank.meet("end", 2);
    rank.close(comms);
  });
}

TEST_CASE("setNetAttr is kept for each communicator and shown") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    CHECK(state_of(rank).at("communicators")[0].at("hints") == 0);
    nccl::NetAttr attributes{};
    attributes.sendCommAttr = {
        .maxConcurrentPeers = 2, .minConcurrentPeers = 1, .maxFlowsPerPeer = 4, .minFlowsPerPeer = 3};
    attributes.recvCommAttr = {
        .maxConcurrentPeers = -1, .minConcurrentPeers = -1, .maxFlowsPerPeer = -1, .minFlowsPerPeer = -1};
    attributes.op = 0x10;
    attributes.algo = 0x2;
    attributes.proto = static_cast<std::uint32_t>(-1);
    CHECK(rank.net().setNetAttr(rank.context, &attributes) == nccl::kNcclSuccess);
    CHECK(rank.net().setNetAttr(rank.context, nullptr) == nccl::kNcclInvalidArgument);
    CHECK(rank.net().setNetAttr(nullptr, &attributes) == nccl::kNcclInvalidArgument);
    void* second = nullptr;
    CHECK(rank.net().init(&second, 77, nullptr, &keep_line, nullptr) == nccl::kNcclSuccess);
    const Json communicators = state_of(rank).at("communicators");
    CHECK(communicators.size() == 2);
    CHECK(communicators[0].at("hints") == 1);
    CHECK(communicators[0].at("op") == 0x10);
    CHECK(communicators[0].at("algo") == 0x2);
    CHECK(communicators[0].at("proto") == -1);
    CHECK(communicators[0].at("send").at("peers_max") == 2);
    CHECK(communicators[0].at("send").at("flows_min") == 3);
    CHECK(communicators[0].at("receive").at("flows_max") == kNoId);
    CHECK(communicators[1].at("comm") == "0x000000000000004d");
    CHECK(communicators[1].at("hints") == 0);
    CHECK(rank.net().finalize(second) == nccl::kNcclSuccess);
    CHECK(state_of(rank).at("communicators").size() == 1);
  });
}

TEST_CASE("rails and planes come from NCCL_IB_HCA: in v12's properties and in the state") {
  const auto cluster = with(ring_cluster(3), "NCCL_IB_HCA", "=rocep1s0f0:1:0:3,rocep1s0f1::1");
  run_mesh(cluster, [](MeshRank& rank) {
    nccl::PropertiesV12 first{}, second{};
    const auto* v12 = rank.table<nccl::NetV12>("ncclNetPlugin_v12");
    CHECK(v12->getProperties(0, &first) == nccl::kNcclSuccess);
    CHECK(v12->getProperties(1, &second) == nccl::kNcclSuccess);
    CHECK(first.railId == 0);
    CHECK(first.planeId == 3);
    CHECK(second.railId == 1);
    CHECK(second.planeId == -1);
    CHECK(state_of(rank).at("nics")[0].at("plane") == 3);
    CHECK(state_of(rank).at("nics")[1].at("rail") == 1);
  });
}

}  // namespace state_test
