#pragma once
// RankHost: what a rank's program needs of the world that it runs in. A workload is written against this alone, so that
// the simulated world (testbed/world/simulate.cpp) and any later one run the same workload.
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

/// Memory of this rank's GPU. Its address is none that the CPU may follow.
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  virtual void* address() const = 0;
  /// A dma-buf that holds it from offset 0 on; this object's.
  virtual int descriptor() const = 0;
  /// Byte `at`, as the GPU reads it now.
  virtual std::uint8_t seen(std::uint64_t at) const = 0;
  /// The GPU writes these from byte 0 on.
  virtual void write(std::span<const std::byte> bytes) = 0;
};

/// What a rank has made its GPUs do so far.
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

  /// The calling thread looked for something to do and found nothing: lets others run, and time pass where none can.
  /// `why`: a string literal that says what it looked at; shown where nothing ever happens again.
  virtual void idle(const char* why) = 0;

  /// This rank does something else for so long, as one that loads a model does: no call of any library meanwhile.
  virtual void be_elsewhere(Picoseconds duration_ps) = 0;

  /// This rank's own work, or its GPU's, takes so long in virtual time. Nothing in the real worlds, where work takes
  /// its own time.
  virtual void spend(Picoseconds /*duration_ps*/) {}

  /// From now on this rank sees each message that it receives `hop_ps` after its arrival. Nothing in the real worlds.
  virtual void set_hop(Picoseconds /*hop_ps*/) {}

  /// Waits until all ranks are here and lets them go at one instant; costs no time of its own. An error once any rank
  /// has failed: nobody waits for the dead.
  virtual Result<void> rendezvous() = 0;

  /// This rank has come to a point of its program from which faults of the scenario count
  /// (testbed/scenario/fault_board.h). All ranks call it; it returns when all have, and what is to happen there at once
  /// has happened. Points from which no fault counts may be left out.
  virtual Result<void> reach(const std::string& point) = 0;

  /// Hands `value` to the one rank that will look `key` up; costs no simulated time.
  virtual Result<void> publish(const std::string& key, const std::string& value) = 0;
  /// nullopt: not published yet. A value is handed out once.
  virtual Result<std::optional<std::string>> look_up(const std::string& key) = 0;
  /// Another rank has failed: nothing that this one waits for will come.
  virtual bool others_failed() = 0;

  /// This rank fails, and its libraries are still as they were at that moment: the last one to look at them.
  virtual void about_to_fail() {}

  /// Runs the threads as threads of this rank, one at a time: they change over in idle() and, in the simulated world,
  /// wherever one waits. Returns when all have ended.
  virtual void run_together(std::vector<RankThread> threads) = 0;

  /// Loads the rank's own copy of a library. An error carries the loader's text.
  virtual Result<void*> load(const std::string& path) = 0;
  /// nullptr where the library has no such symbol.
  virtual void* symbol(void* library, const char* name) = 0;

  /// Runs main() of a program that knows nothing of Meshbed, as this rank; its exit status. The simulated world alone
  /// has it: elsewhere a process has one main().
  virtual Result<int> run_program(const std::string& /*path*/, const std::vector<std::string>& /*arguments*/) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .scope = Scope::kJob,
                 .text = "programs of one's own run in the simulated world alone"};
  }

  /// nullptr where this world has no GPUs.
  virtual std::unique_ptr<GpuMemory> gpu_memory(std::uint64_t /*size_bytes*/) { return nullptr; }

  /// nullopt: this world cannot tell.
  virtual std::optional<GpuWork> gpu_work() { return std::nullopt; }

  /// What all ranks' pairs of ports have carried since this was called before; nullopt: this world sees messages only
  /// after the run.
  virtual std::optional<std::map<sim::PairKey, sim::PairUsage>> take_carried() { return std::nullopt; }

  /// Waits until nudge(what), a call before this one counted once, or until `deadline_ps` (negative: none). A wait of
  /// the rank's own threads for each other, which no library sees. The simulated world alone has it.
  virtual void doze(const void* /*what*/, Picoseconds /*deadline_ps*/, const char* why) { idle(why); }
  virtual void nudge(const void* /*what*/) {}
};

/// host.reach(point) where any fault counts from there.
inline Result<void> reach_if_used(RankHost& host, const std::set<std::string>& points, const std::string& point) {
  return points.count(point) > 0 ? host.reach(point) : ok();
}

/// What a rank runs, from its start to its end.
using RankProgram = std::function<Result<void>(RankHost&)>;

}  // namespace meshbed::testbed
