// What connections over TCP say of themselves: in the state dump, and to NCCL's profiler.
#include <doctest/doctest.h>

#include "plugin/net/process/transfer_event.h"
#include "tests/net/mesh_ranks.h"
#include "tests/net/state_ranks.h"

namespace tcp_state_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

models::Cluster tcp_pair() {
  return with(with(ring_cluster(2), "NCCL_MESH_DISABLE_RDMA", "1"), "NCCL_SOCKET_IFNAME", "=mgmt0");
}

/// Polls an unfinished request for so long.
void poll_for(MeshRank& rank, void* request, Picoseconds duration) {
  const Picoseconds end = sim::World::get().now() + duration;
  for (int done = 0; sim::World::get().now() < end;) {
    CHECK(rank.net().test(request, &done, nullptr) == nccl::kNcclSuccess);
    CHECK(done == 0);
  }
}

struct Seen {
  int begun = 0, ended = 0;
  MeshbedTransferEvent at_begin{}, at_end{};
  const MeshbedTransferEvent* record = nullptr;
};
// Of the simulated ranks, which share the child process; the callback has no other way to it. By rank and parent.
std::map<std::pair<int, void*>, Seen> g_events;

int record(void** event, int type, void* parent, std::int64_t plugin_id, void* data) {
  const int rank = sim::World::current_process()->rank;
  if (type == 0) {
    CHECK(plugin_id == MESHBED_TRANSFER_EVENT_ID);
    Seen& seen = g_events[{rank, parent}];
    ++seen.begun;
    seen.record = static_cast<const MeshbedTransferEvent*>(data);
    seen.at_begin = *seen.record;
    *event = parent;
  } else {
    Seen& seen = g_events[{rank, *event}];
    ++seen.ended;
    seen.at_end = *seen.record;
  }
  return 0;
}

void* parent(std::uintptr_t number) { return reinterpret_cast<void*>(number * 16); }

}  // namespace

TEST_CASE("state over TCP: both ends, what was carried, and whom a connection waits for") {
  const auto result = run_mesh(tcp_pair(), [](MeshRank& rank) {
    const std::string other = rank.rank() == 0 ? "10.0.0.2" : "10.0.0.1";
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer out = rank.buffer(comms.send, 4000, 1), in = rank.buffer(comms.receive, 4000, 2);
    exchange_three(rank, comms, out, in);
    const Json state = state_of(rank);
    CHECK(state.at("service_port") != 0);
    CHECK(state.at("connections").size() == 2);
    for (const char* direction : {"send", "recv"}) {
      const Json connection = connection_of(state, direction);
      CHECK(connection.at("way") == "TCP");
      CHECK(connection.at("ours").at("nic") == "mgmt0");
      CHECK(connection.at("ours").at("qp") == 0);
      CHECK(connection.at("theirs").at("address") == other);
      check_three_exchanged(connection);
      CHECK(connection.at("comm") == "0x0000000000000001");
    }
    rank.meet("looked", 2);
    if (rank.rank() == 0) {
      CHECK(rank.send_once(comms.send, out, 100, 5) == nullptr);
      CHECK(text_of(connection_of(state_of(rank), "send"), "waits_for") ==
            "clear-to-send of 10.0.0.2 (mgmt0) for a message of 100 bytes with tag 5");
      rank.meet("announce", 2);
      rank.meet("waited", 2);
      CHECK(rank.finish(rank.send(comms.send, out, 100, 5)) == 100);
    } else {
      rank.meet("announce", 2);
      void* receive = rank.receive(comms.receive, in, 5);
      poll_for(rank, receive, 2 * kPicosecondsPerSecond);
      const Json waiting = connection_of(state_of(rank), "recv");
      CHECK(text_of(waiting, "waits_for") == "a message with tag 5 of 10.0.0.1 (mgmt0)");
      CHECK(waiting.at("outstanding_count") == 1);
      CHECK(waiting.at("outstanding")[0].at("tags") == Json({5}));
      CHECK(waiting.at("outstanding")[0].at("size_bytes") == 4000);
      CHECK(waiting.at("quiet_ms") >= 1900);
      CHECK(waiting.at("outstanding")[0].at("age_ms") == waiting.at("quiet_ms"));
      rank.meet("waited", 2);
      CHECK(rank.finish(receive) == 100);
    }
    rank.meet("done", 2);
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
    rank.close(comms);
    CHECK(state_of(rank).at("connections").empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("profiler events over TCP: each transfer begins and ends once, also one whose connection is closed") {
  const auto result = run_mesh(
      tcp_pair(),
      [](MeshRank& rank) {
        CHECK(rank.net().init(&rank.context, 9, nullptr, &keep_line, &record) == 0);
        const Comms comms = rank.connect_both(1 - rank.rank(), 0);
        Buffer out = rank.buffer(comms.send, 4000, 1), in = rank.buffer(comms.receive, 4000, 2);
        void* data = in.bytes.data();
        std::size_t size = 4000;
        int tag = 0;
        void* events[] = {parent(2)};
        void *send = nullptr, *receive = nullptr;
        CHECK(rank.net().irecv(comms.receive, 1, &data, &size, &tag, &in.memory, events, &receive) == 0);
        while (send == nullptr) {
          CHECK(rank.net().isend(comms.send, out.bytes.data(), 3000, 0, out.memory, parent(1), &send) == 0);
        }
        CHECK(rank.finish(receive) == 3000);
        CHECK(rank.finish(send) == 3000);
        const Seen& sent = g_events[{rank.rank(), parent(1)}];
        const Seen& received = g_events[{rank.rank(), parent(2)}];
        for (const Seen* one : {&sent, &received}) {
          CHECK(one->begun == 1);
          CHECK(one->ended == 1);
          CHECK(one->at_begin.sends == (one == &sent ? 1 : 0));
          CHECK(one->at_begin.qp == 0);
          CHECK(std::string(one->at_begin.nic) == "mgmt0");
          CHECK(std::string(one->at_begin.peer_address) == (rank.rank() == 0 ? "10.0.0.2" : "10.0.0.1"));
          CHECK(one->at_end.failed == 0);
          CHECK(one->at_end.moved_bytes == 3000);
        }
        CHECK(sent.at_begin.size_bytes == 3000);
        CHECK(received.at_begin.size_bytes == 4000);
        events[0] = parent(3);
        CHECK(rank.net().irecv(comms.receive, 1, &data, &size, &tag, &in.memory, events, &receive) == 0);
        rank.meet("open", 2);
        rank.close(comms);
        const Seen& closed = g_events[{rank.rank(), parent(3)}];
        CHECK(closed.ended == 1);
        CHECK(closed.at_end.failed == 1);
        CHECK(closed.at_end.moved_bytes == 0);
        CHECK(rank.net().finalize(rank.context) == 0);
      },
      true);
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace tcp_state_test
