#include "sim/cuda/system.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "models/gpu_fields.h"
#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "sim/cuda/process/variables.h"

namespace meshbed::sim::cuda {
namespace {

// One a process: what the drop-ins' calls act upon has no other way to it. Set before the first call.
Host* g_host = nullptr;
std::unique_ptr<System> g_system;

/// CUDA_VISIBLE_DEVICES as the driver reads it: indices, up to the first that is none.
std::vector<Device*> visible_devices(System& all, ProcessKey process) {
  auto& own = all.devices[static_cast<std::size_t>(host().node_of(process))];
  std::vector<Device*> seen;
  const auto& environment = host().environment_of(process);
  const auto variable = environment.find("CUDA_VISIBLE_DEVICES");
  if (variable == environment.end()) {
    for (Device& device : own) seen.push_back(&device);
    return seen;
  }
  const std::string& list = variable->second;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    const std::string entry = list.substr(begin, comma - begin);
    const bool is_number = !entry.empty() && entry.size() < 4 && entry.find_first_not_of("0123456789") == entry.npos;
    const std::size_t index = is_number ? std::stoul(entry) : own.size();
    if (index >= own.size() || std::find(seen.begin(), seen.end(), &own[index]) != seen.end()) break;
    seen.push_back(&own[index]);
    begin = comma + 1;
  }
  return seen;
}

/// MESHBED_CUDA_CHECK: what is to be looked for while kernels run.
bool wants_races(ProcessKey process) {
  const auto& environment = host().environment_of(process);
  const auto variable = environment.find("MESHBED_CUDA_CHECK");
  if (variable == environment.end() || variable->second.empty()) return false;
  if (variable->second == "race") return true;
  MESHBED_WARN("MESHBED_CUDA_CHECK=%s: nothing of that name can be looked for; accepted: race",
               variable->second.c_str());
  return false;
}

struct NumberVariable {
  const char* name;
  std::uint64_t least, most, otherwise;
};
constexpr NumberVariable kSeedNumber{.name = kSeedVariable, .least = 0, .most = UINT64_MAX, .otherwise = 0};
constexpr NumberVariable kPendingNumber{
    .name = kPendingLaunchesVariable, .least = 1, .most = 1 << 20U, .otherwise = 1024};

/// Of the process's environment; a value that is not such a number is warned of, and has no effect.
std::uint64_t setting_of(ProcessKey process, const NumberVariable& wanted) {
  const auto& environment = host().environment_of(process);
  const auto variable = environment.find(wanted.name);
  if (variable == environment.end() || variable->second.empty()) return wanted.otherwise;
  const std::string& text = variable->second;
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = problem == std::errc() && end == text.data() + text.size();
  if (is_number && number >= wanted.least && number <= wanted.most) return number;
  MESHBED_WARN("%s=%s: not a number from %" PRIu64 " to %" PRIu64 "; %" PRIu64 " is used", wanted.name, text.c_str(),
               wanted.least, wanted.most, wanted.otherwise);
  return wanted.otherwise;
}

/// nullptr: the structure is incomplete.
std::shared_ptr<const Interpreter> read_kernel(const MeshbedKernel& kernel) {
  constexpr unsigned kMostArguments = 256;
  const bool whole = kernel.size_bytes == sizeof(kernel) && kernel.name != nullptr && *kernel.name != '\0' &&
                     kernel.run != nullptr && kernel.argument_count <= kMostArguments &&
                     (kernel.argument_count == 0 || kernel.argument_bytes != nullptr) && kernel.flags == 0;
  if (!whole) return nullptr;
  auto code = std::make_shared<Interpreter>();
  code->name = kernel.name;
  pack_parameters({kernel.argument_bytes, kernel.argument_count}, *code);
  code->run = kernel.run;
  code->cost = kernel.cost;
  code->user = kernel.user;
  return code;
}

const models::GpuModel* model_of(const std::string& name, std::deque<models::GpuModel>& own) {
  if (models::is_gpu_word(name)) {
    auto read = models::parse_gpu_word(name);
    if (!read) throw std::runtime_error("model of a GPU: " + read.error().text);
    return &own.emplace_back(std::move(*read));
  }
  if (const models::GpuModel* model = models::find_gpu(name)) return model;
  std::string known;
  for (const std::string& one : models::gpu_names()) known += (known.empty() ? "" : ", ") + one;
  throw std::runtime_error("no model of the GPU '" + name + "'; there are " + known);
}

}  // namespace

Host& host() { return *g_host; }
bool has_host() { return g_host != nullptr; }
void set_host(Host* host) { g_host = host; }

System::System(const GpuNames& gpus) {
  for (const std::vector<std::string>& names : gpus) {
    auto& own = devices.emplace_back();
    for (const std::string& name : names) {
      const models::GpuModel* model = model_of(name, own_models);
      own.push_back({.node = static_cast<int>(devices.size()) - 1,
                     .index = static_cast<int>(own.size()),
                     .model = model,
                     .free_sms = model->sms});
    }
  }
}

System& system() { return *g_system; }
bool has_system() { return g_system != nullptr; }
void open_system(const GpuNames& gpus) { g_system = std::make_unique<System>(gpus); }
void close_system() { g_system.reset(); }

Driver* current_driver() {
  const ProcessKey process = has_host() && g_system != nullptr ? host().process() : nullptr;
  if (process == nullptr) return nullptr;
  if (g_system->last_driver != nullptr && g_system->last_driver->process == process) return g_system->last_driver;
  auto& driver = g_system->drivers[process];
  if (driver == nullptr) {
    driver = std::make_unique<Driver>(process);
    driver->devices = visible_devices(*g_system, process);
    driver->checks_races = wants_races(process);
    driver->seed = setting_of(process, kSeedNumber);
    driver->pending_launches_most = setting_of(process, kPendingNumber);
  }
  return g_system->last_driver = driver.get();
}

ThreadState& Driver::state_of(ThreadKey thread) {
  if (last_thread_.second == nullptr || last_thread_.first != thread) last_thread_ = {thread, &threads_[thread]};
  return *last_thread_.second;
}

ThreadState& own_state(Driver& driver) { return driver.state_of(host().thread()); }

Caller enter() {
  Driver* driver = current_driver();
  if (driver == nullptr) return {.error = kNoDevice};
  return {.error = driver->initialized
                       ? kSuccess
                       : complain(kNotInitialized, "a call of the CUDA driver comes before cuInit: error 3"),
          .driver = driver,
          .thread = &own_state(*driver)};
}

Caller enter_context() {
  Caller caller = enter();
  if (caller.error != kSuccess) return caller;
  if (caller.thread->contexts.empty() || find_context(*caller.driver, caller.thread->contexts.back()) == nullptr) {
    caller.error = kInvalidContext;
    return caller;
  }
  caller.context = caller.thread->contexts.back();
  caller.error = caller.context->failure;
  return caller;
}

Caller enter_beside_no_recording() {
  Caller caller = enter_context();
  if (caller.error == kSuccess) caller.error = refuse_beside_recordings(caller);
  return caller;
}

Device* find_device(const Driver& driver, CUdevice ordinal) {
  const bool known = ordinal >= 0 && static_cast<std::size_t>(ordinal) < driver.devices.size();
  return known ? driver.devices[static_cast<std::size_t>(ordinal)] : nullptr;
}

CUresult with_device(CUdevice ordinal, Caller& caller, Device*& device) {
  caller = enter();
  if (caller.error != kSuccess) return caller.error;
  device = find_device(*caller.driver, ordinal);
  return device != nullptr ? kSuccess : refuse_device(*caller.driver, ordinal);
}

CUresult refuse_device(const Driver& driver, CUdevice ordinal) {
  return complain(kInvalidDevice, "device " + std::to_string(ordinal) + " does not exist: error 101; the program has " +
                                      counted(driver.devices.size(), "device") +
                                      ", counted from 0 (--gpu, gpus, CUDA_VISIBLE_DEVICES)");
}

CUresult refuse(const std::string& what) {
  if (g_system->refused.insert(what).second) {
    const bool private_table = what == "cuGetExportTable" || what == "cudaGetExportTable";
    MESHBED_WARN("%s is not implemented in the simulated CUDA: CUDA_ERROR_NOT_SUPPORTED%s", what.c_str(),
                 private_table ? "; a statically linked runtime asks for it: link with nvcc -cudart shared" : "");
  }
  return kNotSupported;
}

CUresult complain(CUresult code, const std::string& why) {
  std::set<std::string>& said = g_system->complaints;
  if (said.size() <= kMostComplaints && said.insert(why).second) {
    MESHBED_WARN("%s", said.size() > kMostComplaints ? "more such errors of the program are not logged" : why.c_str());
  }
  return code;
}

std::shared_ptr<const Interpreter> find_interpreter(const Driver& driver, const std::string& name) {
  if (driver.interpreters.empty()) return nullptr;
  const auto found = driver.interpreters.find(name);
  return found != driver.interpreters.end() ? found->second : nullptr;
}

CUresult register_kernel(const MeshbedKernel* kernel) {
  Driver* driver = current_driver();
  if (driver == nullptr) return kNoDevice;
  const auto code = kernel != nullptr ? read_kernel(*kernel) : nullptr;
  if (code == nullptr) return kInvalidValue;
  driver->interpreters[code->name] = code;
  return kSuccess;
}

void flush_printed(Driver& driver) {
  if (driver.printed.empty()) return;
  std::fwrite(driver.printed.data(), 1, driver.printed.size(), stdout);
  std::fflush(stdout);
  driver.printed.clear();
}

}  // namespace meshbed::sim::cuda
