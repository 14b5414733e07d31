#pragma once
// ZernelRecord: the binary events of zernel's five probes, as its consumers read them: fixed-size records without a
// header, little-endian, one type a stream. Written from the layout alone (sizes, offsets, meanings); zernel's own
// sources are GPL-2.0 and nothing of them stands here.
//
// Times are nanoseconds of CLOCK_MONOTONIC. Unused bytes are members, so that they are written as zeros.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace meshbed::testbed::zernel {

enum class Stream : std::uint8_t { kNccl, kGpuMemory, kCuda, kDataload, kDistSync };
inline constexpr int kStreams = 5;

/// The operations whose calls zernel watches; there is no number for any other.
enum class NcclOp : std::uint8_t { kAllReduce = 0, kBroadcast = 1, kAllGather = 2, kReduceScatter = 3 };

struct NcclEvent {
  std::uint32_t pid = 0;
  std::uint8_t op = 0;  // NcclOp
  std::array<std::uint8_t, 3> unused{};
  std::uint64_t size_bytes = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint32_t rank = 0;
  std::uint32_t num_ranks = 0;
};

/// One allocation or one release; the other of the two is 0.
struct GpuMemoryEvent {
  std::uint32_t pid = 0;
  std::uint32_t gpu_id = 0;
  std::uint64_t alloc_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_usage = 0;  // bytes, after it
  std::uint64_t timestamp_ns = 0;
};

struct CudaEvent {
  std::uint32_t pid = 0;
  std::uint32_t unused = 0;
  std::uint64_t kernel_hash = 0;  // FNV-1a of the kernel's name
  std::uint64_t launch_ns = 0;
  std::uint64_t return_ns = 0;
  std::uint64_t latency_ns = 0;
};

struct DataloadEvent {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t latency_ns = 0;
  std::uint8_t io_type = 0;  // 0: read, 1: io_uring
  std::array<std::uint8_t, 7> unused{};
};

struct DistSyncEvent {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  std::uint64_t wait_ns = 0;
  std::uint64_t timestamp_ns = 0;  // of the wait's end
};

/// Waits of no more than this are no events: the probe takes them for spurious wake-ups.
inline constexpr std::uint64_t kLongestBlink_ns = 1'000;

// A record is written and read as the memory that it is.
static_assert(std::endian::native == std::endian::little, "records are little-endian");

static_assert(sizeof(NcclEvent) == 40);
static_assert(offsetof(NcclEvent, pid) == 0);
static_assert(offsetof(NcclEvent, op) == 4);
static_assert(offsetof(NcclEvent, unused) == 5);
static_assert(offsetof(NcclEvent, size_bytes) == 8);
static_assert(offsetof(NcclEvent, start_ns) == 16);
static_assert(offsetof(NcclEvent, duration_ns) == 24);
static_assert(offsetof(NcclEvent, rank) == 32);
static_assert(offsetof(NcclEvent, num_ranks) == 36);

static_assert(sizeof(GpuMemoryEvent) == 40);
static_assert(offsetof(GpuMemoryEvent, pid) == 0);
static_assert(offsetof(GpuMemoryEvent, gpu_id) == 4);
static_assert(offsetof(GpuMemoryEvent, alloc_bytes) == 8);
static_assert(offsetof(GpuMemoryEvent, free_bytes) == 16);
static_assert(offsetof(GpuMemoryEvent, total_usage) == 24);
static_assert(offsetof(GpuMemoryEvent, timestamp_ns) == 32);

static_assert(sizeof(CudaEvent) == 40);
static_assert(offsetof(CudaEvent, pid) == 0);
static_assert(offsetof(CudaEvent, unused) == 4);
static_assert(offsetof(CudaEvent, kernel_hash) == 8);
static_assert(offsetof(CudaEvent, launch_ns) == 16);
static_assert(offsetof(CudaEvent, return_ns) == 24);
static_assert(offsetof(CudaEvent, latency_ns) == 32);

static_assert(sizeof(DataloadEvent) == 32);
static_assert(offsetof(DataloadEvent, pid) == 0);
static_assert(offsetof(DataloadEvent, tid) == 4);
static_assert(offsetof(DataloadEvent, read_bytes) == 8);
static_assert(offsetof(DataloadEvent, latency_ns) == 16);
static_assert(offsetof(DataloadEvent, io_type) == 24);
static_assert(offsetof(DataloadEvent, unused) == 25);

static_assert(sizeof(DistSyncEvent) == 24);
static_assert(offsetof(DistSyncEvent, pid) == 0);
static_assert(offsetof(DistSyncEvent, tid) == 4);
static_assert(offsetof(DistSyncEvent, wait_ns) == 8);
static_assert(offsetof(DistSyncEvent, timestamp_ns) == 16);

// No byte of a record is the compiler's to choose.
static_assert(std::has_unique_object_representations_v<NcclEvent> &&
              std::has_unique_object_representations_v<GpuMemoryEvent> &&
              std::has_unique_object_representations_v<CudaEvent> &&
              std::has_unique_object_representations_v<DataloadEvent> &&
              std::has_unique_object_representations_v<DistSyncEvent>);

}  // namespace meshbed::testbed::zernel
