// Sends, writes, reads and atomics that go well: ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3).
#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "tests/verbs/pair.h"

namespace transfer_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

PairOptions quiet() {  // completions only where they are asked for
  return {.configure = [](Setup& setup, int) { setup.signal_all = false; }};
}

std::uint64_t& word_at(Side& side, std::size_t offset) {
  return *reinterpret_cast<std::uint64_t*>(side.memory.data() + offset);
}

}  // namespace

// InfiniBand Architecture, volume 1, 9.4.3: an RDMA WRITE without immediate data takes no receive.
TEST_CASE("a write puts the bytes there and completes at the writer only") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      CHECK(side.drain_after(kPicosecondsPerSecond).empty());
      CHECK(side.memory[99] == 'B');
      CHECK(side.memory[100] == 'A');
      CHECK(side.memory[163] == 'A');
      CHECK(side.memory[164] == 'B');
      return;
    }
    CHECK(side.post_write(7, 100, 64) == 0);
    const ibv_wc wc = side.wait();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.wr_id == 7);
    CHECK(wc.opcode == IBV_WC_RDMA_WRITE);
    CHECK(wc.qp_num == side.qp->qp_num);
  });
}

// ibv_poll_cq(3): byte_len, src_qp (which it promises "only for UD QPs"; mlx5 fills it for RC too).
TEST_CASE("a send meets the oldest receive, whose completion has the length and the sender's queue pair") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      CHECK(side.post_recv(11, 0, 4096) == 0);
      CHECK(side.post_recv(12, 8192, 4096) == 0);
      side.barrier();
      for (const std::uint64_t id : {11, 12}) {
        const ibv_wc wc = side.wait();
        CHECK(wc.status == IBV_WC_SUCCESS);
        CHECK(wc.wr_id == id);
        CHECK(wc.opcode == IBV_WC_RECV);
        CHECK(wc.byte_len == (id == 11 ? 100 : 200));
        CHECK(wc.src_qp == side.peer().qp->qp_num);
        CHECK(wc.wc_flags == 0);
      }
      CHECK(side.memory[99] == 'A');
      CHECK(side.memory[100] == 'B');
      CHECK(side.memory[8192 + 199] == 'A');
      return;
    }
    side.barrier();
    CHECK(side.post_send(1, 0, 100) == 0);
    CHECK(side.post_send(2, 0, 200) == 0);
    CHECK(side.wait().opcode == IBV_WC_SEND);
    CHECK(side.wait().wr_id == 2);
  });
}

// ibv_post_send(3), ibv_poll_cq(3): imm_data, "Immediate data (in network byte order)"; IBV_WC_WITH_IMM.
TEST_CASE("immediate data arrives in network order with a send and with a write") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      CHECK(side.post_recv(1, 0, 64) == 0);
      CHECK(side.post_recv(2, 0, 0) == 0);  // a write with immediate takes a receive and none of its memory
      side.barrier();
      const ibv_wc send = side.wait();
      CHECK(send.opcode == IBV_WC_RECV);
      CHECK(send.wc_flags == IBV_WC_WITH_IMM);
      CHECK(ntohl(send.imm_data) == 0x01020304);
      const ibv_wc write = side.wait();
      CHECK(write.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
      CHECK(write.wc_flags == IBV_WC_WITH_IMM);
      CHECK(ntohl(write.imm_data) == 0x05060708);
      CHECK(write.byte_len == 256);
      CHECK(side.memory[512] == 'A');
      return;
    }
    side.barrier();
    ibv_sge small = side.sge(0, 64), large = side.sge(512, 256);
    ibv_send_wr write = side.write_wr(2, &large);
    write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    write.imm_data = htonl(0x05060708);
    ibv_send_wr send = side.write_wr(1, &small);
    send.opcode = IBV_WR_SEND_WITH_IMM;
    send.imm_data = htonl(0x01020304);
    send.next = &write;  // one call posts the list in order
    CHECK(side.post(send) == 0);
    CHECK(side.wait().wr_id == 1);
    CHECK(side.wait().wr_id == 2);
  });
}

// ibv_create_qp(3): sq_sig_all; ibv_post_send(3): IBV_SEND_SIGNALED.
TEST_CASE("an unsignalled write leaves no completion") {
  run_pair(quiet(), [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.post_write(2, 0, 64, IBV_SEND_SIGNALED) == 0);
    CHECK(side.post_write(3, 0, 64) == 0);
    const auto completions = side.drain_after(kPicosecondsPerSecond);
    REQUIRE(completions.size() == 1);
    CHECK(completions[0].wr_id == 2);
  });
}

// ibv_post_send(3): "if the IBV_SEND_INLINE flag was set, the buffer can be reused immediately after the call returns".
TEST_CASE("inline data are taken when posted, from memory that need not be registered") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    char first[100], second[156];
    std::memset(first, 'x', sizeof(first));
    std::memset(second, 'y', sizeof(second));
    ibv_sge sges[2] = {{reinterpret_cast<std::uint64_t>(first), sizeof(first), 0},
                       {reinterpret_cast<std::uint64_t>(second), sizeof(second), 0}};
    ibv_sge target = side.sge(0, 1);
    ibv_send_wr wr = side.write_wr(1, &target);
    wr.sg_list = sges;
    wr.num_sge = 2;
    wr.send_flags = IBV_SEND_INLINE;
    CHECK(side.post(wr) == 0);
    std::memset(first, '-', sizeof(first));
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(side.peer().memory[99] == 'x');
    CHECK(side.peer().memory[100] == 'y');
    CHECK(side.peer().memory[255] == 'y');
    CHECK(side.peer().memory[256] == 'B');
    sges[1].length = 157;  // 257 bytes: more than max_inline_data
    CHECK(side.post(wr) == EINVAL);
  });
}

// Linux rxe's check_rkey: "A zero-byte op is not required to set an addr or rkey."
TEST_CASE("zero-length messages: a send completes its receive with 0 bytes, a write needs no valid key") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      CHECK(side.post_recv(1, 0, 64) == 0);
      side.barrier();
      const ibv_wc wc = side.wait();
      CHECK(wc.status == IBV_WC_SUCCESS);
      CHECK(wc.byte_len == 0);
      CHECK(side.memory[0] == 'B');
      return;
    }
    side.barrier();
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_SEND;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    wr.opcode = IBV_WR_RDMA_WRITE;  // InfiniBand Architecture, 9.4.3: the R_Key of an empty RDMA write is not checked
    wr.wr.rdma.rkey = 0xdead;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
  });
}

// ibv_post_send(3), ibv_post_recv(3): sg_list, num_sge, "Size of the s/g array".
TEST_CASE("gather and scatter lists split the bytes differently and lose none") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      ibv_sge sges[3] = {side.sge(0, 5), side.sge(100, 0), side.sge(1000, 60)};
      ibv_recv_wr wr{};
      wr.sg_list = sges;
      wr.num_sge = 3;
      ibv_recv_wr* bad = nullptr;
      CHECK(ibv_post_recv(side.qp, &wr, &bad) == 0);
      side.barrier();
      CHECK(side.wait().byte_len == 60);
      std::string bytes(side.memory.data(), 5);
      bytes.append(side.memory.data() + 1000, 55);
      std::string expected(60, '\0');
      std::iota(expected.begin(), expected.end(), '\0');
      CHECK(bytes == expected);
      CHECK(side.memory[1055] == 'B');
      return;
    }
    std::iota(side.memory.begin(), side.memory.begin() + 60, '\0');
    side.barrier();
    ibv_sge sges[3] = {side.sge(0, 1), side.sge(1, 29), side.sge(30, 30)};
    ibv_send_wr wr = side.write_wr(1, sges);
    wr.num_sge = 3;
    wr.opcode = IBV_WR_SEND;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
  });
}

// InfiniBand Architecture, volume 1, 9.4.4: RDMA READ; ibv_poll_cq(3): byte_len, "Number of bytes transferred".
TEST_CASE("a read fetches the peer's bytes") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    for (const std::uint32_t length : {1U, 256U, 257U, 1U << 20U}) {
      side.memory.assign(side.memory.size(), 'A');
      CHECK(side.post_read(length, 0, length) == 0);
      const ibv_wc wc = side.wait();
      CHECK(wc.status == IBV_WC_SUCCESS);
      CHECK(wc.opcode == IBV_WC_RDMA_READ);
      CHECK(wc.byte_len == length);
      CHECK(side.memory[length - 1] == 'B');
      CHECK((length == side.memory.size() || side.memory[length] == 'A'));
    }
  });
}

// InfiniBand Architecture, volume 1, 9.4.5: atomic operations; EINVAL: Linux rxe's validate_send_wr, 8 aligned bytes.
TEST_CASE("atomics return the value before and change it once, in host byte order") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    word_at(side.peer(), 0) = 40;
    ibv_sge sge = side.sge(64, 8);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(side.peer().memory.data());
    wr.wr.atomic.rkey = side.peer().mr->rkey;
    wr.wr.atomic.compare_add = 2;
    CHECK(side.post(wr) == 0);
    ibv_wc wc = side.wait();
    CHECK(wc.opcode == IBV_WC_FETCH_ADD);
    CHECK(wc.byte_len == 8);
    CHECK(word_at(side, 64) == 40);
    CHECK(word_at(side.peer(), 0) == 42);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    for (const std::uint64_t swap : {100, 200}) {  // the second one compares with 42 in vain
      wr.wr.atomic.compare_add = 42;
      wr.wr.atomic.swap = swap;
      CHECK(side.post(wr) == 0);
      CHECK(side.wait().opcode == IBV_WC_COMP_SWAP);
      CHECK(word_at(side, 64) == (swap == 100 ? 42 : 100));
      CHECK(word_at(side.peer(), 0) == 100);
    }
    wr.wr.atomic.remote_addr += 4;  // ibv_post_send(3): atomics work on 8 aligned bytes
    CHECK(side.post(wr) == EINVAL);
  });
}

// ibv_modify_qp(3): max_rd_atomic, the number of outstanding RDMA reads and atomic operations on the destination.
TEST_CASE("no more reads are outstanding than max_rd_atomic allows") {
  const auto span = [](std::uint8_t depth) {
    const auto result =
        run_pair({.configure = [depth](Setup& setup, int) { setup.max_rd_atomic = depth; }}, [](Side& side) {
          if (side.index != 0) return;
          const Picoseconds start = now();
          for (std::uint64_t id = 0; id < 4; ++id) CHECK(side.post_read(id, 0, 8) == 0);
          for (int id = 0; id < 4; ++id) CHECK(side.wait().status == IBV_WC_SUCCESS);
          report(std::to_string(now() - start));
        });
    return std::stoll(result.value);
  };
  constexpr Picoseconds kRoundTrip = 2 * kPicosecondsPerMicrosecond;
  CHECK(span(1) > 4 * kRoundTrip);
  CHECK(span(2) > 2 * kRoundTrip);
  CHECK(span(2) < 3 * kRoundTrip);
  CHECK(span(4) < 2 * kRoundTrip);
}

// ibv_post_send(3), IBV_SEND_FENCE: waits for the reads and atomics before it.
TEST_CASE("a fenced write starts after the read before it has finished") {
  const auto write_starts_after = [](unsigned flags) {
    const auto result = run_pair([flags](Side& side) {
      if (side.index != 0) return;
      CHECK(side.post_read(1, 0, 8) == 0);
      CHECK(side.post_write(2, 64, 8, flags) == 0);
      CHECK(side.wait().wr_id == 1);
      const Picoseconds read_done = now();
      CHECK(side.wait().wr_id == 2);
      report(std::to_string(now() - read_done));
    });
    return std::stoll(result.value);
  };
  CHECK(write_starts_after(IBV_SEND_FENCE) > 2 * kPicosecondsPerMicrosecond);
  CHECK(write_starts_after(0) < kPicosecondsPerMicrosecond);
}

// ibv_create_qp(3): max_send_wr and max_recv_wr; a slot is free again when its completion was polled.
TEST_CASE("a full queue is ENOMEM until completions are polled") {
  const auto shallow = [](Setup& setup, int) {
    setup.depth = 4;
    setup.signal_all = false;
  };
  run_pair({.configure = shallow}, [](Side& side) {
    if (side.index != 0) return;
    for (std::uint64_t id = 0; id < 4; ++id) CHECK(side.post_recv(id, 0, 8) == 0);
    CHECK(side.post_recv(4, 0, 8) == ENOMEM);
    for (std::uint64_t id = 0; id < 3; ++id) CHECK(side.post_write(id, 0, 8) == 0);
    CHECK(side.post_write(3, 0, 8, IBV_SEND_SIGNALED) == 0);
    CHECK(side.post_write(4, 0, 8) == ENOMEM);
    sleep(kPicosecondsPerMillisecond);
    CHECK(side.post_write(4, 0, 8) == ENOMEM);  // all done, none polled
    CHECK(side.wait().wr_id == 3);
    CHECK(side.post_write(4, 0, 8) == 0);  // its completion gives all four slots back
  });
}

// ibv_create_qp(3): max_send_sge, max_recv_sge; Linux rxe's validate_send_wr and post_one_recv: EINVAL.
TEST_CASE("longer lists than the queue pair has are EINVAL, unknown opcodes EOPNOTSUPP") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    ibv_sge sges[5];
    for (auto& sge : sges) sge = side.sge(0, 1);
    ibv_send_wr wr = side.write_wr(1, sges);
    wr.num_sge = 5;
    CHECK(side.post(wr) == EINVAL);
    wr.num_sge = -1;
    CHECK(side.post(wr) == EINVAL);
    wr.num_sge = 1;
    for (const ibv_wr_opcode opcode : {IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO}) {
      wr.opcode = opcode;
      CHECK(side.post(wr) == EOPNOTSUPP);
    }
    ibv_recv_wr recv{};
    recv.sg_list = sges;
    recv.num_sge = 5;
    ibv_recv_wr* bad = nullptr;
    CHECK(ibv_post_recv(side.qp, &recv, &bad) == EINVAL);
    CHECK(bad == &recv);
  });
}

// ibv_reg_mr(3): ibv_reg_mr_iova registers memory under another address.
TEST_CASE("a region with its own virtual address is named by it") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    Side& peer = side.peer();
    ibv_mr* mr = nullptr;
    // The peer's process registers; in this test both live in one program, and the peer waits at the barrier.
    constexpr std::uint64_t kIova = 0x10000;
    mr = ibv_reg_mr_iova(side.pd, side.memory.data(), 4096, kIova, IBV_ACCESS_LOCAL_WRITE);
    REQUIRE(mr != nullptr);
    ibv_sge sge{kIova + 10, 16, mr->lkey};
    side.memory[10] = 'i';
    ibv_sge target = side.sge(0, 16);
    ibv_send_wr wr = side.write_wr(1, &target);
    wr.sg_list = &sge;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(peer.memory[0] == 'i');
    CHECK(ibv_dereg_mr(mr) == 0);
  });
}

}  // namespace transfer_test
