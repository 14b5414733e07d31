#pragma once
// Objects that the drop-in hands to programs: rdma-core's public structs first (their layout is the ABI), then what the
// drop-in itself must remember. Owned by the program, through the verbs that create and destroy them.
//
// verbs.h turns some exported verbs into macros; the drop-in defines the functions behind them, hence the #undefs.

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "sim/verbs/backend.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace meshbed::dropin {

/// One entry of a device list; shared by the lists and contexts that show it.
struct Device {
  ibv_device base{};
  int index = 0;       // in the back end's enumeration order
  int references = 0;  // lists and open contexts
};

struct CompletionQueue;
struct QueuePair;

struct Context {
  Device* device = nullptr;
  std::uint32_t handle = 0;
  std::vector<CompletionQueue*> completion_queues;  // to find them by the handles and numbers in events
  std::vector<QueuePair*> queue_pairs;
  verbs_context verbs{};  // inline verbs reach us through its tables
};

struct CompletionQueue {
  ibv_cq base{};
  std::uint32_t completion_events = 0;  // got from a channel; base.comp_events_completed counts the acknowledged
  std::uint32_t async_events = 0;
};

struct QueuePair {
  ibv_qp base{};
  bool signal_all = false;
  std::uint32_t async_events = 0;
};

struct Channel {
  ibv_comp_channel base{};
  std::uint32_t handle = 0;
};

Context& context_of(ibv_context* context);
inline CompletionQueue& queue_of(ibv_cq* cq) { return *reinterpret_cast<CompletionQueue*>(cq); }
inline QueuePair& pair_of(ibv_qp* qp) { return *reinterpret_cast<QueuePair*>(qp); }
inline Channel& channel_of(ibv_comp_channel* channel) { return *reinterpret_cast<Channel*>(channel); }

// The verbs that verbs.h calls through ibv_context::ops and verbs_context.
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int poll_cq(ibv_cq* cq, int count, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                    std::size_t size);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

/// Puts an answer (EOPNOTSUPP, one WARN) into every slot that the drop-in does not implement.
void refuse_the_rest(verbs_context& context);

}  // namespace meshbed::dropin
