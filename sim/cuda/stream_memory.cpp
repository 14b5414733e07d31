// Stream memory operations: cuStreamWaitValue*, cuStreamWriteValue*: a stream that waits for a word of memory, and one
// that writes one. CUDA 13.0's driver API, "Stream Memory Operations".

#include <atomic>

#include "sim/cuda/ptx/vector/single_access.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

// cuda.h's CUstreamWaitValue_flags and CUstreamWriteValue_flags.
constexpr unsigned kWaitConditions = 3;
constexpr unsigned kWaitFlush = 1U << 30U;
constexpr unsigned kWriteNoMemoryBarrier = 1;

struct Place {
  Caller caller;
  Stream* stream = nullptr;
  char* at = nullptr;
};

CUresult find_place(Stream* handle, CUdeviceptr address, std::size_t bytes, Place& place) {
  place.caller = enter_context();
  if (place.caller.error != kSuccess) return place.caller.error;
  place.stream = find_stream(place.caller, handle);
  if (place.stream == nullptr) return kInvalidHandle;
  if (address % bytes != 0) return kInvalidValue;
  const Allocation* memory = find_allocation(*place.caller.driver, address, bytes);
  if (memory != nullptr && memory->kind == MemoryKind::kManaged) return kInvalidValue;  // as documented
  place.at = bytes_at(*place.caller.driver, address, bytes);
  if (place.at == nullptr) return kInvalidValue;
  return kSuccess;
}

CUresult check_wait(Stream* handle, CUdeviceptr address, std::size_t bytes, unsigned flags, Place& place) {
  if (const CUresult error = find_place(handle, address, bytes, place)) return error;
  if ((flags & ~(kWaitConditions | kWaitFlush)) != 0) return kInvalidValue;
  // By CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES.
  return (flags & kWaitFlush) == 0 ? kSuccess : refuse("cuStreamWaitValue with a flush of remote writes");
}

CUresult wait_value(Stream* handle, CUdeviceptr address, std::uint64_t value, std::size_t bytes, unsigned flags) {
  Place place;
  if (const CUresult error = check_wait(handle, address, bytes, flags, place)) return error;
  const auto condition = static_cast<WaitCondition>(flags & kWaitConditions);
  return submit(*place.stream, WaitValue{.at = place.at, .bytes = bytes, .value = value, .condition = condition});
}

CUresult write_value(Stream* handle, CUdeviceptr address, std::uint64_t value, std::size_t bytes, unsigned flags) {
  Place place;
  if (const CUresult error = find_place(handle, address, bytes, place)) return error;
  if ((flags & ~kWriteNoMemoryBarrier) != 0) return kInvalidValue;
  return submit(*place.stream, Action{[at = place.at, bytes, value] {
    std::atomic_thread_fence(std::memory_order_release);
    ptx::copy_once(at, &value, bytes);
  }});
}

/// cuda.h's CUstreamBatchMemOpType.
enum Operation : int { kWait32 = 1, kWrite32, kFlush, kWait64, kWrite64, kBarrier };

std::size_t bytes_of(int operation) { return operation == kWait32 || operation == kWrite32 ? 4 : 8; }

/// Before any of a batch is in the stream all of it is known to be possible.
CUresult check(Stream* handle, const CUstreamBatchMemOpParams& wanted) {
  Place place;
  switch (wanted.operation) {
    case kWait32:
    case kWait64:
      return check_wait(handle, wanted.address, bytes_of(wanted.operation), wanted.flags, place);
    case kWrite32:
    case kWrite64:
      if ((wanted.flags & ~kWriteNoMemoryBarrier) != 0) return kInvalidValue;
      return find_place(handle, wanted.address, bytes_of(wanted.operation), place);
    case kFlush:  // by CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES
      return refuse("cuStreamBatchMemOp with a flush of remote writes");
    case kBarrier:
      return wanted.barrier_flags <= 1 ? kSuccess : kInvalidValue;
    default:
      return kInvalidValue;
  }
}

CUresult add(Stream* handle, const CUstreamBatchMemOpParams& wanted) {
  const std::size_t bytes = bytes_of(wanted.operation);
  const std::uint64_t value = bytes == 4 ? static_cast<std::uint32_t>(wanted.value) : wanted.value;
  if (wanted.operation == kWait32 || wanted.operation == kWait64)
    return wait_value(handle, wanted.address, value, bytes, wanted.flags);
  if (wanted.operation != kBarrier) return write_value(handle, wanted.address, value, bytes, wanted.flags);
  Caller caller;
  Stream* stream = nullptr;
  // What stands in a stream sees what stands before it: the barrier is a place in it and no more.
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  return submit(*stream, Marker{});
}

}  // namespace

bool is_met(const WaitValue& wait) {
  std::uint64_t seen = 0;
  ptx::copy_once(&seen, wait.at, wait.bytes);
  std::atomic_thread_fence(std::memory_order_acquire);
  switch (wait.condition) {
    case WaitCondition::kGreaterOrEqual:  // as a difference in a circle of numbers
      return wait.bytes == 8 ? static_cast<std::int64_t>(seen - wait.value) >= 0
                             : static_cast<std::int32_t>(static_cast<std::uint32_t>(seen - wait.value)) >= 0;
    case WaitCondition::kEqual:
      return seen == wait.value;
    case WaitCondition::kAnd:
      return (seen & wait.value) != 0;
    case WaitCondition::kNor:
      break;
  }
  const std::uint64_t all = wait.bytes == 8 ? ~0ULL : 0xFFFFFFFFULL;
  return (~(seen | wait.value) & all) != 0;
}

CUresult cuStreamWaitValue32_v2(Stream* stream, CUdeviceptr address, std::uint32_t value, unsigned flags) {
  return wait_value(stream, address, value, sizeof value, flags);
}
CUresult cuStreamWaitValue64_v2(Stream* stream, CUdeviceptr address, std::uint64_t value, unsigned flags) {
  return wait_value(stream, address, value, sizeof value, flags);
}
CUresult cuStreamWriteValue32_v2(Stream* stream, CUdeviceptr address, std::uint32_t value, unsigned flags) {
  return write_value(stream, address, value, sizeof value, flags);
}
CUresult cuStreamWriteValue64_v2(Stream* stream, CUdeviceptr address, std::uint64_t value, unsigned flags) {
  return write_value(stream, address, value, sizeof value, flags);
}

CUresult cuStreamBatchMemOp_v2(Stream* handle, unsigned number, const CUstreamBatchMemOpParams* wanted,
                               unsigned flags) {
  constexpr unsigned kMost = 255;
  Caller caller;
  Stream* stream = nullptr;
  if (const CUresult error = with_stream(handle, caller, stream)) return error;
  if (number > kMost || (number > 0 && wanted == nullptr) || flags != 0) return kInvalidValue;
  for (unsigned index = 0; index < number; ++index) {
    if (const CUresult error = check(handle, wanted[index])) return error;
  }
  for (unsigned index = 0; index < number; ++index) {
    if (const CUresult error = add(handle, wanted[index])) return error;
  }
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
