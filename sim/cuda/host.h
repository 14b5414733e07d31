#pragma once
// Host: the environment that runs the programs whose GPUs are simulated. It owns the clock, the calling threads, and
// the memory behind device addresses. The simulated CUDA uses nothing else of it: sim/cuda/process runs one program in
// a process of its own.
//
// One thread at a time is inside the simulated CUDA: an implementation makes sure that a call begins only when the
// previous one has ended or waits (block, spin, sleep, outside).

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "plugin/base/units.h"

namespace meshbed::sim::cuda {

/// Device memory: `address` is the program's, `bytes` is where the hardware reaches it. A program that follows a device
/// address with the CPU faults at that very place. Lives until its last owner lets go.
struct Buffer {
  virtual ~Buffer() = default;
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // whole pages
  char* bytes = nullptr;
};

/// What a thread waits for, for reports about a stalled run.
struct Waiting {
  const char* what = "";
  std::uint64_t object = 0;
  std::string (*describe)(std::uint64_t object) = nullptr;
};

using ThreadKey = const void*;   // a thread that calls or was spawned
using ProcessKey = const void*;  // a program: threads that share an address space and GPUs

class Host {
 public:
  virtual ~Host() = default;

  virtual Picoseconds now() const = 0;
  /// Calls event(self, argument) at `when_ps`, not before now(); equal times in the order of the calls.
  virtual void at(Picoseconds when_ps, int node, void (*event)(void* self, std::uint64_t argument), void* self,
                  std::uint64_t argument) = 0;

  /// As at(), for a look at memory that found nothing and finds nothing again before something else happens: it may
  /// come whole periods later. Period 0: it may not.
  virtual void look_again(Picoseconds when_ps, Picoseconds /*period_ps*/, int node,
                          void (*event)(void* self, std::uint64_t argument), void* self, std::uint64_t argument) {
    at(when_ps, node, event, self, argument);
  }

  /// Grows with all that happens but look_again().
  virtual std::uint64_t happened() const { return 0; }

  /// Of the calling thread; nullptr: no program is running.
  virtual ProcessKey process() const = 0;
  virtual ThreadKey thread() const = 0;
  virtual int node_of(ProcessKey process) const = 0;
  virtual const std::map<std::string, std::string>& environment_of(ProcessKey process) const = 0;
  /// Where what was learnt of a large PTX text is kept for the next run; empty: nowhere.
  virtual std::string cache_folder() const { return {}; }
  /// Its getpid().
  virtual std::uint32_t number_of(ProcessKey process) const = 0;

  /// The calling thread goes on that much later.
  virtual void sleep(Picoseconds duration_ps) = 0;
  /// Until wake(thread()), or earlier: the caller looks again.
  virtual void block(const Waiting& waiting) = 0;
  virtual void wake(ThreadKey thread) = 0;
  /// A query of `waiting.object` found nothing: lets others go on. False: the caller shall answer "not yet"; true: it
  /// shall look again.
  virtual bool spin(const Waiting& waiting) = 0;
  /// Something that a waiting or polling thread may look at has changed.
  virtual void changed(ProcessKey process) = 0;
  /// A thread of the driver's in that process; it may block(), and ends with the process.
  virtual ThreadKey spawn(ProcessKey process, const std::string& name, std::function<void()> body) = 0;
  /// Runs code of the program's on the calling thread, which is not inside the simulated CUDA meanwhile.
  virtual void outside(const std::function<void()>& code) = 0;

  /// Zeroed. Throws std::bad_alloc.
  virtual std::shared_ptr<Buffer> allocate(ProcessKey process, std::uint64_t size_bytes) = 0;
  /// The same memory at `address`, too, where the process has reserved as many bytes without access.
  virtual std::shared_ptr<Buffer> map(const std::shared_ptr<Buffer>& memory, std::uint64_t address) = 0;
  /// From now on its address is invalid.
  virtual void release(const Buffer& buffer) = 0;
  /// Some process's device memory is there.
  virtual bool is_device_memory(std::uint64_t address) const = 0;

  /// Other processes of a node have the same GPUs and are in the same simulation, so that what one of them exports
  /// another one can open.
  virtual bool has_neighbours() const = 0;
  /// A new descriptor of the process's: a dma-buf of `size_bytes` of its memory from `offset_bytes` on, for adapters.
  /// -1: there are none, or another process has the memory.
  virtual int export_dma_buf(ProcessKey process, const Buffer& memory, std::uint64_t offset_bytes,
                             std::uint64_t size_bytes) = 0;
  /// A new descriptor of the process that keeps `object`; -1: no other process could open it.
  virtual int export_object(ProcessKey process, const std::shared_ptr<void>& object) = 0;
  /// What export_object() made the descriptor of; nullptr: something else.
  virtual std::shared_ptr<void> find_object(ProcessKey process, int descriptor) const = 0;

  // Without neighbours other processes of the machine, each with simulated GPUs of its own, may map memory.
  /// As allocate(); `tag` comes back from import_memory().
  virtual std::shared_ptr<Buffer> allocate_shareable(ProcessKey process, std::uint64_t size_bytes, std::uint64_t) {
    return allocate(process, size_bytes);
  }
  /// A new descriptor of memory from allocate_shareable(); -1: other memory.
  virtual int export_memory(const Buffer&) { return -1; }
  /// The memory behind such a descriptor, the same each time; nullptr: something else. Throws std::bad_alloc.
  virtual std::shared_ptr<Buffer> import_memory(int, std::uint64_t&) { return nullptr; }
};

/// Of this process; set before any call.
Host& host();
bool has_host();
void set_host(Host* host);

}  // namespace meshbed::sim::cuda
