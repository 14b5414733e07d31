// Data over TCP (NCCL_MESH_DISABLE_RDMA, NCCL_MESH_HYBRID_TCP), the real library in the simulator: what travels, in
// which pieces, and what goes wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "plugin/net/wire/tcp_frame.h"
#include "sim/engine/world.h"
#include "sim/fault/inject.h"
#include "tests/net/failover_streams.h"
#include "tests/net/mesh_ranks.h"

namespace tcp_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr Picoseconds kSecond = kPicosecondsPerSecond;

/// Two nodes whose data go over their management network, 10 Gb/s.
models::Cluster tcp_pair(const std::string& name = "NCCL_DEBUG", const std::string& value = "INFO") {
  return with(with(with(ring_cluster(2), "NCCL_MESH_DISABLE_RDMA", "1"), "NCCL_SOCKET_IFNAME", "=mgmt0"), name, value);
}

/// Both directions to the other rank of a pair. That everything goes over TCP was asked for, and is no warning.
Comms connect_pair(MeshRank& rank) {
  CHECK(rank.infos().find("NCCL_MESH_DISABLE_RDMA=1: everything goes over TCP, by 10.0.0.") != std::string::npos);
  CHECK(rank.warnings().empty());
  return rank.connect_both(1 - rank.rank(), 0);
}

std::size_t wrong_bytes(const Buffer& in, std::size_t size, std::uint32_t seed) {
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < size; ++at) wrong += in.bytes[at] != MeshRank::pattern(at, seed) ? 1 : 0;
  return wrong;
}

/// One message each way, of `size` bytes into a receive that is 10 bytes longer.
void exchange(MeshRank& rank, const Comms& comms, std::size_t size) {
  const Buffer out = rank.buffer(comms.send, size, static_cast<std::uint32_t>(rank.rank()));
  Buffer in = rank.buffer(comms.receive, size + 10, 99);
  void* receive = rank.receive(comms.receive, in);
  void* send = nullptr;
  // In turns: what does not fit into the kernel at once goes on when its own request is looked at.
  int received = 0, sent = 0, bytes[8] = {};
  while (received == 0 || sent == 0) {
    if (received == 0) {
      CHECK(rank.net().test(receive, &received, bytes) == 0);
      if (received != 0) CHECK(bytes[0] == static_cast<int>(size));
    }
    if (send == nullptr) send = rank.send_once(comms.send, out, size);
    if (send != nullptr && sent == 0) CHECK(rank.net().test(send, &sent, bytes) == 0);
  }
  CHECK(wrong_bytes(in, size, static_cast<std::uint32_t>(1 - rank.rank())) == 0);
  CHECK(in.bytes[size] == MeshRank::pattern(size, 99));
  rank.release(comms.send, out);
  rank.release(comms.receive, in);
}

/// A group of receives with these tags, 1000 bytes each.
struct Group {
  std::vector<Buffer> in;
  void* request = nullptr;
};
Group receive_group(MeshRank& rank, void* comm, const std::vector<int>& tags) {
  Group group;
  std::vector<void*> data, memories;
  std::vector<std::size_t> sizes(tags.size(), 1000);
  for (std::size_t part = 0; part < tags.size(); ++part) group.in.push_back(rank.buffer(comm, 1000, 7));
  for (Buffer& one : group.in) {
    data.push_back(one.bytes.data());
    memories.push_back(one.memory);
  }
  const auto count = static_cast<int>(tags.size());
  std::vector<int> copied = tags;
  CHECK(rank.net().irecv(comm, count, data.data(), sizes.data(), copied.data(), memories.data(), nullptr,
                         &group.request) == 0);
  CHECK(group.request != nullptr);
  return group;
}

/// As in an event, since nodes are not stopped by their own threads.
void inject(void (*what)(sim::World&)) {
  struct Event {
    static void happen(void* self, std::uint64_t) { reinterpret_cast<void (*)(sim::World&)>(self)(sim::World::get()); }
  };
  sim::World& world = sim::World::get();
  world.after(kPicosecondsPerNanosecond, 0, &Event::happen, reinterpret_cast<void*>(what), 0);
  world.sleep(2 * kPicosecondsPerNanosecond);
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("D28: headers and payloads that come and go in pieces of 7 bytes arrive whole") {
  const auto result = run_mesh(tcp_pair(),
                               [](MeshRank& rank) {
                                 const Comms comms = connect_pair(rank);
                                 for (const std::size_t size : {0, 1, 6, 7, 31, 32, 33, 500})
                                   exchange(rank, comms, size);
                                 // Handshake, announcements, headers and payloads: nothing was ever larger.
                                 CHECK(sim::host_counters().largest_segment_bytes == 7);
                                 rank.close(comms);
                                 CHECK(rank.warnings().empty());
                               },
                               false, {.libraries = {}, .tcp_window_bytes = 7});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D28: messages of 0 B to 8 MiB arrive whole, chunk by chunk, at the rate of the port") {
  for (const std::size_t window : {std::size_t{50'000}, std::size_t{4} << 20U}) {
    const auto result = run_mesh(
        tcp_pair(),
        [](MeshRank& rank) {
          const Comms comms = connect_pair(rank);
          for (const std::size_t size : {0, 1, 4096, 65'537, 8 << 20, 0, 3}) exchange(rank, comms, size);
          rank.close(comms);
          CHECK(rank.warnings().empty());
          CHECK(rank.infos().find("connection-summary transport=tcp direction=send peer=10.0.0.") != std::string::npos);
        },
        false, {.libraries = {}, .tcp_window_bytes = window});
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("D28: tests in any order take nothing away from others; requests complete in the order of posting") {
  const auto result = run_mesh(tcp_pair(), [](MeshRank& rank) {
    const Comms comms = connect_pair(rank);
    std::vector<Buffer> in, out;
    std::vector<void*> receives, sends;
    for (std::uint32_t index = 0; index < 32; ++index) {
      out.push_back(rank.buffer(comms.send, 100 + index, index));
      in.push_back(rank.buffer(comms.receive, 3000, 77));
    }
    for (Buffer& one : in) receives.push_back(rank.receive(comms.receive, one));
    for (std::size_t index = 0; index < 32; ++index) sends.push_back(rank.send(comms.send, out[index], 100 + index));
    for (std::size_t index = 32; index-- > 0;) {
      CHECK(rank.finish(receives[index]) == static_cast<int>(100 + index));
      CHECK(wrong_bytes(in[index], 100 + index, static_cast<std::uint32_t>(index)) == 0);
      CHECK(rank.finish(sends[index]) == static_cast<int>(100 + index));
      rank.release(comms.receive, in[index]);
      rank.release(comms.send, out[index]);
    }
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D28: every operation has its deadline, as an error or as one warning that names both ends") {
  for (const char* fatal : {"1", "0"}) {
    run_mesh(
        with(tcp_pair("NCCL_MESH_TIMEOUT_SEC", "2"), "NCCL_MESH_FATAL_ON_TIMEOUT", fatal), [fatal](MeshRank& rank) {
          const Comms comms = connect_pair(rank);
          Buffer in = rank.buffer(comms.receive, 100, 2);
          void* request = rank.receive(comms.receive, in);
          int done = 0, result = 0;
          const Picoseconds begun = sim::World::get().now();
          while (result == 0 && sim::World::get().now() - begun < 4 * kSecond) {
            result = rank.net().test(request, &done, nullptr);
            sim::World::get().sleep(10 * kPicosecondsPerMillisecond);
          }
          CHECK(result == (fatal[0] == '1' ? nccl::kNcclRemoteError : nccl::kNcclSuccess));
          CHECK(rank.warnings().find("mgmt0 10.0.0." + std::to_string(1 + rank.rank()) + " -> mgmt0 10.0.0." +
                                     std::to_string(2 - rank.rank())) != std::string::npos);
          CHECK(rank.warnings().find("a recv has not completed for 2 s (NCCL_MESH_TIMEOUT_SEC)") != std::string::npos);
          CHECK(count_of(rank.warnings(), "\n") == 1);
          rank.meet("waited", 2);
          rank.release(comms.receive, in);
          rank.close(comms);
        });
  }
}

TEST_CASE("D28: sockets are made non-blocking once: nothing of the TCP path calls fcntl") {
  for (const char* file : {"tcp/tcp_connection", "tcp/tcp_send", "tcp/tcp_receive", "tcp/tcp_connecting",
                           "tcp/tcp_network", "wire/socket"}) {
    std::ifstream stream(std::string(MESHBED_SOURCE_DIR) + "/plugin/net/" + file + ".cpp");
    std::stringstream text;
    text << stream.rdbuf();
    CHECK_FALSE(text.str().empty());
    CHECK(text.str().find("fcntl") == std::string::npos);
  }
}

TEST_CASE("over TCP groups are filled in order, their parts by tag in any order") {
  const auto result = run_mesh(tcp_pair(), [](MeshRank& rank) {
    const Comms comms = connect_pair(rank);
    if (rank.rank() == 0) {
      rank.meet("posted", 2);
      std::vector<Buffer> out;
      std::vector<void*> requests;
      for (std::uint32_t tag = 0; tag < 9; ++tag) out.push_back(rank.buffer(comms.send, 1000, tag));
      // Tag 8 stands in the second group only: not now, and nothing waits behind it.
      for (int look = 0; look < 20; ++look) CHECK(rank.send_once(comms.send, out[8], 8, 8) == nullptr);
      for (const int tag : {5, 0, 7, 3, 1, 6, 2, 4}) {
        CHECK(rank.send_once(comms.send, out[8], 8, 8) == nullptr);
        requests.push_back(
            rank.send(comms.send, out[static_cast<std::size_t>(tag)], static_cast<std::size_t>(tag) * 100, tag));
      }
      requests.push_back(rank.send(comms.send, out[8], 8, 8));
      requests.push_back(rank.send(comms.send, out[0], 9, 0));
      for (void* request : requests) CHECK(rank.finish(request) >= 0);
      rank.meet("carried", 2);
      for (const Buffer& one : out) rank.release(comms.send, one);
    } else {
      Group first = receive_group(rank, comms.receive, {0, 1, 2, 3, 4, 5, 6, 7});
      Group second = receive_group(rank, comms.receive, {0, 8});
      rank.meet("posted", 2);
      int sizes[8];
      CHECK(rank.finish(first.request, sizes) == 0);
      for (std::uint32_t part = 0; part < 8; ++part) {
        CHECK(sizes[part] == static_cast<int>(part) * 100);
        CHECK(wrong_bytes(first.in[part], part * 100, part) == 0);
      }
      CHECK(rank.finish(second.request, sizes) == 9);
      CHECK(sizes[1] == 8);
      rank.meet("carried", 2);
      for (Group* group : {&first, &second}) {
        for (const Buffer& one : group->in) rank.release(comms.receive, one);
      }
    }
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("32 groups of 8 over TCP, then NULL; no send without a receive; no call waits for a slow reader") {
  const auto result = run_mesh(tcp_pair(),
                               [](MeshRank& rank) {
                                 const Comms comms = connect_pair(rank);
                                 const Buffer out = rank.buffer(comms.send, 8 << 20, 1);
                                 Buffer in = rank.buffer(comms.receive, 8 << 20, 2);
                                 if (rank.rank() == 0) {
                                   for (int look = 0; look < 100; ++look)
                                     CHECK(rank.send_once(comms.send, out, 100) == nullptr);
                                   rank.meet("looked", 2);
                                   void* request = rank.send(comms.send, out, 8 << 20);
                                   int done = 0;
                                   const Picoseconds begun = sim::World::get().now();
                                   while (done == 0 && sim::World::get().now() - begun < 50 * kSecond) {
                                     const Picoseconds before = sim::World::get().now();
                                     CHECK(rank.net().test(request, &done, nullptr) == 0);
                                     CHECK(sim::World::get().now() - before < 100 * kPicosecondsPerMillisecond);
                                     sim::World::get().sleep(100 * kPicosecondsPerMillisecond);
                                   }
                                   // The window is full, and the rest waits here.
                                   CHECK(done == 0);
                                   CHECK(rank.finish(request) == 8 << 20);
                                   for (int group = 0; group < 31 * 8 + 8; ++group)
                                     rank.finish(rank.send(comms.send, out, 4, group % 8));
                                 } else {
                                   rank.meet("looked", 2);
                                   void* request = rank.receive(comms.receive, in);
                                   sim::World::get().sleep(60 * kSecond);  // it loads a model
                                   CHECK(rank.finish(request) == 8 << 20);
                                   CHECK(wrong_bytes(in, 8 << 20, 1) == 0);
                                   std::vector<Group> groups;
                                   for (int group = 0; group < 32; ++group) {
                                     groups.push_back(receive_group(rank, comms.receive, {0, 1, 2, 3, 4, 5, 6, 7}));
                                   }
                                   CHECK(rank.receive_once(comms.receive, in) == nullptr);
                                   for (Group& group : groups) {
                                     CHECK(rank.finish(group.request) == 4);
                                     for (const Buffer& one : group.in) rank.release(comms.receive, one);
                                   }
                                 }
                                 rank.meet("carried", 2);
                                 rank.release(comms.send, out);
                                 rank.release(comms.receive, in);
                                 rank.close(comms);
                                 CHECK(rank.warnings().empty());
                               },
                               false, {.libraries = {}, .tcp_window_bytes = 1 << 20});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "a peer that closes in the middle of a message: what came before is delivered, then an error names both ends") {
  const auto result = run_mesh(
      tcp_pair(),
      [](MeshRank& rank) {
        const Comms comms = connect_pair(rank);
        const Buffer out = rank.buffer(comms.send, 1 << 20, 1);
        Buffer in = rank.buffer(comms.receive, 1 << 20, 2);
        if (rank.rank() == 0) {
          CHECK(rank.finish(rank.send(comms.send, out, 5000)) == 5000);
          rank.send(comms.send, out, 1 << 20);
          rank.release(comms.send, out);
          rank.release(comms.receive, in);
          rank.close(comms);
          CHECK(rank.infos().find("unfinished=1") != std::string::npos);
          rank.meet("gone", 2);
          return;
        }
        Buffer small = rank.buffer(comms.receive, 5000, 3);
        void* first = rank.receive(comms.receive, small);
        void* second = rank.receive(comms.receive, in);
        rank.meet("gone", 2);
        CHECK(rank.finish(first) == 5000);
        CHECK(wrong_bytes(small, 5000, 1) == 0);
        CHECK(rank.warnings().empty());
        CHECK(rank.finish(second) == -1);
        CHECK(rank.warnings().find("failure peer=10.0.0.1 (mgmt0) nic=mgmt0 local=10.0.0.2 transport=tcp op=recv "
                                   "status=\"end of the stream\"") != std::string::npos);
        // The other direction's receiver is gone as well.
        void* request = nullptr;
        int outcome = 0;
        while (outcome == 0) {
          outcome = rank.net().isend(comms.send, const_cast<std::uint8_t*>(out.bytes.data()), 64, 0, out.memory,
                                     nullptr, &request);
        }
        CHECK(outcome == nccl::kNcclRemoteError);
        CHECK(count_of(rank.warnings(), "\n") == 2);
        rank.release(comms.receive, small);
        rank.release(comms.receive, in);
        rank.release(comms.send, out);
        rank.close(comms);
      },
      false, {.libraries = {}, .tcp_window_bytes = 100'000});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a machine that dies without a word is missed by those who wait, after NCCL_MESH_FAILOVER_TIMEOUT_SEC") {
  const auto result = run_mesh(tcp_pair("NCCL_MESH_FAILOVER_TIMEOUT_SEC", "7"), [](MeshRank& rank) {
    const Comms comms = connect_pair(rank);
    Buffer in = rank.buffer(comms.receive, 100, 2);
    const Buffer out = rank.buffer(comms.send, 100, 2);
    void* receive = rank.receive(comms.receive, in);
    rank.meet("posted", 2);
    if (rank.rank() == 1) {
      sim::World::get().sleep(100 * kSecond);
      return;  // never comes here
    }
    inject([](sim::World& world) { sim::kill_node(world, 1); });
    const Picoseconds begun = sim::World::get().now();
    CHECK(rank.finish(receive) == -1);
    // 5 s of silence until the first HELLO, then the patience with it.
    CHECK(sim::World::get().now() - begun > 7 * kSecond);
    CHECK(sim::World::get().now() - begun < 13 * kSecond);
    CHECK(rank.warnings().find("op=recv status=\"Connection timed out\"") != std::string::npos);
    // A sender to whom nothing is announced waits no longer than that, either.
    void* request = nullptr;
    int outcome = 0;
    while (outcome == 0) {
      outcome = rank.net().isend(comms.send, const_cast<std::uint8_t*>(out.bytes.data()), 64, 9, out.memory, nullptr,
                                 &request);
    }
    CHECK(outcome == nccl::kNcclRemoteError);
    CHECK(sim::World::get().now() - begun < 30 * kSecond);
    rank.release(comms.receive, in);
    rank.release(comms.send, out);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("TCP over a cable that is pulled: the error names our interface, not the peer's process") {
  models::Cluster cluster = with(ring_cluster(2), "NCCL_MESH_DISABLE_RDMA", "1");
  const std::string netdev = cluster.nodes[0].nics[0].netdev;
  cluster = with(with(cluster, "NCCL_SOCKET_IFNAME", "=" + netdev), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "7");
  const auto result = run_mesh(cluster, [&](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer in = rank.buffer(comms.receive, 100, 2);
    void* receive = rank.receive(comms.receive, in);
    rank.meet("posted", 2);
    rank.forget_warnings();
    if (rank.rank() == 0) set_cable(0, false);
    CHECK(rank.finish(receive) == -1);
    CHECK_MESSAGE(rank.warnings().find("nic=" + netdev) != std::string::npos, rank.warnings());
    CHECK(rank.warnings().find("our interface is down: look at the cable and the port") != std::string::npos);
    CHECK(rank.warnings().find("the peer's process ended") == std::string::npos);
    rank.release(comms.receive, in);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("over TCP: closing with requests in flight is clean at both ends, in either order") {
  for (const int first : {0, 1}) {
    const auto result = run_mesh(tcp_pair(), [first](MeshRank& rank) {
      const Comms comms = connect_pair(rank);
      const Buffer out = rank.buffer(comms.send, 1 << 20, 1);
      Buffer in = rank.buffer(comms.receive, 1 << 20, 2);
      for (int index = 0; index < 8; ++index) rank.receive(comms.receive, in);
      for (int index = 0; index < 4; ++index) rank.send(comms.send, out, 1 << 20);
      if (rank.rank() != first) rank.meet("gone", 2);
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
      rank.close(comms);
      if (rank.rank() == first) rank.meet("gone", 2);
      CHECK(rank.infos().find("unfinished=8") != std::string::npos);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE(
    "over TCP: a send that is longer than its receive is an error at both ends; what was sent before it is there") {
  run_mesh(tcp_pair(), [](MeshRank& rank) {
    const Comms comms = connect_pair(rank);
    if (rank.rank() == 0) {
      const Buffer out = rank.buffer(comms.send, 4096, 1);
      rank.send(comms.send, out, 900);
      void* request = nullptr;
      int result = 0;
      while (result == 0 && request == nullptr) {
        result = rank.net().isend(comms.send, const_cast<std::uint8_t*>(out.bytes.data()), 4096, 0, out.memory, nullptr,
                                  &request);
      }
      CHECK(result == nccl::kNcclInvalidArgument);
      CHECK(rank.warnings().find("a send of 4096 bytes meets a receive of 1000 bytes (tag 0)") != std::string::npos);
      rank.release(comms.send, out);
    } else {
      Buffer in = rank.buffer(comms.receive, 1000, 2);
      void* first = rank.receive(comms.receive, in);
      void* second = rank.receive(comms.receive, in);
      CHECK(rank.finish(first) == 900);
      CHECK(rank.finish(second) == -1);
      CHECK(rank.warnings().find("the peer's message of 4096 bytes is longer than this receive") != std::string::npos);
      rank.release(comms.receive, in);
    }
    rank.meet("refused", 2);
    rank.close(comms);
  });
}

TEST_CASE("over TCP: memory out of range is refused; memory that is deregistered under way is not touched any more") {
  run_mesh(
      tcp_pair(),
      [](MeshRank& rank) {
        const Comms comms = connect_pair(rank);
        const Buffer out = rank.buffer(comms.send, 1 << 20, 1);
        Buffer in = rank.buffer(comms.receive, 1 << 20, 2);
        void* receive = rank.receive(comms.receive, in);
        if (rank.rank() == 1) {
          rank.meet("posted", 2);
          CHECK(rank.finish(receive) == -1);
        } else {
          rank.meet("posted", 2);
          void* request = nullptr;
          auto* data = const_cast<std::uint8_t*>(out.bytes.data());
          while (rank.net().isend(comms.send, data + 1, 1 << 20, 0, out.memory, nullptr, &request) == 0) {
            CHECK(request == nullptr);
          }
          CHECK(rank.warnings().find("a send of 1048576 bytes leaves its registered memory") != std::string::npos);
          request = rank.send(comms.send, out, 1 << 20);
          rank.release(comms.send, out);
          CHECK(rank.finish(request) == -1);
          CHECK(rank.warnings().find("memory was deregistered while a send of it was under way") != std::string::npos);
        }
        rank.meet("over", 2);
        if (rank.rank() == 1) rank.release(comms.send, out);
        rank.release(comms.receive, in);
        rank.close(comms);
      },
      false, {.libraries = {}, .tcp_window_bytes = 100'000});
}

}  // namespace tcp_test
