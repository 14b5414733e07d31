#include "models/gpu.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace meshbed::models {
namespace {

constexpr std::uint64_t kGigabyte = 1'000'000'000;
constexpr Picoseconds kUs = kPicosecondsPerMicrosecond;
constexpr Picoseconds kNs = kPicosecondsPerNanosecond;

constexpr const char* kMeasuredH200 = "results/gpu/2026-11-26-h200.toml";

// The values that public measurements do not distinguish between these GPUs; see provenance().
GpuModel with_common(GpuModel model) {
  model.copy_start_ps = 1500 * kNs;
  model.launch_call_ps = 2 * kUs;
  model.launch_delay_ps = 3 * kUs;
  model.graph_call_ps = 2 * kUs;
  model.kernel_gap_ps = 1 * kUs;
  model.wake_ps = 2 * kUs;
  model.grid_sync_ps = 700 * kNs;
  model.contended_atomic_ps = 284 * kNs;
  model.host_flag_ps = 500 * kNs;
  return model;
}

const std::array<GpuModel, 4>& models() {
  static const std::array<GpuModel, 4> all{
      with_common({.name = "GB10",
                   .compute_major = 12,
                   .compute_minor = 1,
                   .sms = 48,
                   .threads_per_sm = 1536,
                   .blocks_per_sm = 24,
                   .registers_per_sm = 64 * 1024,
                   .shared_bytes_per_sm = 100 * kKiB,
                   .shared_bytes_per_block = 99 * kKiB,
                   .memory_bytes = 128 * kGigabyte,
                   .memory_bytes_per_second = 273 * kGigabyte,
                   .l2_bytes = 24 * kMiB,
                   .float32_per_second = 31'000 * kGigabyte,
                   .integrated = true,
                   .link_bytes_per_second = 100 * kGigabyte,
                   .pageable_bytes_per_second = 50 * kGigabyte}),
      with_common({.name = "H100",
                   .compute_major = 9,
                   .compute_minor = 0,
                   .sms = 132,
                   .threads_per_sm = 2048,
                   .blocks_per_sm = 32,
                   .registers_per_sm = 64 * 1024,
                   .shared_bytes_per_sm = 228 * kKiB,
                   .shared_bytes_per_block = 227 * kKiB,
                   .memory_bytes = 80 * kGiB,
                   .memory_bytes_per_second = 3'350 * kGigabyte,
                   .l2_bytes = 50 * kMiB,
                   .float32_per_second = 67'000 * kGigabyte,
                   .integrated = false,
                   .link_bytes_per_second = 55 * kGigabyte,
                   .pageable_bytes_per_second = 12 * kGigabyte}),
      with_common({.name = "A100",
                   .compute_major = 8,
                   .compute_minor = 0,
                   .sms = 108,
                   .threads_per_sm = 2048,
                   .blocks_per_sm = 32,
                   .registers_per_sm = 64 * 1024,
                   .shared_bytes_per_sm = 164 * kKiB,
                   .shared_bytes_per_block = 163 * kKiB,
                   .memory_bytes = 80 * kGiB,
                   .memory_bytes_per_second = 2'039 * kGigabyte,
                   .l2_bytes = 40 * kMiB,
                   .float32_per_second = 19'500 * kGigabyte,
                   .integrated = false,
                   .link_bytes_per_second = 25 * kGigabyte,
                   .pageable_bytes_per_second = 8 * kGigabyte}),
      // As meshbed calibrate gpu measured one (kMeasuredH200), but for graph_call and grid_sync, which it does not.
      {.name = "H200",
       .compute_major = 9,
       .compute_minor = 0,
       .sms = 132,
       .threads_per_sm = 2048,
       .blocks_per_sm = 32,
       .registers_per_sm = 64 * 1024,
       .shared_bytes_per_sm = 228 * kKiB,
       .shared_bytes_per_block = 227 * kKiB,
       .memory_bytes = 150'109'880'320,
       .memory_bytes_per_second = 4'185'100'000'000,
       .l2_bytes = 60 * kMiB,
       .float32_per_second = 66'908'160'000'000,
       .integrated = false,
       .link_bytes_per_second = 55'496'200'000,
       .pageable_bytes_per_second = 11'636'000'000,
       .copy_start_ps = 1'564'040,
       .launch_call_ps = 3'752'750,
       .launch_delay_ps = 3'629'250,
       .graph_call_ps = 2 * kUs,
       .kernel_gap_ps = 1'344'000,
       .wake_ps = 109'000,
       .grid_sync_ps = 700 * kNs,
       .contended_atomic_ps = 271'857,
       .host_flag_ps = 1'284'600},
  };
  return all;
}

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](unsigned char a, unsigned char b) { return std::toupper(a) == std::toupper(b); });
}

/// Time for `amount` at `rate` a second, rounded up.
Picoseconds time_ps(std::uint64_t amount, std::uint64_t rate) {
  const __uint128_t scaled = static_cast<__uint128_t>(amount) * static_cast<__uint128_t>(kPicosecondsPerSecond);
  return static_cast<Picoseconds>((scaled + rate - 1) / rate);
}

constexpr int kWarp = 32, kRegistersAtOnce = 256, kMostRegisters = 255;

}  // namespace

const GpuModel* find_gpu(std::string_view name) {
  const auto found =
      std::find_if(models().begin(), models().end(), [&](const GpuModel& one) { return same_name(one.name, name); });
  return found != models().end() ? &*found : nullptr;
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const GpuModel& model : models()) names.push_back(model.name);
  return names;
}

std::vector<GpuConstant> provenance(const GpuModel& model) {
  const std::string sheet = "NVIDIA " + model.name + " data sheet";
  const std::string guide = "CUDA C++ Programming Guide 13.0, compute capabilities";
  const std::string csv = "data/fidelity/megakernel_latencies.csv: ";
  const std::string no_link = model.integrated ? "no PCIe between CPU and GPU; no measurement at hand"
                                               : "0.87 of the data sheet's PCIe rate; no measurement at hand";
  const auto number = [](auto value) { return std::to_string(value); };
  std::vector<GpuConstant> all{
      {"compute", number(model.compute_major) + "." + number(model.compute_minor), "", guide, "data sheet"},
      {"sms", number(model.sms), "", sheet, "data sheet"},
      {"threads_per_sm", number(model.threads_per_sm), "", guide, "data sheet"},
      {"blocks_per_sm", number(model.blocks_per_sm), "", guide, "data sheet"},
      {"registers_per_sm", number(model.registers_per_sm), "", guide, "data sheet"},
      {"shared_bytes_per_sm", number(model.shared_bytes_per_sm), "B", guide, "data sheet"},
      {"shared_bytes_per_block", number(model.shared_bytes_per_block), "B", guide, "data sheet"},
      {"memory_bytes", number(model.memory_bytes), "B", sheet, "data sheet"},
      {"memory_bytes_per_second", number(model.memory_bytes_per_second), "B/s", sheet, "data sheet"},
      {"l2_bytes", number(model.l2_bytes), "B", sheet, model.integrated ? "guess" : "data sheet"},
      {"float32_per_second", number(model.float32_per_second), "1/s", sheet, model.integrated ? "guess" : "data sheet"},
      {"link_bytes_per_second", number(model.link_bytes_per_second), "B/s", no_link, "guess"},
      {"pageable_bytes_per_second", number(model.pageable_bytes_per_second), "B/s", "no measurement at hand", "guess"},
      {"copy_start_ps", number(model.copy_start_ps), "ps", "no measurement at hand", "guess"},
      {"launch_call_ps", number(model.launch_call_ps), "ps",
       csv + "kernel launch 2-10 us (theorempath): its low end is the call", "secondary"},
      {"launch_delay_ps", number(model.launch_delay_ps), "ps",
       csv + "kernel launch 5-10 us (uv-xiao): its low end less the call", "secondary"},
      {"graph_call_ps", number(model.graph_call_ps), "ps", csv + "CUDA graph submit ~2 us on GB10 (sparkring)",
       "author"},
      {"kernel_gap_ps", number(model.kernel_gap_ps), "ps", "no measurement at hand", "guess"},
      {"wake_ps", number(model.wake_ps), "ps", "no measurement at hand", "guess"},
      {"grid_sync_ps", number(model.grid_sync_ps), "ps", csv + "grid.sync ~0.7 us", "estimate"},
      {"contended_atomic_ps", number(model.contended_atomic_ps), "ps",
       csv + "contended atomic ~400 cycles on A100, at 1.41 GHz", "secondary"},
      {"host_flag_ps", number(model.host_flag_ps), "ps",
       csv + "host-mapped flag: not found; a read across PCIe, there and back, is taken for 1 us", "guess"},
  };
  if (model.name != "H200") return all;
  for (GpuConstant& constant : all) {
    if (constant.field == "graph_call_ps" || constant.field == "grid_sync_ps") continue;
    constant.source = kMeasuredH200;
    if (constant.trust != "data sheet" || constant.field == "memory_bytes_per_second") constant.trust = "measured";
  }
  return all;
}

int resident_blocks(const GpuModel& model, int threads_per_block, std::uint64_t shared_bytes_per_block,
                    int registers_per_thread) {
  constexpr int kMostThreads = 1024;
  constexpr std::uint64_t kSystemSharedBytes = 1 * kKiB;
  if (threads_per_block < 1 || threads_per_block > kMostThreads) return 0;
  if (shared_bytes_per_block > model.shared_bytes_per_block) return 0;
  if (registers_per_thread < 0 || registers_per_thread > kMostRegisters) return 0;
  const int warps = (threads_per_block + kWarp - 1) / kWarp;
  int blocks = std::min(model.blocks_per_sm, model.threads_per_sm / (warps * kWarp));
  if (registers_per_thread > 0) {
    const int of_warp = (registers_per_thread * kWarp + kRegistersAtOnce - 1) / kRegistersAtOnce * kRegistersAtOnce;
    blocks = std::min(blocks, model.registers_per_sm / of_warp / warps);
  }
  if (shared_bytes_per_block > 0) {
    blocks = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(blocks), model.shared_bytes_per_sm / (shared_bytes_per_block + kSystemSharedBytes)));
  }
  return blocks;
}

int most_registers(const GpuModel& model, int threads_per_block) {
  const int warps = (threads_per_block + kWarp - 1) / kWarp;
  const int of_warp = model.registers_per_sm / warps / kRegistersAtOnce * kRegistersAtOnce;
  return std::min(of_warp / kWarp, kMostRegisters);
}

std::uint64_t block_places(int sms, int held_sms, int blocks_per_sm) {
  return static_cast<std::uint64_t>(std::max(0, sms - held_sms)) *
         static_cast<std::uint64_t>(std::max(0, blocks_per_sm));
}

int sms_wanted(const GpuModel& model, const GridShape& shape) {
  const auto held = static_cast<std::uint64_t>(shape.resident_blocks);
  const std::uint64_t wanted = (shape.blocks + held - 1) / held;
  return static_cast<int>(std::clamp<std::uint64_t>(wanted, 1, static_cast<std::uint64_t>(model.sms)));
}

Picoseconds kernel_ps(const GpuModel& model, const GridShape& shape, const KernelCost& cost, int sms) {
  const std::uint64_t at_once = static_cast<std::uint64_t>(shape.resident_blocks) * static_cast<std::uint64_t>(sms);
  const auto waves = static_cast<Picoseconds>((shape.blocks + at_once - 1) / at_once);
  const std::uint64_t operations =
      model.float32_per_second / static_cast<std::uint64_t>(model.sms) * static_cast<std::uint64_t>(sms);
  return std::max({time_ps(cost.memory_bytes, model.memory_bytes_per_second),
                   time_ps(cost.float32_operations, operations), waves * cost.wave_ps});
}

Picoseconds issue_ps(const GpuModel& model, std::uint64_t warp_instructions, int sms) {
  constexpr double kSchedulers = 4, kOperationsOfAnSm = 256;
  const double cycles_per_second = static_cast<double>(model.float32_per_second) / (model.sms * kOperationsOfAnSm);
  return static_cast<Picoseconds>(static_cast<double>(warp_instructions) / (kSchedulers * sms) / cycles_per_second *
                                  static_cast<double>(kPicosecondsPerSecond));
}

Picoseconds copy_ps(const GpuModel& model, CopyKind kind, std::uint64_t size_bytes) {
  switch (kind) {
    case CopyKind::kPinned:
      return model.copy_start_ps + time_ps(size_bytes, model.link_bytes_per_second);
    case CopyKind::kPageable:
      return model.copy_start_ps + time_ps(size_bytes, model.pageable_bytes_per_second);
    case CopyKind::kInside:
      break;
  }
  return model.copy_start_ps + time_ps(2 * size_bytes, model.memory_bytes_per_second);
}

Picoseconds fill_ps(const GpuModel& model, std::uint64_t size_bytes) {
  return model.copy_start_ps + time_ps(size_bytes, model.memory_bytes_per_second);
}

}  // namespace meshbed::models
