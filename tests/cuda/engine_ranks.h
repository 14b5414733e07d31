#pragma once
// Ranks of the engine in a simulated cluster, each with a copy of its own and its node's GPU: what the tests of calls
// on GPU memory share.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "plugin/coll/meshcoll.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/stream.h"
#include "sim/cuda/world/world_cuda.h"
#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "tests/cuda/gpus.h"
#include "tests/support/run_world.h"
#include "tests/support/taken.h"

namespace meshbed::test {

/// A rank's GPU, a stream, memory there and in pinned memory, and its communicator.
struct EngineRank {
  int rank = 0, world = 0;
  sim::World* simulation = nullptr;
  const cuda::Driver* driver = nullptr;
  const cuda::Stream* stream = nullptr;
  char* there = nullptr;  // of the GPU
  char* here = nullptr;   // pinned
  void* library = nullptr;
  meshcoll_comm* comm = nullptr;

  template <typename Function>
  Function* call(const char* name) const {
    return reinterpret_cast<Function*>(sim::symbol_of(library, name));
  }
  meshcoll_result broken() const;
  sim::CudaCounts counts() const { return sim::cuda_counts_of(*sim::World::current_process()); }
};
/// The engine's call of that name, in the copy of `this->` or `rank.`
#define ENGINE(name) template call<decltype(name)>(#name)

inline meshcoll_result EngineRank::broken() const {
  meshcoll_error error{};
  error.struct_bytes = sizeof error;
  this->ENGINE(meshcoll_get_async_error)(comm, &error);
  return error.result;
}

struct EngineRanks {
  models::Cluster cluster;  // a rank a node
  std::size_t bytes = 0;    // of each rank's memory, there and here
  std::map<std::string, std::string> environment{};
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
};

/// Runs body(rank) in each; what was said on standard error.
inline std::string run_engine_ranks(const EngineRanks& wanted, const std::function<void(const EngineRank&)>& body) {
  const std::string build = MESHBED_BINARY_DIR;
  models::Cluster cluster = wanted.cluster;
  for (models::Node& node : cluster.nodes) node.gpus = {{"H100"}};
  const int ranks = static_cast<int>(cluster.nodes.size());
  const std::string meeting = to_text(cluster.nodes[0].management->address.address) + ":29500";
  const auto result = run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {.libraries = {{"libnccl-net-mesh.so", build + "/lib/libnccl-net-mesh.so"}}});
    sim::install_verbs(world, build + "/sim-lib/libibverbs.so.1", nullptr);
    static std::unique_ptr<sim::WorldCuda> gpus;  // in a process of its own, until its end
    gpus = std::make_unique<sim::WorldCuda>(world, sim::cuda_files_in(build + "/cuda-lib"));
    for (int number = 0; number < ranks; ++number) {
      sim::Process& process = world.add_process(number, number, "rank" + std::to_string(number));
      for (const auto& [name, value] : wanted.environment) process.environment[name] = value;
      world.spawn(process, "main", [&world, number, ranks, meeting, body, build, wanted] {
        const auto driver = taken(cuda::Driver::open());
        const cuda::Current current(driver, taken(driver.retain_primary(0)));
        const auto stream = taken(cuda::Stream::create(driver));
        const auto there = taken(cuda::DeviceMemory::allocate(driver, wanted.bytes));
        const auto here = taken(cuda::PinnedMemory::allocate(driver, wanted.bytes));
        EngineRank rank{.rank = number,
                        .world = ranks,
                        .simulation = &world,
                        .driver = &driver,
                        .stream = &stream,
                        .there = there.data(),
                        .here = here.data(),
                        .library = sim::load_for(*sim::World::current_process(), build + "/lib/libmeshcoll.so")};
        meshcoll_options options{};
        options.struct_bytes = sizeof options;
        options.rank = number;
        options.world = ranks;
        options.bootstrap = meeting.c_str();
        options.net_plugin = "mesh";
        options.algorithm = wanted.algorithm;
        options.protocol = wanted.protocol;
        CHECK(rank.ENGINE(meshcoll_init)(&options, &rank.comm) == MESHCOLL_OK);
        body(rank);
        CHECK(rank.ENGINE(meshcoll_destroy)(rank.comm) == MESHCOLL_OK);
      });
    }
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
  return result.output;
}

}  // namespace meshbed::test
