// Profiler events: the callback that NCCL gives to init() sees each request begin and end exactly once.
#include <doctest/doctest.h>

#include <set>

#include "plugin/net/process/transfer_event.h"
#include "tests/net/failover_streams.h"
#include "tests/net/mesh_ranks.h"

namespace profiler_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

struct Event {
  int begun = 0, ended = 0;
  MeshbedTransferEvent at_begin{}, at_end{};
  const MeshbedTransferEvent* record = nullptr;
};
struct Recording {
  std::map<void*, Event> events;  // by parent
  int unknown_ends = 0, other_types = 0, other_ids = 0;
  bool gives_handles = true;
};
// Of the simulated ranks, which share the child process; the callback has no other way to it.
std::map<int, Recording> g_recordings;

int record(void** event, int type, void* parent, std::int64_t plugin_id, void* data) {
  Recording& recording = g_recordings[sim::World::current_process()->rank];
  if (type == 0) {
    Event& begun = recording.events[parent];
    ++begun.begun;
    begun.record = static_cast<const MeshbedTransferEvent*>(data);
    begun.at_begin = *begun.record;
    recording.other_ids += plugin_id == MESHBED_TRANSFER_EVENT_ID ? 0 : 1;
    if (recording.gives_handles) *event = parent;
  } else if (type == 1) {
    const auto found = recording.events.find(*event);
    if (found == recording.events.end()) {
      ++recording.unknown_ends;
      return 0;
    }
    ++found->second.ended;
    found->second.at_end = *found->second.record;
  } else {
    ++recording.other_types;
  }
  return 0;
}

/// Moved: the registered bytes stay where they are.
std::vector<Buffer> only(Buffer buffer) {
  std::vector<Buffer> buffers;
  buffers.push_back(std::move(buffer));
  return buffers;
}

void* parent(int number) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number) * 16); }

/// As MeshRank, through a table whose init() gets the callback.
template <typename Table>
struct Profiled {
  MeshRank& rank;
  const Table& net;

  void* send(void* comm, Buffer& buffer, std::size_t size, void* event) const {
    void* request = nullptr;
    while (request == nullptr) {
      if (net.isend(comm, buffer.bytes.data(), size, 0, buffer.memory, event, &request) != 0) return nullptr;
    }
    return request;
  }
  void* receive(void* comm, std::vector<Buffer>& buffers, std::vector<void*> events) const {
    std::vector<void*> data, memories;
    std::vector<std::size_t> sizes;
    std::vector<int> tags;
    for (Buffer& buffer : buffers) {
      data.push_back(buffer.bytes.data());
      sizes.push_back(buffer.bytes.size());
      tags.push_back(static_cast<int>(tags.size()));
      memories.push_back(buffer.memory);
    }
    void* request = nullptr;
    const int count = static_cast<int>(buffers.size());
    while (request == nullptr) {
      if (net.irecv(comm, count, data.data(), sizes.data(), tags.data(), memories.data(),
                    events.empty() ? nullptr : events.data(), &request) != 0) {
        return nullptr;
      }
    }
    return request;
  }
};

/// One rank a node, whose context knows the callback.
template <typename Table>
WorldResult run_profiled(const char* table, const std::function<void(const Profiled<Table>&)>& body,
                         nccl::ProfilerFunction callback = &record) {
  g_recordings.clear();
  return run_mesh(
      ring_cluster(2),
      [&](MeshRank& rank) {
        const Table& net = *rank.table<Table>(table);
        CHECK(net.init(&rank.context, 9, nullptr, &keep_line, callback) == 0);
        body({rank, net});
        CHECK(net.finalize(rank.context) == 0);
      },
      true);
}

template <typename Table>
void check_streams(const char* table) {
  CAPTURE(table);
  const auto result = run_profiled<Table>(table, [](const Profiled<Table>& profiled) {
    MeshRank& rank = profiled.rank;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    std::vector<Buffer> in = only(rank.buffer(comms.receive, 5000, 1));
    Buffer out = rank.buffer(comms.send, 5000, 2);
    for (int message = 1; message <= 20; ++message) {
      // Every third one without parents: NCCL does not want to know.
      const bool wanted = message % 3 != 0;
      const auto size = static_cast<std::size_t>(message * 100);
      void* receive =
          profiled.receive(comms.receive, in, {wanted ? parent(1000 + message) : static_cast<void*>(nullptr)});
      void* send = profiled.send(comms.send, out, size, wanted ? parent(message) : nullptr);
      CHECK(rank.finish(receive) == static_cast<int>(size));
      CHECK(rank.finish(send) == static_cast<int>(size));
    }
    const Recording& recording = g_recordings[rank.rank()];
    CHECK(recording.events.size() == 28);
    for (const auto& [key, event] : recording.events) {
      CHECK(event.begun == 1);
      CHECK(event.ended == 1);
      CHECK(event.at_end.failed == 0);
      CHECK(event.at_end.nic == std::string("rocep1s0f0"));
      CHECK(event.at_begin.record_bytes == sizeof(MeshbedTransferEvent));
      CHECK(event.at_begin.qp != 0);
    }
    const auto of = [&](int number) { return recording.events.at(parent(number)); };
    CHECK(of(2).at_begin.sends == 1);
    CHECK(of(2).at_begin.size_bytes == 200);
    CHECK(of(2).at_end.moved_bytes == 200);
    CHECK(of(1002).at_begin.sends == 0);
    CHECK(of(1002).at_begin.size_bytes == 5000);
    CHECK(of(1002).at_end.moved_bytes == 200);
    CHECK(recording.unknown_ends + recording.other_types + recording.other_ids == 0);
    rank.release(comms.receive, in[0]);
    rank.release(comms.send, out);
    rank.close(comms);
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

}  // namespace

TEST_CASE("profiler: each send and receive begins and ends once, with its sizes, through the v11 and v12 tables") {
  check_streams<nccl::NetV11>("ncclNetPlugin_v11");
  check_streams<nccl::NetV12>("ncclNetPlugin_v12");
}

TEST_CASE("profiler: a grouped receive has an event for each part that has a parent") {
  run_profiled<nccl::NetV12>("ncclNetPlugin_v12", [](const Profiled<nccl::NetV12>& profiled) {
    MeshRank& rank = profiled.rank;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      Buffer out = rank.buffer(comms.send, 100, 2);
      for (int tag = 0; tag < 3; ++tag) rank.finish(rank.send(comms.send, out, static_cast<std::size_t>(tag + 1), tag));
      rank.release(comms.send, out);
    } else {
      std::vector<Buffer> in;
      for (int part = 0; part < 3; ++part) in.push_back(rank.buffer(comms.receive, 50, 1));
      rank.finish(profiled.receive(comms.receive, in, {parent(1), nullptr, parent(3)}));
      Recording& recording = g_recordings[1];
      CHECK(recording.events.size() == 2);
      for (const int number : {1, 3}) {
        const Event& event = recording.events[parent(number)];
        CHECK(event.begun == 1);
        CHECK(event.ended == 1);
        CHECK(event.at_begin.parts == 3);
        CHECK(event.at_begin.part == number - 1);
        CHECK(event.at_end.moved_bytes == static_cast<std::uint64_t>(number));
      }
      for (const Buffer& buffer : in) rank.release(comms.receive, buffer);
    }
    rank.meet("end", 2);
    rank.close(comms);
  });
}

TEST_CASE("profiler: requests that are closed in flight, and those that fail, end once too, as failed") {
  run_profiled<nccl::NetV11>("ncclNetPlugin_v11", [](const Profiled<nccl::NetV11>& profiled) {
    MeshRank& rank = profiled.rank;
    const Comms closed = rank.connect_both(1 - rank.rank(), 0, "/closed");
    const Comms failed = rank.connect_both(1 - rank.rank(), 0, "/failed");
    std::vector<Buffer> in = only(rank.buffer(closed.receive, 64, 1));
    std::vector<Buffer> little = only(rank.buffer(failed.receive, 10, 1));
    Buffer out = rank.buffer(failed.send, 100, 2);
    Recording& recording = g_recordings[rank.rank()];
    for (int number = 1; number <= 3; ++number) profiled.receive(closed.receive, in, {parent(number)});
    void* too_small = profiled.receive(failed.receive, little, {parent(4)});
    rank.meet("posted", 2);
    // A message that is longer than its receive fails both ends.
    CHECK(profiled.send(failed.send, out, 100, parent(5)) == nullptr);
    CHECK(recording.events.count(parent(5)) == 0);  // it never was a request
    CHECK(rank.finish(too_small) == -1);
    int done = 0;
    CHECK(rank.net().test(too_small, &done, nullptr) != nccl::kNcclSuccess);  // again: no second end
    CHECK(recording.events[parent(4)].ended == 1);
    CHECK(recording.events[parent(4)].at_end.failed == 1);
    CHECK(recording.events[parent(1)].ended == 0);
    rank.meet("failed", 2);
    rank.close(closed);
    rank.close(failed);
    for (int number = 1; number <= 4; ++number) {
      CHECK(recording.events[parent(number)].begun == 1);
      CHECK(recording.events[parent(number)].ended == 1);
      CHECK(recording.events[parent(number)].at_end.failed == 1);
    }
    rank.meet("end", 2);
  });
}

TEST_CASE("profiler: without a handle no event ends; without a callback nothing is called") {
  run_profiled<nccl::NetV11>("ncclNetPlugin_v11", [](const Profiled<nccl::NetV11>& profiled) {
    MeshRank& rank = profiled.rank;
    Recording& recording = g_recordings[rank.rank()];
    recording.gives_handles = false;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    std::vector<Buffer> in = only(rank.buffer(comms.receive, 64, 1));
    Buffer out = rank.buffer(comms.send, 64, 2);
    void* receive = profiled.receive(comms.receive, in, {parent(1)});
    CHECK(rank.finish(profiled.send(comms.send, out, 64, parent(2))) == 64);
    CHECK(rank.finish(receive) == 64);
    CHECK(recording.events.size() == 2);
    for (const auto& [key, event] : recording.events) CHECK(event.ended == 0);
    CHECK(recording.unknown_ends == 0);
    rank.meet("end", 2);
    rank.release(comms.receive, in[0]);
    rank.release(comms.send, out);
    rank.close(comms);
  });
  run_profiled<nccl::NetV12>(
      "ncclNetPlugin_v12",
      [](const Profiled<nccl::NetV12>& profiled) {
        MeshRank& rank = profiled.rank;
        const Comms comms = rank.connect_both(1 - rank.rank(), 0);
        std::vector<Buffer> in = only(rank.buffer(comms.receive, 64, 1));
        Buffer out = rank.buffer(comms.send, 64, 2);
        void* receive = profiled.receive(comms.receive, in, {parent(1)});
        CHECK(rank.finish(profiled.send(comms.send, out, 64, parent(2))) == 64);
        CHECK(rank.finish(receive) == 64);
        CHECK(g_recordings[rank.rank()].events.empty());
        rank.meet("end", 2);
        rank.release(comms.receive, in[0]);
        rank.release(comms.send, out);
        rank.close(comms);
      },
      nullptr);
}

}  // namespace profiler_test
