#include "sim/cuda/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "plugin/base/log.h"
#include "sim/cuda/process/variables.h"
#include "sim/cuda/system.h"
#include "sim/perfetto/demangled.h"

namespace meshbed::sim::cuda {

namespace {

// A slice of a kernel: so short that other work of the simulation, and threads that call, hardly wait for it.
constexpr std::uint64_t kSliceLaneInstructions = 200'000;
/// A kernel that has seen nothing new for so long may leave out looks. Not earlier: one may look at a word some
/// thousand times to measure how long it takes, and NCCL's look at their abort flag every 10,000th time (v2.30.7-1,
/// src/device/primitives.h, NCCL_SPINS_BEFORE_CHECK_ABORT), so that it is known by then.
constexpr Picoseconds kPutOffAfterPs = 10 * kPicosecondsPerMillisecond;
/// Looks after which a kernel that only spins is named.
constexpr std::uint64_t kSpinsUntilNamed = 300'000, kFewestSpins = 300;

/// What passes the link, both ways at once, as a copy's bytes do.
Picoseconds link_ps(const models::GpuModel& model, const ptx::Counts& counts) {
  const std::uint64_t bytes = std::max(counts.link_bytes_read, counts.link_bytes_written);
  return models::copy_ps(model, models::CopyKind::kPinned, bytes) - model.copy_start_ps;
}

/// The kernel has been executed: schedules its end by the model.
void kernel_has_run(const WorkRef& work) {
  Device& device = device_of(*work);
  const auto& launch = std::get<KernelLaunch>(work->task);
  const ptx::Counts& counts = work->run->execution->counts();
  if (const auto& fault = work->run->execution->fault(); fault.has_value()) {
    fail(*work->context, fault_code_of(fault->kind), fault->text);
  }
  if (const std::string& race = work->run->execution->race(); !race.empty()) MESHBED_WARN("%s", race.c_str());
  const models::KernelCost cost{.memory_bytes = counts.global_bytes_read + counts.global_bytes_written,
                                .float32_operations = counts.flops};
  const Picoseconds taken_ps =
      std::max({models::kernel_ps(*device.model, shape_on(*device.model, launch), cost, work->sms),
                models::issue_ps(*device.model, counts.warp_instructions, work->sms), link_ps(*device.model, counts)}) +
      device.model->kernel_gap_ps;
  end_at(work, std::max(host().now(), work->started_ps + taken_ps));
}

/// From one look at the device's memory to the next; one at the host's has its own time (far_ps).
Picoseconds look_ps(const Work& work) { return 2 * device_of(work).model->host_flag_ps; }
Picoseconds far_look_ps(const Work& work) { return device_of(work).model->host_flag_ps; }

/// For a kernel that does not end: that the host waits in a launch.
std::string blocked_launch(const Driver& driver) {
  if (driver.launches_blocked == 0) return "";
  return "; the host waits: a launch blocks while " + std::to_string(driver.pending_launches_most) +
         " launches of its stream's queue are pending (" + kPendingLaunchesVariable + ")";
}

/// For a kernel that polls the host's memory: the words, and where they are. Empty: it polls none.
std::string polled_text(const Work& work) {
  constexpr std::size_t kMost = 4;
  std::string text;
  for (const ptx::Execution::PolledWord& word : work.run->execution->polled_words(kMost)) {
    const auto& allocations = work.context->driver->allocations;
    auto found = allocations.upper_bound(word.address);
    if (found == allocations.begin()) continue;
    const Allocation& memory = (--found)->second;
    if (word.address >= memory.address + memory.size_bytes) continue;
    text += fmt::format("{}byte {} of the {} bytes of host memory at 0x{:x}, which holds {}", text.empty() ? "" : ", ",
                        word.address - memory.address, memory.size_bytes, memory.address, word.value);
  }
  return text.empty() ? "" : "; it looks at " + text + ": a thread of the host or a copy has to write there";
}

/// Counts one more look that changed nothing, and those that were left out before it. If blocks wait for room that the
/// polling blocks do not release, a few looks of all of them are enough evidence.
void name_spin(const Work& work) {
  Run& run = *work.run;
  const Picoseconds since_ps = host().now() - std::exchange(run.looked_ps, host().now());
  run.steps_without_progress += static_cast<std::uint64_t>(std::max<Picoseconds>(since_ps / look_ps(work), 1));
  const ptx::Execution& execution = *run.execution;
  const std::uint64_t blocks = execution.has_blocks_to_begin() ? execution.resident_blocks() : 1;
  const std::uint64_t most = std::max(kSpinsUntilNamed / blocks, kFewestSpins);
  if (run.steps_without_progress < most || std::exchange(run.named, true)) return;
  // Once for each kernel: a host under load lets many launches of it wait long.
  if (!system().refused.insert("polls " + std::get<KernelLaunch>(work.task).name()).second) return;
  MESHBED_WARN(
      "kernel %s polls memory and nothing changes it (%s)%s; if the host waits for this kernel, both wait for ever%s",
      demangled(std::get<KernelLaunch>(work.task).name()).c_str(), execution.waiting().c_str(),
      polled_text(work).c_str(), blocked_launch(*work.context->driver).c_str());
}

void step_kernel(void* self, std::uint64_t id);

/// It waits: the next look at what it waits for is due at `when_ps`, and others each `period_ps`.
void look_again(const WorkRef& work, Picoseconds when_ps, Picoseconds period_ps) {
  Run& run = *work->run;
  const Device& device = device_of(*work);
  if (std::exchange(run.has_changes, false)) host().changed(work->context->driver->process);
  if (run.execution->moved() || run.execution->saw_news()) run.news_ps = run.idled_ps = host().now();
  if (host().now() - run.news_ps < kPutOffAfterPs) {
    host().at(when_ps, device.node, step_kernel, &system(), work->id);
    return;
  }
  const bool idled = run.execution->idled(/*forget=*/host().now() - run.idled_ps >= kPutOffAfterPs);
  if (idled) run.idled_ps = host().now();
  host().look_again(when_ps, idled ? period_ps : 0, device.node, step_kernel, &system(), work->id);
}

void step_kernel(void* self, std::uint64_t id) {
  const WorkRef work = static_cast<System*>(self)->works.find(id);
  if (work == nullptr) return;
  Run& run = *work->run;
  const int node = device_of(*work).node;
  if (std::exchange(run.happened, host().happened()) != run.happened) run.execution->others_acted();
  const ptx::Execution::State state = run.execution->step(kSliceLaneInstructions);
  run.has_changes |= run.execution->moved();
  if (!run.execution->has_blocks_to_begin()) has_begun(*work);
  switch (state) {
    case ptx::Execution::State::kRunning:
      if (run.execution->progresses()) run.steps_without_progress = 0;
      run.news_ps = run.idled_ps = run.looked_ps = host().now();
      host().at(host().now(), node, step_kernel, self, id);
      break;
    case ptx::Execution::State::kFar:
      if (run.execution->moved()) run.steps_without_progress = 0;
      name_spin(*work);
      look_again(work, run.execution->next_ps(), far_look_ps(*work));
      break;
    case ptx::Execution::State::kSpinning:
      name_spin(*work);
      look_again(work, host().now() + look_ps(*work), look_ps(*work));
      break;
    case ptx::Execution::State::kFinished:
    case ptx::Execution::State::kFault:
      kernel_has_run(work);
      break;
  }
}

}  // namespace

void begin_run(const WorkRef& work) {
  Device& device = device_of(*work);
  Driver& driver = *work->context->driver;
  auto& launch = std::get<KernelLaunch>(work->task);
  work->run = std::make_unique<Run>(driver);
  ptx::LaunchRequest request;
  request.module = launch.module;
  request.kernel = launch.info;
  std::copy_n(launch.grid, 3, request.grid.begin());
  std::copy_n(launch.block, 3, request.block.begin());
  std::copy_n(launch.cluster, 3, request.cluster.begin());
  request.is_explicit_cluster = launch.has_cluster;
  request.dynamic_shared_bytes = launch.shared_bytes;
  request.parameters = std::move(launch.values);
  request.variable_addresses = std::move(launch.variables);
  const models::GridShape shape = shape_on(*device.model, launch);
  const auto held = static_cast<std::uint64_t>(shape.resident_blocks) * static_cast<std::uint64_t>(work->sms);
  request.resident_blocks = static_cast<std::uint32_t>(std::min(held, shape.blocks));
  request.sms = static_cast<std::uint32_t>(work->sms);
  request.cooperative = launch.cooperative;
  request.check_races = driver.checks_races;
  request.seed = driver.seed;
  request.clock_ns = [] { return static_cast<std::uint64_t>(host().now() / kPicosecondsPerNanosecond); };
  request.now_ps = [] { return static_cast<std::int64_t>(host().now()); };
  // A kernel's look at a word of the host's takes about as long as a word's way to the other side: 1.25 to 1.67 us on
  // an H200, where a word to a polling kernel and back took 2.57 us (meshbed ring bench --gpu, calibrate gpu). What
  // that way is longer than the look that ends it, the look that sees the news takes more.
  request.far_ps = far_look_ps(*work);
  request.far_news_ps = 2 * device.model->host_flag_ps - request.far_ps;
  request.print = [&driver](std::string_view text) { driver.printed.append(text); };
  Context& context = *work->context;
  request.allocate = [&context](std::uint64_t bytes) -> std::uint64_t {
    CUdeviceptr address = 0;
    const Caller caller{.driver = context.driver, .context = &context};
    return allocate_device(caller, bytes, nullptr, address) == kSuccess ? address : 0;
  };
  request.release = [&driver](std::uint64_t address) { free_allocation(driver, address); };
  request.spares = &system().spare_grids;
  auto execution = ptx::Execution::start(std::move(request), work->run->view);
  if (!execution) {
    fail(*work->context, kLaunchFailed, "kernel " + launch.name() + ": " + execution.error().text);
    end_at(work, host().now());
    return;
  }
  work->run->execution = std::move(*execution);
  work->run->news_ps = work->run->idled_ps = work->run->looked_ps = host().now();
  step_kernel(&system(), work->id);
}

}  // namespace meshbed::sim::cuda
