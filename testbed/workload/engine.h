#pragma once
// Engine: one rank's communicator of libmeshcoll, called through its C interface as any application would.
//
// The library is the rank's own copy, loaded through its RankHost; libmeshcoll is never linked into this program.

#include <memory>
#include <string>
#include <vector>

#include "plugin/coll/meshcoll.h"
#include "plugin/coll/plan/mesh.h"
#include "testbed/base/repeated_lines.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

struct EngineOptions {
  std::string library;     // path of libmeshcoll.so
  std::string net_plugin;  // path, or a name as NCCL_NET_PLUGIN takes it
  int net_version = 0;     // 0: the newest that the plugin has
  int channels = 1;
  std::vector<int> channel_devices;  // empty: channel c opens device c % devices
  // [rank] if ranks differ: channel c opens device rank_devices[rank][c % size], or c % devices if the inner vector is
  // empty. Empty: channel_devices applies to all ranks.
  std::vector<std::vector<int>> rank_devices;
  std::uint64_t slice_bytes = 0;  // 0: the engine's default
  std::string algorithm = "auto";
  std::string protocol = "simple";
  std::string tuning;  // a table's text; empty: no table
  // The network, for "auto"; 0: the engine's default.
  int link_mbps = 0, message_ns = 0, hop_ns = 0, hops_per_mille = 0;
  std::vector<coll::MeshCable> cables;  // as meshcoll_options'; empty: not known
  std::vector<int> rank_mbps;           // likewise; empty: the rate of the cables
  std::string shape;                    // likewise; empty: the engine's
  // Collects the ranks' warnings; nullptr: each rank writes its own. Must exist until the last rank has ended.
  std::shared_ptr<RepeatedLines> warnings;
};

/// How the engine executes a collective, with its own names.
struct EnginePlan {
  std::string algorithm, protocol;  // "ring", "simple"
  int channels = 0;                 // that carry a part of it
  bool operator==(const EnginePlan&) const = default;
};

/// The entry points of one copy of the library.
struct EngineCalls {
  decltype(&meshcoll_init) init = nullptr;
  decltype(&meshcoll_destroy) destroy = nullptr;
  decltype(&meshcoll_last_error) last_error = nullptr;
  decltype(&meshcoll_get_stats) get_stats = nullptr;
  decltype(&meshcoll_get_plan) get_plan = nullptr;
#define MESHBED_COLLECTIVE(constant, number, c_constant, name, call, ...) decltype(&meshcoll_##call) call = nullptr;
#include "plugin/base/collectives.def"
#undef MESHBED_COLLECTIVE
  decltype(&meshcoll_start) start = nullptr;
  decltype(&meshcoll_wait) wait = nullptr;
  decltype(&meshcoll_get_async_error) async_error = nullptr;
  decltype(&meshcoll_set_log) set_log = nullptr;
  decltype(&meshcoll_register) register_memory = nullptr;
};

class Engine {
 public:
  /// Loads the library and makes this rank's communicator; blocks until all ranks do.
  static Result<Engine> open(RankHost& host, const EngineOptions& options);

  const EngineCalls& calls() const { return calls_; }
  meshcoll_comm* comm() const { return comm_; }
  /// Converts the result of a call into Result, with the engine's own text.
  Result<void> outcome(meshcoll_result result) const;
  /// The error of a broken communicator; also of calls that only a stream has waited for.
  Result<void> health() const;
  Result<meshcoll_stats> stats() const;
  /// The plan of the last collective that this rank executed.
  Result<EnginePlan> last_plan() const;
  /// The plan of a call with these arguments.
  Result<EnginePlan> plan_of(const meshcoll_args& args) const;
  /// Destroys the communicator. A rank that ends without error must call it; otherwise the communicator leaks.
  Result<void> close();

 private:
  Result<EnginePlan> plan(const meshcoll_args* args) const;
  Engine(EngineCalls calls, meshcoll_comm* comm) : calls_(calls), comm_(comm) {}

  EngineCalls calls_;
  meshcoll_comm* comm_ = nullptr;
};

}  // namespace meshbed::testbed
