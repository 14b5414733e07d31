// Memory regions: what can be registered, and under which name and key it is used.

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

std::string registered(End& end, void* address, std::size_t bytes, int access) {
  ibv_mr* mr = ibv_reg_mr(end.pd, address, bytes, access);
  const std::string seen = answer(mr);
  if (mr != nullptr) need(ibv_dereg_mr(mr), "ibv_dereg_mr");
  return seen;
}

const Contract kMemoryContracts[] = {
    {"memory that peers may write is writable here too", "ibv_reg_mr(3): IBV_ACCESS_LOCAL_WRITE must be set too",
     [](End& end) {
       end.open();
       char* bytes = end.memory.data();
       end.sees("remote write alone", registered(end, bytes, 64, IBV_ACCESS_REMOTE_WRITE), "EINVAL");
       end.sees("remote atomics alone", registered(end, bytes, 64, IBV_ACCESS_REMOTE_ATOMIC), "EINVAL");
       end.sees("remote read alone", registered(end, bytes, 64, IBV_ACCESS_REMOTE_READ), "object");
       end.sees("nothing but local reads", registered(end, bytes, 64, 0), "object");
     }},
    {"a region of no bytes is refused", "ibv_reg_mr(3); Linux ib_umem_get",
     [](End& end) {
       end.open();
       end.sees("0 bytes", registered(end, end.memory.data() + 64, 0, IBV_ACCESS_LOCAL_WRITE), "EINVAL",
                {"object",
                 "drivers/infiniband/core/umem.c, ib_umem_get, refuses no pages, and include/rdma/ib_umem.h, "
                 "ib_umem_num_pages, counts one where the address is inside a page; rxe takes it so"});
     }},
    {"memory that is not there cannot be registered", "ibv_reg_mr(3); Linux ib_umem_get, pin_user_pages_fast",
     [](End& end) {
       end.open();
       constexpr std::size_t kBytes = 4096;
       void* gone = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
       need(gone != MAP_FAILED ? gone : nullptr, "mmap");
       need(::munmap(gone, kBytes), "munmap");
       end.sees("unmapped", registered(end, gone, kBytes, IBV_ACCESS_LOCAL_WRITE), "EFAULT");
     }},
    {"demand paging is refused where the device has none", "ibv_reg_mr(3); Linux ib_check_mr_access",
     [](End& end) {
       end.open();
       end.sees("on demand", registered(end, end.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
                "EINVAL");
     }},
    {"optional access flags may be asked of any device", "ibv_reg_mr(3): IBV_ACCESS_RELAXED_ORDERING",
     [](End& end) {
       end.open();
       end.sees("relaxed ordering",
                registered(end, end.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING), "object");
     }},
    {"two regions over the same bytes have two keys", "ibv_reg_mr(3)",
     [](End& end) {
       end.open();
       ibv_mr* other = ibv_reg_mr(end.pd, end.memory.data(), 64, static_cast<int>(kAllAccess));
       need(other, "ibv_reg_mr");
       end.sees("different", yes_or_no(other->lkey != end.mr->lkey && other->rkey != end.mr->rkey), "yes");
       end.sees("it knows its memory",
                yes_or_no(other->addr == end.memory.data() && other->length == 64 && other->pd == end.pd &&
                          other->context == end.context),
                "yes");
       need(ibv_dereg_mr(other), "ibv_dereg_mr");
     }},
    {"a region is used by the address that it was given", "ibv_reg_mr(3): ibv_reg_mr_iova",
     [](End& end) {
       end.connect();
       // The page offset stays, as devices that map pages need it.
       const std::uint64_t iova = 0x700000000000 + (end.peer.address & 0xfffU);
       if (!end.active()) {
         const std::uint64_t own = 0x700000000000 + (reinterpret_cast<std::uint64_t>(end.memory.data()) & 0xfffU);
         ibv_mr* renamed = ibv_reg_mr_iova(end.pd, end.memory.data(), end.memory.size(), own, kAllAccess);
         need(renamed, "ibv_reg_mr_iova");
         end.handshake().swap(renamed->rkey);
         end.meet();
         end.sees("the bytes", end.data(3, 128, 64), "as sent");
         need(ibv_dereg_mr(renamed), "ibv_dereg_mr");
         return;
       }
       const std::uint32_t rkey = end.handshake().swap(std::uint32_t{0});
       end.fill(3);
       end.peer.address = iova;
       need(end.post(Send{.from = 128, .to = 128, .rkey = rkey}), "ibv_post_send");
       end.sees("write", end.next(), "1 SUCCESS RDMA_WRITE");
       end.meet();
     }},
};

}  // namespace

std::span<const Contract> memory_contracts() { return kMemoryContracts; }

}  // namespace meshbed::contract
