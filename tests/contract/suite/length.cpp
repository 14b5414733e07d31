// Message lengths: none at all, one packet and one byte more, many packets, odd ones, too long ones.

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

/// The active end writes `bytes` and reads them back to behind them.
void there_and_back(End& end, const Setup& setup, std::uint32_t bytes) {
  end.connect(setup);
  if (!end.active()) {
    end.meet();
    end.sees("what was written", end.data(1, 0, bytes), "as sent");
    return;
  }
  end.fill(1);
  need(end.post(Send{.bytes = bytes}), "ibv_post_send");
  end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
  need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = 2, .bytes = bytes, .from = bytes}), "ibv_post_send");
  end.sees("the read", end.next(), "2 SUCCESS RDMA_READ " + std::to_string(bytes) + " bytes");
  end.sees("what was read", end.data(1, bytes, bytes, bytes), "as sent");
  end.meet();
}

void sends(End& end, std::uint32_t bytes) {
  end.connect();
  if (end.active()) {
    end.fill(2);
    end.meet();
    need(end.post(Send{.opcode = IBV_WR_SEND, .bytes = bytes}), "ibv_post_send");
    end.sees("the send", end.next(), "1 SUCCESS SEND");
    return;
  }
  need(end.post(Receive{.id = 2, .bytes = bytes}), "ibv_post_recv");
  end.meet();
  end.sees("the receive", end.next(), "2 SUCCESS RECV " + std::to_string(bytes) + " bytes");
  end.sees("the bytes", end.data(2, 0, bytes), "as sent");
}

/// Posts one work request with no bytes; both ends know what it leaves.
void empty(End& end, ibv_wr_opcode opcode, const std::string& at_poster, const std::string& at_peer) {
  end.connect();
  if (!end.active()) need(end.post(Receive{.id = 2}), "ibv_post_recv");
  end.meet();
  if (end.active()) {
    // A key that is none: no byte needs it.
    need(end.post(Send{.opcode = opcode, .bytes = 0, .imm = 5, .rkey = 0, .list = std::vector<ibv_sge>{}}),
         "ibv_post_send");
    end.sees("at the poster", end.next(), at_poster);
  }
  end.meet();
  if (!end.active()) end.sees("at the peer", at_peer == "none" ? end.there() : end.next(), at_peer);
}

const Contract kLengthContracts[] = {
    {"a send may be empty", "ibv_post_send(3): num_sge may be 0",
     [](End& end) { empty(end, IBV_WR_SEND, "1 SUCCESS SEND", "2 SUCCESS RECV 0 bytes"); }},
    {"a write may be empty and then needs no key", "InfiniBand Architecture, volume 1, C9-88",
     [](End& end) { empty(end, IBV_WR_RDMA_WRITE, "1 SUCCESS RDMA_WRITE", "none"); }},
    {"a write with immediate may be empty", "InfiniBand Architecture, volume 1, C9-88",
     [](End& end) {
       empty(end, IBV_WR_RDMA_WRITE_WITH_IMM, "1 SUCCESS RDMA_WRITE", "2 SUCCESS RECV_RDMA_WITH_IMM 0 bytes imm 0x5");
     }},
    {"a read may be empty and then needs no key", "InfiniBand Architecture, volume 1, C9-88",
     [](End& end) { empty(end, IBV_WR_RDMA_READ, "1 SUCCESS RDMA_READ 0 bytes", "none"); }},
    {"one packet is filled to its last byte", "ibv_modify_qp(3): path_mtu", [](End& end) { sends(end, 1024); }},
    {"one byte more than a packet is two packets", "ibv_modify_qp(3): path_mtu", [](End& end) { sends(end, 1025); }},
    {"one byte is a message", "ibv_post_send(3)", [](End& end) { sends(end, 1); }},
    {"odd lengths come as they are, without padding", "InfiniBand Architecture, volume 1, 9.2: PadCnt",
     [](End& end) { sends(end, 4099); }},
    {"a message is cut into packets of the path MTU", "ibv_modify_qp(3): path_mtu",
     [](End& end) { there_and_back(end, {.path_mtu = IBV_MTU_256}, 10'000); }},
    {"a mebibyte goes there and back", "ibv_post_send(3)",
     [](End& end) { there_and_back(end, {.memory_bytes = 2 << 20}, 1 << 20); }},
    {"a message beyond the port's longest is a length error", "ibv_query_port(3): max_msg_sz; IBV_WC_LOC_LEN_ERR",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       ibv_port_attr port{};
       need(ibv_query_port(end.context, 1, &port), "ibv_query_port");
       // One region of 8 MiB, named as often as it takes.
       constexpr std::uint32_t kPiece = 8U << 20U;
       const std::size_t bytes = port.max_msg_sz < kPiece ? kPiece : port.max_msg_sz + std::size_t{1};
       void* large = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
       need(large != MAP_FAILED ? large : nullptr, "mmap");
       ibv_mr* mr = ibv_reg_mr(end.pd, large, bytes, IBV_ACCESS_LOCAL_WRITE);
       need(mr, "ibv_reg_mr");
       const std::vector<ibv_sge> list{
           {reinterpret_cast<std::uint64_t>(large), static_cast<std::uint32_t>(bytes), mr->lkey}};
       const int posted = end.post(Send{.list = list});
       end.sees("post", answer(posted), "0");
       end.sees("the write", end.next(), "1 LOC_LEN_ERR",
                {"1 REM_ACCESS_ERR",
                 "rdma-core 44, providers/rxe/rxe.c, validate_send_wr, and drivers/infiniband/sw/rxe/"
                 "rxe_req.c do not look at max_msg_sz; the peer's region is what is too short"});
       end.sees("state", end.state(), "ERR");
       need(ibv_dereg_mr(mr), "ibv_dereg_mr");
       need(::munmap(large, bytes), "munmap");
     }},
};

}  // namespace

std::span<const Contract> length_contracts() { return kLengthContracts; }

}  // namespace meshbed::contract
