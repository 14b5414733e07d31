#pragma once
// System: everything that the simulated CUDA owns: the GPUs of a host, and for each program what it has made of them.
//
// A program sees the GPUs of its node, or those that CUDA_VISIBLE_DEVICES lists. What they cost is models/gpu.h's; what
// kernels do is the PTX interpreter's (sim/cuda/ptx), or a host function's that was registered for their name
// (meshbed_cuda.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/gpu.h"
#include "sim/cuda/backend.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/handle_memory.h"
#include "sim/cuda/host.h"
#include "sim/cuda/ptx/machine.h"
#include "sim/cuda/record.h"
#include "sim/cuda/texture/texture.h"
#include "sim/cuda/work.h"

namespace meshbed::sim::cuda {

struct Device {
  int node = 0, index = 0;  // of the node
  const models::GpuModel* model = nullptr;
  int free_sms = 0;
  std::deque<WorkRef> kernels{};  // that wait for SMs
  std::array<Picoseconds, kEngines> engine_free_ps{};
  std::uint64_t used_bytes = 0;
};

struct Stream : HandleMemory<Stream> {
  Context* context = nullptr;
  std::uint64_t id = 0;
  unsigned flags = 0;
  int priority = 0;
  std::size_t queue = 0, copy_queue = 0;  // of the context's, and of the program's for the device's copies
  WorkRef tail;                           // the last work put into it
  std::shared_ptr<Capture> capture;       // what it records into; nullptr: it works
  std::vector<std::size_t> capture_tails;
  std::map<int, LaunchAttribute> attributes{};  // that were set: hints
};

struct Event : HandleMemory<Event> {
  Context* context = nullptr;
  unsigned flags = 0;
  WorkRef work;                       // nullptr: never recorded
  std::shared_ptr<WorkRef> shared{};  // the same, where several processes have the event
  std::uint64_t id = 0;               // in the handle that another process opens; 0: there is none
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> capture_tails;
  WorkRef& last() { return shared != nullptr ? *shared : work; }
};

struct Driver;

struct Context : HandleMemory<Context> {
  Driver* driver = nullptr;
  Device* device = nullptr;
  CUdevice ordinal = 0;  // as the process counts
  std::uint64_t id = 0;
  unsigned flags = 0;
  int retained = 0;  // of a primary context
  bool primary = false;
  CUresult failure = kSuccess;  // of a kernel: every later call returns it
  std::vector<Queue> queues{};  // of kernels, fills, small copies in, and waits; see stream.cpp
  std::unique_ptr<Stream> legacy;
  std::vector<std::unique_ptr<Stream>> streams;
  std::map<ThreadKey, Stream*> per_thread{};  // of `streams`
  std::map<int, std::size_t> limits{};        // that were set
};

enum class MemoryKind { kDevice, kPinned, kRegistered, kManaged, kMapped, kImported };
constexpr bool is_on_device(MemoryKind kind) {
  return kind == MemoryKind::kDevice || kind == MemoryKind::kMapped || kind == MemoryKind::kImported;
}
/// A program's hints on managed memory from one address on (managed.cpp).
struct Hints {
  static constexpr CUmemLocation kNowhere{.type = 0, .id = -2};
  bool read_mostly = false;
  CUmemLocation preferred = kNowhere, prefetched = kNowhere;
  std::set<CUdevice> accessed_by{};
};
struct Allocation {
  MemoryKind kind = MemoryKind::kDevice;
  std::uint64_t address = 0, size_bytes = 0;
  char* bytes = nullptr;  // as the hardware sees it
  Device* device = nullptr;
  Context* context = nullptr;
  CUdevice ordinal = 0;
  unsigned flags = 0;
  std::uint64_t id = 0;
  std::shared_ptr<Buffer> buffer{};  // of device memory
  Pool* pool = nullptr;
  bool of_graph = false;                      // a graph's node gives it: the same place at every launch
  bool given = false;                         // a launch has allocated it, and it was not freed since
  bool backed = false;                        // and one has been since it was last trimmed
  std::weak_ptr<GraphMemory> graph_memory{};  // which frees it: its owners keep this alive
  bool exported = false;                      // a handle was given out, by which another process may have it open
  int opened = 0;                             // of imported memory: how often
  std::map<std::uint64_t, Hints> hints{};     // of managed memory, by where they begin
};

struct Pool {
  static void* operator new(std::size_t bytes) { return HandleMemory<Pool>::operator new(bytes); }  // as Kernel
  static void operator delete(void* place) { HandleMemory<Pool>::operator delete(place); }
  CUdevice ordinal = 0;
  std::uint64_t threshold_bytes = 0, used_bytes = 0, high_bytes = 0;
};

struct Variable {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

/// A loaded image. Its variables have one place each, in the memory of the device that it was loaded for.
struct Module : HandleMemory<Module> {
  std::shared_ptr<const ptx::Module> code{};  // nullptr: an image without PTX, whose kernels need host functions
  std::set<std::string> names{};              // of the kernels of such an image
  std::vector<std::uint64_t> variables{};     // addresses, by index of code->variables()
  std::map<std::string, Variable> by_name{};
  std::map<std::string, std::unique_ptr<Kernel>> kernels{};
  const Context* context = nullptr;  // whose streams its kernels go into; nullptr: any (a library's, a program's own)
  std::string no_ptx{};              // kNoKernelImage: why there is none for the device
};
/// Why a program's fat binary was not loaded.
struct NotLoaded {
  CUresult error;
  std::string no_ptx;  // as Module's
};
struct Kernel {
  // No base, since it is made of a list of its members.
  static void* operator new(std::size_t bytes) { return HandleMemory<Kernel>::operator new(bytes); }
  static void operator delete(void* place) { HandleMemory<Kernel>::operator delete(place); }
  std::string name;
  Module* module = nullptr;
  const ptx::KernelInfo* info = nullptr;  // of module->code; nullptr: a host function has to do it
  int dynamic_shared_bytes_max = 48 * 1024;
  int carveout = -1;
  unsigned required_cluster[3] = {};  // 0: none
  bool allows_non_portable_clusters = false;
  int cluster_policy = 0;
};

struct ThreadState {
  std::vector<Context*> contexts;  // the stack; the last one is current
  CUresult last_error = kSuccess;  // the runtime's
  CUdevice device = 0;             // the runtime's
  int capture_mode = 0;
  bool has_own_default = false;                 // while a call of per_thread/ is under way
  CUresult no_kernel = kInvalidDeviceFunction;  // why __cudaGetKernel gave none the last time
  std::vector<cudaLaunchConfig> configurations;
};

/// What cuLinkCreate made: the image, when there is one.
struct Link : HandleMemory<Link> {
  std::string image;
  bool complete = false;
};

struct Reservation {
  std::uint64_t size_bytes = 0;
  char* hardware = nullptr;
};
/// A device's memory without an address, of one process or of several; the device has it back with the last of them.
struct PhysicalMemory {
  PhysicalMemory(Device& of, std::shared_ptr<Buffer> bytes, const CUmemAllocationProp& wanted);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;
  Device& device;
  std::shared_ptr<Buffer> buffer;
  CUmemAllocationProp properties;
  std::weak_ptr<int> system_lives;  // a descriptor may outlive the devices
};
/// What a handle means in a process.
struct Physical {
  std::shared_ptr<PhysicalMemory> memory{};
  CUdevice ordinal = 0;
  int maps = 0;
  int references = 1;  // of the handle: cuMemRelease
};

/// Handles that a process was given; anything else it passes is an error.
template <typename Object>
class Handles {
 public:
  Object* add(std::unique_ptr<Object> object) {
    Object* pointer = object.get();
    all_[pointer] = std::move(object);
    return pointer;
  }
  Object* find(Object* handle) const {
    const auto found = all_.find(handle);
    return found != all_.end() ? found->second.get() : nullptr;
  }
  template <typename Test>
  bool any(const Test& test) const {
    for (const auto& [handle, object] : all_) {
      if (test(*object)) return true;
    }
    return false;
  }
  bool remove(Object* handle) { return all_.erase(handle) > 0; }

 private:
  std::unordered_map<Object*, std::unique_ptr<Object>> all_;
};

/// Of one program: what it made the GPUs do.
struct Counters {
  std::uint64_t launches = 0;  // of kernels
  std::uint64_t copies_in = 0, copies_out = 0, copies_inside = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t device_syncs = 0;           // cuCtxSynchronize, cudaDeviceSynchronize
  std::uint64_t implicit_device_syncs = 0;  // cuMemFree, cuMemFreeHost, cuCtxDestroy and their like
  std::uint64_t stream_syncs = 0;           // of one stream or event
  std::uint64_t allocated_bytes = 0;        // device memory, now
};

struct Freed {
  std::uint64_t address = 0, size_bytes = 0;
  bool reused = false;  // an allocation that came later has some of its addresses
  bool holds(std::uint64_t one) const { return one - address < size_bytes; }
};

/// Of one program's copies, by direction, on one device.
struct CopyQueues {
  std::vector<Queue> in{}, out{};
};

/// A program's own.
struct Driver {
  explicit Driver(ProcessKey owner) : process(owner) {}
  ProcessKey process;
  bool initialized = false;
  std::vector<Device*> devices{};  // visible ones
  std::vector<std::unique_ptr<Context>> contexts{};
  std::map<const Device*, CopyQueues> copy_queues{};
  std::map<std::uint64_t, Allocation> allocations{};                          // by address
  std::map<const UserObject*, std::weak_ptr<UserObject>> all_user_objects{};  // with any holder
  std::uint64_t allocation_changes = 0;  // one more whenever an allocation has gone
  std::deque<Freed> freed{};             // the last ones, for errors
  std::map<std::uint64_t, Reservation> reservations{};
  std::map<CUmemGenericAllocationHandle, Physical> physical{};
  std::vector<std::unique_ptr<Pool>> default_pools{};  // by device
  std::vector<Pool*> current_pools{};
  Handles<Pool> pools{};
  Handles<Event> events{};
  Handles<Module> modules{};
  Handles<Link> links{};
  Handles<Array> arrays{};  // with the levels of mipmapped ones
  Handles<MipmappedArray> mipmaps{};
  std::map<std::uint64_t, TexelObject> texels{};  // by handle
  Handles<Graph> graphs{};
  Handles<GraphExec> executables{};
  UserObjects user_objects{};  // with the references that the program has itself
  std::map<std::string, std::shared_ptr<const Interpreter>> interpreters{};
  std::map<const void*, Kernel*> host_functions{};  // the runtime's
  std::map<const FatBinary*, Module*> programs{};   // what its fat binaries were loaded as
  std::map<const FatBinary*, NotLoaded> not_loaded{};
  std::vector<std::weak_ptr<Capture>> recordings{};  // with ended ones, until the next walk over them
  std::deque<WorkRef> host_calls{};
  ThreadKey host_thread = nullptr;
  bool checks_races = false;                 // MESHBED_CUDA_CHECK=race
  std::uint64_t seed = 0;                    // MESHBED_CUDA_SEED: of the order in which blocks and warps take turns
  std::size_t pending_launches_most = 1024;  // of a queue: MESHBED_CUDA_PENDING_LAUNCHES
  int launches_blocked = 0;                  // threads that wait for room in a queue
  std::string printed{};                     // by kernels, not yet shown: see flush_printed()
  Counters counters{};

  ThreadState& state_of(ThreadKey thread);

 private:
  std::unordered_map<ThreadKey, ThreadState> threads_{};
  std::pair<ThreadKey, ThreadState*> last_thread_{};  // that was asked for
};

/// What __cudaRegisterFatBinary hands out.
struct FatBinary {
  const void* image = nullptr;
};

/// The registration of a kernel or a variable by nvcc's code for the host, under the program's address of it.
struct HostFunction {
  std::string name;
  FatBinary* binary = nullptr;
};
struct HostVariable {
  std::string name;
  FatBinary* binary = nullptr;
  void** managed_slot = nullptr;  // of a managed variable: where its address is to be written
};

/// GPUs by node: names of models, or whole models (models::gpu_word()).
using GpuNames = std::vector<std::vector<std::string>>;

struct System {
  /// Throws std::runtime_error where there is no model of a GPU.
  explicit System(const GpuNames& gpus);
  std::deque<models::GpuModel> own_models{};  // that names of the kind of models::gpu_word() brought
  std::vector<std::vector<Device>> devices;   // by node
  ptx::SpareGrids spare_grids{};              // there for longer than the programs whose kernels have them
  std::unordered_map<ProcessKey, std::unique_ptr<Driver>> drivers{};
  Driver* last_driver = nullptr;  // of them, the one that was asked for last
  Works works{};
  std::map<const void*, HostFunction> host_functions{};  // of every file loaded, by its own address
  std::map<const void*, HostVariable> host_variables{};
  std::map<ProcessKey, int> nvml_users{};  // nvmlInit() without nvmlShutdown()
  std::set<std::string> refused{};
  std::set<std::string> complaints{};
  Record record{};
  std::uint64_t next_id = 1;
  std::shared_ptr<int> lives = std::make_shared<int>();
};

/// Of this process. Its host is set before (host.h).
void open_system(const GpuNames& gpus);
void close_system();

System& system();
bool has_system();  // between open_system() and close_system()

/// What both interfaces, CUDA and NVML, call a device.
std::string name_of(const Device& device);
std::string pci_name(const Device& device);
int pci_bus_of(const Device& device);
CUuuid uuid_of(const Device& device);

/// The caller's state; if `error` is set, the call must return it at once.
struct Caller {
  CUresult error = kSuccess;
  Driver* driver = nullptr;
  ThreadState* thread = nullptr;
  Context* context = nullptr;
};
Caller enter();            // cuInit has been called
Caller enter_context();    // and a context is current, in which no kernel has failed
Driver* current_driver();  // nullptr: no process is running
/// Of the calling thread.
ThreadState& own_state(Driver& driver);
/// As the process counts; nullptr: it sees no such device.
Device* find_device(const Driver& driver, CUdevice ordinal);
/// kInvalidDevice, and logs the reason.
CUresult refuse_device(const Driver& driver, CUdevice ordinal);
/// As enter_context(), for calls that are not allowed during a recording (refuse_beside_recordings).
Caller enter_beside_no_recording();
/// As enter(), and the process sees the device.
CUresult with_device(CUdevice ordinal, Caller& caller, Device*& device);

/// For meshbedCudaRegisterKernel.
CUresult register_kernel(const MeshbedKernel* kernel);
/// As the runtime's last error of the calling thread; the same code.
CUresult remember(CUresult code);
/// One WARN a text; kNotSupported.
CUresult refuse(const std::string& what);
/// The text of the code in both interfaces, with NVIDIA's words.
const char* error_text(CUresult code);
/// What a program did wrong, in a line: once a text, and not more than so many texts; the same code.
inline constexpr std::size_t kMostComplaints = 32;
CUresult complain(CUresult code, const std::string& why);
/// What the process registered for the name; nullptr: nothing.
std::shared_ptr<const Interpreter> find_interpreter(const Driver& driver, const std::string& name);

// --- contexts and streams ---
Context* find_context(Driver& driver, Context* handle);
Context& primary_of(Driver& driver, CUdevice device);
/// How many queues of each kind a program has: CUDA_DEVICE_MAX_CONNECTIONS.
std::size_t queues_of(const Driver& driver);
/// The stream that the handle means in the current context; nullptr: not a stream.
Stream* find_stream(const Caller& caller, Stream* handle);
/// As find_stream(), for a launch: the calling thread blocks while too many launches of the stream's queue are pending.
Stream* find_stream_with_room(const Caller& caller, Stream* handle);
/// As enter_context(), and that stream.
CUresult with_stream(Stream* handle, Caller& caller, Stream*& stream);
/// What a device is given to do, by a stream or by a graph; not what a graph records.
void count(Counters& counters, const Task& task);
/// Puts a task into a stream, or into what the stream records. `delay_ps`: until it can start.
CUresult submit(Stream& stream, Task&& task, Picoseconds delay_ps = 0, WorkRef* work = nullptr);
/// Puts a node behind what the stream has recorded.
CUresult record_node(Stream& stream, GraphNode node);
/// All that the context has been given; the calling thread blocks.
void wait_for_all(Context& context, const char* what);
/// The default stream would have to wait for a stream that is recorded.
bool conflicts_with_capture(const Stream& stream);
/// A call that waits must not come while a stream records; the recording is lost then.
CUresult refuse_in_capture(Stream& stream);
/// For calls that are not allowed during a recording. Which recordings and modes count: cuda.h at
/// cuThreadExchangeStreamCaptureMode. Which calls: measured on an H200 (tests/cuda/program/driver_facts.cpp).
CUresult refuse_beside_recordings(const Caller& caller);
/// Until nothing is under way on the device that the process has given it; nullptr: on none of its devices.
void wait_for_devices(Driver& driver, const Device* device, const char* what);
/// Forgets everything that the context has; its work has ended.
void clear_context(Context& context);

// --- memory ---
/// The allocation that has all of these bytes; nullptr: none.
const Allocation* find_allocation(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes);
/// What the hardware sees there, over neighbouring mappings; nullptr: not all of it is the process's.
char* bytes_at(const Driver& driver, std::uint64_t address, std::uint64_t size_bytes);
CUresult allocate_device(const Caller& caller, std::uint64_t size_bytes, Pool* pool, CUdeviceptr& address);
/// Of the host's, that the device reaches: pinned or managed. 0 bytes are an error.
CUresult allocate_host_memory(const Caller& caller, MemoryKind kind, std::size_t size, unsigned flags, void*& address);
/// Its addresses are allocated from now on, those of freed memory too.
void add_allocation(Driver& driver, Allocation&& allocation);
void free_allocation(Driver& driver, std::uint64_t address);
/// For an address that a call cannot free: logs the reason once, and returns the call's result.
CUresult not_to_free(const Driver& driver, std::uint64_t address);
/// By cuIpcGetMemHandle: what cuMemAlloc gave.
bool can_be_exported(const Allocation& allocation);
/// One WARN where another process still has it open.
void name_importer(const Allocation& exported);
/// Memory whose life is between two nodes of a graph: it has one place for all launches, as CUDA promises, and here it
/// stays there between them, until GraphMemory lets it go.
CUresult allocate_for_graph(const Caller& caller, std::uint64_t size_bytes, CUdeviceptr& address);
/// A default pool or one that was made; nullptr: neither.
Pool* find_pool(Driver& driver, Pool* handle);

/// Bytes in rows and slices; pitches and heights of 0: they stand close together.
struct Box {
  CUdeviceptr target = 0, source = 0;
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t target_pitch = 0, source_pitch = 0, target_height = 0, source_height = 0;
};
/// Addresses, pointers or CUDA arrays (sim/cuda/texture).
CUresult box_of(const cudaMemcpy3DParms& copy, Box& box);
CUresult box_of(const CUDA_MEMCPY3D& copy, Box& box);
CUresult copy_box(const Box& box, Stream* stream, bool waits);
/// For a graph's node.
CUresult make_copy(const Caller& caller, const Box& box, Copy& copy);
CUresult make_fill(const Caller& caller, CUdeviceptr target, std::uint32_t value, std::size_t element_bytes,
                   std::size_t width, std::size_t height, std::size_t pitch, Fill& fill);

// --- launches ---
/// For a shape that no kernel, or not this one, can have (kInvalidConfiguration), the driver's interface returns an
/// invalid value; more dynamic shared memory than the kernel is allowed is an invalid value in both interfaces.
CUresult driver_code_of(CUresult error);
/// Where arguments of these sizes stand: each at a multiple of the largest power of two that divides its size, up
/// to 16.
void pack_parameters(std::span<const unsigned> sizes, Interpreter& code);
CUresult prepare_launch(const Caller& caller, Kernel* kernel, const unsigned* grid, const unsigned* block,
                        unsigned shared_bytes, void** arguments, void** extra, KernelLaunch& launch);
/// What a launch asks for beside its shape.
struct LaunchOptions {
  bool cooperative = false;
  const unsigned* cluster = nullptr;  // blocks along each axis; nullptr: as the kernel requires
  Event* begun = nullptr;             // recorded when all blocks have begun
};
/// The clusters of a launch whose grid and place on the device are set; nullptr: those that its kernel requires.
CUresult set_cluster(KernelLaunch& launch, const unsigned* asked);
CUresult launch(const Caller& caller, Stream* stream, KernelLaunch&& launch, const LaunchOptions& options);
/// prepare_launch and launch, with the driver's codes.
CUresult launch_with(Kernel* function, const unsigned* grid, const unsigned* block, unsigned shared, Stream* stream,
                     void** arguments, void** extra, const LaunchOptions& options);
CUresult find_kernel(Driver& driver, Module& module, const std::string& name, Kernel*& kernel);
/// Blocks of a kernel that one SM holds; nullptr: of a host function's. How many registers a kernel has is an estimate
/// from its PTX, which an assembler betters where the launch needs it: never so many that no block fits.
int resident_blocks_of(const models::GpuModel& model, const ptx::KernelInfo* kernel, int threads,
                       std::uint64_t dynamic_shared);
models::GridShape shape_on(const models::GpuModel& model, const KernelLaunch& launch);
/// Shows what kernels have printed, as CUDA does when the host waits for them.
void flush_printed(Driver& driver);

// --- modules ---
/// The image loaded for the device: PTX text, a fat binary or its wrapper, a cubin. `place` names it in warnings,
/// which contain the reason of a failure; for kNoKernelImage the reason is in module->no_ptx.
CUresult load_image(Driver& driver, Device& device, const void* image, std::size_t image_bytes,
                    const std::string& place, std::unique_ptr<Module>& module);
/// Sets the outputs among a compiler's options: empty logs and no time.
void leave_logs_empty(unsigned count, const int* options, void** values);
CUdevice ordinal_of(const Driver& driver, const Device& device);
void unload_variables(Driver& driver, Module& module);
enum class KernelUse { kRuns, kIsAskedAbout };
/// The kernel behind a host function of the program's. Programs ask about kernels of which they have no code for this
/// device, and go without: only where one is to run is a warning due.
CUresult kernel_of(const void* function, Kernel*& kernel, KernelUse use = KernelUse::kRuns);
/// What a fat binary of the program's was loaded as, now or before.
CUresult program_module(Driver& driver, FatBinary* binary, Module*& module);
/// The memory of the program's variables is gone: its fat binaries are loaded again at their next use.
void forget_programs(Driver& driver);
/// The variable behind a host address.
CUresult find_symbol(const void* symbol, Variable& variable);

// --- both interfaces' calls, for the tables and for one another ---
#define MESHBED_CUDA_CALL(type, name, parameters, arguments) type name parameters;
#include "sim/cuda/driver_calls.def"
#include "sim/cuda/runtime_calls.def"
#undef MESHBED_CUDA_CALL

}  // namespace meshbed::sim::cuda
