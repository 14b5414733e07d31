// GPU memory with the real library: how it is registered, sent, received and flushed. The memory's addresses have no
// access rights, so that a CPU that follows one ends the test.

#include <doctest/doctest.h>

#include "tests/net/gpu_buffer.h"

namespace device_memory_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr std::size_t kRoom = 300'000;

std::size_t size_of(int message) {
  constexpr std::array<std::size_t, 9> kSizes{1, 8, 16, 32, 33, 4096, 70'000, 100, 300'000};
  return kSizes[static_cast<std::size_t>(message) % kSizes.size()];
}

struct GpuStream {
  int messages = 90;
  bool flushes = true;
  RegisteredBy way = RegisteredBy::kDmaBuf;
  int peer = 1;  // rank 0 sends to it
};

/// How many messages the receiving GPU found whole when it looked, as numbers in the world's value.
WorldResult run_gpu_stream(const models::Cluster& cluster, const GpuStream& stream) {
  const int ranks = static_cast<int>(cluster.nodes.size());
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() != 0 && rank.rank() != stream.peer) {
      rank.meet("end", ranks);
      return;
    }
    const Comms comms = rank.connect_both(rank.rank() == 0 ? stream.peer : 0, 0);
    int whole = 0;
    if (rank.rank() == 0) {
      GpuBuffer out(rank, comms.send, kRoom, stream.way);
      for (int message = 0; message < stream.messages; ++message) {
        out.fill(static_cast<std::uint32_t>(message));
        CHECK(rank.finish(send(rank, comms.send, out, size_of(message))) == static_cast<int>(size_of(message)));
      }
    } else {
      GpuBuffer in(rank, comms.receive, kRoom, stream.way);
      for (int message = 0; message < stream.messages; ++message) {
        in.clear();
        const int size = rank.finish(receive(rank, comms.receive, in, kRoom));
        CHECK(size == static_cast<int>(size_of(message)));
        if (stream.flushes) flush(rank, comms.receive, in, size);
        whole += in.wrong(size_of(message), static_cast<std::uint32_t>(message)) == 0 ? 1 : 0;
      }
      report(std::to_string(whole));
    }
    CHECK(rank.warnings().empty());
    rank.close(comms);
    rank.meet("end", ranks);
  });
}

}  // namespace

TEST_CASE("ptrSupport says what all NICs and the machine can do") {
  const auto support_of = [](const models::Cluster& cluster) {
    return run_mesh(cluster,
                    [](MeshRank& rank) {
                      nccl::PropertiesV11 properties{};
                      CHECK(rank.net().getProperties(0, &properties) == 0);
                      CHECK(properties.forceFlush == 0);
                      CHECK(properties.regIsGlobal == 0);
                      if (rank.rank() == 0) report(std::to_string(properties.ptrSupport));
                    })
        .value;
  };
  CHECK(support_of(ring_cluster(3)) == std::to_string(nccl::kPtrHost));
  CHECK(support_of(with_dma_buf(ring_cluster(3))) == std::to_string(nccl::kPtrHost | nccl::kPtrDmaBuf));
  CHECK(support_of(with_peer_memory(ring_cluster(3))) == std::to_string(nccl::kPtrHost | nccl::kPtrCuda));
  CHECK(support_of(with_peer_memory(with_dma_buf(ring_cluster(3)))) ==
        std::to_string(nccl::kPtrHost | nccl::kPtrCuda | nccl::kPtrDmaBuf));
  // A connection may come to stand on the other NIC, which cannot.
  models::Cluster half = with_dma_buf(ring_cluster(3));
  for (models::Node& node : half.nodes) node.nics[1].dma_buf = false;
  CHECK(support_of(half) == std::to_string(nccl::kPtrHost));
  // A device in software: the module alone is not enough.
  models::Cluster software = with_peer_memory(ring_cluster(2));
  for (models::Node& node : software.nodes) node.nics[0].pci_path = "/sys/devices/virtual";
  CHECK(support_of(software) == std::to_string(nccl::kPtrHost));
}

TEST_CASE("GPU memory that cannot be registered is refused with what is missing, and costs nothing") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const auto buffer = sim::allocate_device_memory(*sim::World::current_process(), 4096);
    void* data = reinterpret_cast<void*>(buffer->address);
    void* memory = nullptr;
    const std::uint64_t objects = sim::verbs_counters().live_objects;
    CHECK(rank.net().regMr(comms.receive, data, 4096, nccl::kPtrCuda, &memory) != 0);
    CHECK(rank.warnings().find("load nvidia_peermem") != std::string::npos);
    rank.forget_warnings();
    CHECK(rank.net().regMrDmaBuf(comms.receive, data, 4096, nccl::kPtrCuda, 0, 7, &memory) != 0);
    CHECK(rank.warnings().find("the driver of rocep1s0f0 does not register dma-bufs") != std::string::npos);
    rank.forget_warnings();
    CHECK(rank.net().regMr(comms.receive, data, 4096, 8, &memory) == nccl::kNcclInvalidArgument);
    CHECK(memory == nullptr);
    CHECK(sim::verbs_counters().live_objects == objects);
    sim::free_device_memory(*buffer);
    rank.meet("refused", 2);
    rank.close(comms);
  });
  run_mesh(with_dma_buf(ring_cluster(2)), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    void* memory = nullptr;
    void* somewhere = reinterpret_cast<void*>(std::uintptr_t{1} << 40U);  // at a page, as the offset is
    CHECK(rank.net().regMrDmaBuf(comms.receive, somewhere, 16, nccl::kPtrHost, 0, 3, &memory) ==
          nccl::kNcclInvalidArgument);
    CHECK(rank.net().regMrDmaBuf(comms.receive, somewhere, 16, nccl::kPtrCuda, 0, -1, &memory) != 0);
    CHECK(rank.warnings().find("Bad file descriptor; they are 0 bytes into the dma-buf of descriptor -1") !=
          std::string::npos);
    CHECK(memory == nullptr);
    rank.close(comms);
  });
}

TEST_CASE("GPU to GPU, messages of 1 B to 300 kB: with a flush the GPU sees every byte, in every way of registering") {
  for (const RegisteredBy way : {RegisteredBy::kDmaBuf, RegisteredBy::kAddress}) {
    const auto cluster =
        way == RegisteredBy::kDmaBuf ? with_dma_buf(ring_cluster(2)) : with_peer_memory(ring_cluster(2));
    const auto result = run_gpu_stream(cluster, {.way = way});
    CHECK(result.outcome == OutcomeKind::kFinished);
    CHECK(result.value == "90");
  }
}

TEST_CASE("D10: without a flush, or with it switched off, the GPU finds old bytes") {
  const auto cluster = with_dma_buf(ring_cluster(2));
  const auto without = run_gpu_stream(cluster, {.flushes = false});
  CHECK(std::stoi(without.value) < 90);
  const auto switched_off = run_gpu_stream(with(cluster, "NCCL_GDR_FLUSH_DISABLE", "1"), {});
  CHECK(switched_off.value == without.value);
  // The same without relaxed ordering: the completion and the bytes go different ways all the same.
  const auto strict = run_gpu_stream(with(cluster, "NCCL_IB_PCI_RELAXED_ORDERING", "0"), {.flushes = false});
  CHECK(std::stoi(strict.value) < 90);
  CHECK(run_gpu_stream(with(cluster, "NCCL_IB_PCI_RELAXED_ORDERING", "0"), {}).value == "90");
}

TEST_CASE("through relays, from GPU to GPU") {
  for (const bool flushes : {true, false}) {
    const auto result = run_gpu_stream(with_dma_buf(ring_cluster(4)), {.flushes = flushes, .peer = 2});
    CHECK(result.outcome == OutcomeKind::kFinished);
    CHECK((std::stoi(result.value) == 90) == flushes);
  }
}

TEST_CASE("one flush of a group shows all its parts; nothing is flushed of host memory and of empty messages") {
  run_mesh(with_dma_buf(ring_cluster(2)), [](MeshRank& rank) {
    constexpr int kParts = 4;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      GpuBuffer out(rank, comms.send, 50'000);
      out.fill(3);
      std::vector<void*> requests;
      for (int part = 0; part < kParts; ++part) {
        requests.push_back(send(rank, comms.send, out, part == 3 ? 0 : 50'000, part));
      }
      for (void* request : requests) CHECK(rank.finish(request) >= 0);
    } else {
      GpuBuffer first(rank, comms.receive, 50'000), second(rank, comms.receive, 50'000);
      Buffer host = rank.buffer(comms.receive, 50'000, 8);
      void* data[kParts] = {first.data(), second.data(), host.bytes.data(), second.data()};
      void* memories[kParts] = {first.memory, second.memory, host.memory, second.memory};
      std::size_t sizes[kParts] = {50'000, 50'000, 50'000, 50'000};
      int tags[kParts] = {0, 1, 2, 3}, received[8]{};
      void* request = nullptr;
      while (request == nullptr) {
        CHECK(rank.net().irecv(comms.receive, kParts, data, sizes, tags, memories, nullptr, &request) == 0);
      }
      CHECK(rank.finish(request, received) == 50'000);
      CHECK(first.wrong(50'000, 3) + second.wrong(50'000, 3) > 0);
      request = nullptr;
      CHECK(rank.net().iflush(comms.receive, kParts, data, received, memories, &request) == 0);
      CHECK(request != nullptr);
      CHECK(rank.finish(request) == 0);
      CHECK(first.wrong(50'000, 3) == 0);
      CHECK(second.wrong(50'000, 3) == 0);

      int nothing[kParts] = {0, 0, 0, 0};
      request = &request;
      CHECK(rank.net().iflush(comms.receive, kParts, data, nothing, memories, &request) == 0);
      CHECK(request == nullptr);
      request = &request;
      CHECK(rank.net().iflush(comms.receive, 1, &data[2], &received[2], &memories[2], &request) == 0);
      CHECK(request == nullptr);
      // What is not within the memory is refused.
      int too_long = 60'000;
      CHECK(rank.net().iflush(comms.receive, 1, &data[0], &too_long, &memories[0], &request) ==
            nccl::kNcclInvalidArgument);
      rank.release(comms.receive, host);
    }
    rank.meet("done", 2);
    rank.close(comms);
  });
}

TEST_CASE("the queue pair for flushes comes with the first GPU memory of a receiver, once; and everything goes again") {
  run_mesh(with_dma_buf(ring_cluster(2)), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.meet("connected", 2);
    if (rank.rank() == 1) {
      const auto objects = [] { return sim::verbs_counters().live_objects; };
      const std::uint64_t at_first = objects();
      const std::uint64_t descriptors = sim::host_counters().open_descriptors;
      const Buffer host = rank.buffer(comms.receive, 4096, 1);
      CHECK(objects() == at_first + 1);
      {
        GpuBuffer of_sender(rank, comms.send, 4096);
        CHECK(objects() == at_first + 2);
        GpuBuffer first(rank, comms.receive, 4096);
        CHECK(objects() == at_first + 6);  // its region; queue pair, completion queue and word of the flusher
        GpuBuffer second(rank, comms.receive, 4096);
        CHECK(objects() == at_first + 7);
        void* again = nullptr;  // what is registered already is shared
        const int descriptor =
            sim::export_dma_buf({.memory = sim::find_device_memory(reinterpret_cast<std::uint64_t>(first.data()), 4096),
                                 .size_bytes = 4096});
        CHECK(rank.net().regMrDmaBuf(comms.send, first.data(), 4096, nccl::kPtrCuda, 0, descriptor, &again) == 0);
        sim::close_descriptor(*sim::World::current_process(), descriptor);
        CHECK(objects() == at_first + 7);
        CHECK(rank.net().deregMr(comms.send, again) == 0);
        CHECK(sim::host_counters().open_descriptors == descriptors);  // one device: there is nowhere to go on
      }
      CHECK(objects() == at_first + 4);
      rank.release(comms.receive, host);
      CHECK(objects() == at_first + 3);
      CHECK(rank.net().closeRecv(comms.receive) == 0);
      CHECK(rank.net().closeSend(comms.send) == 0);
    }
    rank.meet("counted", 2);
    if (rank.rank() == 0) rank.close(comms);
    CHECK(rank.warnings().empty());
  });
}

TEST_CASE("GPU memory that was registered with one connection is received into and flushed by another") {
  run_mesh(with_dma_buf(ring_cluster(2)), [](MeshRank& rank) {
    const Comms first = rank.connect_both(1 - rank.rank(), 0, "/first");
    const Comms second = rank.connect_both(1 - rank.rank(), 0, "/second");
    if (rank.rank() == 0) {
      GpuBuffer out(rank, first.send, 60'000);
      out.fill(4);
      CHECK(rank.finish(send(rank, second.send, out, 60'000)) == 60'000);
    } else {
      GpuBuffer in(rank, first.receive, 60'000);
      CHECK(rank.finish(receive(rank, second.receive, in, 60'000)) == 60'000);
      CHECK(in.wrong(60'000, 4) > 0);
      flush(rank, second.receive, in, 60'000);
      CHECK(in.wrong(60'000, 4) == 0);
    }
    rank.meet("done", 2);
    rank.close(first);
    rank.close(second);
  });
}

TEST_CASE("an address that is freed and allocated again means the new memory") {
  run_mesh(with_dma_buf(ring_cluster(2)), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    for (std::uint32_t round = 0; round < 4; ++round) {
      if (rank.rank() == 0) {
        GpuBuffer out(rank, comms.send, 8192);
        out.fill(round);
        CHECK(rank.finish(send(rank, comms.send, out, 8192)) == 8192);
      } else {
        GpuBuffer in(rank, comms.receive, 8192);  // as a rule where the last one was
        CHECK(rank.finish(receive(rank, comms.receive, in, 8192)) == 8192);
        flush(rank, comms.receive, in, 8192);
        CHECK(in.wrong(8192, round) == 0);
      }
    }
    rank.meet("done", 2);
    rank.close(comms);
  });
}

TEST_CASE("every version's table takes dma-bufs") {
  run_mesh(with_dma_buf(ring_cluster(2)), [](MeshRank& rank) {
    CHECK((rank.net().regMrDmaBuf != nullptr));
    CHECK((rank.table<nccl::NetV8>("ncclNetPlugin_v8")->regMrDmaBuf == rank.net().regMrDmaBuf));
    CHECK((rank.table<nccl::NetV9>("ncclNetPlugin_v9")->regMrDmaBuf == rank.net().regMrDmaBuf));
    CHECK((rank.table<nccl::NetV10>("ncclNetPlugin_v10")->regMrDmaBuf == rank.net().regMrDmaBuf));
    CHECK((rank.table<nccl::NetV12>("ncclNetPlugin_v12")->regMrDmaBuf == rank.net().regMrDmaBuf));
  });
}

}  // namespace device_memory_test
