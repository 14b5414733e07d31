// Streams: cuStream*, cuLaunchHostFunc.
//
// Work in a stream runs after the earlier work in it. The legacy default stream runs after every blocking stream of its
// context, and they after it; it does not affect non-blocking streams.
//
// A device reads the work of streams from a few queues, each in order: work behind waiting work in the same queue waits
// too, also if it is of another stream. So the streams of a program delay each other if there are more of them than
// queues (CUDA_DEVICE_MAX_CONNECTIONS, 1 to 32, 8 without it: CUDA C++ Programming Guide 13.0, "CUDA Environment
// Variables"). This is the smallest model that reproduces an H200 (driver 580.159, CUDA 13.0) in this experiment: N
// streams each got a fill, an event, a wait for a word that did not come, and work after it; one more stream copied
// 1 MiB out and in, or ran two kernels:
//   behind the wait          N          one more stream's
//   fills                    6 to 40    copies go through; kernels do not (N of 40)
//   fills, copies out, in    8 to 40    copies and kernels do not, with any stream priority; nor with N of 40 and
//                                       32 queues, or N of 8 and one
//   the same                 8 to 40    in a context of its own: kernels go through, copies do not
//   copies out               20         copies and kernels do not
//   copies in (64 bytes)     20         copies go through, kernels do not
// Hence each context has queues for kernels, fills, waits and small copies in, which travel with the commands; and a
// program has some on a device for its copies out, and for larger ones in. Up to which size a copy in is small is a
// guess between 64 bytes and a MiB; so is that each stream has a queue of its own while there are enough. Graphs'
// works, copies inside a device and words that are written stand in no queue, since nothing of that was measured.

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// cuda.h's CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
bool is_legacy(const Stream* handle) { return reinterpret_cast<std::uintptr_t>(handle) <= 1; }
bool is_per_thread(const Stream* handle) { return reinterpret_cast<std::uintptr_t>(handle) == 2; }

bool is_blocking(const Stream& stream) { return (stream.flags & kStreamNonBlocking) == 0; }

constexpr std::size_t kQueues = 8, kQueuesMost = 32;
constexpr std::uint64_t kSmallCopyBytes = 64 << 10;

/// The one that the fewest streams have; all default streams have the first.
template <typename IndexOf>
std::size_t least_used_queue(const Context& context, bool of_all_contexts, std::size_t queues,
                             const IndexOf& index_of) {
  std::vector<int> used(queues, 0);
  used.front() = 1;
  for (const auto& one : context.driver->contexts) {
    if (one.get() != &context && (!of_all_contexts || one->device != context.device)) continue;
    for (const auto& stream : one->streams) ++used[index_of(*stream)];
  }
  return static_cast<std::size_t>(std::min_element(used.begin(), used.end()) - used.begin());
}

/// nullptr: the task needs none.
Queue* queue_of(const Stream& stream, const Task& task) {
  Context& context = *stream.context;
  if (const auto* copy = std::get_if<Copy>(&task)) {
    if (copy->engine == Engine::kInside || copy->between_hosts) return nullptr;
    CopyQueues& queues = context.driver->copy_queues[context.device];
    if (queues.out.empty()) {
      queues.in.resize(context.queues.size());
      queues.out.resize(context.queues.size());
    }
    if (copy->engine == Engine::kOut) return &queues.out[stream.copy_queue];
    const bool is_small = copy->width_bytes * copy->height * copy->depth <= kSmallCopyBytes;
    return is_small ? &context.queues[stream.queue] : &queues.in[stream.copy_queue];
  }
  const bool is_queued = std::holds_alternative<KernelLaunch>(task) || std::holds_alternative<Fill>(task) ||
                         std::holds_alternative<WaitValue>(task);
  return is_queued ? &context.queues[stream.queue] : nullptr;
}

Stream* make_stream(Context& context, unsigned flags, int priority) {
  const std::size_t queues = context.queues.size();
  const std::size_t queue = least_used_queue(context, false, queues, [](const Stream& one) { return one.queue; });
  const std::size_t copy_queue =
      least_used_queue(context, true, queues, [](const Stream& one) { return one.copy_queue; });
  Stream* stream = context.streams.emplace_back(std::make_unique<Stream>()).get();
  stream->context = &context;
  stream->queue = queue;
  stream->copy_queue = copy_queue;
  stream->id = system().next_id++;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kPriorityHighest, kPriorityLowest);
  return stream;
}

/// A recording in a blocking stream forbids the default stream, and is lost where it is used.
bool forbidden_by_capture(const Stream& stream) {
  if (!conflicts_with_capture(stream)) return false;
  for (const auto& one : stream.context->streams) {
    if (one->capture != nullptr && is_blocking(*one)) one->capture->invalid = true;
  }
  return true;
}

/// The value of `of` for the stream.
template <typename Value, typename Of>
CUresult answer_of(Stream* handle, Value* value, const Of& of) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (value == nullptr) return kInvalidValue;
  *value = of(*stream);
  return kSuccess;
}

}  // namespace

bool conflicts_with_capture(const Stream& stream) {
  const Context& context = *stream.context;
  return &stream == context.legacy.get() &&
         std::any_of(context.streams.begin(), context.streams.end(),
                     [](const auto& one) { return one->capture != nullptr && is_blocking(*one); });
}

CUresult with_stream(Stream* handle, Caller& caller, Stream*& stream) {
  caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  stream = find_stream(caller, handle);
  return stream != nullptr ? kSuccess : kInvalidHandle;
}

Stream* find_stream(const Caller& caller, Stream* handle) {
  Context& context = *caller.context;
  const bool means_own = handle == nullptr && caller.thread != nullptr && caller.thread->has_own_default;
  if (is_legacy(handle) && !means_own) return context.legacy.get();
  if (is_per_thread(handle) || means_own) {
    Stream*& own = context.per_thread[host().thread()];
    if (own == nullptr) own = make_stream(context, 0, 0);
    return own;
  }
  // As in CUDA, a stream of another context of the process is a stream all the same.
  for (const auto& one : caller.driver->contexts) {
    const bool has_it = std::any_of(one->streams.begin(), one->streams.end(),
                                    [handle](const auto& stream) { return stream.get() == handle; });
    if (has_it) return handle;
  }
  return nullptr;
}

// The device takes a queue's launches in order, so that the oldest one makes room first. Meanwhile another thread may
// destroy the stream.
Stream* find_stream_with_room(const Caller& caller, Stream* handle) {
  while (find_context(*caller.driver, caller.context) != nullptr) {
    Stream* stream = find_stream(caller, handle);
    if (stream == nullptr) return nullptr;
    auto& launches = stream->context->queues[stream->queue].launches;
    while (!launches.empty() && !launches.front()->is_pending()) launches.pop_front();
    if (launches.size() < caller.driver->pending_launches_most) return stream;
    wait_until_begun(WorkRef(launches.front()));
  }
  return nullptr;
}

std::size_t queues_of(const Driver& driver) {
  const auto& environment = host().environment_of(driver.process);
  const auto found = environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
  if (found == environment.end()) return kQueues;
  const std::string& text = found->second;
  std::size_t wanted = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), wanted);
  const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return is_number ? std::clamp<std::size_t>(wanted, 1, kQueuesMost) : kQueues;
}

CUresult record_node(Stream& stream, GraphNode node) {
  if (stream.capture->invalid) return kStreamCaptureInvalidated;
  node.before = stream.capture_tails;
  node.of_stream = true;
  node.id = system().next_id++;
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_unique<GraphNode>(std::move(node)));
  stream.capture_tails = {nodes.size() - 1};
  return kSuccess;
}

CUresult submit(Stream& stream, Task&& task, Picoseconds delay_ps, WorkRef* work) {
  if (forbidden_by_capture(stream)) return kStreamCaptureImplicit;
  if (stream.capture != nullptr) return record_node(stream, {.task = std::move(task)});
  Context& context = *stream.context;
  Queue* const queue = queue_of(stream, task);
  const bool is_launch = std::holds_alternative<KernelLaunch>(task);
  const WorkRef added = make_work(context, std::move(task), host().now() + delay_ps);
  added->stream_id = stream.id;
  put_before(stream.tail, added);
  if (&stream == context.legacy.get()) {
    for (const auto& other : context.streams) {
      if (is_blocking(*other)) put_before(other->tail, added);
    }
  } else if (is_blocking(stream)) {
    put_before(context.legacy->tail, added);
  }
  stream.tail = added;
  if (queue != nullptr) enqueue(added, *queue);
  if (is_launch) queue->launches.push_back(added);
  if (work != nullptr) *work = added;
  release(added);
  return kSuccess;
}

namespace {

void add_tails(const Context& context, std::vector<WorkRef>& tails) {
  tails.push_back(context.legacy->tail);
  for (const auto& stream : context.streams) tails.push_back(stream->tail);
}

/// Whether any was under way.
bool wait_for_each(const std::vector<WorkRef>& tails, const char* what) {
  bool busy = false;
  for (const WorkRef& tail : tails) {
    if (tail == nullptr || tail->ended()) continue;
    wait_for(tail, what);
    busy = true;
  }
  return busy;
}

}  // namespace

void wait_for_all(Context& context, const char* what) {
  std::vector<WorkRef> tails;
  add_tails(context, tails);
  wait_for_each(tails, what);
}

void wait_for_devices(Driver& driver, const Device* device, const char* what) {
  // A context may go while another one is waited for.
  std::vector<WorkRef> tails;
  for (const auto& context : driver.contexts) {
    if (device == nullptr || context->device == device) add_tails(*context, tails);
  }
  driver.counters.implicit_device_syncs += wait_for_each(tails, what) ? 1 : 0;
}

CUresult refuse_in_capture(Stream& stream) {
  if (forbidden_by_capture(stream)) return kStreamCaptureImplicit;
  if (stream.capture == nullptr) return kSuccess;
  stream.capture->invalid = true;
  return kStreamCaptureUnsupported;
}

CUresult cuStreamCreateWithPriority(Stream** stream, unsigned flags, int priority) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (stream == nullptr || (flags & ~kStreamNonBlocking) != 0) return kInvalidValue;
  *stream = make_stream(*caller.context, flags, priority);
  return kSuccess;
}

CUresult cuStreamCreate(Stream** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

// Returns at once, as documented: what is in the stream still happens.
CUresult cuStreamDestroy_v2(Stream* handle) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (is_legacy(handle) || is_per_thread(handle)) return kInvalidHandle;
  // One that joined a recording may go before the recording ends: what it gave is in the graph.
  if (stream->capture != nullptr && stream->capture->origin == stream) stream->capture->invalid = true;
  Context& context = *stream->context;
  // The default stream's next work comes after it as if it were still there.
  if (is_blocking(*stream) && stream->tail != nullptr && !stream->tail->ended()) {
    const WorkRef rest = make_work(context, Marker{}, 0);
    put_before(context.legacy->tail, rest);
    put_before(stream->tail, rest);
    context.legacy->tail = rest;
    release(rest);
  }
  std::erase_if(context.streams, [stream](const auto& one) { return one.get() == stream; });
  return kSuccess;
}

CUresult cuStreamSynchronize(Stream* handle) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (const CUresult error = refuse_in_capture(*stream)) return error;
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  ++caller.driver->counters.stream_syncs;
  Context& context = *stream->context;
  if (stream == context.legacy.get()) {
    wait_for(WorkRef(stream->tail), "cuStreamSynchronize");
    for (std::size_t index = 0; index < context.streams.size(); ++index) {
      const WorkRef tail = context.streams[index]->tail;
      if (is_blocking(*context.streams[index]) && tail != nullptr && !tail->ended()) {
        wait_for(tail, "cuStreamSynchronize of the default stream");
      }
    }
    return context.failure;
  }
  wait_for(WorkRef(stream->tail), "cuStreamSynchronize");
  return context.failure;
}

CUresult cuStreamQuery(Stream* handle) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (const CUresult error = refuse_in_capture(*stream)) return error;
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  Context& context = *stream->context;
  if (!poll(WorkRef(stream->tail), "cuStreamQuery")) return kNotReady;
  if (stream == context.legacy.get()) {
    const bool busy = std::any_of(context.streams.begin(), context.streams.end(), [](const auto& one) {
      return is_blocking(*one) && one->tail != nullptr && !one->tail->ended();
    });
    if (busy) return kNotReady;
  }
  return context.failure;
}

CUresult cuStreamGetFlags(Stream* handle, unsigned* flags) {
  return answer_of(handle, flags, [](const Stream& stream) { return stream.flags; });
}
CUresult cuStreamGetPriority(Stream* handle, int* priority) {
  return answer_of(handle, priority, [](const Stream& stream) { return stream.priority; });
}
CUresult cuStreamGetCtx(Stream* handle, Context** context) {
  return answer_of(handle, context, [](const Stream& stream) { return stream.context; });
}
CUresult cuStreamGetCtx_v2(Stream* handle, Context** context, void** green) {
  const CUresult error = cuStreamGetCtx(handle, context);
  if (error == kSuccess && green != nullptr) *green = nullptr;  // none is implemented, so that no stream is of one
  return error;
}
CUresult cuStreamGetId(Stream* handle, unsigned long long* id) {
  return answer_of(handle, id, [](const Stream& stream) { return stream.id; });
}
CUresult cuStreamGetDevice(Stream* handle, CUdevice* device) {
  return answer_of(handle, device, [](const Stream& stream) { return stream.context->ordinal; });
}

CUresult cuStreamAddCallback(Stream* handle, CUstreamCallback function, void* data, unsigned flags) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (function == nullptr || flags != 0) return kInvalidValue;
  if (stream->capture != nullptr) return refuse_in_capture(*stream);
  return submit(*stream, HostCall{.callback = function, .stream = handle, .data = data});
}

CUresult cuLaunchHostFunc(Stream* handle, CUhostFn function, void* data) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (function == nullptr) return kInvalidValue;
  return submit(*stream, HostCall{.function = function, .stream = handle, .data = data});
}

// Hints: stored, and without effect. A stream's hints, their defaults and their valid values are those of an H200
// (tests/cuda/program/driver_facts.cpp).
namespace {

constexpr unsigned char kMemoryDomains = 4;  // CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT of compute capability 9.0

/// The bytes of what was not set; empty: no attribute of a stream's.
std::optional<LaunchAttribute> unset_attribute(int id) {
  LaunchAttribute attribute{};
  attribute.id = id;
  if (id == kAttributeSynchronization) attribute.value.integer = -1;
  if (id == kAttributeDomainMap) {
    const unsigned char domains[] = {0, 1};  // of the stream's own writes, and of those that go to other devices
    std::memcpy(&attribute.value, domains, sizeof domains);
  }
  const bool known = id == kAttributeAccessPolicy || id == kAttributeSynchronization || id == kAttributeDomainMap ||
                     id == kAttributeDomain;
  return known ? std::optional(attribute) : std::nullopt;
}

bool is_possible(const LaunchAttribute& attribute) {
  if (attribute.id == kAttributeAccessPolicy) {
    constexpr int kMostProperty = 2;  // CU_ACCESS_PROPERTY_PERSISTING
    struct {
      void* base;
      std::size_t bytes;
      float hit_ratio;
      int hit, miss;
    } window{};
    std::memcpy(&window, &attribute.value, sizeof window);
    return window.hit_ratio >= 0 && window.hit_ratio <= 1 && window.hit >= 0 && window.hit <= kMostProperty &&
           window.miss >= 0 && window.miss < kMostProperty;
  }
  const int number = attribute.value.integer;
  if (attribute.id == kAttributeSynchronization) return number >= 1 && number <= 4;  // auto, spin, yield, block
  if (attribute.id == kAttributeDomain) return number == 0 || number == 1;
  unsigned char domains[2];
  std::memcpy(domains, &attribute.value, sizeof domains);
  return domains[0] < kMemoryDomains && domains[1] < kMemoryDomains;
}

}  // namespace

CUresult cuStreamSetAttribute(Stream* handle, int id, const void* value) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (value == nullptr) return kInvalidValue;
  if (id == kAttributePriority) {
    std::memcpy(&stream->priority, value, sizeof(stream->priority));
    stream->priority = std::clamp(stream->priority, kPriorityHighest, kPriorityLowest);
    return kSuccess;
  }
  std::optional<LaunchAttribute> wanted = unset_attribute(id);
  if (!wanted) return kInvalidValue;
  std::memcpy(&wanted->value, value, sizeof(wanted->value));
  if (!is_possible(*wanted)) return kInvalidValue;
  stream->attributes[id] = *wanted;
  return kSuccess;
}

CUresult cuStreamGetAttribute(Stream* handle, int id, void* value) {
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (value == nullptr) return kInvalidValue;
  if (id == kAttributePriority) {
    std::memcpy(value, &stream->priority, sizeof(stream->priority));
    return kSuccess;
  }
  const std::optional<LaunchAttribute> unset = unset_attribute(id);
  if (!unset) return kInvalidValue;
  const auto found = stream->attributes.find(id);
  std::memcpy(value, found != stream->attributes.end() ? &found->second.value : &unset->value, sizeof(unset->value));
  return kSuccess;
}

// There is no cache in the model for which lines could be kept.
CUresult cuCtxResetPersistingL2Cache() { return enter_context().error; }

CUresult cuStreamCopyAttributes(Stream* target, Stream* source) {
  Caller caller;
  Stream *to = nullptr, *from = nullptr;
  if (const CUresult error = with_stream(target, caller, to)) return error;
  if (const CUresult error = with_stream(source, caller, from)) return error;
  if (to->context != from->context) return kInvalidValue;
  to->attributes = from->attributes;
  to->priority = from->priority;
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
