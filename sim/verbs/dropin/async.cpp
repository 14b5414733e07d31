// Asynchronous events: ibv_get_async_event(3).

#include <algorithm>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {
namespace {

bool about_queue_pair(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return true;
    default:
      return false;
  }
}

/// Interleaver the back end's number into the object that the program knows; false where it is gone.
bool translate(Context& context, const sim::BackendAsyncEvent& from, ibv_async_event& event) {
  event.event_type = static_cast<ibv_event_type>(from.type);
  if (about_queue_pair(event.event_type)) {
    const auto found = std::find_if(context.queue_pairs.begin(), context.queue_pairs.end(),
                                    [&](const QueuePair* pair) { return pair->base.qp_num == from.object; });
    if (found == context.queue_pairs.end()) return false;
    ++(*found)->async_events;
    event.element.qp = &(*found)->base;
  } else if (event.event_type == IBV_EVENT_CQ_ERR) {
    const auto found = std::find_if(context.completion_queues.begin(), context.completion_queues.end(),
                                    [&](const CompletionQueue* queue) { return queue->base.handle == from.object; });
    if (found == context.completion_queues.end()) return false;
    ++(*found)->async_events;
    event.element.cq = &(*found)->base;
  } else {
    event.element.port_num = static_cast<int>(from.object);
  }
  return true;
}

}  // namespace
}  // namespace meshbed::dropin

using namespace meshbed::dropin;

MESHBED_VERB int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  for (;;) {
    meshbed::sim::BackendAsyncEvent next{};
    if (const int error = backend().get_async_event(context_of(context).handle, true, &next)) {
      return minus_one_with(error);
    }
    if (translate(context_of(context), next, *event)) return 0;
  }
}

MESHBED_VERB void ibv_ack_async_event(ibv_async_event* event) {
  if (about_queue_pair(event->event_type)) {
    ++event->element.qp->events_completed;
  } else if (event->event_type == IBV_EVENT_CQ_ERR) {
    ++event->element.cq->async_events_completed;
  }
}
