// GPU memory: how it is registered, and when what an adapter writes is there (sim/verbs/posted_writes.h).
#include "sim/host/device_memory.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "sim/host/file/descriptors.h"
#include "tests/verbs/pair.h"

namespace device_memory_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint32_t kBytes = 64 * 1024;
constexpr std::uint32_t kPieceBytes = 4096;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

PairOptions with_dma_buf() {
  PairOptions options;
  for (models::Node& node : options.cluster.nodes) {
    for (models::Nic& nic : node.nics) nic.dma_buf = true;
  }
  return options;
}

/// Memory of side 1's GPU, which side 0 writes to. Both see it here.
struct Target {
  std::shared_ptr<sim::DeviceBuffer> buffer;
  ibv_mr* mr = nullptr;
  int descriptor = -1;

  void open(Side& side, int more_access = 0) {
    buffer = sim::allocate_device_memory(*side.process, kBytes);
    descriptor = sim::export_dma_buf({.memory = buffer, .size_bytes = kBytes});
    mr = ibv_reg_dmabuf_mr(side.pd, 0, kBytes, buffer->address, descriptor, kAccess | more_access);
    CHECK(mr != nullptr);
  }
  void close(const Side& side) {
    CHECK(ibv_dereg_mr(mr) == 0);
    sim::close_descriptor(*side.process, descriptor);
    sim::free_device_memory(*buffer);
    buffer.reset();
  }
  bool has(char letter, std::uint32_t piece) const {
    const char* bytes = buffer->bytes + std::uint64_t{piece} * kPieceBytes;
    return std::string_view(bytes, kPieceBytes) == std::string(kPieceBytes, letter);
  }
  std::uint32_t landed(char letter) const {
    std::uint32_t count = 0;
    for (std::uint32_t piece = 0; piece < kBytes / kPieceBytes; ++piece) count += has(letter, piece) ? 1 : 0;
    return count;
  }
};
constexpr std::uint32_t kPieces = kBytes / kPieceBytes;

int post_to(const Side& side, const Target& target, ibv_wr_opcode opcode, std::uint32_t length) {
  ibv_sge list = side.sge(0, length);
  ibv_send_wr wr = side.write_wr(1, &list);
  wr.opcode = opcode;
  wr.imm_data = htonl(length);
  wr.wr.rdma.remote_addr = target.buffer->address;
  wr.wr.rdma.rkey = target.mr->rkey;
  return side.post(wr);
}

}  // namespace

// Linux ib_umem_dmabuf_get, uverbs REG_DMABUF_MR.
TEST_CASE("a registration without a descriptor shows whether the driver knows dma-bufs") {
  const auto probe = [](Side& side) {
    errno = 0;
    CHECK(ibv_reg_dmabuf_mr(side.pd, 0, 0, 0, -1, 0) == nullptr);
    return errno;
  };
  run_pair([&](Side& side) { CHECK(probe(side) == EOPNOTSUPP); });
  run_pair(with_dma_buf(), [&](Side& side) { CHECK(probe(side) == EBADF); });
}

TEST_CASE("a dma-buf is registered within its size, at addresses with its offset in the page; another descriptor not") {
  run_pair(with_dma_buf(), [](Side& side) {
    auto buffer = sim::allocate_device_memory(*side.process, kBytes);
    const int descriptor =
        sim::export_dma_buf({.memory = buffer, .offset_bytes = kPieceBytes, .size_bytes = kBytes - kPieceBytes});
    const auto error_of = [&](std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd) {
      errno = 0;
      ibv_mr* mr = ibv_reg_dmabuf_mr(side.pd, offset, length, iova, fd, kAccess);
      if (mr == nullptr) return errno;
      CHECK(ibv_dereg_mr(mr) == 0);
      return 0;
    };
    CHECK(error_of(0, kBytes - kPieceBytes, buffer->address, descriptor) == 0);
    CHECK(error_of(100, 1000, buffer->address + 100, descriptor) == 0);
    CHECK(error_of(0, kBytes, buffer->address, descriptor) == EINVAL);
    CHECK(error_of(100, 1000, buffer->address, descriptor) == EINVAL);
    CHECK(error_of(0, 0, 0, descriptor) == EINVAL);
    CHECK(error_of(0, 1000, 0, side.context->async_fd) == EINVAL);
    CHECK(error_of(0, 1000, 0, descriptor + 1000) == EBADF);
    sim::close_descriptor(*side.process, descriptor);
    CHECK(error_of(0, 1000, 0, descriptor) == EBADF);
    // By its address only where a peer memory client knows it.
    CHECK(ibv_reg_mr(side.pd, reinterpret_cast<void*>(buffer->address), 1000, kAccess) == nullptr);
    CHECK(errno == EFAULT);
    sim::free_device_memory(*buffer);
  });
  PairOptions peer_memory;
  for (models::Node& node : peer_memory.cluster.nodes) node.peer_memory = true;
  run_pair(peer_memory, [](Side& side) {
    auto buffer = sim::allocate_device_memory(*side.process, kBytes);
    ibv_mr* mr = ibv_reg_mr(side.pd, reinterpret_cast<void*>(buffer->address), kBytes, kAccess);
    CHECK(mr != nullptr);
    CHECK(ibv_dereg_mr(mr) == 0);
    sim::free_device_memory(*buffer);
  });
}

TEST_CASE("what is written to a GPU is there some time after its completion, or when a read has pushed it") {
  Target target;
  run_pair(
      with_dma_buf(),
      [&](Side& side) {
        side.barrier();
        for (int round = 0; round < 20; ++round) {
          std::memset(side.memory.data(), 'a' + round, kBytes);
          CHECK(post_to(side, target, IBV_WR_RDMA_WRITE_WITH_IMM, kBytes) == 0);
          CHECK(side.wait().status == IBV_WC_SUCCESS);
          side.barrier();  // the receiver has looked
          CHECK(post_to(side, target, IBV_WR_RDMA_READ, 1) == 0);
          CHECK(side.wait().status == IBV_WC_SUCCESS);
          side.barrier();  // it may look again
          side.barrier();
        }
      },
      [&](Side& side) {
        target.open(side, IBV_ACCESS_RELAXED_ORDERING);
        side.barrier();
        std::uint32_t there_at_completion = 0;
        for (int round = 0; round < 20; ++round) {
          const char letter = static_cast<char>('a' + round);
          CHECK(side.post_recv(1, 0, 0) == 0);
          CHECK(side.wait().status == IBV_WC_SUCCESS);
          there_at_completion += target.landed(letter) == kPieces ? 1 : 0;
          side.barrier();
          side.barrier();
          CHECK(target.landed(letter) == kPieces);
          side.barrier();
        }
        CHECK(there_at_completion == 0);
        target.close(side);
      });
}

TEST_CASE("without the relaxed-ordering bit the pieces keep their order, with it they do not") {
  for (const bool relaxed : {false, true}) {
    Target target;
    run_pair(
        with_dma_buf(),
        [&](Side& side) {
          side.barrier();
          CHECK(post_to(side, target, IBV_WR_RDMA_WRITE_WITH_IMM, kBytes) == 0);
          CHECK(side.wait().status == IBV_WC_SUCCESS);
        },
        [&](Side& side) {
          target.open(side, relaxed ? int{IBV_ACCESS_RELAXED_ORDERING} : 0);
          CHECK(side.post_recv(1, 0, 0) == 0);
          side.barrier();
          CHECK(side.wait().status == IBV_WC_SUCCESS);
          int looks_with_gaps = 0, looks = 0;
          for (; target.landed('A') < kPieces && looks < 100'000; ++looks) {
            bool gap = false;
            for (std::uint32_t piece = 0; piece + 1 < kPieces; ++piece) {
              gap = gap || (!target.has('A', piece) && target.has('A', piece + 1));
            }
            looks_with_gaps += gap ? 1 : 0;
            sleep(100 * kPicosecondsPerNanosecond);
          }
          CHECK(looks > 1);
          CHECK((looks_with_gaps > 0) == relaxed);
          target.close(side);
        });
  }
}

TEST_CASE("a read pushes what its own adapter wrote; another adapter's bytes stay on their way") {
  PairOptions options;
  options.cluster = ring_cluster(2, 100'000'000'000, kPicosecondsPerMicrosecond, 2);
  for (models::Nic& nic : options.cluster.nodes[0].nics) nic.dma_buf = true;
  run_pair(
      options,
      [](Side& side) {
        sim::set_posted_write_delay(kPicosecondsPerSecond);
        auto buffer = sim::allocate_device_memory(*side.process, kBytes);
        const int descriptor = sim::export_dma_buf({.memory = buffer, .size_bytes = kBytes});
        // On each of the node's adapters two queue pairs that are each other's peers, and the GPU's memory.
        Pair adapters[2];
        ibv_mr* regions[2];
        for (int device : {0, 1}) {
          for (Side& end : adapters[device].sides) {
            end.index = static_cast<int>(&end - adapters[device].sides);
            end.pair = &adapters[device];
            end.setup.device = device;
            end.open();
          }
          for (const Side& end : adapters[device].sides) end.connect();
          regions[device] =
              ibv_reg_dmabuf_mr(adapters[device].sides[1].pd, 0, kBytes, buffer->address, descriptor, kAccess);
          CHECK(regions[device] != nullptr);
        }
        const auto at_gpu = [&](int device, ibv_wr_opcode opcode, std::uint32_t offset, std::uint32_t length) {
          const Side& end = adapters[device].sides[0];
          ibv_sge list = end.sge(0, length);
          ibv_send_wr wr = end.write_wr(1, &list);
          wr.opcode = opcode;
          wr.wr.rdma.remote_addr = buffer->address + offset;
          wr.wr.rdma.rkey = regions[device]->rkey;
          CHECK(end.post(wr) == 0);
          CHECK(end.wait().status == IBV_WC_SUCCESS);
        };
        const Target target{.buffer = buffer};
        for (int first : {0, 1}) {
          const int second = 1 - first;
          for (int device : {0, 1}) {
            auto& memory = adapters[device].sides[0].memory;
            std::fill(memory.begin(), memory.end(), static_cast<char>('a' + 2 * first + device));
            at_gpu(device, IBV_WR_RDMA_WRITE, static_cast<std::uint32_t>(device) * kBytes / 2, kBytes / 2);
          }
          const auto landed_of = [&](int device) { return target.landed(static_cast<char>('a' + 2 * first + device)); };
          CHECK(landed_of(first) == 0);
          // Of the second one's half, too: whose bytes are read makes no difference.
          at_gpu(first, IBV_WR_RDMA_READ, static_cast<std::uint32_t>(second) * kBytes / 2, 1);
          CHECK(landed_of(first) == kPieces / 2);
          CHECK(landed_of(second) == 0);
          at_gpu(second, IBV_WR_RDMA_READ, 0, 1);
          CHECK(landed_of(second) == kPieces / 2);
        }
        for (ibv_mr* region : regions) CHECK(ibv_dereg_mr(region) == 0);
        sim::close_descriptor(*side.process, descriptor);
        sim::free_device_memory(*buffer);
      },
      [](Side&) {});
}

TEST_CASE("a region that goes lets its bytes land first; a read of host memory pushes nothing to the GPU") {
  Target target;
  run_pair(
      with_dma_buf(),
      [&](Side& side) {
        side.barrier();
        CHECK(post_to(side, target, IBV_WR_RDMA_WRITE_WITH_IMM, kBytes) == 0);
        CHECK(side.wait().status == IBV_WC_SUCCESS);
        CHECK(side.post_read(2, 0, 64) == 0);
        CHECK(side.wait().status == IBV_WC_SUCCESS);
        side.barrier();
      },
      [&](Side& side) {
        target.open(side);
        sim::set_posted_write_delay(kPicosecondsPerSecond);
        CHECK(side.post_recv(1, 0, 0) == 0);
        side.barrier();
        CHECK(side.wait().status == IBV_WC_SUCCESS);
        side.barrier();
        CHECK(target.landed('A') == 0);
        const auto buffer = target.buffer;
        CHECK(ibv_dereg_mr(target.mr) == 0);
        CHECK(target.landed('A') == kPieces);
        sim::close_descriptor(*side.process, target.descriptor);
        sim::free_device_memory(*buffer);
      });
}

}  // namespace device_memory_test
