// Managed memory: one memory for both sides, so that advice has no effect and nothing has to be fetched. A program's
// advice is stored and returned (cuMemAdvise, cuMemPrefetchAsync, cuMemRangeGetAttribute), by pages of the host, as in
// CUDA 13.0's driver API ("Unified Addressing").

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// cuda.h's CUmemLocationType, and what the older calls have in its place.
enum LocationType : int { kNowhereType, kDeviceType, kHostType, kHostNumaType, kHostNumaCurrentType };
constexpr CUdevice kCpu = -1, kInvalid = -2;

CUmemLocation location_of(CUdevice device) {
  return device == kCpu ? CUmemLocation{.type = kHostType, .id = 0} : CUmemLocation{.type = kDeviceType, .id = device};
}
/// The host has one NUMA node.
CUmemLocation remembered(const CUmemLocation& location) {
  if (location.type == kHostNumaCurrentType) return {.type = kHostNumaType, .id = 0};
  return location.type == kHostType ? CUmemLocation{.type = kHostType, .id = 0} : location;
}
bool is_same(const CUmemLocation& one, const CUmemLocation& other) {
  return one.type == other.type && one.id == other.id;
}
/// As the older attributes return it.
int number_of(const CUmemLocation& location) {
  return location.type == kDeviceType ? location.id : location.type == kHostType ? kCpu : kInvalid;
}

struct Range {
  Caller caller;
  Allocation* memory = nullptr;
  std::uint64_t begin = 0, end = 0;  // whole pages
};

CUresult find_range(CUdeviceptr address, std::size_t size, Range& range) {
  range.caller = enter_context();
  if (range.caller.error != kSuccess) return range.caller.error;
  const Allocation* found = find_allocation(*range.caller.driver, address, size);
  if (size == 0 || found == nullptr || found->kind != MemoryKind::kManaged) return kInvalidValue;
  range.memory = &range.caller.driver->allocations.at(found->address);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  range.begin = address / page * page;
  range.end = (address + size + page - 1) / page * page;
  return kSuccess;
}

CUresult check_location(const Driver& driver, const CUmemLocation& location) {
  if (location.type == kHostType || location.type == kHostNumaType || location.type == kHostNumaCurrentType)
    return kSuccess;
  if (location.type != kDeviceType) return kInvalidValue;
  return find_device(driver, location.id) != nullptr ? kSuccess : kInvalidDevice;
}

/// Whether the location can access memory: a device, or the host as a whole.
bool is_processor(const CUmemLocation& location) { return location.type == kDeviceType || location.type == kHostType; }

/// From `at` on there are hints of their own.
void split(std::map<std::uint64_t, Hints>& hints, std::uint64_t at) {
  const auto next = hints.upper_bound(at);
  if (next == hints.begin()) {
    hints[at] = {};
  } else if (std::prev(next)->first != at) {
    hints[at] = std::prev(next)->second;
  }
}

template <typename Change>
void change(const Range& range, const Change& with) {
  auto& hints = range.memory->hints;
  split(hints, range.begin);
  split(hints, range.end);
  for (auto at = hints.lower_bound(range.begin); at != hints.end() && at->first < range.end; ++at) with(at->second);
}

/// The hints of every part of the range.
std::vector<Hints> hints_in(const Range& range) {
  const auto& hints = range.memory->hints;
  std::vector<Hints> found;
  auto at = hints.upper_bound(range.begin);
  found.push_back(at != hints.begin() ? std::prev(at)->second : Hints{});
  for (; at != hints.end() && at->first < range.end; ++at) found.push_back(at->second);
  return found;
}

/// The common location of all of it; nowhere: the locations differ.
CUmemLocation common(const std::vector<Hints>& hints, CUmemLocation Hints::*which) {
  const CUmemLocation first = hints.front().*which;
  const bool all =
      std::all_of(hints.begin(), hints.end(), [&](const Hints& one) { return is_same(one.*which, first); });
  return all ? first : Hints::kNowhere;
}

CUresult attribute_of(const std::vector<Hints>& hints, int attribute, std::size_t size, void* data) {
  enum : int {
    kReadMostly = 1,
    kPreferred,
    kAccessedBy,
    kPrefetched,
    kPreferredType,
    kPreferredId,
    kPrefetchedType,
    kPrefetchedId
  };
  if (data == nullptr || attribute < kReadMostly || attribute > kPrefetchedId) return kInvalidValue;
  const CUmemLocation preferred = common(hints, &Hints::preferred), prefetched = common(hints, &Hints::prefetched);
  if (attribute == kAccessedBy) {
    if (size == 0 || size % sizeof(int) != 0) return kInvalidValue;
    std::vector<int> devices;
    for (const CUdevice device : hints.front().accessed_by) {
      const bool everywhere =
          std::all_of(hints.begin(), hints.end(), [&](const Hints& one) { return one.accessed_by.count(device) > 0; });
      if (everywhere) devices.push_back(device);
    }
    devices.resize(size / sizeof(int), kInvalid);
    std::memcpy(data, devices.data(), size);
    return kSuccess;
  }
  if (size != sizeof(int)) return kInvalidValue;
  int value = 0;
  switch (attribute) {
    case kReadMostly:
      value = std::all_of(hints.begin(), hints.end(), [](const Hints& one) { return one.read_mostly; }) ? 1 : 0;
      break;
    case kPreferred:
      value = number_of(preferred);
      break;
    case kPrefetched:
      value = number_of(prefetched);
      break;
    case kPreferredType:
      value = preferred.type;
      break;
    case kPreferredId:
      value = preferred.id;
      break;
    case kPrefetchedType:
      value = prefetched.type;
      break;
    default:
      value = prefetched.id;
      break;
  }
  std::memcpy(data, &value, sizeof(value));
  return kSuccess;
}

}  // namespace

CUresult cuMemAdvise_v2(CUdeviceptr address, std::size_t size, int advice, CUmemLocation location) {
  enum : int { kSetReadMostly = 1, kUnsetReadMostly, kSetPreferred, kUnsetPreferred, kSetAccessedBy, kUnsetAccessedBy };
  Range range;
  if (const CUresult error = find_range(address, size, range)) return error;
  if (advice < kSetReadMostly || advice > kUnsetAccessedBy) return kInvalidValue;
  // As documented: only these look at where.
  if (advice == kSetPreferred || advice == kSetAccessedBy || advice == kUnsetAccessedBy) {
    if (const CUresult error = check_location(*range.caller.driver, location)) return error;
    if (advice != kSetPreferred && !is_processor(location)) return kInvalidValue;
  }
  change(range, [&](Hints& hints) {
    if (advice == kSetReadMostly || advice == kUnsetReadMostly) hints.read_mostly = advice == kSetReadMostly;
    if (advice == kSetPreferred) hints.preferred = remembered(location);
    if (advice == kUnsetPreferred) hints.preferred = Hints::kNowhere;
    if (location.type != kDeviceType) return;
    if (advice == kSetAccessedBy) hints.accessed_by.insert(location.id);
    if (advice == kUnsetAccessedBy) hints.accessed_by.erase(location.id);
  });
  return kSuccess;
}
CUresult cuMemAdvise(CUdeviceptr address, std::size_t size, int advice, CUdevice device) {
  return cuMemAdvise_v2(address, size, advice, location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, std::size_t size, CUmemLocation location, unsigned flags,
                               Stream* handle) {
  Range range;
  if (const CUresult error = find_range(address, size, range)) return error;
  Stream* stream = find_stream(range.caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  if (flags != 0) return kInvalidValue;
  if (const CUresult error = check_location(*range.caller.driver, location)) return error;
  if (const CUresult error = submit(*stream, Marker{})) return error;
  change(range, [&](Hints& hints) { hints.prefetched = remembered(location); });
  return kSuccess;
}
CUresult cuMemPrefetchAsync(CUdeviceptr address, std::size_t size, CUdevice device, Stream* stream) {
  return cuMemPrefetchAsync_v2(address, size, location_of(device), 0, stream);
}

CUresult cuMemRangeGetAttributes(void** data, std::size_t* sizes, int* attributes, std::size_t number,
                                 CUdeviceptr address, std::size_t size) {
  Range range;
  if (const CUresult error = find_range(address, size, range)) return error;
  if (data == nullptr || sizes == nullptr || attributes == nullptr || number == 0) return kInvalidValue;
  const std::vector<Hints> hints = hints_in(range);
  for (std::size_t index = 0; index < number; ++index) {
    if (const CUresult error = attribute_of(hints, attributes[index], sizes[index], data[index])) return error;
  }
  return kSuccess;
}
CUresult cuMemRangeGetAttribute(void* data, std::size_t data_size, int attribute, CUdeviceptr address,
                                std::size_t size) {
  return cuMemRangeGetAttributes(&data, &data_size, &attribute, 1, address, size);
}

CUresult cuStreamAttachMemAsync(Stream* handle, CUdeviceptr address, std::size_t size, unsigned flags) {
  constexpr unsigned kGlobal = 1, kHost = 2, kSingle = 4;
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Stream* stream = find_stream(caller, handle);
  if (stream == nullptr) return kInvalidHandle;
  const Allocation* found = find_allocation(*caller.driver, address, 1);
  if (found == nullptr || found->kind != MemoryKind::kManaged) return kInvalidValue;
  if (flags != kGlobal && flags != kHost && flags != kSingle) return kInvalidValue;
  // As documented: all of the allocation, and not to the default stream alone, which is no specific stream.
  if ((size != 0 && size != found->size_bytes) || (flags == kSingle && stream == stream->context->legacy.get()))
    return kInvalidValue;
  return submit(*stream, Marker{});
}

CUresult cudaMemRangeGetAttribute(void* data, std::size_t data_size, int attribute, const void* address,
                                  std::size_t size) {
  return in_runtime(
      [&] { return cuMemRangeGetAttribute(data, data_size, attribute, reinterpret_cast<CUdeviceptr>(address), size); });
}
CUresult cudaMemRangeGetAttributes(void** data, std::size_t* sizes, int* attributes, std::size_t number,
                                   const void* address, std::size_t size) {
  return in_runtime([&] {
    return cuMemRangeGetAttributes(data, sizes, attributes, number, reinterpret_cast<CUdeviceptr>(address), size);
  });
}

}  // namespace meshbed::sim::cuda
