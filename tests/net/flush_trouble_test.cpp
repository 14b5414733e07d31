// Flushes of GPU memory when cables go: over the device that received, over each of them, or with an error; no hang.
#include <doctest/doctest.h>

#include "tests/net/failover_streams.h"
#include "tests/net/gpu_buffer.h"

namespace flush_trouble_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr std::size_t kBytes = 100'000;

/// One message into GPU memory of rank 1; then both ranks go on in `after`, rank 1 with the flush still to be done.
WorldResult run_flush(const models::Cluster& cluster, const std::function<void(MeshRank&, const Comms&)>& sender,
                      const std::function<void(MeshRank&, const Comms&, GpuBuffer&)>& receiver) {
  return run_mesh(cluster, [&](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      GpuBuffer out(rank, comms.send, kBytes);
      out.fill(7);
      CHECK(rank.finish(send(rank, comms.send, out, kBytes)) == static_cast<int>(kBytes));
      rank.meet("acknowledged", 2);
      sender(rank, comms);
    } else {
      GpuBuffer in(rank, comms.receive, kBytes);
      CHECK(rank.finish(receive(rank, comms.receive, in, kBytes)) == static_cast<int>(kBytes));
      rank.meet("acknowledged", 2);
      receiver(rank, comms, in);
    }
    rank.close(comms);
    rank.meet("closed", 2);
  });
}

/// Sends and receives a byte, so that both ends find out about their cable.
void send_byte(MeshRank& rank, const Comms& comms) {
  const Buffer byte = rank.buffer(comms.send, 1, 1);
  CHECK(rank.finish(rank.send(comms.send, byte, 1)) == 1);
  rank.release(comms.send, byte);
}
void receive_byte(MeshRank& rank, const Comms& comms) {
  Buffer byte = rank.buffer(comms.receive, 1, 2);
  CHECK(rank.finish(rank.receive(comms.receive, byte)) == 1);
  rank.release(comms.receive, byte);
}

}  // namespace

TEST_CASE("a short interruption: the flush waits for it, as the queue pair's retries do") {
  const auto result = run_flush(
      with_dma_buf(pair_cluster(1)), [](MeshRank&, const Comms&) {},
      [](MeshRank& rank, const Comms& comms, GpuBuffer& in) {
        set_cable(0, false);
        set_cable(0, true, 100 * kMs);
        flush(rank, comms.receive, in, kBytes);
        CHECK(sim::World::get().now() >= 100 * kMs);
        CHECK(in.wrong(kBytes, 7) == 0);
        CHECK(rank.warnings().empty());
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "the only cable is out for longer than the retries: the flush is done when the connection is taken up again") {
  const auto result = run_flush(
      with(with_dma_buf(pair_cluster(1)), "NCCL_IB_TIMEOUT", "10"),  // 4.2 ms, seven times
      [](MeshRank& rank, const Comms& comms) {
        rank.meet("cable out", 2);
        send_byte(rank, comms);
      },
      [](MeshRank& rank, const Comms& comms, GpuBuffer& in) {
        set_cable(0, false);
        set_cable(0, true, 200 * kMs);
        rank.meet("cable out", 2);
        flush(rank, comms.receive, in, kBytes);
        CHECK(in.wrong(kBytes, 7) == 0);
        CHECK(rank.warnings().find("a flush of GPU memory failed: transport retry counter exceeded: the port of "
                                   "rocep1s0f0 is down") != std::string::npos);
        receive_byte(rank, comms);
        CHECK(count(rank.warnings(), "taken up again after") == 1);
        // And further flushes go over the new QP link's.
        flush(rank, comms.receive, in, kBytes);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the only cable is out for longer than the retries, and the sender idle: the flush is done with the port") {
  const auto result = run_flush(
      with(with_dma_buf(pair_cluster(1)), "NCCL_IB_TIMEOUT", "10"),  // 4.2 ms, seven times
      [](MeshRank& rank, const Comms& comms) {
        rank.meet("flushed", 2);
        send_byte(rank, comms);
      },
      [](MeshRank& rank, const Comms& comms, GpuBuffer& in) {
        set_cable(0, false);
        set_cable(0, true, 200 * kMs);
        flush(rank, comms.receive, in, kBytes);
        CHECK(in.wrong(kBytes, 7) == 0);
        CHECK(sim::World::get().now() >= 200 * kMs);
        CHECK(sim::World::get().now() < 400 * kMs);
        rank.meet("flushed", 2);
        receive_byte(rank, comms);
        CHECK(count(rank.warnings(), "taken up again after") == 1);
        flush(rank, comms.receive, in, kBytes);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("no cable comes back: the flush ends with an error that says so") {
  const auto result = run_flush(
      with(with(with_dma_buf(pair_cluster(1)), "NCCL_IB_TIMEOUT", "8"), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "2"),
      [](MeshRank& rank, const Comms&) { rank.meet("given up", 2); },
      [](MeshRank& rank, const Comms& comms, GpuBuffer& in) {
        set_cable(0, false);
        CHECK(rank.finish(begin_flush(rank, comms.receive, in, kBytes)) == -1);
        CHECK(rank.warnings().find("a flush of GPU memory failed") != std::string::npos);
        CHECK(rank.warnings().find("NCCL_MESH_FAILOVER_TIMEOUT_SEC") != std::string::npos);
        // And so does the next one.
        void *data = in.data(), *memory = in.memory, *request = nullptr;
        int size = kBytes;
        CHECK(rank.net().iflush(comms.receive, 1, &data, &size, &memory, &request) != 0);
        rank.meet("given up", 2);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("without failover a lost flush is an error at once") {
  const auto result = run_flush(
      with(with(with_dma_buf(pair_cluster(1)), "NCCL_IB_TIMEOUT", "8"), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "0"),
      [](MeshRank& rank, const Comms&) { rank.meet("given up", 2); },
      [](MeshRank& rank, const Comms& comms, GpuBuffer& in) {
        set_cable(0, false);
        CHECK(rank.finish(begin_flush(rank, comms.receive, in, kBytes)) == -1);
        CHECK(sim::World::get().now() < 2000 * kMs);
        rank.meet("given up", 2);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the second cable takes over between a receive and its flush") {
  const auto result = run_flush(
      with_dma_buf(pair_cluster(2)),
      [](MeshRank& rank, const Comms& comms) {
        rank.meet("received", 2);
        set_cable(0, false);
        send_byte(rank, comms);
      },
      [](MeshRank& rank, const Comms& comms, GpuBuffer& in) {
        rank.meet("received", 2);
        receive_byte(rank, comms);
        CHECK(count(rank.warnings(), "taken up again after") == 1);
        flush(rank, comms.receive, in, kBytes);
        CHECK(in.wrong(kBytes, 7) == 0);
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "one of two cables goes under GPU traffic: the memory is registered on the other device through its dma-buf") {
  run_mesh(with_dma_buf(pair_cluster(2)), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    const std::uint64_t descriptors = sim::host_counters().open_descriptors;
    rank.meet("counted", 2);
    if (rank.rank() == 0) {
      GpuBuffer out(rank, comms.send, kBytes);
      for (std::uint32_t message = 0; message < 40; ++message) {
        if (message == 20) set_cable(0, false);
        out.fill(message);
        CHECK(rank.finish(send(rank, comms.send, out, kBytes - message)) == static_cast<int>(kBytes - message));
      }
    } else {
      GpuBuffer in(rank, comms.receive, kBytes);
      for (std::uint32_t message = 0; message < 40; ++message) {
        in.clear();
        CHECK(rank.finish(receive(rank, comms.receive, in, kBytes)) == static_cast<int>(kBytes - message));
        flush(rank, comms.receive, in, static_cast<int>(kBytes - message));
        CHECK(in.wrong(kBytes - message, message) == 0);
      }
    }
    CHECK(count(rank.warnings(), "taken up again after") == 1);
    CHECK(rank.warnings().find("cannot be registered") == std::string::npos);
    rank.meet("sent", 2);
    rank.close(comms);
    rank.meet("closed", 2);
    // The descriptors that were kept are closed; sockets may be too.
    CHECK(sim::host_counters().open_descriptors <= descriptors);
  });
}

TEST_CASE("a group comes half over one device and half over another: a flush reads through both") {
  // The first four parts over the second cable; then home, over the first one.
  run_mesh(with_dma_buf(pair_cluster(2)), [](MeshRank& rank) {
    constexpr int kParts = 8;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 1) sim::set_posted_write_delay(60'000 * kMs);  // nothing lands of its own
    rank.meet("connected", 2);
    if (rank.rank() == 0) {
      GpuBuffer out(rank, comms.send, kBytes);
      out.fill(5);
      set_cable(0, false);
      sim::World::get().sleep(kMs);
      for (int part = 0; part < kParts; ++part) {
        if (part == 4) {
          set_cable(0, true);
          while (rank.infos().find("going back to the first cable") == std::string::npos) {
            void* none = nullptr;
            CHECK(rank.net().isend(comms.send, out.data(), kBytes, 99, out.memory, nullptr, &none) == 0);
            CHECK(none == nullptr);  // no receive has this tag
          }
        }
        CHECK(rank.finish(send(rank, comms.send, out, kBytes, part)) == static_cast<int>(kBytes));
      }
    } else {
      std::vector<std::unique_ptr<GpuBuffer>> in;
      void *data[kParts], *memories[kParts];
      std::size_t sizes[kParts];
      int tags[kParts], received[kParts];
      for (int part = 0; part < kParts; ++part) {
        in.push_back(std::make_unique<GpuBuffer>(rank, comms.receive, kBytes));
        data[part] = in.back()->data();
        memories[part] = in.back()->memory;
        sizes[part] = kBytes;
        tags[part] = part;
      }
      void* request = nullptr;
      while (request == nullptr) {
        CHECK(rank.net().irecv(comms.receive, kParts, data, sizes, tags, memories, nullptr, &request) == 0);
      }
      CHECK(rank.finish(request, received) == static_cast<int>(kBytes));
      CHECK(count(rank.warnings(), "taken up again after") == 2);
      CHECK(in.front()->wrong(kBytes, 5) > 0);
      CHECK(in.back()->wrong(kBytes, 5) > 0);
      request = nullptr;
      CHECK(rank.net().iflush(comms.receive, kParts, data, received, memories, &request) == 0);
      CHECK(rank.finish(request) == 0);
      for (const auto& part : in) CHECK(part->wrong(kBytes, 5) == 0);
    }
    rank.meet("done", 2);
    rank.close(comms);
  });
}

}  // namespace flush_trouble_test
