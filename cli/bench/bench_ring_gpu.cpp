#include "cli/bench/bench_ring_gpu.h"

// Each operation is timed from the host's call until the host sees its effect, which both methods have in common. The
// slot published into a ring is a NOP, the launched kernel is empty.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plugin/cuda/graph.h"
#include "plugin/ring/gpu/gpu_ring.h"
#include "testbed/base/host_clock.h"

namespace meshbed::testbed {
namespace {

constexpr ring::Word kSlotBurst = 64;
constexpr int kBenchWarmUps = 5;

constexpr const char* kBenchKernels = R"(.version 6.0
.target sm_52
.address_size 64

.visible .entry nothing() { ret; }

.visible .entry tell(.param .u64 word, .param .u32 value) {
  .reg .b32 %r<2>;
  .reg .b64 %d<2>;
  ld.param.u64 %d1, [word];
  ld.param.u32 %r1, [value];
  st.volatile.global.u32 [%d1], %r1;
  ret;
}
)";

template <typename T>
T from_gpu(Result<T> result) {
  if (!result) throw std::runtime_error("ring bench --gpu: " + result.error().text);
  return std::move(result).value();
}
void gpu_done(const Result<void>& result) {
  if (!result) throw std::runtime_error("ring bench --gpu: " + result.error().text);
}

document::Table gpu_times() {
  using document::number;
  return {.key = "rows",
          .meaning = "times of one operation",
          .columns = {number("median_us", "us", "of all repeats").shown("median us", 11, "").rounded(3),
                      number("p10_us", "us", "one of ten took at most this").shown("p10", 8).rounded(3),
                      number("p90_us", "us", "nine of ten took at most this").shown("p90", 8).rounded(3),
                      document::text("what", "the operation").shown(" ", 0, "  ").left(),
                      document::integer("operations_of_a_repeat", "", "a repeat's time is divided by them"),
                      document::integer("repeats", "", "of the measurement")}};
}

class GpuBench {
 public:
  GpuBench(const cuda::Driver& driver, int repeats)
      : driver_(driver),
        repeats_(repeats),
        module_(from_gpu(cuda::Module::load(driver, kBenchKernels))),
        stream_(from_gpu(cuda::Stream::create(driver))),
        word_(from_gpu(cuda::PinnedMemory::allocate(driver, sizeof(std::uint32_t)))),
        nothing_(from_gpu(module_.kernel("nothing"))),
        tell_(from_gpu(module_.kernel("tell"))) {}

  const HostClock& clock() const { return clock_; }

  void launches() {
    add("launch an empty kernel, and synchronize", 1, [&] {
      launch(nothing_, {});
      gpu_done(stream_.synchronize());
    });
    std::uint32_t number = 0;
    auto* const word = reinterpret_cast<std::uint32_t*>(word_.data());
    *word = 0;
    add("launch, until the host sees the kernel's store", 1, [&] {
      cuda::CUdeviceptr where = word_.device_address();
      ++number;
      launch(tell_, {&where, &number});
      wait_for([&] { return std::atomic_ref(*word).load(std::memory_order_acquire) == number; }, "a kernel's store");
    });
    gpu_done(stream_.synchronize());
    add(fmt::format("{} launches, and synchronize: each", kSlotBurst), kSlotBurst, [&] {
      for (ring::Word count = 0; count < kSlotBurst; ++count) launch(nothing_, {});
      gpu_done(stream_.synchronize());
    });
  }

  /// Kernels of one graph run one after the other, as in a stream.
  void graph() {
    const auto graph = from_gpu(cuda::Graph::record(driver_, stream_, [&]() -> Result<void> {
      for (ring::Word count = 0; count < kSlotBurst; ++count) launch(nothing_, {});
      return ok();
    }));
    add(fmt::format("a graph of {} kernels, and synchronize: each", kSlotBurst), kSlotBurst, [&] {
      gpu_done(graph.launch(stream_));
      gpu_done(stream_.synchronize());
    });
  }

  void slots(const std::string& what, const ring::GpuRingShape& shape) {
    const auto ring = from_gpu(ring::GpuRing::create(driver_, shape));
    gpu_done(ring->launch());
    const ring::Word count = shape.slots;
    add(what, count, [&] {
      for (ring::Word slot = 0; slot < count; ++slot) {
        gpu_done(ring->publish({.slot = slot, .opcode = ring::opcode::kNop}));
      }
      for (ring::Word slot = 0; slot < count; ++slot) {
        // Of a burst as exact for each as one look is alone.
        wait_for([&] { return ring->status_of(slot) == ring::status::kDone; }, "a slot's end", count * kLookPs);
      }
    });
    gpu_done(ring->shut_down());
    wait_for([&] { return from_gpu(ring->has_ended()); }, "the megakernel's end");
  }

  document::Table rows = gpu_times();

 private:
  void launch(cuda::CUfunction kernel, std::vector<void*> arguments) const {
    gpu_done(cuda::launch(driver_, kernel, {.grid = {}, .block = {}, .shared_bytes = 0, .stream = stream_.handle()},
                          arguments.data()));
  }

  template <typename Condition>
  void wait_for(const Condition& holds, const char* what, Picoseconds look_ps = kLookPs) const {
    constexpr int kLooksBetweenClocks = 4096;
    constexpr Picoseconds kLongest = 5 * kPicosecondsPerSecond;
    const Picoseconds begun_ps = clock_.now_ps();
    for (int look = 1; !holds(); ++look) {
      clock_.pause(look_ps);
      if (look % kLooksBetweenClocks == 0 && clock_.now_ps() - begun_ps > kLongest) {
        throw std::runtime_error(fmt::format("ring bench --gpu: {} did not come within 5 s", what));
      }
    }
  }

  /// `each`: the number of operations in a call.
  void add(const std::string& what, ring::Word each, const std::function<void()>& call) {
    for (int count = 0; count < kBenchWarmUps; ++count) call();
    std::vector<double> times_us;
    for (int count = 0; count < repeats_; ++count) {
      const Picoseconds begun_ps = clock_.now_ps();
      call();
      times_us.push_back(static_cast<double>(clock_.now_ps() - begun_ps) / kPicosecondsPerMicrosecond / each);
    }
    std::sort(times_us.begin(), times_us.end());
    const auto at = [&](double share) {
      return times_us[static_cast<std::size_t>(share * static_cast<double>(times_us.size() - 1) + 0.5)];
    };
    rows.add({at(0.5), at(0.1), at(0.9), what, each, repeats_});
  }

  const cuda::Driver& driver_;
  HostClock clock_;
  int repeats_;
  cuda::Module module_;
  cuda::Stream stream_;
  cuda::PinnedMemory word_;
  cuda::CUfunction nothing_, tell_;
};

/// The version of the driver's kernel module; "": it cannot be read.
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::smatch version;
  return std::regex_search(line, version, std::regex("[0-9]+\\.[0-9]+(\\.[0-9]+)?")) ? version.str() : "";
}

}  // namespace

document::Section bench_ring_on_gpu(int device, int repeats) {
  const auto driver = from_gpu(cuda::Driver::open());
  if (device >= driver.devices()) {
    throw std::runtime_error(
        fmt::format("ring bench --gpu: there is no device {}; the driver has {}", device, driver.devices()));
  }
  const cuda::Current current(driver, from_gpu(driver.retain_primary(device)));
  gpu_done(current.outcome());
  const int version = from_gpu(driver.version());
  GpuBench bench(driver, repeats);
  bench.launches();
  bench.graph();
  using ring::GpuLanes, ring::GpuPlace;
  const auto shape = [](ring::Word slots, ring::Word lanes, GpuLanes lanes_are, GpuPlace place) {
    ring::GpuRingShape made{.slots = slots, .lanes = lanes, .lanes_are = lanes_are, .place = place};
    made.threads = lanes_are == GpuLanes::kThreads ? 32 : 1;
    return made;
  };
  for (const GpuPlace place : {GpuPlace::kPinned, GpuPlace::kDevice}) {
    const std::string where = place == GpuPlace::kPinned ? "control in pinned memory" : "control on the GPU";
    bench.slots("publish a slot, until the host sees DONE; " + where, shape(1, 1, GpuLanes::kBlocks, place));
    bench.slots(fmt::format("{} slots, one lane, {}: each", kSlotBurst, where),
                shape(kSlotBurst, 1, GpuLanes::kBlocks, place));
    bench.slots(fmt::format("{0} slots, {0} blocks, {1}: each", kSlotBurst, where),
                shape(kSlotBurst, kSlotBurst, GpuLanes::kBlocks, place));
    bench.slots(fmt::format("{0} slots, {0} threads, {1}: each", kSlotBurst, where),
                shape(kSlotBurst, kSlotBurst, GpuLanes::kThreads, place));
  }
  document::Section section{.key = "gpu", .title = "GPU"};
  section.with({document::text("gpu", "its name"), document::text("cuda_version", "of the driver's interface"),
                document::text("driver", "version of the kernel module; empty: unknown, or simulated"),
                document::flag("is_simulated", "nothing was measured"),
                document::text("times_from", "which clock, or which model")});
  const bool is_simulated = bench.clock().is_simulated();
  const std::string cuda_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  const std::string module = is_simulated ? std::string() : kernel_module_version();
  const std::string times =
      is_simulated ? "the model of that GPU (models/gpu.h), by the simulated host's clock: nothing was measured"
                   : "this machine's clock";
  const std::string name = from_gpu(driver.device_name(device));
  section.set("gpu", name);
  section.set("cuda_version", cuda_version);
  section.set("driver", module);
  section.set("is_simulated", is_simulated);
  section.set("times_from", times);
  section.with(std::move(bench.rows));
  section.line("{}, CUDA {}{}; times from {}", name, cuda_version, module.empty() ? "" : ", driver " + module, times);
  section.show("rows");
  return section;
}

}  // namespace meshbed::testbed
