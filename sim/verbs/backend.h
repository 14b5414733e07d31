#pragma once
// The small table between the drop-in libibverbs.so.1 and a simulator.
//
// The drop-in owns everything that rdma-core's ABI fixes (struct layouts, versioned symbols, ops tables); the back end
// that fills the table owns the semantics. Today the in-process back end (sim/verbs, ranks are simulated threads of
// this process) fills it; a remote one (another process, shared memory) fits behind the same table. The records are
// plain data of fixed size for that reason, and all pointers in them are addresses in the calling rank's memory.
//
// Every call acts for the rank that is running. Returns are 0 or an errno value unless stated.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace meshbed::sim {

inline constexpr std::uint32_t kBackendVersion = 2;
inline constexpr int kBackendMaxSge = 16;
inline constexpr std::uint32_t kBackendMaxInline = 256;

struct BackendSge {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t lkey;
};

struct BackendSendWr {
  std::uint64_t wr_id;
  std::uint32_t opcode;      // ibv_wr_opcode
  std::uint32_t send_flags;  // ibv_send_flags
  std::uint32_t imm_data;    // network order, as in ibv_send_wr
  std::uint32_t rkey;
  std::uint64_t remote_address;
  std::uint64_t compare_add;
  std::uint64_t swap;
  std::uint32_t sge_count;
  std::uint32_t inline_bytes;  // > 0 or IBV_SEND_INLINE: the data stand in `inline_data`, sge unused
  BackendSge sge[kBackendMaxSge];
  const void* inline_data;  // valid during the call
};

struct BackendRecvWr {
  std::uint64_t wr_id;
  std::uint32_t sge_count;
  BackendSge sge[kBackendMaxSge];
};

struct BackendQpInit {
  std::uint32_t qp_type;  // ibv_qp_type
  std::uint32_t send_cq, recv_cq, pd;
  std::uint32_t srq;  // 0: none
  bool signal_all;
  ibv_qp_cap cap;  // in: asked for; out: granted
};

struct BackendAsyncEvent {
  std::uint32_t type;    // ibv_event_type
  std::uint32_t object;  // QP number, CQ handle or port number
};

struct VerbsBackend {
  std::uint32_t version;  // kBackendVersion
  std::uint32_t size;     // sizeof(VerbsBackend)

  // devices; `device` is an index 0..device_count-1 in enumeration order
  int (*device_count)();
  const char* (*device_name)(int device);
  std::uint64_t (*device_guid)(int device);  // network order
  int (*query_device)(int device, ibv_device_attr* attr);
  int (*query_port)(int device, std::uint8_t port, ibv_port_attr* attr);
  int (*query_gid)(int device, std::uint8_t port, int index, ibv_gid_entry* entry);  // ENODATA: empty entry
  int (*open_device)(int device, std::uint32_t* context);
  int (*close_device)(std::uint32_t context);
  int (*get_async_event)(std::uint32_t context, bool block,
                         BackendAsyncEvent* event);  // EAGAIN where it must not block
  int (*async_fd)(std::uint32_t context);            // a simulated descriptor for poll() and fcntl()

  // objects; handles are never 0
  int (*alloc_pd)(std::uint32_t context, std::uint32_t* pd);
  int (*dealloc_pd)(std::uint32_t pd);
  int (*reg_mr)(std::uint32_t pd, std::uint64_t address, std::uint64_t length, std::uint64_t iova, unsigned access,
                std::uint32_t* lkey, std::uint32_t* rkey);
  int (*reg_dmabuf_mr)(std::uint32_t pd, std::uint64_t offset, std::uint64_t length, std::uint64_t iova, int fd,
                       unsigned access, std::uint32_t* lkey, std::uint32_t* rkey);
  int (*dereg_mr)(std::uint32_t lkey);
  int (*create_channel)(std::uint32_t context, std::uint32_t* channel, int* fd);
  int (*destroy_channel)(std::uint32_t channel);
  int (*get_cq_event)(std::uint32_t channel, std::uint32_t* cq);  // blocks unless the fd is non-blocking (EAGAIN)
  int (*create_cq)(std::uint32_t context, int cqe, std::uint32_t channel, std::uint32_t* cq, int* granted);
  int (*resize_cq)(std::uint32_t cq, int cqe);
  int (*destroy_cq)(std::uint32_t cq);
  int (*req_notify_cq)(std::uint32_t cq, int solicited_only);
  int (*poll_cq)(std::uint32_t cq, int count, ibv_wc* completions);  // number of completions, or -1
  int (*create_qp)(BackendQpInit* init, std::uint32_t* qp_num);
  int (*modify_qp)(std::uint32_t qp_num, const ibv_qp_attr* attr, int mask);
  int (*query_qp)(std::uint32_t qp_num, ibv_qp_attr* attr, ibv_qp_init_attr* init);  // handles in init are not set
  int (*destroy_qp)(std::uint32_t qp_num);
  int (*post_send)(std::uint32_t qp_num, const BackendSendWr* wr);
  int (*post_recv)(std::uint32_t qp_num, const BackendRecvWr* wr);

  /// Called once for each verb that is not implemented, with its name: logs one WARN.
  void (*unsupported)(const char* verb);
};

/// Exported by the drop-in (version node MESHBED_1). Must be called before any verb.
/// extern "C" int meshbed_verbs_set_backend(const VerbsBackend* backend);   0, or EINVAL on a version mismatch
inline constexpr const char* kSetBackendSymbol = "meshbed_verbs_set_backend";

}  // namespace meshbed::sim
