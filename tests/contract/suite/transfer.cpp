// What each operation does and how both ends learn of it.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr std::uint32_t kImm = 0x12345678;

void compares_40_and_swaps_7(End& end, std::uint64_t before, const std::string& after) {
  end.connect();
  if (!end.active()) {
    end.set_word(64, before);
    end.meet();
    end.meet();
    end.sees("the value afterwards", std::to_string(end.word(64)), after);
    return;
  }
  end.meet();
  const Send swap{.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .bytes = 8, .to = 64, .compare_add = 40, .swap = 7};
  need(end.post(swap), "ibv_post_send");
  end.sees("the atomic", end.next(), "1 SUCCESS COMP_SWAP");
  end.sees("the value that it found", std::to_string(end.word(0)), std::to_string(before));
  end.meet();
}

const Contract kTransferContracts[] = {
    {"a send ends in a receive", "ibv_post_send(3): IBV_WR_SEND; ibv_poll_cq(3)",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         end.meet();
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = 11, .bytes = 1000}), "ibv_post_send");
         end.sees("the send", end.next(), "11 SUCCESS SEND");
         return;
       }
       need(end.post(Receive{.id = 22}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "22 SUCCESS RECV 1000 bytes");
       end.sees("the bytes", end.data(1, 0, 1000), "as sent");
     }},
    {"a send with immediate brings four bytes more", "ibv_post_send(3): IBV_WR_SEND_WITH_IMM; ibv_poll_cq(3)",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.meet();
         need(end.post(Send{.opcode = IBV_WR_SEND_WITH_IMM, .imm = kImm}), "ibv_post_send");
         end.sees("the send", end.next(), "1 SUCCESS SEND");
         return;
       }
       need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "2 SUCCESS RECV 64 bytes imm 0x12345678");
     }},
    {"a write is complete at the writer alone", "ibv_post_send(3): IBV_WR_RDMA_WRITE",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         need(end.post(Send{.bytes = 700, .from = 100, .to = 5000}), "ibv_post_send");
         end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
         end.meet();
         return;
       }
       need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.meet();
       end.sees("the bytes", end.data(1, 5000, 700, 4900), "as sent");
       end.sees("the byte before and the byte after",
                std::to_string(end.memory[4999]) + " " + std::to_string(end.memory[5700]), "0 0");
       end.sees("completions", end.there(), "none");
     }},
    {"a write with immediate takes a receive and leaves its memory alone",
     "ibv_post_send(3): IBV_WR_RDMA_WRITE_WITH_IMM; ibv_poll_cq(3)",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         end.meet();
         need(end.post(Send{.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .bytes = 500, .imm = kImm}), "ibv_post_send");
         end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
         return;
       }
       need(end.post(Receive{.id = 2, .bytes = 16, .to = 9000}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "2 SUCCESS RECV_RDMA_WITH_IMM 500 bytes imm 0x12345678");
       end.sees("the bytes", end.data(1, 0, 500), "as sent");
       end.sees("the receive's memory", std::to_string(end.word(9000)), "0");
     }},
    {"a write with immediate takes a receive without memory", "ibv_post_recv(3): num_sge may be 0",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.meet();
         need(end.post(Send{.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm = 7}), "ibv_post_send");
         end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
         return;
       }
       need(end.post(Receive{.id = 2, .list = std::vector<ibv_sge>{}}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "2 SUCCESS RECV_RDMA_WITH_IMM 64 bytes imm 0x7");
     }},
    {"a read fetches the peer's bytes, which learns nothing", "ibv_post_send(3): IBV_WR_RDMA_READ",
     [](End& end) {
       end.connect();
       if (!end.active()) {
         end.fill(6);
         end.meet();
         end.meet();
         end.sees("completions", end.there(), "none");
         return;
       }
       end.meet();
       need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .bytes = 900, .from = 20, .to = 3000}), "ibv_post_send");
       end.sees("the read", end.next(), "1 SUCCESS RDMA_READ 900 bytes");
       end.sees("the bytes", end.data(6, 20, 900, static_cast<std::size_t>(0) - 2980), "as sent");
       end.meet();
     }},
    {"fetch and add gives the old value and leaves the sum", "ibv_post_send(3): IBV_WR_ATOMIC_FETCH_AND_ADD",
     [](End& end) {
       end.connect();
       if (!end.active()) {
         end.set_word(64, 40);
         end.meet();
         end.meet();
         end.sees("the sum", std::to_string(end.word(64)), "42");
         return;
       }
       end.meet();
       need(end.post(Send{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .from = 0, .to = 64, .compare_add = 2}),
            "ibv_post_send");
       end.sees("the atomic", end.next(), "1 SUCCESS FETCH_ADD");
       end.sees("the old value", std::to_string(end.word(0)), "40");
       end.meet();
     }},
    {"compare and swap swaps what is equal", "ibv_post_send(3): IBV_WR_ATOMIC_CMP_AND_SWP",
     [](End& end) { compares_40_and_swaps_7(end, 40, "7"); }},
    {"compare and swap leaves what is not equal", "ibv_post_send(3): IBV_WR_ATOMIC_CMP_AND_SWP",
     [](End& end) { compares_40_and_swaps_7(end, 41, "41"); }},
    {"sends are gathered and scattered", "ibv_post_send(3), ibv_post_recv(3): sg_list",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         end.meet();
         const std::vector<ibv_sge> list{end.sge(0, 100), end.sge(100, 1), end.sge(101, 0), end.sge(101, 2000)};
         need(end.post(Send{.opcode = IBV_WR_SEND, .list = list}), "ibv_post_send");
         end.sees("the send", end.next(), "1 SUCCESS SEND");
         return;
       }
       // Laid out so that the pieces stand one after the other again.
       const std::vector<ibv_sge> list{end.sge(0, 3), end.sge(3, 1500), end.sge(1503, 4000)};
       need(end.post(Receive{.id = 2, .list = list}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "2 SUCCESS RECV 2101 bytes");
       end.sees("the bytes", end.data(1, 0, 2101), "as sent");
     }},
    {"writes are gathered, reads are scattered", "ibv_post_send(3): sg_list",
     [](End& end) {
       end.connect();
       if (!end.active()) {
         end.meet();
         end.sees("what was written", end.data(1, 0, 1200), "as sent");
         end.meet();
         return;
       }
       end.fill(1);
       const std::vector<ibv_sge> from{end.sge(0, 200), end.sge(200, 1000)};
       need(end.post(Send{.list = from}), "ibv_post_send");
       end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
       end.meet();
       const std::vector<ibv_sge> to{end.sge(8192, 700), end.sge(8892, 500)};
       need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = 2, .list = to}), "ibv_post_send");
       end.sees("the read", end.next(), "2 SUCCESS RDMA_READ 1200 bytes");
       end.sees("what was read", end.data(1, 8192, 1200, 8192), "as sent");
       end.meet();
     }},
    {"inline data may change as soon as they are posted", "ibv_post_send(3): IBV_SEND_INLINE",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         need(end.post(Send{.bytes = 48, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}), "ibv_post_send");
         end.fill(2);
         end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
         end.meet();
         return;
       }
       end.meet();
       end.sees("the bytes", end.data(1, 0, 48), "as sent");
     }},
    {"the key of inline data is not looked at", "ibv_post_send(3): IBV_SEND_INLINE",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       need(end.post(Send{.bytes = 32, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .lkey = 0xdead}), "ibv_post_send");
       end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
     }},
    {"inline data are gathered", "ibv_post_send(3): IBV_SEND_INLINE",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         end.meet();
         const std::vector<ibv_sge> list{end.sge(0, 10), end.sge(10, 30), end.sge(40, 4)};
         need(end.post(Send{.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .list = list}),
              "ibv_post_send");
         end.sees("the send", end.next(), "1 SUCCESS SEND");
         return;
       }
       need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "2 SUCCESS RECV 44 bytes");
       end.sees("the bytes", end.data(1, 0, 44), "as sent");
     }},
};

}  // namespace

std::span<const Contract> transfer_contracts() { return kTransferContracts; }

}  // namespace meshbed::contract
