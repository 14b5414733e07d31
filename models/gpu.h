#pragma once
// Gpu model: what a launch, a kernel, a copy and a wait cost on one GPU, as pure functions of values.
//
// Nomenclature: SM - streaming multiprocessor; block - a kernel's unit of residence; wave - as many blocks as are
// resident at once; integrated - CPU and GPU share one memory, and copies between them cross no PCIe.
// A kernel of B blocks on S free SMs that hold R blocks each takes ceil(B / (S R)) waves.
// provenance() lists every constant of every model with its unit, source and trust; guesses are marked.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/units.h"

namespace meshbed::models {

struct GpuModel {
  std::string name;  // as in a scenario's gpu_model
  int compute_major = 0, compute_minor = 0;
  int sms = 0;
  int threads_per_sm = 0, blocks_per_sm = 0;
  int registers_per_sm = 0;
  std::uint64_t shared_bytes_per_sm = 0, shared_bytes_per_block = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_bytes_per_second = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t float32_per_second = 0;
  bool integrated = false;
  std::uint64_t link_bytes_per_second = 0;      // host to device and back, pinned, each way
  std::uint64_t pageable_bytes_per_second = 0;  // through the driver's staging buffers
  Picoseconds copy_start_ps = 0;                // from a copy's turn to its first byte
  Picoseconds launch_call_ps = 0;               // of the thread that calls cuLaunchKernel
  Picoseconds launch_delay_ps = 0;              // from there until the kernel can start
  Picoseconds graph_call_ps = 0;                // of the thread that calls cuGraphLaunch
  Picoseconds kernel_gap_ps = 0;                // between two kernels of one stream
  Picoseconds wake_ps = 0;                      // from the end of the work until a waiting thread goes on
  Picoseconds grid_sync_ps = 0;                 // one grid-wide barrier
  Picoseconds contended_atomic_ps = 0;          // one atomic to an address that others update, too
  Picoseconds host_flag_ps = 0;                 // from a store into mapped host memory until the other side sees it
};

/// A constant's field, value, unit, where it comes from, and how far to trust it: "data sheet", "measured", "author",
/// "secondary", "estimate" or "guess".
struct GpuConstant {
  std::string field, value, unit, source, trust;
};

/// By name, in any case ("GB10", "h100"); nullptr: there is no such model.
const GpuModel* find_gpu(std::string_view name);
std::vector<std::string> gpu_names();
/// One a field of `model`.
std::vector<GpuConstant> provenance(const GpuModel& model);

/// A launch as the SMs see it.
struct GridShape {
  std::uint64_t blocks = 1;
  int resident_blocks = 1;  // that one SM holds at once, at least 1
};
/// What a kernel does, all blocks together.
struct KernelCost {
  std::uint64_t memory_bytes = 0;
  std::uint64_t float32_operations = 0;
  Picoseconds wave_ps = 0;  // at least, for each wave
};

/// Blocks that one SM holds at once: the least that its blocks, threads (whole warps), registers (whole warps, 256 at a
/// time) and shared memory (1 KiB of each block is the system's) leave; 0: not even one. Source: CUDA C++ Programming
/// Guide 13.0, hardware multithreading and compute capabilities. `registers_per_thread` 0: not known, no limit.
int resident_blocks(const GpuModel& model, int threads_per_block, std::uint64_t shared_bytes_per_block,
                    int registers_per_thread = 0);
/// As many registers a thread as leave an SM one block of so many threads (1 to 1024): no assembler that knows of that
/// launch gives more.
int most_registers(const GpuModel& model, int threads_per_block);
/// Places for blocks of one grid that stays: SMs that no other grid holds, times blocks an SM. 0 where others hold all.
/// Blocks that wait for one another need a place each: more of them than places is a deadlock (device rings, section
/// 5).
std::uint64_t block_places(int sms, int held_sms, int blocks_per_sm);

/// SMs that the launch can use, at most all; it must be possible.
int sms_wanted(const GpuModel& model, const GridShape& shape);
/// From its start to its end on `sms` SMs: the longest of memory, arithmetic (in proportion to the SMs) and waves.
Picoseconds kernel_ps(const GpuModel& model, const GridShape& shape, const KernelCost& cost, int sms);

/// What its warps' instructions take at least, on `sms` SMs: four schedulers an SM, each starts one a cycle. A cycle is
/// that of the arithmetic rate: 128 lanes an SM with two operations each (CUDA C++ Programming Guide 13.0, arithmetic
/// instructions).
Picoseconds issue_ps(const GpuModel& model, std::uint64_t warp_instructions, int sms);

enum class CopyKind { kPinned, kPageable, kInside };
/// From its turn on an engine to its last byte. Inside a GPU every byte is read and written: half the memory's rate.
Picoseconds copy_ps(const GpuModel& model, CopyKind kind, std::uint64_t size_bytes);
/// Writes alone.
Picoseconds fill_ps(const GpuModel& model, std::uint64_t size_bytes);

}  // namespace meshbed::models
