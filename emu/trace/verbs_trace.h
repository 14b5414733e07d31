#pragma once
// Verbs trace: libmeshbed-verbs-trace.so sees what a process asks of the real rdma-core, work request by work request.
//
// Loaded with RTLD_GLOBAL before the net plugin, its ibv_open_device(), ibv_modify_qp() and ibv_destroy_qp() come
// before rdma-core's own in the symbol lookup; each hands on to the real one. ibv_post_send() and ibv_poll_cq() are
// inline calls through the context's table (infiniband/verbs.h), where an opened device's entries are replaced. Nothing
// is changed on the way: same arguments, same results. Cost: a lock and some 100 ns for each work request and
// completion.
//
// Thread-safe. Records are kept until they are taken.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct meshbed_traced_qp {
  char device[64];
  uint32_t port, number, remote_number;
  uint8_t gid[16], remote_gid[16]; /* as in the address vector that brought it to RTR; all zero before */
};

struct meshbed_traced_message {
  uint32_t qp;       /* index of its queue pair, in the order of meshbed_verbs_trace_qps() */
  uint32_t opcode;   /* ibv_wr_opcode */
  uint32_t status;   /* ibv_wc_status; UINT32_MAX: not completed */
  uint32_t sequence; /* on its queue pair, from 0 */
  uint64_t bytes;
  uint32_t immediate;              /* in host order; 0 where the opcode has none */
  int64_t posted_ns, completed_ns; /* CLOCK_MONOTONIC; completed_ns -1: not completed */
};

/* How many there are, and at most `room` of them from the first on. Valid any time. */
size_t meshbed_verbs_trace_qps(struct meshbed_traced_qp* out, size_t room);
size_t meshbed_verbs_trace_messages(struct meshbed_traced_message* out, size_t room);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
