#pragma once
// RankHost: the services of a world for a rank's program. A workload uses only this interface, so that all worlds
// (testbed/world/simulate.cpp is the simulated one) run the same workload.
//
// One RankHost a rank; its calls may come from any thread of that rank. Nothing here may be called from `catch (...)`
// or `noexcept` code: a simulated thread is ended by an exception that must pass through.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/base/units.h"
#include "sim/trace/recorder.h"

namespace meshbed::testbed {

/// "10.0.0.1:29500", "[fd01::1]:29500".
inline std::string address_and_port(const std::string& address, int port) {
  const bool bare = address.find(':') == std::string::npos || address.front() == '[';
  return (bare ? address : "[" + address + "]") + ":" + std::to_string(port);
}

struct RankThread {
  const char* name = "";  // "service"
  std::function<void()> body;
};

/// Memory of this rank's GPU. The CPU must not dereference its address.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  virtual void* address() const = 0;
  /// A dma-buf that contains it from offset 0 on; owned by this object.
  virtual int descriptor() const = 0;
  /// The present value of byte `at`, as the GPU reads it.
  virtual std::uint8_t seen(std::uint64_t at) const = 0;
  /// Writes these bytes from byte 0 on, by the GPU.
  virtual void write(std::span<const std::byte> bytes) = 0;
};

/// The work of a rank's GPUs so far.
struct GpuWork {
  std::uint64_t copies = 0, copied_bytes = 0, launches = 0;
  std::uint64_t host_copies = 0;   // of the copies, from and to host memory
  std::uint64_t device_syncs = 0;  // waits for all of a device's work
};

class RankHost {
 public:
  virtual ~RankHost() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// "ADDRESS:PORT" of rank 0 on the management network.
  virtual const std::string& bootstrap() const = 0;
  virtual Picoseconds now_ps() const = 0;

  /// The calling thread has no work: lets others run, and time advance if none can. `why`: a string literal that names
  /// what the thread polls; shown if the run deadlocks.
  virtual void idle(const char* why) = 0;

  /// This rank is busy for that time, as if it loaded a model: it makes no library calls meanwhile.
  virtual void be_elsewhere(Picoseconds duration_ps) = 0;

  /// Adds the duration of this rank's own work, or its GPU's, in virtual time. Has no effect in the real worlds.
  virtual void spend(Picoseconds /*duration_ps*/) {}

  /// From now on this rank sees each received message `hop_ps` after its arrival. Has no effect in the real worlds.
  virtual void set_hop(Picoseconds /*hop_ps*/) {}

  /// A barrier of all ranks, which continue at one instant; takes no additional time. Returns an error once any rank
  /// has failed, so that no rank waits for it.
  virtual Result<void> rendezvous() = 0;

  /// This rank has reached a point of its program from which faults of the scenario count
  /// (testbed/scenario/fault_board.h). All ranks call it; it returns when all have called it and the immediate faults
  /// have been carried out. Points from which no fault counts may be left out.
  virtual Result<void> reach(const std::string& point) = 0;

  /// Passes `value` to the one rank that will look up `key`; takes no simulated time.
  virtual Result<void> publish(const std::string& key, const std::string& value) = 0;
  /// nullopt: not published yet. A value is returned once.
  virtual Result<std::optional<std::string>> look_up(const std::string& key) = 0;
  /// Whether another rank has failed, so that this one must stop waiting.
  virtual bool others_failed() = 0;

  /// Called when this rank fails, while its libraries are still unchanged: the last moment to read their state.
  virtual void about_to_fail() {}

  /// Runs the threads as threads of this rank, one at a time: they switch in idle() and, in the simulated world, at
  /// every wait. Returns when all have ended.
  virtual void run_together(std::vector<RankThread> threads) = 0;

  /// Loads the rank's own copy of a library. An error contains the loader's text.
  virtual Result<void*> load(const std::string& path) = 0;
  /// nullptr if the library has no such symbol.
  virtual void* symbol(void* library, const char* name) = 0;

  /// Runs main() of an unchanged program as this rank, and returns its exit status. Only in the simulated world:
  /// elsewhere a process has one main().
  virtual Result<int> run_program(const std::string& /*path*/, const std::vector<std::string>& /*arguments*/) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .scope = Scope::kJob,
                 .text = "programs of one's own run in the simulated world alone"};
  }

  /// nullptr if this world has no GPUs.
  virtual std::unique_ptr<GpuMemory> gpu_memory(std::uint64_t /*size_bytes*/) { return nullptr; }

  /// nullopt: this world does not count it.
  virtual std::optional<GpuWork> gpu_work() { return std::nullopt; }

  /// The traffic of all ranks' pairs of ports since the previous call; nullopt: this world knows messages only after
  /// the run.
  virtual std::optional<std::map<sim::PairKey, sim::PairUsage>> take_carried() { return std::nullopt; }

  /// Waits until nudge(what), a call before this one counted once, or until `deadline_ps` (negative: none). For waits
  /// of the rank's own threads for each other. Only in the simulated world.
  virtual void doze(const void* /*what*/, Picoseconds /*deadline_ps*/, const char* why) { idle(why); }
  virtual void nudge(const void* /*what*/) {}
};

/// Calls host.reach(point) if any fault counts from there.
inline Result<void> reach_if_used(RankHost& host, const std::set<std::string>& points, const std::string& point) {
  return points.count(point) > 0 ? host.reach(point) : ok();
}

/// The program of a rank, from its start to its end.
using RankProgram = std::function<Result<void>(RankHost&)>;

}  // namespace meshbed::testbed
