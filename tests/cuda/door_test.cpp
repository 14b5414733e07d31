// The product's own door to CUDA (plugin/cuda), on the simulated driver.
#include <string>
#include <vector>

#include "models/gpu.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/module.h"
#include "plugin/cuda/stream.h"
#include "sim/cuda/world/world_cuda.h"
#include "sim/host/host.h"
#include "tests/cuda/gpus.h"
#include "tests/support/run_world.h"
#include "tests/support/taken.h"

using namespace meshbed;
using namespace meshbed::test;

namespace door_test {
namespace {

constexpr std::size_t kCount = 1000;

// Element i of x becomes 2 x + i.
constexpr char kTwice[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [x];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra end;
  mul.wide.u32 %d2, %r5, 4;
  add.s64 %d3, %d1, %d2;
  ld.global.u32 %r6, [%d3];
  mad.lo.s32 %r7, %r6, 2, %r5;
  st.global.u32 [%d3], %r7;
end:
  ret;
}
)";

/// In, doubled by a kernel, and out again; the numbers.
std::vector<unsigned> doubled(const cuda::Driver& driver) {
  const auto stream = taken(cuda::Stream::create(driver));
  const auto there = taken(cuda::DeviceMemory::allocate(driver, kCount * 4));
  const auto here = taken(cuda::PinnedMemory::allocate(driver, kCount * 4));
  auto* numbers = reinterpret_cast<unsigned*>(here.data());
  for (std::size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<unsigned>(3 * i);
  well(stream.copy(there.data(), here.data(), kCount * 4));
  const auto module = taken(cuda::Module::load(driver, kTwice));
  const cuda::CUfunction kernel = taken(module.kernel("twice"));
  cuda::CUdeviceptr x = cuda::address_of(there.data());
  auto count = static_cast<unsigned>(kCount);
  void* arguments[] = {&x, &count};
  well(cuda::launch(driver, kernel, {.grid = {4}, .block = {256}, .stream = stream.handle()}, arguments));
  well(stream.copy(here.data(), there.data(), kCount * 4));
  well(stream.synchronize());
  return {numbers, numbers + kCount};
}

bool is_right(const std::vector<unsigned>& numbers) {
  if (numbers.size() != kCount) return false;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (numbers[i] != static_cast<unsigned>(7 * i)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("no device is an answer") {
  const auto driver = cuda::Driver::open();  // this process has no simulated GPU
  REQUIRE_FALSE(driver.has_value());
  CHECK(driver.error().code == ErrorCode::kUnsupported);
  CHECK(driver.error().text.find("sees no device") != std::string::npos);
}

TEST_CASE("memory, copies, a kernel of PTX text, events: all by entry points that the driver was asked for") {
  run_gpus({}, [] {
    const auto driver = taken(cuda::Driver::open());
    CHECK(driver.devices() == 1);
    const auto context = taken(driver.retain_primary(0));
    const cuda::Current current(driver, context);
    well(current.outcome());
    CHECK(is_right(doubled(driver)));

    const auto memory = taken(cuda::DeviceMemory::allocate(driver, 4096));
    const cuda::Pointer device = taken(driver.look_at(memory.data() + 17));
    CHECK(device.hidden_from_host());
    CHECK(device.device == 0);
    CHECK(device.context == context);
    int local = 0;
    CHECK(taken(driver.look_at(&local)).context == nullptr);
    CHECK_FALSE(taken(driver.look_at(&local)).hidden_from_host());
    const auto pinned = taken(cuda::PinnedMemory::allocate(driver, 4096));
    CHECK_FALSE(taken(driver.look_at(pinned.data())).hidden_from_host());

    const auto stream = taken(cuda::Stream::create(driver));
    const auto begin = taken(cuda::Event::create(driver, true)), end = taken(cuda::Event::create(driver, true));
    well(begin.record(stream.handle()));
    well(stream.fill(memory.data(), 7, 4096));
    well(end.record(stream.handle()));
    CHECK_FALSE(taken(end.has_come()));
    well(end.synchronize());
    CHECK(taken(end.has_come()));
    CHECK(taken(end.milliseconds_since(begin)) > 0);
    well(stream.copy(pinned.data(), memory.data(), 4096));
    well(stream.synchronize());
    CHECK(pinned.data()[4095] == 7);
    CHECK(cuda::DeviceMemory::allocate(driver, std::size_t{1} << 50U).error().text.find("CUDA_ERROR_OUT_OF_MEMORY") !=
          std::string::npos);
  });
}

TEST_CASE("a stream is held until a word in host memory says that it may go on") {
  run_gpus({}, [] {
    const auto driver = taken(cuda::Driver::open());
    const auto context = taken(driver.retain_primary(0));
    const cuda::Current current(driver, context);
    const auto stream = taken(cuda::Stream::create(driver));
    const auto word = taken(cuda::PinnedMemory::allocate(driver, 4));
    auto& value = *reinterpret_cast<volatile unsigned*>(word.data());
    well(cuda::hold_until(driver, stream.handle(), word.device_address(), 3));
    CHECK(taken(cuda::context_of(driver, stream.handle())) == context);
    CHECK_FALSE(taken(cuda::is_recording(driver, stream.handle())));
    for (int look = 0; look < 100; ++look) CHECK_FALSE(taken(stream.is_idle()));
    value = 3;
    well(stream.synchronize());
    CHECK(taken(stream.is_idle()));
  });
}

TEST_CASE("a drop-in that does not load leaves no GPUs open, and where there are none, none was used") {
  models::Cluster cluster = ring_cluster(2);
  for (models::Node& node : cluster.nodes) node.gpus = {{"H100"}};
  run_world({.cluster = cluster}, [](sim::World& world) {
    sim::install_host(world, {});
    const sim::Process& process = world.add_process(0, 0, "rank0");
    sim::CudaFiles files = sim::cuda_files_in(MESHBED_BINARY_DIR "/cuda-lib");
    const std::string driver = std::exchange(files.driver, "/no/such/libcuda.so.1");
    CHECK_THROWS_WITH_AS(sim::WorldCuda(world, files), doctest::Contains("/no/such/libcuda.so.1"), std::runtime_error);
    CHECK(sim::cuda_counts_of(process).copies == 0);
    files.driver = driver;
    { const sim::WorldCuda gpus(world, files); }
    CHECK(sim::cuda_counts_of(process).copies == 0);
  });
}

TEST_CASE("each rank of a simulated world has the GPU of its node, in virtual time, and waiting lets others go on") {
  models::Cluster cluster = ring_cluster(2);
  cluster.nodes[0].gpus = {{"H100"}};
  cluster.nodes[1].gpus = {{"GB10"}, {"GB10"}};
  const auto result = run_world({.cluster = cluster}, [](sim::World& world) {
    sim::install_host(world, {});
    static std::unique_ptr<sim::WorldCuda> gpus;
    gpus = std::make_unique<sim::WorldCuda>(world, sim::cuda_files_in(MESHBED_BINARY_DIR "/cuda-lib"));
    for (int rank = 0; rank < 2; ++rank) {
      sim::Process& process = world.add_process(rank, rank, "rank" + std::to_string(rank));
      world.spawn(process, "main", [&world, rank] {
        const auto driver = taken(cuda::Driver::open());
        CHECK(driver.devices() == rank + 1);
        const cuda::Current current(driver, taken(driver.retain_primary(rank)));
        CHECK(is_right(doubled(driver)));
        // 64 MiB from one place of the device to another: as long as the model says, on each GPU for itself.
        constexpr std::size_t kBytes = 64U << 20U;
        const auto stream = taken(cuda::Stream::create(driver));
        const auto from = taken(cuda::DeviceMemory::allocate(driver, kBytes));
        const auto to = taken(cuda::DeviceMemory::allocate(driver, kBytes));
        const Picoseconds begun_ps = world.now();
        well(stream.copy(to.data(), from.data(), kBytes));
        CHECK(world.now() == begun_ps);
        well(stream.synchronize());
        const models::GpuModel& model = *models::find_gpu(rank == 0 ? "H100" : "GB10");
        CHECK(world.now() - begun_ps == models::copy_ps(model, models::CopyKind::kInside, kBytes) + model.wake_ps);
        const sim::CudaCounts counts = sim::cuda_counts_of(*sim::World::current_process());
        CHECK(counts.copies == 3);
        CHECK(counts.launches == 1);
        CHECK(counts.device_syncs == 3);  // the module and the memories that doubled() gave back
      });
    }
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

}  // namespace door_test
