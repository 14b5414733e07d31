#include "sim/cuda/world/world_cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "models/gpu_profile.h"
#include "sim/cuda/backend.h"
#include "sim/cuda/host.h"
#include "sim/host/device_memory.h"
#include "sim/host/host_state.h"

namespace meshbed::sim {
namespace {

struct WorldBuffer final : cuda::Buffer {
  std::shared_ptr<DeviceBuffer> memory;  // null: another one's memory at a second address
  std::shared_ptr<cuda::Buffer> other;
};

/// The descriptor of something that CUDA shares between processes.
class SharedObjectFile final : public File {
 public:
  SharedObjectFile(Process& owner, std::shared_ptr<void> shared) : File(owner), object(std::move(shared)) {}
  short events() const override { return 0; }
  std::string describe() const override { return "a handle of a GPU's memory"; }
  bool can_be_passed() const override { return true; }

  std::shared_ptr<void> object;
};

WaitNote note_of(const cuda::Waiting& waiting) {
  return {.what = waiting.what, .object = waiting.object, .describe = waiting.describe};
}

Process& process_of(cuda::ProcessKey process) { return *const_cast<Process*>(static_cast<const Process*>(process)); }

void* load_file(const std::string& path) {
  if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw std::runtime_error(
      fmt::format("{}; GPU memory needs the simulated CUDA: ./meshbed cuda run builds it", ::dlerror()));
}

/// The World's one; null before the first WorldCuda.
const cuda::WorldEntry* g_entry = nullptr;

const cuda::WorldEntry* load_entry(const std::string& path) {
  const auto find = reinterpret_cast<const cuda::WorldEntry* (*)()>(::dlsym(load_file(path), cuda::kWorldEntry));
  const cuda::WorldEntry* entry = find != nullptr ? find() : nullptr;
  if (entry == nullptr || entry->version != cuda::kTableVersion || entry->size_bytes != sizeof(*entry)) {
    throw std::runtime_error(path + " was built for another version of the simulator");
  }
  return entry;
}

/// Loads a drop-in and gives it its table. Ranks shall find it by `name`.
template <typename Table>
void* load_dropin(const std::string& path, const char* name, const char* set_table, const Table& table) {
  void* library = load_file(path);
  const auto set = reinterpret_cast<int (*)(const Table*)>(::dlsym(library, set_table));
  if (set == nullptr) throw std::runtime_error(path + " is not the simulator's " + name);
  if (set(&table) != 0) throw std::runtime_error(path + " was built for another version of the simulator");
  return library;
}

/// The library that ranks found by `name` has no simulator any more.
template <typename Table>
void withdraw_table(const char* name, const char* set_table) {
  const auto found = host().offered_libraries.find(name);
  if (found == host().offered_libraries.end()) return;
  reinterpret_cast<int (*)(const Table*)>(::dlsym(found->second.handle, set_table))(nullptr);
}

constexpr const char *kDriver = "libcuda.so.1", *kRuntime = "libcudart.so.13", *kNvml = "libnvidia-ml.so.1";

bool in_use(const Process& process) { return g_entry->in_use(&process); }

}  // namespace

class WorldCuda::WorldHost final : public cuda::Host {
 public:
  WorldHost(World& world, std::string cache) : world_(world), cache_(std::move(cache)) {}

  Picoseconds now() const override { return world_.now(); }
  void at(Picoseconds when_ps, int node, EventFunction event, void* self, std::uint64_t argument) override {
    world_.at(when_ps, node, event, self, argument);
  }
  void look_again(Picoseconds when_ps, Picoseconds period_ps, int node, EventFunction event, void* self,
                  std::uint64_t argument) override {
    world_.look_again(when_ps, period_ps, node, event, self, argument);
  }
  std::uint64_t happened() const override { return world_.happened(); }
  cuda::ProcessKey process() const override {
    return World::exists() && World::current() != nullptr ? World::current_process() : nullptr;
  }
  cuda::ThreadKey thread() const override { return World::current(); }
  int node_of(cuda::ProcessKey process) const override { return process_of(process).node; }
  const std::map<std::string, std::string>& environment_of(cuda::ProcessKey process) const override {
    return process_of(process).environment;
  }
  std::string cache_folder() const override { return cache_; }
  std::uint32_t number_of(cuda::ProcessKey process) const override { return process_id_of(process_of(process)); }
  void sleep(Picoseconds duration_ps) override { world_.spend(duration_ps); }
  void block(const cuda::Waiting& waiting) override { world_.block(note_of(waiting)); }
  void wake(cuda::ThreadKey thread) override { world_.wake(*const_cast<Thread*>(static_cast<const Thread*>(thread))); }
  bool spin(const cuda::Waiting& waiting) override {
    return world_.spin({"GPU work", waiting.object}, note_of(waiting));
  }
  void changed(cuda::ProcessKey process) override {
    world_.progress();
    world_.signal(process_of(process));
  }
  cuda::ThreadKey spawn(cuda::ProcessKey process, const std::string& name, std::function<void()> body) override {
    Process& owner = process_of(process);
    return &world_.spawn(owner, owner.name + "." + name, std::move(body), /*daemon=*/true);
  }
  void outside(const std::function<void()>& code) override { code(); }

  std::shared_ptr<cuda::Buffer> allocate(cuda::ProcessKey process, std::uint64_t size_bytes) override {
    auto buffer = std::make_shared<WorldBuffer>();
    buffer->memory = allocate_device_memory(process_of(process), size_bytes);
    buffer->address = buffer->memory->address;
    buffer->size_bytes = buffer->memory->size_bytes;
    buffer->bytes = buffer->memory->bytes;
    return buffer;
  }
  std::shared_ptr<cuda::Buffer> map(const std::shared_ptr<cuda::Buffer>& memory, std::uint64_t address) override {
    auto buffer = std::make_shared<WorldBuffer>();
    buffer->other = memory;
    buffer->address = address;
    buffer->size_bytes = memory->size_bytes;
    buffer->bytes = memory->bytes;
    return buffer;
  }
  void release(const cuda::Buffer& buffer) override {
    if (const auto& memory = static_cast<const WorldBuffer&>(buffer).memory) free_device_memory(*memory);
  }
  bool is_device_memory(std::uint64_t address) const override { return find_device_memory(address, 1) != nullptr; }
  bool has_neighbours() const override { return true; }
  int export_dma_buf(cuda::ProcessKey process, const cuda::Buffer& memory, std::uint64_t offset_bytes,
                     std::uint64_t size_bytes) override {
    const auto* buffer = static_cast<const WorldBuffer*>(&memory);
    while (buffer->other != nullptr) buffer = static_cast<const WorldBuffer*>(buffer->other.get());
    if (&buffer->memory->owner != process) return -1;
    return sim::export_dma_buf({.memory = buffer->memory, .offset_bytes = offset_bytes, .size_bytes = size_bytes});
  }
  int export_object(cuda::ProcessKey process, const std::shared_ptr<void>& object) override {
    Process& owner = process_of(process);
    return state_of(owner).descriptors.add(std::make_shared<SharedObjectFile>(owner, object), true);
  }
  std::shared_ptr<void> find_object(cuda::ProcessKey process, int descriptor) const override {
    const auto file = state_of(process_of(process)).descriptors.find(descriptor);
    const auto* shared = dynamic_cast<const SharedObjectFile*>(file.get());
    return shared != nullptr ? shared->object : nullptr;
  }

 private:
  World& world_;
  std::string cache_;  // folder
};

CudaFiles cuda_files_in(const std::string& folder, bool runtime) {
  return {.implementation = folder + "/libmeshbed-cuda.so",
          .driver = folder + "/libcuda.so.1",
          .runtime = runtime ? folder + "/libcudart.so.13" : "",
          .nvml = runtime ? folder + "/libnvidia-ml.so.1" : ""};
}

WorldCuda::WorldCuda(World& world, const CudaFiles& files) : host_(std::make_unique<WorldHost>(world, files.cache)) {
  g_entry = load_entry(files.implementation);
  cuda::GpuNames gpus;
  for (const models::Node& node : world.cluster().nodes) {
    auto& names = gpus.emplace_back();
    for (const models::Gpu& gpu : node.gpus) {
      if (gpu.model.empty()) continue;  // no rank asks for it
      const auto word = models::gpu_word_named(gpu.model);
      if (!word) throw std::runtime_error(node.name + "'s gpu_model: " + word.error().text);
      names.push_back(*word);
    }
  }
  std::map<std::string, OfferedLibrary> offered;
  offered[kDriver] = {load_dropin(files.driver, kDriver, cuda::kSetDriverTable, *g_entry->driver), &in_use};
  if (!files.runtime.empty()) {
    offered[kRuntime] = {load_dropin(files.runtime, kRuntime, cuda::kSetRuntimeTable, *g_entry->runtime), &in_use};
  }
  if (!files.nvml.empty()) {
    offered[kNvml] = {load_dropin(files.nvml, kNvml, cuda::kSetNvmlTable, *g_entry->nvml), &in_use};
  }
  // Last, since a constructor that throws has no destructor to close it again.
  g_entry->open(*host_, gpus);
  for (const auto& [name, library] : offered) host().offered_libraries[name] = library;
}

WorldCuda::~WorldCuda() {
  withdraw_table<cuda::DriverTable>(kDriver, cuda::kSetDriverTable);
  withdraw_table<cuda::RuntimeTable>(kRuntime, cuda::kSetRuntimeTable);
  withdraw_table<cuda::NvmlTable>(kNvml, cuda::kSetNvmlTable);
  g_entry->close();
}

void WorldCuda::keep_spans() { g_entry->keep_spans(); }

std::vector<std::pair<const Process*, cuda::Span>> WorldCuda::spans() const {
  std::vector<std::pair<const Process*, cuda::Span>> all;
  for (const cuda::Span& span : g_entry->record().spans) {
    if (span.process != nullptr) all.emplace_back(&process_of(span.process), span);
  }
  return all;
}

CudaCounts cuda_counts_of(const Process& process) {
  return g_entry != nullptr ? g_entry->counts(&process) : CudaCounts{};
}

}  // namespace meshbed::sim
