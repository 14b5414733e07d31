// Contexts: cuDevicePrimaryCtx*, cuCtx*.

#include <algorithm>

#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

constexpr unsigned kKnownFlags = 0xffU;  // cuda.h's CU_CTX_FLAGS_MASK

Context& make_context(Driver& driver, CUdevice ordinal, unsigned flags) {
  auto context = std::make_unique<Context>();
  context->driver = &driver;
  context->device = driver.devices[static_cast<std::size_t>(ordinal)];
  context->ordinal = ordinal;
  context->id = system().next_id++;
  context->flags = flags;
  context->queues.resize(queues_of(driver));
  context->legacy = std::make_unique<Stream>();
  context->legacy->context = context.get();
  context->legacy->id = system().next_id++;
  return *driver.contexts.emplace_back(std::move(context));
}

Context* find_primary(const Driver& driver, CUdevice ordinal) {
  const auto found = std::find_if(driver.contexts.begin(), driver.contexts.end(),
                                  [ordinal](const auto& one) { return one->primary && one->ordinal == ordinal; });
  return found != driver.contexts.end() ? found->get() : nullptr;
}

CUresult with_ordinal(CUdevice ordinal, Caller& caller) {
  Device* device = nullptr;
  return with_device(ordinal, caller, device);
}

CUresult create(Context** context, unsigned flags, CUdevice device) {
  Caller caller;
  if (const CUresult error = with_ordinal(device, caller)) return error;
  if (context == nullptr || (flags & ~kKnownFlags) != 0) return kInvalidValue;
  // As an H200 does (tests/cuda/program/driver_facts.cpp).
  wait_for_devices(*caller.driver, caller.driver->devices[static_cast<std::size_t>(device)],
                   "cuCtxCreate, which waits for the device");
  *context = &make_context(*caller.driver, device, flags);
  caller.thread->contexts.push_back(*context);
  return kSuccess;
}

/// Runs use(context); nullptr: the current one, whether a kernel has failed in it or not.
template <typename Use>
CUresult with_context(Context* context, const Use& use) {
  const Caller caller = enter_context();
  if (caller.driver == nullptr || !caller.driver->initialized) return caller.error;
  if (context == nullptr) context = caller.context;
  return find_context(*caller.driver, context) != nullptr ? use(*context) : kInvalidContext;
}

/// What stands in no stream: calls of host functions for objects that are destroyed.
void wait_for_rest(const Context& context) {
  while (const WorkRef work = system().works.any_of(context)) wait_for(work, "cuCtxDestroy");
}

}  // namespace

Context* find_context(Driver& driver, Context* handle) {
  const auto found = std::find_if(driver.contexts.begin(), driver.contexts.end(),
                                  [handle](const auto& one) { return one.get() == handle; });
  return found != driver.contexts.end() ? handle : nullptr;
}

Context& primary_of(Driver& driver, CUdevice device) {
  if (Context* found = find_primary(driver, device)) return *found;
  Context& context = make_context(driver, device, 0);
  context.primary = true;
  return context;
}

void clear_context(Context& context) {
  Driver& driver = *context.driver;
  std::vector<std::uint64_t> own;
  for (const auto& [address, allocation] : driver.allocations) {
    if (allocation.context == &context && allocation.kind != MemoryKind::kMapped) own.push_back(address);
  }
  for (const std::uint64_t address : own) free_allocation(driver, address);
  // Variables of programs are in the memory of the first device.
  if (context.primary && context.ordinal == 0) forget_programs(driver);
  context.streams.clear();
  context.per_thread.clear();
  context.legacy->tail = nullptr;
  context.legacy->capture = nullptr;
  context.failure = kSuccess;
}

CUresult cuDevicePrimaryCtxRetain(Context** context, CUdevice device) {
  Caller caller;
  if (const CUresult error = with_ordinal(device, caller)) return error;
  if (context == nullptr) return kInvalidValue;
  *context = &primary_of(*caller.driver, device);
  ++(*context)->retained;
  return kSuccess;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Caller caller;
  if (const CUresult error = with_ordinal(device, caller)) return error;
  Context* context = find_primary(*caller.driver, device);
  if (context == nullptr || context->retained == 0) return kInvalidContext;
  if (--context->retained == 0) {
    wait_for_all(*context, "cuDevicePrimaryCtxRelease");
    ++caller.driver->counters.implicit_device_syncs;
    clear_context(*context);
  }
  return kSuccess;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Caller caller;
  if (const CUresult error = with_ordinal(device, caller)) return error;
  Context* context = find_primary(*caller.driver, device);
  if (context == nullptr) return kSuccess;
  wait_for_all(*context, "cuDevicePrimaryCtxReset");
  ++caller.driver->counters.implicit_device_syncs;
  clear_context(*context);
  return kSuccess;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  Caller caller;
  if (const CUresult error = with_ordinal(device, caller)) return error;
  if (flags == nullptr || active == nullptr) return kInvalidValue;
  const Context* context = find_primary(*caller.driver, device);
  *flags = context != nullptr ? context->flags : 0;
  *active = context != nullptr && context->retained > 0 ? 1 : 0;
  return kSuccess;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  Caller caller;
  if (const CUresult error = with_ordinal(device, caller)) return error;
  if ((flags & ~kKnownFlags) != 0) return kInvalidValue;
  primary_of(*caller.driver, device).flags = flags;
  return kSuccess;
}

CUresult cuCtxCreate_v2(Context** context, unsigned flags, CUdevice device) { return create(context, flags, device); }

CUresult cuCtxCreate_v3(Context** context, void*, int affinity_count, unsigned flags, CUdevice device) {
  if (affinity_count != 0) return refuse("cuCtxCreate_v3 with affinities");
  return create(context, flags, device);
}

CUresult cuCtxCreate_v4(Context** context, void* parameters, unsigned flags, CUdevice device) {
  const auto* asked = static_cast<const CUctxCreateParams*>(parameters);
  if (asked != nullptr && (asked->affinity_count != 0 || asked->graphics != nullptr))
    return refuse("cuCtxCreate_v4 with affinities or a graphics context");
  return create(context, flags, device);
}

CUresult cuCtxDestroy_v2(Context* context) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (find_context(*caller.driver, context) == nullptr || context->primary) return kInvalidContext;
  wait_for_devices(*caller.driver, context->device, "cuCtxDestroy, which waits for the device");
  wait_for_rest(*context);
  clear_context(*context);
  auto& stack = caller.thread->contexts;
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  std::erase_if(caller.driver->contexts, [context](const auto& one) { return one.get() == context; });
  return kSuccess;
}

CUresult cuCtxPushCurrent_v2(Context* context) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (find_context(*caller.driver, context) == nullptr) return kInvalidContext;
  caller.thread->contexts.push_back(context);
  return kSuccess;
}

CUresult cuCtxPopCurrent_v2(Context** context) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (caller.thread->contexts.empty()) return kInvalidContext;
  if (context != nullptr) *context = caller.thread->contexts.back();
  caller.thread->contexts.pop_back();
  return kSuccess;
}

CUresult cuCtxSetCurrent(Context* context) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  auto& stack = caller.thread->contexts;
  if (context != nullptr && find_context(*caller.driver, context) == nullptr) return kInvalidContext;
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return kSuccess;
}

CUresult cuCtxGetCurrent(Context** context) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (context == nullptr) return kInvalidValue;
  *context = caller.thread->contexts.empty() ? nullptr : caller.thread->contexts.back();
  return kSuccess;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, Context* context) {
  return with_context(context, [&](const Context& found) -> CUresult {
    if (device == nullptr) return kInvalidValue;
    *device = found.ordinal;
    return kSuccess;
  });
}
CUresult cuCtxGetDevice(CUdevice* device) { return cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxGetFlags(unsigned* flags) {
  const Caller caller = enter_context();
  if (caller.context == nullptr) return caller.error;
  if (flags == nullptr) return kInvalidValue;
  *flags = caller.context->flags;
  return kSuccess;
}

CUresult cuCtxGetId(Context* context, unsigned long long* id) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (id == nullptr) return kInvalidValue;
  if (context == nullptr) context = caller.thread->contexts.empty() ? nullptr : caller.thread->contexts.back();
  if (find_context(*caller.driver, context) == nullptr) return kInvalidContext;
  *id = context->id;
  return kSuccess;
}

CUresult cuCtxGetApiVersion(Context* context, unsigned* version) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (version == nullptr) return kInvalidValue;
  if (context != nullptr && find_context(*caller.driver, context) == nullptr) return kInvalidContext;
  constexpr unsigned kFirstVersionOfThisInterface = 3020;
  *version = kFirstVersionOfThisInterface;
  return kSuccess;
}

CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (lowest != nullptr) *lowest = kPriorityLowest;
  if (highest != nullptr) *highest = kPriorityHighest;
  return kSuccess;
}

CUresult cuCtxSynchronize_v2(Context* context) {
  return with_context(context, [&](Context& found) -> CUresult {
    if (found.failure != kSuccess) return found.failure;
    for (const auto& stream : found.streams) {
      if (const CUresult error = refuse_in_capture(*stream)) return error;
    }
    ++found.driver->counters.device_syncs;
    wait_for_all(found, "cuCtxSynchronize");
    return found.failure;
  });
}
CUresult cuCtxSynchronize() { return cuCtxSynchronize_v2(nullptr); }

}  // namespace meshbed::sim::cuda
