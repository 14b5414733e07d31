#include "sim/cuda/work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "plugin/base/log.h"
#include "sim/cuda/ptx/vector/single_access.h"
#include "sim/cuda/run.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

Work::Work() = default;
Work::~Work() = default;

namespace {

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

std::string text_of_grid(const KernelLaunch& launch) {
  const auto& [x, y, z] = launch.grid;
  const auto& [threads_x, threads_y, threads_z] = launch.block;
  return fmt::format("{}x{}x{} blocks of {}x{}x{}", x, y, z, threads_x, threads_y, threads_z);
}

void note(const Work& work) {
  Record& record = system().record;
  const Picoseconds taken_ps = work.ended_ps - work.started_ps;
  std::string_view name;
  std::uint64_t bytes = 0;
  std::string grid;
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
    if (record.keeps_spans) grid = text_of_grid(*launch);
  } else if (const auto* copy = std::get_if<Copy>(&work.task)) {
    name = copy->engine == Engine::kIn    ? "copy host to device"
           : copy->engine == Engine::kOut ? "copy device to host"
                                          : "copy inside the device";
    CopyTotals& totals = record.copies[std::string(name)];
    ++totals.copies;
    totals.bytes += bytes = copy->width_bytes * copy->height * copy->depth;
    totals.time_ps += taken_ps;
  } else if (const auto* fill = std::get_if<Fill>(&work.task)) {
    name = "fill";
    CopyTotals& totals = record.copies[std::string(name)];
    ++totals.copies;
    totals.bytes += bytes = fill->element_bytes * fill->count * fill->rows;
    totals.time_ps += taken_ps;
  } else if (std::holds_alternative<HostCall>(work.task)) {
    name = "host function";
  }
  if (!record.keeps_spans || name.empty()) return;
  record.keep({.name = std::string(name),
               .track = "GPU " + std::to_string(device_of(work).index) + ", stream " + std::to_string(work.stream_id),
               .process = work.context->driver->process,
               .begin_ps = work.started_ps,
               .end_ps = work.ended_ps,
               .grid = std::move(grid),
               .bytes = bytes});
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
      // A stream's callback gets the error; a host function is not called after one.
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
    host().spin({.what = "cuStreamWaitValue", .object = work->id, .describe = describe});
  }
  finish(work);
}

}  // namespace

Device& device_of(const Work& work) { return *work.context->device; }

void end_at(const WorkRef& work, Picoseconds when_ps) {
  host().at(when_ps, device_of(*work).node, due, &system(), work->id);
}

void fail(Context& context, CUresult code, const std::string& text) {
  if (context.failure != kSuccess) return;
  context.failure = code;
  MESHBED_WARN("%s; every later call in this context returns error %d (%s)", text.c_str(), code, error_text(code));
}

void has_begun(Work& work) {
  if (work.begun != nullptr) release(std::exchange(work.begun, nullptr));
}

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
    if (!host().spin({.what = what, .object = work->id, .describe = describe})) return false;
  }
  return true;
}

}  // namespace meshbed::sim::cuda
