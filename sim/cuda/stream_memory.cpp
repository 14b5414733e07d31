// Stream memory operations: cuStreamWaitValue*, cuStreamWriteValue*: a stream that waits for a word of memory, and one
// that writes one. CUDA 13.0's driver API, "Stream Memory Operations".

#include <cstring>

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
  place.at = bytes_at(*place.caller.driver, address, bytes);
  if (place.at == nullptr) return kInvalidValue;
  return kSuccess;
}

CUresult wait_value(Stream* handle, CUdeviceptr address, std::uint64_t value, std::size_t bytes, unsigned flags) {
  Place place;
  if (const CUresult error = find_place(handle, address, bytes, place)) return error;
  if ((flags & ~(kWaitConditions | kWaitFlush)) != 0) return kInvalidValue;
  const auto condition = static_cast<WaitCondition>(flags & kWaitConditions);
  return submit(*place.stream, WaitValue{.at = place.at, .bytes = bytes, .value = value, .condition = condition});
}

CUresult write_value(Stream* handle, CUdeviceptr address, std::uint64_t value, std::size_t bytes, unsigned flags) {
  Place place;
  if (const CUresult error = find_place(handle, address, bytes, place)) return error;
  if ((flags & ~kWriteNoMemoryBarrier) != 0) return kInvalidValue;
  return submit(*place.stream, Action{[at = place.at, bytes, value] { std::memcpy(at, &value, bytes); }});
}

}  // namespace

bool is_met(const WaitValue& wait) {
  std::uint64_t seen = 0;
  std::memcpy(&seen, wait.at, wait.bytes);
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

}  // namespace meshbed::sim::cuda
