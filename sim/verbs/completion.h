#pragma once
// Completion: completion queues and the channels that announce them (ibv_create_cq(3), ibv_req_notify_cq(3)).

#include <infiniband/verbs.h>

#include <cstdint>
#include <vector>

#include "sim/engine/world.h"
#include "sim/verbs/pools.h"

namespace meshbed::sim::verbs {

struct System;
struct Context;

struct Channel {
  std::uint32_t handle = 0;
  Context* context = nullptr;
  int fd = -1;
  int users = 0;               // completion queues
  Ring<std::uint32_t> events;  // handles of completion queues
  std::vector<Thread*> waiting;
};

/// A completion, and which work request's slot it gives back once it is polled.
struct Completion {
  ibv_wc wc;
  std::uint64_t sequence;  // of the work request on its queue
  bool send;               // the send queue's; otherwise the receive queue's
  bool solicited;
  bool forgotten = false;  // not to be shown
};

/// All else zero: of a failed completion only wr_id, status, qp_num and vendor_err are valid (ibv_poll_cq(3)).
inline ibv_wc wc_with(ibv_wc_status status) {
  ibv_wc wc{};
  wc.status = status;
  return wc;
}

enum class Armed : std::uint8_t { kNo, kSolicited, kAny };

struct CompletionQueue {
  std::uint32_t handle = 0;
  Context* context = nullptr;
  Channel* channel = nullptr;
  int capacity = 0;
  int users = 0;  // queue pairs, counted once for each of their two queues
  Armed armed = Armed::kNo;
  bool failed = false;  // overrun: takes no more, and cannot be used once it is drained
  Ring<Completion> entries;
  // Completions of arrived messages that are still a hop away from the poller (set_hop); the last comes at late_ps.
  Ring<Completion> late;
  Picoseconds late_ps = 0;
};

int create_channel(System& system, Context& context, std::uint32_t& handle, int& fd);
int destroy_channel(System& system, Channel& channel);
int get_cq_event(System& system, std::uint32_t channel, std::uint32_t& queue);

int create_cq(System& system, Context& context, int cqe, std::uint32_t channel, std::uint32_t& handle, int& granted);
int resize_cq(CompletionQueue& queue, int cqe);
int destroy_cq(System& system, CompletionQueue& queue);
int req_notify_cq(CompletionQueue& queue, bool solicited_only);
/// May let simulated time pass where there is nothing. The number of completions, or -1.
int poll_cq(System& system, std::uint32_t queue, int count, ibv_wc* completions);

/// Adds a completion and wakes waiting threads. On an overrun the queue fails: IBV_EVENT_CQ_ERR, its queue pairs to
/// ERR.
void complete(System& system, CompletionQueue& queue, const Completion& completion);
/// The same of a receive: a hop later where the rank has one, and never before an earlier one.
void complete_after_hop(System& system, CompletionQueue& queue, const Completion& completion);
/// For queue pair `number`, which is destroyed or reset: completions that are a hop away are never shown. A program
/// that drains a queue, destroys the queue pair and frees what its wr_ids name must find nothing of it later; libraries
/// differ in whether completions that are in the queue already stay (here; rxe) or go (mlx5: mlx5_destroy_qp calls
/// __mlx5_cq_clean).
void forget_late(CompletionQueue& queue, std::uint32_t number);

}  // namespace meshbed::sim::verbs
