#pragma once
// Engine: one rank's communicator of libmeshcoll, called through its C interface as any application would.
//
// The library is the rank's own copy, loaded through its RankHost; libmeshcoll is never linked into this program.

#include <memory>
#include <string>
#include <vector>

#include "plugin/coll/meshcoll.h"
#include "testbed/base/repeated_lines.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

struct EngineOptions {
  std::string library;     // path of libmeshcoll.so
  std::string net_plugin;  // path, or a name as NCCL_NET_PLUGIN takes it
  int net_version = 0;     // 0: the newest that the plugin has
  int channels = 1;
  std::vector<int> channel_devices;  // empty: channel c opens device c % devices
  // [rank] where not all ranks have the same: channel c opens device rank_devices[rank][c % size], and where that is
  // empty c % devices. Empty: channel_devices says it.
  std::vector<std::vector<int>> rank_devices;
  std::uint64_t slice_bytes = 0;  // 0: the engine's default
  std::string algorithm = "auto";
  std::string protocol = "simple";
  std::string tuning;  // a table's text; empty: there is none
  // The network, for "auto"; 0: the engine's default.
  int link_mbps = 0, hops_per_mille = 0;
  std::vector<int> cable_mbps;  // as meshcoll_options'; empty: not known
  std::vector<int> rank_mbps;   // likewise; empty: as much as the cables
  // Takes the ranks' warnings; nullptr: each writes its own. Lives until the last rank has ended.
  std::shared_ptr<RepeatedLines> warnings;
};

/// How the engine carries a collective out, in its own words.
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
  /// Interleaver a result of one of the calls into ours, with the engine's own text.
  Result<void> outcome(meshcoll_result result) const;
  /// Why the communicator is broken, where it is: of calls that nobody but a stream has waited for.
  Result<void> health() const;
  Result<meshcoll_stats> stats() const;
  /// Of the last collective that this rank carried out.
  Result<EnginePlan> last_plan() const;
  /// How a call with these arguments would go.
  Result<EnginePlan> plan_of(const meshcoll_args& args) const;
  /// Destroys the communicator. Must be called by a rank that ends well; without it the communicator is left behind.
  Result<void> close();

 private:
  Result<EnginePlan> plan(const meshcoll_args* args) const;
  Engine(EngineCalls calls, meshcoll_comm* comm) : calls_(calls), comm_(comm) {}

  EngineCalls calls_;
  meshcoll_comm* comm_ = nullptr;
};

}  // namespace meshbed::testbed
