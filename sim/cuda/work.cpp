#include "sim/cuda/work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugin/base/log.h"
#include "sim/cuda/device_view.h"
#include "sim/cuda/process/variables.h"
#include "sim/cuda/ptx/vector/single_access.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

/// A kernel's PTX while it runs.
struct Run {
  explicit Run(Driver& driver) : view(driver) {}
  DeviceView view;
  std::unique_ptr<ptx::Execution> execution{};
  std::uint64_t steps_without_progress = 0;
  bool has_changes = false;    // of which host().changed() has not been told
  Picoseconds news_ps = 0;     // when a step last saw something new
  std::uint64_t happened = 0;  // Host::happened() at the last step
  bool named = false;          // that it only spins
};

Work::Work() = default;
Work::~Work() = default;

namespace {

// A slice of a kernel: so short that other work of the simulation, and threads that call, hardly wait for it.
constexpr std::uint64_t kSliceLaneInstructions = 200'000;
/// Looks after which a kernel that only spins is named.
/// A kernel that has seen nothing new for so long may leave out looks. Not earlier: one may look at a word some
/// thousand times to measure how long it takes, or give up after as many.
constexpr Picoseconds kPutOffAfterPs = 2 * kPicosecondsPerMillisecond;
constexpr std::uint64_t kSpinsUntilNamed = 300'000, kFewestSpins = 300;

struct LaunchScope {
  const Driver* driver = nullptr;
  bool strayed = false;
};

void* memory_of(const MeshbedLaunch* launch, unsigned long long address, std::size_t size_bytes) {
  auto& scope = *static_cast<LaunchScope*>(launch->simulator);
  char* bytes = bytes_at(*scope.driver, address, size_bytes);
  scope.strayed = scope.strayed || bytes == nullptr;
  return bytes;
}

/// Calls function(launch as the interpreter sees it); what it returns, or that the kernel used foreign addresses.
template <typename Function>
CUresult with_launch(const Work& work, const Function& function) {
  const auto& launch = std::get<KernelLaunch>(work.task);
  std::vector<const void*> arguments;
  for (const ptx::Parameter& one : launch.parameters()) arguments.push_back(launch.values.data() + one.offset);
  LaunchScope scope{.driver = work.context->driver};
  MeshbedLaunch seen{};
  std::copy_n(launch.grid, 3, seen.grid);
  std::copy_n(launch.block, 3, seen.block);
  seen.shared_bytes = launch.shared_bytes;
  seen.device = work.context->ordinal;
  seen.arguments = arguments.data();
  seen.user = launch.code->user;
  seen.simulator = &scope;
  seen.memory = memory_of;
  const CUresult result = function(seen);
  return scope.strayed ? kIllegalAddress : result;
}

Device& device_of(const Work& work) { return *work.context->device; }

std::string describe(std::uint64_t id) {
  const WorkRef found = system().works.find(id);
  if (found == nullptr) return "work that has ended";
  const Work& work = *found;
  std::string text = "work " + std::to_string(Works::number_of(id));
  if (const auto* launch = std::get_if<KernelLaunch>(&work.task)) text += ", kernel " + launch->name();
  if (std::holds_alternative<Copy>(work.task)) text += ", a copy";
  if (std::holds_alternative<HostCall>(work.task)) text += ", a host function";
  if (std::holds_alternative<WaitValue>(work.task)) text += ", a wait for a word of memory";
  return text + (work.before > 0 ? ", behind others" : ", under way");
}

void finish(const WorkRef& work);

void due(void* self, std::uint64_t id) {
  if (const WorkRef work = static_cast<System*>(self)->works.find(id)) finish(work);
}

void end_at(const WorkRef& work, Picoseconds when_ps) {
  host().at(when_ps, device_of(*work).node, due, &system(), work->id);
}

void step_kernel(void* self, std::uint64_t id);

/// The context is of no use from now on, and it is said once why.
void fail(Context& context, CUresult code, const std::string& text) {
  if (context.failure != kSuccess) return;
  context.failure = code;
  MESHBED_WARN("%s; every later call in this context returns error %d (%s)", text.c_str(), code, error_text(code));
}

/// What passes the link, both ways at once, as a copy's bytes do.
Picoseconds link_ps(const models::GpuModel& model, const ptx::Counts& counts) {
  const std::uint64_t bytes = std::max(counts.link_bytes_read, counts.link_bytes_written);
  return models::copy_ps(model, models::CopyKind::kPinned, bytes) - model.copy_start_ps;
}

/// It has run to its end: when does the model say that it ends?
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

/// One look more that changed nothing. Where blocks wait for a place that those which look do not give, few looks of
/// all of them say as much.
/// For a kernel that does not end: that the host waits in a launch.
std::string blocked_launch(const Driver& driver) {
  if (driver.launches_blocked == 0) return "";
  return "; the host waits: a launch blocks while " + std::to_string(driver.pending_launches_most) +
         " launches of its stream's queue are pending (" + kPendingLaunchesVariable + ")";
}

void name_spin(const Work& work) {
  const ptx::Execution& execution = *work.run->execution;
  const std::uint64_t blocks = execution.has_blocks_to_begin() ? execution.resident_blocks() : 1;
  const std::uint64_t most = std::max(kSpinsUntilNamed / blocks, kFewestSpins);
  if (++work.run->steps_without_progress < most || work.run->named) return;
  work.run->named = true;
  // Once for each kernel: a host under load lets many launches of it wait long.
  if (!system().refused.insert("polls " + std::get<KernelLaunch>(work.task).name()).second) return;
  MESHBED_WARN(
      "kernel %s polls memory and nothing changes it (%s): if the host waits for this kernel, both wait for ever%s",
      std::get<KernelLaunch>(work.task).name().c_str(), work.run->execution->waiting().c_str(),
      blocked_launch(*work.context->driver).c_str());
}

void has_begun(Work& work) {
  if (work.begun != nullptr) release(std::exchange(work.begun, nullptr));
}

/// It waits: the next look at what it waits for is due at `when_ps`.
void look_again(const WorkRef& work, Picoseconds when_ps) {
  Run& run = *work->run;
  const Device& device = device_of(*work);
  if (std::exchange(run.has_changes, false)) host().changed(work->context->driver->process);
  if (run.execution->moved() || run.execution->saw_news()) run.news_ps = host().now();
  if (host().now() - run.news_ps < kPutOffAfterPs) {
    host().at(when_ps, device.node, step_kernel, &system(), work->id);
    return;
  }
  const Picoseconds period_ps = run.execution->idled() ? 2 * device.model->host_flag_ps : 0;
  host().look_again(when_ps, period_ps, device.node, step_kernel, &system(), work->id);
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
      run.news_ps = host().now();
      host().at(host().now(), node, step_kernel, self, id);
      break;
    case ptx::Execution::State::kFar:
      if (run.execution->moved()) run.steps_without_progress = 0;
      name_spin(*work);
      look_again(work, run.execution->next_ps());
      break;
    case ptx::Execution::State::kSpinning:
      name_spin(*work);
      // Of its own memory; a look at the host's has its own time (kFar).
      look_again(work, host().now() + 2 * device_of(*work).model->host_flag_ps);
      break;
    case ptx::Execution::State::kFinished:
    case ptx::Execution::State::kFault:
      kernel_has_run(work);
      break;
  }
}

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
  request.far_ps = device.model->host_flag_ps;
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
  step_kernel(&system(), work->id);
}

void start_kernels(Device& device) {
  while (!device.kernels.empty() && device.free_sms > 0) {
    const WorkRef work = device.kernels.front();
    const auto& launch = std::get<KernelLaunch>(work->task);
    const models::GridShape shape = shape_on(*device.model, launch);
    const int wanted = models::sms_wanted(*device.model, shape);
    // All blocks of a cooperative launch are resident at once, or it does not begin; so are those of a cluster.
    if (launch.cooperative && device.free_sms < wanted) return;
    const auto cluster_blocks = static_cast<int>(launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
    if (device.free_sms * shape.resident_blocks < cluster_blocks) return;
    device.kernels.pop_front();
    work->sms = std::min(device.free_sms, wanted);
    device.free_sms -= work->sms;
    work->started_ps = host().now();
    if (launch.code == nullptr && work->context->failure == kSuccess) {
      begin_run(work);
      continue;
    }
    MeshbedCost cost{};
    if (launch.code != nullptr && launch.code->cost != nullptr && work->context->failure == kSuccess) {
      with_launch(*work, [&](const MeshbedLaunch& seen) {
        launch.code->cost(&seen, &cost);
        return kSuccess;
      });
    }
    const models::KernelCost whole{.memory_bytes = cost.memory_bytes,
                                   .float32_operations = cost.float32_operations,
                                   .wave_ps = static_cast<Picoseconds>(cost.wave_ns) * kPicosecondsPerNanosecond};
    end_at(work,
           host().now() + models::kernel_ps(*device.model, shape, whole, work->sms) + device.model->kernel_gap_ps);
  }
}

void take_engine(const WorkRef& work, Engine engine, Picoseconds taken_ps) {
  Picoseconds& free_ps = device_of(*work).engine_free_ps[static_cast<std::size_t>(engine)];
  work->started_ps = std::max(free_ps, host().now());
  free_ps = work->started_ps + taken_ps;
  end_at(work, free_ps);
}

void ready(const WorkRef& work);

void leave_queue(const WorkRef& work) {
  Queue* const queue = std::exchange(work->queue, nullptr);
  if (queue == nullptr) return;
  queue->works.pop_front();
  for (const ThreadKey thread : work->waiting) host().wake(thread);  // for room in the queue
  if (!queue->works.empty() && queue->works.front()->is_ready) ready(WorkRef(queue->works.front()));
}

void start(const WorkRef& work) {
  Device& device = device_of(*work);
  if (!std::holds_alternative<WaitValue>(work->task)) leave_queue(work);
  if (std::holds_alternative<KernelLaunch>(work->task)) {
    device.kernels.push_back(work);
    start_kernels(device);
  } else if (const auto* copy = std::get_if<Copy>(&work->task)) {
    take_engine(work, copy->engine,
                models::copy_ps(*device.model, copy->kind, copy->width_bytes * copy->height * copy->depth));
  } else if (const auto* fill = std::get_if<Fill>(&work->task)) {
    take_engine(work, Engine::kInside, models::fill_ps(*device.model, fill->element_bytes * fill->count * fill->rows));
  } else if (std::holds_alternative<HostCall>(work->task)) {
    Driver& driver = *work->context->driver;
    driver.host_calls.push_back(work);
    host().wake(driver.host_thread);
  } else if (work->looker != nullptr) {
    work->is_on = true;
    host().wake(work->looker);
  } else {
    finish(work);
  }
}

void turn_comes(void* self, std::uint64_t id) {
  if (const WorkRef work = static_cast<System*>(self)->works.find(id)) start(work);
}

void ready(const WorkRef& work) {
  work->is_ready = true;
  if (work->queue != nullptr && work->queue->works.front() != work) return;
  const Picoseconds now_ps = host().now();
  // By an event even now: an end releases many, which must not stand on one another's stack.
  host().at(std::max(now_ps, work->not_before_ps), device_of(*work).node, turn_comes, &system(), work->id);
}

void take_effect(Work& work) {
  if (const auto* launch = std::get_if<KernelLaunch>(&work.task)) {
    if (launch->code == nullptr) return;  // its PTX has run
    const CUresult result = with_launch(work, [&](const MeshbedLaunch& seen) { return launch->code->run(&seen); });
    if (result != kSuccess) {
      fail(*work.context, result,
           "kernel " + launch->name() +
               (result == kIllegalAddress ? ": an address that is not the program's device memory"
                                          : ": its host function returned an error"));
    }
  } else if (const auto* copy = std::get_if<Copy>(&work.task)) {
    copy_bytes(*copy);
  } else if (const auto* fill = std::get_if<Fill>(&work.task)) {
    for (std::size_t row = 0; row < fill->rows; ++row) {
      char* target = fill->target + row * fill->pitch;
      if (fill->element_bytes == 1) {
        std::memset(target, static_cast<int>(fill->value), fill->count);
        continue;
      }
      for (std::size_t index = 0; index < fill->count; ++index) {
        ptx::copy_once(target + index * fill->element_bytes, &fill->value, fill->element_bytes);
      }
    }
  } else if (const auto* action = std::get_if<Action>(&work.task)) {
    (*action)();
  }
}

void note(const Work& work) {
  Record& record = system().record;
  const Picoseconds taken_ps = work.ended_ps - work.started_ps;
  std::string_view name;
  if (const auto* launch = std::get_if<KernelLaunch>(&work.task)) {
    const models::GpuModel& model = *device_of(work).model;
    const models::GridShape shape = shape_on(model, *launch);
    KernelTotals& totals = record.kernels[launch->name()];
    if (work.run != nullptr) totals.counts += work.run->execution->counts();
    ++totals.launches;
    totals.blocks += shape.blocks;
    totals.time_ps += taken_ps;
    totals.occupancy = static_cast<double>(shape.resident_blocks * launch->threads()) / model.threads_per_sm;
    name = launch->name();
  } else if (const auto* copy = std::get_if<Copy>(&work.task)) {
    name = copy->engine == Engine::kIn    ? "copy host to device"
           : copy->engine == Engine::kOut ? "copy device to host"
                                          : "copy inside the device";
    CopyTotals& totals = record.copies[std::string(name)];
    ++totals.copies;
    totals.bytes += copy->width_bytes * copy->height * copy->depth;
    totals.time_ps += taken_ps;
  } else if (const auto* fill = std::get_if<Fill>(&work.task)) {
    name = "fill";
    CopyTotals& totals = record.copies[std::string(name)];
    ++totals.copies;
    totals.bytes += fill->element_bytes * fill->count * fill->rows;
    totals.time_ps += taken_ps;
  } else if (std::holds_alternative<HostCall>(work.task)) {
    name = "host function";
  }
  if (!record.keeps_spans || name.empty()) return;
  record.spans.push_back(
      {.name = std::string(name),
       .track = "GPU " + std::to_string(device_of(work).index) + ", stream " + std::to_string(work.stream_id),
       .begin_ps = work.started_ps,
       .end_ps = work.ended_ps});
}

void finish(const WorkRef& work) {
  Device& device = device_of(*work);
  // Where a kernel has failed nothing after it happens any more; it only ends.
  if (work->context->failure == kSuccess) take_effect(*work);
  work->ended_ps = host().now();
  if (work->started_ps < 0) work->started_ps = work->ended_ps;
  if (work->context->failure == kSuccess) note(*work);
  work->run.reset();
  has_begun(*work);
  system().works.remove(work->id);
  leave_queue(work);
  if (work->sms > 0) {
    device.free_sms += std::exchange(work->sms, 0);
    start_kernels(device);
  }
  for (const ThreadKey thread : std::exchange(work->waiting, {})) host().wake(thread);
  for (const WorkRef& next : std::exchange(work->after, {})) {
    if (--next->before == 0) ready(next);
  }
  host().changed(work->context->driver->process);
  work->task = Marker{};  // what it held
}

/// The driver's own thread, on which host functions run, one after the other.
void run_host_calls(Driver& driver) {
  for (;;) {
    while (driver.host_calls.empty()) host().block({.what = "CUDA's thread for host functions"});
    const WorkRef work = driver.host_calls.front();
    driver.host_calls.pop_front();
    const HostCall call = std::get<HostCall>(work->task);
    work->started_ps = host().now();
    const CUresult failure = work->context->failure;
    host().outside([&] {
      // A stream's callback is told of an error; a host function is not called after one.
      if (call.callback != nullptr) call.callback(call.stream, failure, call.data);
      if (call.function != nullptr && failure == kSuccess) call.function(call.data);
    });
    finish(work);
  }
}

/// A thread of the GPU's that looks at a word of memory when the stream has come to it.
void run_wait(const WorkRef& work) {
  while (!work->is_on) host().block({.what = "a stream's wait", .object = work->id, .describe = describe});
  while (work->context->failure == kSuccess && !is_met(std::get<WaitValue>(work->task))) {
    host().spin(work.get(), {.what = "cuStreamWaitValue", .object = work->id, .describe = describe});
  }
  finish(work);
}

}  // namespace

WorkRef make_work(Context& context, Task&& task, Picoseconds not_before_ps) {
  System& all = system();
  auto work = std::make_shared<Work>();
  work->context = &context;
  work->task = std::move(task);
  work->not_before_ps = not_before_ps;
  work->id = all.works.add(work);
  Driver& driver = *context.driver;
  count(driver.counters, work->task);
  if (std::holds_alternative<HostCall>(work->task) && driver.host_thread == nullptr) {
    driver.host_thread = host().spawn(driver.process, "cuda host functions", [&driver] { run_host_calls(driver); });
  }
  if (std::holds_alternative<WaitValue>(work->task)) {
    work->looker = host().spawn(driver.process, "cuda stream wait", [work] { run_wait(work); });
  }
  return work;
}

void put_before(const WorkRef& first, const WorkRef& second) {
  if (first == nullptr || first->ended()) return;
  first->after.push_back(second);
  ++second->before;
}

void enqueue(const WorkRef& work, Queue& queue) {
  work->queue = &queue;
  queue.works.push_back(work);
}

void release(const WorkRef& work) {
  if (--work->before == 0) ready(work);
}

void wait_for(const WorkRef& work, const char* what) {
  if (work == nullptr) return;
  Driver& driver = *work->context->driver;
  const Picoseconds wake_ps = device_of(*work).model->wake_ps;
  while (!work->ended()) {
    work->waiting.push_back(host().thread());
    host().block({.what = what, .object = work->id, .describe = describe});
    std::erase(work->waiting, host().thread());
  }
  flush_printed(driver);
  host().sleep(wake_ps);
}

void wait_until_begun(const WorkRef& launch) {
  Driver& driver = *launch->context->driver;
  ++driver.launches_blocked;
  while (launch->is_pending()) {
    launch->waiting.push_back(host().thread());
    host().block({.what = "a launch, which waits for room in its stream's queue of pending launches",
                  .object = launch->id,
                  .describe = describe});
    std::erase(launch->waiting, host().thread());
  }
  --driver.launches_blocked;
}

bool poll(const WorkRef& work, const char* what) {
  if (work == nullptr) return true;
  while (!work->ended()) {
    if (!host().spin(work.get(), {.what = what, .object = work->id, .describe = describe})) return false;
  }
  return true;
}

}  // namespace meshbed::sim::cuda
