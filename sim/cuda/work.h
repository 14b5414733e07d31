#pragma once
// Work: one thing that a GPU (or its driver's thread) does, and what must have ended before.
//
// Streams, events and graphs are nothing but edges between works. A work is ready when all before it have ended; then
// it waits for its resource (SMs, a copy engine, the driver's thread for host functions), runs for the time of
// models/gpu.h, and takes effect at its end. So a thread that reads too early sees the old content.

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "models/gpu.h"
#include "sim/cuda/abi.h"
#include "sim/cuda/host.h"
#include "sim/cuda/ptx/machine.h"

namespace meshbed::sim::cuda {

struct Interpreter {
  std::string name;
  std::vector<ptx::Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  int (*run)(const MeshbedLaunch*) = nullptr;
  void (*cost)(const MeshbedLaunch*, MeshbedCost*) = nullptr;
  void* user = nullptr;
};

enum class Engine { kIn, kOut, kInside };
inline constexpr std::size_t kEngines = 3;

struct Marker {};
struct KernelLaunch {
  std::shared_ptr<const Interpreter> code{};  // a host function in the kernel's place; nullptr: its PTX
  std::shared_ptr<const ptx::Module> module{};
  const ptx::KernelInfo* info = nullptr;
  Kernel* kernel = nullptr;                // as the program names it
  std::vector<std::uint64_t> variables{};  // addresses, by index of module->variables()
  bool cooperative = false;                // all blocks are resident at once
  unsigned grid[3] = {}, block[3] = {};
  unsigned cluster[3] = {1, 1, 1};  // blocks that are resident together
  bool has_cluster = false;         // the launch or the kernel has such a size
  unsigned shared_bytes = 0;
  std::vector<std::byte> values{};  // of the arguments, as the launch had them
  const models::GpuModel* model = nullptr;
  models::GridShape shape{};  // on that model

  int threads() const { return static_cast<int>(block[0] * block[1] * block[2]); }
  const std::string& name() const { return code != nullptr ? code->name : info->name; }
  /// Where each argument is in `values`.
  const std::vector<ptx::Parameter>& parameters() const {
    return code != nullptr ? code->parameters : info->parameters;
  }
};
struct Copy {
  char* target = nullptr;  // as the hardware sees it
  const char* source = nullptr;
  std::size_t width_bytes = 0, height = 1, target_pitch = 0, source_pitch = 0;
  Engine engine = Engine::kInside;
  models::CopyKind kind = models::CopyKind::kInside;
  std::size_t depth = 1, target_slice = 0, source_slice = 0;
  bool between_hosts = false;
  CUdeviceptr target_address = 0, source_address = 0;  // as the program names them
  std::shared_ptr<std::vector<char>> staged{};         // the source as it was when the call came
  std::shared_ptr<Buffer> target_memory{}, source_memory{};
};
/// All of its bytes, now.
void copy_bytes(const Copy& copy);
struct Fill {
  char* target = nullptr;
  std::uint32_t value = 0;
  std::size_t element_bytes = 1, count = 0;  // elements of a row
  std::size_t rows = 1, pitch = 0;
  CUdeviceptr address = 0;  // as the program names it
  std::shared_ptr<Buffer> memory{};
};
struct HostCall {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;
  Stream* stream = nullptr;  // as the program named it
  void* data = nullptr;
};
using Action = std::function<void()>;
/// In the order of cuda.h's CU_STREAM_WAIT_VALUE_*.
enum class WaitCondition { kGreaterOrEqual, kEqual, kAnd, kNor };
/// A word that the stream looks at until it is as wanted.
struct WaitValue {
  const char* at = nullptr;
  std::size_t bytes = 4;  // or 8
  std::uint64_t value = 0;
  WaitCondition condition = WaitCondition::kGreaterOrEqual;
};
bool is_met(const WaitValue& wait);
using Task = std::variant<Marker, KernelLaunch, Copy, Fill, HostCall, Action, WaitValue>;

struct Device;
struct Run;
struct Work;

/// Of the device's, in which it finds works of several streams: one begins when its stream has come to it and those
/// before it in the queue have begun, or ended, where they are waits. See stream.cpp.
struct Queue {
  std::deque<std::shared_ptr<Work>> works{};
  std::deque<std::shared_ptr<Work>> launches{};  // kernels and heads of graphs, those that are pending and earlier ones
};

struct Work {
  Work();
  ~Work();
  std::uint64_t id = 0;
  Context* context = nullptr;
  Task task;
  std::size_t before = 1;  // works that have not ended; one more while it is put together
  boost::container::small_vector<std::shared_ptr<Work>, 1> after{};
  std::vector<ThreadKey> waiting{};
  Picoseconds not_before_ps = 0;
  Picoseconds started_ps = -1, ended_ps = -1;
  std::unique_ptr<Run> run{};     // of a kernel's PTX, while it runs
  std::uint64_t stream_id = 0;    // for the picture; 0: of none
  int sms = 0;                    // held
  ThreadKey looker = nullptr;     // the thread that polls a word
  bool is_on = false;             // the stream has come to it
  Queue* queue = nullptr;         // in which it stands
  std::shared_ptr<Work> begun{};  // of a launch: ends when all its blocks have begun
  bool is_ready = false;          // nothing stands before it, but in its queue
  bool ended() const { return ended_ps >= 0; }
  /// Of a launch: the device has not begun with it.
  bool is_pending() const { return !ended() && (!std::holds_alternative<KernelLaunch>(task) || queue != nullptr); }
};
using WorkRef = std::shared_ptr<Work>;

/// Works that have not ended, by their ids. An id is never given twice.
class Works {
 public:
  std::uint64_t add(const WorkRef& work);
  /// nullptr: it has ended.
  WorkRef find(std::uint64_t id) const;
  void remove(std::uint64_t id);
  /// nullptr: there is none of the context's.
  WorkRef any_of(const Context& context) const;
  bool empty() const { return count_ == 0; }

  /// For people: works are counted from 1.
  static std::uint64_t number_of(std::uint64_t id) { return id >> kPlaceBits; }

 private:
  static constexpr unsigned kPlaceBits = 28;
  static constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;
  std::vector<WorkRef> places_;  // the low bits of an id are its place here
  std::vector<std::uint32_t> free_;
  std::uint64_t given_ = 0;  // the others
  std::size_t count_ = 0;
};

Device& device_of(const Work& work);
void end_at(const WorkRef& work, Picoseconds when_ps);
/// All blocks of the launch have begun.
void has_begun(Work& work);
/// The context is unusable from now on; logs the reason once.
void fail(Context& context, CUresult code, const std::string& text);

/// A work that nothing stands before; to be released. Starts the threads that it needs, so from a thread alone.
WorkRef make_work(Context& context, Task&& task, Picoseconds not_before_ps);
void put_before(const WorkRef& first, const WorkRef& second);
/// Behind all that the queue has; before release().
void enqueue(const WorkRef& work, Queue& queue);
/// It is complete: it may start.
void release(const WorkRef& work);
/// Blocks the calling thread until it has ended; `what` names the call.
void wait_for(const WorkRef& work, const char* what);
/// Blocks the calling thread, which makes another launch, until this one is no longer pending.
void wait_until_begun(const WorkRef& launch);
/// True where it has ended; else lets a polling caller wait for something to happen.
bool poll(const WorkRef& work, const char* what);

}  // namespace meshbed::sim::cuda
