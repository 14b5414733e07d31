#include "sim/verbs/completion.h"

#include <algorithm>
#include <cerrno>

#include "sim/host/file/descriptors.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

/// The queue pairs of a completion queue, one text for each.
std::string queue_pairs_of(const CompletionQueue& queue) {
  std::string text;
  system().queue_pairs.for_each([&](const QueuePair& qp) {
    if (qp.send_cq == &queue || qp.recv_cq == &queue) text += (text.empty() ? "" : "; ") + describe(qp);
  });
  return text.empty() ? "no queue pair" : text;
}

std::string describe_poller(std::uint64_t handle) {
  const CompletionQueue* queue = system().completion_queues.find(static_cast<std::uint32_t>(handle));
  if (queue == nullptr) return "a completion of a destroyed queue";
  return "a completion on CQ " + std::to_string(handle) + " of " + describe(system(), *queue->context) + ": " +
         queue_pairs_of(*queue);
}

std::string describe_channel(std::uint64_t handle) {
  const Channel* channel = system().channels.find(static_cast<std::uint32_t>(handle));
  if (channel == nullptr) return "an event of a destroyed channel";
  std::string text = "a completion event of " + describe(system(), *channel->context);
  system().completion_queues.for_each([&](const CompletionQueue& queue) {
    if (queue.channel == channel) text += ", CQ " + std::to_string(queue.handle) + ": " + queue_pairs_of(queue);
  });
  return text;
}

void announce(System& system, CompletionQueue& queue) {
  queue.armed = Armed::kNo;  // one shot, ibv_req_notify_cq(3)
  Channel& channel = *queue.channel;
  channel.events.push(queue.handle);
  set_readable(*channel.context->process, channel.fd, true);
  if (!channel.waiting.empty()) system.world.wake(*channel.waiting.front());
}

/// An overrun, as an event of its own: the code that completed the request is in the middle of its queue.
void fail_overrun(void*, std::uint64_t handle) {
  System& owner = system();
  CompletionQueue* queue = owner.completion_queues.find(static_cast<std::uint32_t>(handle));
  if (queue == nullptr) return;
  raise_event(owner, *queue->context, IBV_EVENT_CQ_ERR, queue->handle);
  owner.queue_pairs.for_each([&](QueuePair& qp) {
    if (qp.send_cq != queue && qp.recv_cq != queue) return;
    raise_event(owner, *qp.context, IBV_EVENT_QP_FATAL, qp.number);
    enter_error(owner, qp);
  });
}

void come_due(void*, std::uint64_t handle) {
  System& owner = system();
  CompletionQueue* queue = owner.completion_queues.find(static_cast<std::uint32_t>(handle));
  if (queue == nullptr || queue->late.empty()) return;
  const Completion completion = queue->late.front();
  queue->late.pop();
  if (!completion.forgotten) complete(owner, *queue, completion);
}

/// The work request's slot may be posted again (as drivers free it: when the completion is polled).
void reclaim(System& system, const Completion& completion) {
  QueuePair* qp = system.queue_pairs.find(completion.wc.qp_num);
  if (qp == nullptr) return;
  std::uint64_t& reclaimed = completion.send ? qp->send_reclaimed : qp->recv_reclaimed;
  reclaimed = std::max(reclaimed, completion.sequence + 1);
}

int drain(System& system, CompletionQueue& queue, int count, ibv_wc* completions) {
  int taken = 0;
  for (; taken < count && !queue.entries.empty(); ++taken) {
    const Completion& completion = queue.entries.front();
    completions[taken] = completion.wc;
    reclaim(system, completion);
    queue.entries.pop();
  }
  return taken;
}

}  // namespace

int create_channel(System& system, Context& context, std::uint32_t& handle, int& fd) {
  handle = system.channels.next();
  Channel& channel = system.channels.add(std::make_unique<Channel>());
  channel.handle = handle;
  channel.context = &context;
  channel.fd = fd = make_event_descriptor(*context.process);
  return 0;
}

int destroy_channel(System& system, Channel& channel) {
  if (channel.users != 0) return EBUSY;
  for (Thread* thread : channel.waiting) system.world.wake(*thread);
  close_descriptor(*channel.context->process, channel.fd);
  system.channels.remove(channel.handle);
  return 0;
}

int get_cq_event(System& system, std::uint32_t handle, std::uint32_t& queue) {
  for (;;) {
    Channel* channel = system.channels.find(handle);
    if (channel == nullptr) return EBADF;
    if (!channel->events.empty()) {
      queue = channel->events.front();
      channel->events.pop();
      if (channel->events.empty()) set_readable(*channel->context->process, channel->fd, false);
      system.world.note_activity();
      return 0;
    }
    if (is_nonblocking(*channel->context->process, channel->fd)) return EAGAIN;
    Thread* self = World::current();
    channel->waiting.push_back(self);
    system.world.block({.what = "ibv_get_cq_event", .object = handle, .describe = describe_channel});
    if (Channel* still = system.channels.find(handle)) std::erase(still->waiting, self);
  }
}

int create_cq(System& system, Context& context, int cqe, std::uint32_t channel_handle, std::uint32_t& handle,
              int& granted) {
  if (cqe < 1 || cqe > kCompletionsMax) return EINVAL;
  Channel* channel = nullptr;
  if (channel_handle != 0) {
    channel = system.channels.find(channel_handle);
    if (channel == nullptr || channel->context != &context) return EINVAL;
    ++channel->users;
  }
  handle = system.completion_queues.next();
  CompletionQueue& queue = system.completion_queues.add(std::make_unique<CompletionQueue>());
  queue.handle = handle;
  queue.context = &context;
  queue.channel = channel;
  queue.capacity = granted = cqe;
  return 0;
}

int resize_cq(CompletionQueue& queue, int cqe) {
  if (cqe < 1 || cqe > kCompletionsMax || static_cast<std::uint64_t>(cqe) < queue.entries.size()) return EINVAL;
  queue.capacity = cqe;
  return 0;
}

int destroy_cq(System& system, CompletionQueue& queue) {
  if (queue.users != 0) return EBUSY;
  forget_events(system, *queue.context, true, queue.handle);
  if (Channel* channel = queue.channel) {
    --channel->users;
    for (std::uint64_t left = channel->events.size(); left > 0; --left) {
      const std::uint32_t event = channel->events.front();
      channel->events.pop();
      if (event != queue.handle) channel->events.push(event);
    }
    if (channel->events.empty()) set_readable(*channel->context->process, channel->fd, false);
  }
  system.completion_queues.remove(queue.handle);
  return 0;
}

int req_notify_cq(CompletionQueue& queue, bool solicited_only) {
  const Armed wanted = solicited_only ? Armed::kSolicited : Armed::kAny;
  queue.armed = std::max(queue.armed, wanted);
  return 0;
}

int poll_cq(System& system, std::uint32_t handle, int count, ibv_wc* completions) {
  CompletionQueue* queue = system.completion_queues.find(handle);
  if (queue == nullptr || count < 0) return -1;
  if (queue->entries.empty() && count > 0) {
    if (queue->failed) return -1;
    if (!system.world.spin({"completion queue", handle},
                           {.what = "ibv_poll_cq", .object = handle, .describe = describe_poller}))
      return 0;
    queue = system.completion_queues.find(handle);  // another thread may have destroyed it meanwhile
    if (queue == nullptr) return -1;
  }
  const int taken = drain(system, *queue, count, completions);
  if (taken > 0) system.world.note_activity();
  return taken;
}

void complete(System& system, CompletionQueue& queue, const Completion& completion) {
  if (queue.failed) return;
  if (queue.entries.size() == static_cast<std::uint64_t>(queue.capacity)) {
    queue.failed = true;
    system.world.after(0, queue.context->port.node, fail_overrun, nullptr, queue.handle);
    return;
  }
  queue.entries.push(completion);
  const bool announced = completion.solicited || completion.wc.status != IBV_WC_SUCCESS;
  if (queue.armed == Armed::kAny || (queue.armed == Armed::kSolicited && announced)) {
    queue.channel != nullptr ? announce(system, queue) : void(queue.armed = Armed::kNo);
  }
  deliver(system, *queue.context->process);
}

void complete_after_hop(System& system, CompletionQueue& queue, const Completion& completion) {
  const auto rank = static_cast<std::size_t>(queue.context->process->rank);
  const Picoseconds hop_ps = rank < system.hops_ps.size() ? system.hops_ps[rank] : 0;
  if (hop_ps == 0 && queue.late.empty()) return complete(system, queue, completion);
  const Picoseconds now_ps = system.world.now();
  const Picoseconds before_ps = queue.late.empty() ? now_ps : queue.late_ps;
  queue.late_ps = std::max(now_ps + hop_ps, before_ps);
  queue.late.push(completion);
  system.world.after(queue.late_ps - now_ps, queue.context->port.node, come_due, nullptr, queue.handle);
}

void forget_late(CompletionQueue& queue, std::uint32_t number) {
  for (std::uint64_t at = queue.late.begin(); at != queue.late.end(); ++at) {
    Completion& completion = queue.late[at];
    completion.forgotten = completion.forgotten || completion.wc.qp_num == number;
  }
}

}  // namespace meshbed::sim::verbs
