// Events: cuEvent*, cuStreamWaitEvent. An event is the last work of a stream at the time of its recording.

#include <algorithm>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// cuda.h's CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL: a node of the graph that the stream records, and
/// nothing outside of a recording.
constexpr unsigned kExternal = 1;

CUresult with_event(Event* handle, Caller& caller) {
  caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  return caller.driver->events.find(handle) != nullptr ? kSuccess : kInvalidHandle;
}

/// Recorded work cannot be waited for; an H200 then treats the recording as lost.
CUresult spoil_recording(Event& event) {
  event.capture->invalid = true;
  return kCapturedEvent;
}

}  // namespace

CUresult cuEventCreate(Event** event, unsigned flags) {
  constexpr unsigned kKnown = kEventBlockingSync | kEventDisableTiming | kEventInterprocess;
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (event == nullptr || (flags & ~kKnown) != 0) return kInvalidValue;
  auto made = std::make_unique<Event>();
  if ((flags & kEventInterprocess) != 0) {
    if ((flags & kEventDisableTiming) == 0) return kInvalidValue;
    if (!host().has_neighbours()) return refuse("cuEventCreate of an event that processes share");
    made->shared = std::make_shared<WorkRef>();
    made->id = system().next_id++;
  }
  made->context = caller.context;
  made->flags = flags;
  *event = caller.driver->events.add(std::move(made));
  return kSuccess;
}

CUresult cuEventDestroy_v2(Event* event) {
  Caller caller;
  if (const CUresult error = with_event(event, caller)) return error;
  caller.driver->events.remove(event);
  return kSuccess;
}

CUresult cuEventRecordWithFlags(Event* event, Stream* handle, unsigned flags) {
  Caller caller;
  if (const CUresult error = with_event(event, caller)) return error;
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr || stream->context != event->context) return kInvalidHandle;
  if (flags > kExternal || (flags == kExternal && stream->capture == nullptr)) return kInvalidValue;
  if (flags == kExternal) return record_node(*stream, {.task = Marker{}, .recorded = event});
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return kStreamCaptureInvalidated;
    event->capture = stream->capture;
    event->capture_tails = stream->capture_tails;
    return kSuccess;
  }
  event->capture = nullptr;
  return submit(*stream, Marker{}, 0, &event->last());
}

CUresult cuEventRecord(Event* event, Stream* stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuStreamWaitEvent(Stream* handle, Event* event, unsigned flags) {
  Caller caller;
  if (const CUresult error = with_event(event, caller)) return error;
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (flags > kExternal || (flags == kExternal && stream->capture == nullptr)) return kInvalidValue;
  if (flags == kExternal) return record_node(*stream, {.task = Marker{}, .awaited = event});
  if (event->capture != nullptr) {
    if (event->capture->graph == nullptr) return kCapturedEvent;  // the recording has ended
    if (stream == stream->context->legacy.get()) {                // which cannot be recorded
      event->capture->invalid = true;
      return kStreamCaptureImplicit;
    }
    // The stream joins the recording.
    if (stream->capture != nullptr && stream->capture != event->capture) return 902;  // STREAM_CAPTURE_MERGE
    stream->capture = event->capture;
    for (const std::size_t tail : event->capture_tails) {
      if (std::find(stream->capture_tails.begin(), stream->capture_tails.end(), tail) == stream->capture_tails.end()) {
        stream->capture_tails.push_back(tail);
      }
    }
    return kSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return 905;  // STREAM_CAPTURE_ISOLATION: an event from outside of the recording
  }
  if (conflicts_with_capture(*stream)) return refuse_in_capture(*stream);
  const WorkRef recorded = event->last();
  if (recorded == nullptr || recorded->ended()) return kSuccess;
  const WorkRef wait = make_work(*stream->context, Marker{}, 0);
  put_before(stream->tail, wait);
  put_before(recorded, wait);
  stream->tail = wait;
  release(wait);
  return kSuccess;
}

CUresult cuEventQuery(Event* event) {
  Caller caller;
  if (const CUresult error = with_event(event, caller)) return error;
  if (event->capture != nullptr) return spoil_recording(*event);
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  return poll(WorkRef(event->last()), "cuEventQuery") ? event->context->failure : kNotReady;
}

CUresult cuEventSynchronize(Event* event) {
  Caller caller;
  if (const CUresult error = with_event(event, caller)) return error;
  if (event->capture != nullptr) return spoil_recording(*event);
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  ++caller.driver->counters.stream_syncs;
  Context& context = *event->context;
  const WorkRef recorded = event->last();
  if (event->shared != nullptr && recorded != nullptr && recorded->ended()) {
    // Its context may be another process's, and gone.
    host().sleep(context.device->model->wake_ps);
    return context.failure;
  }
  wait_for(recorded, "cuEventSynchronize");
  return context.failure;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, Event* begin, Event* end) {
  Caller caller;
  if (const CUresult error = with_event(begin, caller)) return error;
  if (const CUresult error = with_event(end, caller)) return error;
  if (milliseconds == nullptr) return kInvalidValue;
  for (const Event* one : {begin, end}) {
    if (one->work == nullptr || (one->flags & kEventDisableTiming) != 0) return kInvalidHandle;
  }
  if (!begin->work->ended() || !end->work->ended()) return kNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(end->work->ended_ps - begin->work->ended_ps) /
                                     static_cast<double>(kPicosecondsPerMillisecond));
  return kSuccess;
}

CUresult cuEventElapsedTime(float* milliseconds, Event* begin, Event* end) {
  return cuEventElapsedTime_v2(milliseconds, begin, end);
}

}  // namespace meshbed::sim::cuda
