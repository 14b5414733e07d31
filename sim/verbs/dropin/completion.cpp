// Completion channels and queues: ibv_create_comp_channel(3), ibv_create_cq(3), ibv_get_cq_event(3), ibv_resize_cq(3).
//
// rdma-core lets ibv_destroy_cq wait for events that were got and not yet acknowledged. A wait inside this library
// would stop simulated time, so the same situation returns EBUSY here.

#include <algorithm>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

using namespace meshbed::dropin;

MESHBED_VERB ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* channel = new Channel;
  channel->base.context = context;
  if (const int error = backend().create_channel(context_of(context).handle, &channel->handle, &channel->base.fd)) {
    delete channel;
    return null_with<ibv_comp_channel>(error);
  }
  return &channel->base;
}

MESHBED_VERB int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt != 0) return EBUSY;
  if (const int error = backend().destroy_channel(channel_of(channel).handle)) return error;
  delete &channel_of(channel);
  return 0;
}

MESHBED_VERB ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                                   int comp_vector) {
  if (comp_vector < 0 || comp_vector >= context->num_comp_vectors) return null_with<ibv_cq>(EINVAL);
  auto* queue = new CompletionQueue;
  queue->base.context = context;
  queue->base.channel = channel;
  queue->base.cq_context = cq_context;
  const std::uint32_t channel_handle = channel != nullptr ? channel_of(channel).handle : 0;
  if (const int error =
          backend().create_cq(context_of(context).handle, cqe, channel_handle, &queue->base.handle, &queue->base.cqe)) {
    delete queue;
    return null_with<ibv_cq>(error);
  }
  if (channel != nullptr) ++channel->refcnt;
  context_of(context).completion_queues.push_back(queue);
  return &queue->base;
}

MESHBED_VERB int ibv_resize_cq(ibv_cq* cq, int cqe) {
  if (const int error = backend().resize_cq(cq->handle, cqe)) return error;
  cq->cqe = cqe;
  return 0;
}

MESHBED_VERB int ibv_destroy_cq(ibv_cq* cq) {
  CompletionQueue& queue = queue_of(cq);
  if (queue.completion_events != cq->comp_events_completed || queue.async_events != cq->async_events_completed) {
    return EBUSY;
  }
  if (const int error = backend().destroy_cq(cq->handle)) return error;
  if (cq->channel != nullptr) --cq->channel->refcnt;
  std::erase(context_of(cq->context).completion_queues, &queue);
  delete &queue;
  return 0;
}

MESHBED_VERB int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  std::uint32_t handle = 0;
  if (const int error = backend().get_cq_event(channel_of(channel).handle, &handle)) return minus_one_with(error);
  const auto& queues = context_of(channel->context).completion_queues;
  const auto found = std::find_if(queues.begin(), queues.end(),
                                  [&](const CompletionQueue* queue) { return queue->base.handle == handle; });
  if (found == queues.end()) return minus_one_with(EINVAL);
  ++(*found)->completion_events;
  *cq = &(*found)->base;
  *cq_context = (*cq)->cq_context;
  return 0;
}

MESHBED_VERB void ibv_ack_cq_events(ibv_cq* cq, unsigned count) { cq->comp_events_completed += count; }

namespace meshbed::dropin {

int poll_cq(ibv_cq* cq, int count, ibv_wc* completions) { return backend().poll_cq(cq->handle, count, completions); }

int req_notify_cq(ibv_cq* cq, int solicited_only) { return backend().req_notify_cq(cq->handle, solicited_only); }

}  // namespace meshbed::dropin
