#pragma once
// A reliable connected queue pair and its walk RESET -> INIT -> RTR -> RTS. man ibv_modify_qp(3).
// Errors of a step carry errno, the step and both ends; a step may take a second on real devices (ARP, ND).

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

#include "plugin/base/result.h"
#include "plugin/verbs/completion.h"
#include "plugin/verbs/device.h"
#include "plugin/verbs/gid.h"

namespace meshbed::verbs {

struct QueuePairDepths {
  std::uint32_t sends = 64;
  std::uint32_t receives = 64;
  std::uint32_t send_pieces = 1;   // memory ranges in one send
  std::uint32_t inline_bytes = 0;  // requested; inline_bytes() returns the granted size
};

/// What a queue pair belongs to.
struct QueuePairPort {
  std::uint8_t number = 1;
  std::uint16_t pkey_index = 0;
};

/// Where a queue pair leads and how patient it is.
struct QueuePairPath {
  std::uint8_t local_port = 1;
  std::uint32_t local_gid_index = 0;
  std::uint32_t local_psn = 0;  // 24 bits
  Gid remote_gid{};
  std::uint32_t remote_qp_number = 0;  // 24 bits
  std::uint32_t remote_psn = 0;
  std::uint8_t mtu = IBV_MTU_1024;  // the smaller one of both ends
  std::uint8_t timeout = 18;        // 4.096 us * 2^timeout
  std::uint8_t retries = 6;
  std::uint8_t rnr_retries = 7;  // 7: for ever
  std::uint8_t traffic_class = 0;
  std::uint8_t service_level = 0;
};

/// An RDMA write, for ibv_post_send(3).
struct WriteOptions {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;  // or with an immediate value
  unsigned flags = 0;                        // ibv_send_flags
  ibv_sge* piece = nullptr;                  // nullptr: no bytes
  std::uint32_t immediate = 0;               // in network order
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
};

/// Sets what a write has. The rest of the struct, most of it, is for other operations, and clearing it would cost more
/// than filling this in.
inline ibv_send_wr write_request(const WriteOptions& options) {
  ibv_send_wr work;
  work.wr_id = options.id;
  work.next = nullptr;
  work.sg_list = options.piece;
  work.num_sge = options.piece != nullptr ? 1 : 0;
  work.opcode = options.opcode;
  work.send_flags = options.flags;
  work.imm_data = options.immediate;
  work.wr.rdma.remote_addr = options.remote_address;
  work.wr.rdma.rkey = options.rkey;
  return work;
}

class QueuePair {
 public:
  /// In INIT: receives may be posted, but it does not reply to packets yet.
  static Result<QueuePair> create(const Device& device, const CompletionQueue& queue, const QueuePairPort& port,
                                  const QueuePairDepths& depths);

  /// INIT -> RTR -> RTS.
  Result<void> connect(const QueuePairPath& path);
  /// To ERR: everything that is posted is flushed.
  void abort();

  std::uint32_t number() const { return pair_->qp_num; }
  std::uint32_t inline_bytes() const { return inline_bytes_; }
  ibv_qp* raw() const { return pair_.get(); }

 private:
  struct Destroy {
    void operator()(ibv_qp* pair) const { ibv_destroy_qp(pair); }
  };
  Result<void> to_init(const QueuePairPort& port);
  Result<void> to_ready_to_receive(const QueuePairPath& path);
  Result<void> to_ready_to_send(const QueuePairPath& path);

  std::unique_ptr<ibv_qp, Destroy> pair_;
  std::string device_;
  std::uint32_t inline_bytes_ = 0;
};

}  // namespace meshbed::verbs
