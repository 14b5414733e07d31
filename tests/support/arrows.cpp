#include "tests/support/arrows.h"

#include <utility>

namespace meshbed::test {
namespace {

/// The rooms of a folder, the lowest first: each may include those before it, and what the folder may.
std::vector<Arrow> layers(const std::string& folder, const std::vector<std::string>& rooms,
                          std::vector<std::string> allowed, const char* reason) {
  std::vector<Arrow> found;
  for (const std::string& room : rooms) {
    found.push_back({folder + room + "/", allowed, reason});
    allowed.push_back(folder + room + "/");
  }
  return found;
}

}  // namespace

std::vector<Arrow> every_arrow() {
  std::vector<Arrow> all{
      {"plugin/base/", {}, "base is the ground floor: standard library only"},
      {"plugin/verbs/", {"plugin/base/"}, "the owners of verbs objects stand on base alone"},
      {"plugin/cuda/", {"plugin/base/"}, "the door to CUDA stands on base alone"},
      {"plugin/nccl/", {"plugin/base/", "plugin/verbs/", "plugin/net/"}, "the ABI is a thin skin over net"},
      {"plugin/local/",
       {"plugin/base/", "plugin/nccl/net_abi.h", "plugin/nccl/boundary.h"},
       "the local transport is a whole net plugin: it knows the ABI and its boundary, and nothing of the mesh"},
      {"plugin/profiler/",
       {"plugin/base/", "plugin/nccl/net_abi.h", "plugin/nccl/profiler_abi.h"},
       "the profiler's plugin notes what NCCL says, and knows nothing of the mesh"},
      {"plugin/dropin/mpi/",
       {"plugin/base/", "plugin/coll/store/", "plugin/coll/api/launcher.h"},
       "MPI's drop-in meets at the engine's store, and knows nothing of the engine"},
      {"plugin/dropin/",
       {"plugin/base/", "plugin/coll/meshcoll.h", "plugin/coll/store/environment.h", "plugin/coll/store/job_key.h",
        "plugin/nccl/net_abi.h", "plugin/nccl/profiler_abi.h"},
       "the drop-in is a thin skin over the engine's C interface, and calls profilers as NCCL does"},
      {"models/", {"plugin/base/"}, "models are pure functions of values"},
      {"sim/cuda/ptx/", {"plugin/base/"}, "the PTX interpreter knows neither CUDA's interface nor time"},
      {"sim/cuda/image/", {"plugin/base/"}, "reading fat binaries needs base alone"},
      {"sim/cuda/world/",
       {"models/", "plugin/base/", "sim/engine/", "sim/host/", "sim/cuda/"},
       "a cluster's GPUs join the simulated CUDA with the simulated world"},
      {"sim/perfetto/", {"plugin/base/"}, "the writer of Perfetto's format stands on base alone"},
      {"sim/cuda/",
       {"models/gpu", "plugin/base/", "sim/perfetto/"},
       "the simulated CUDA meets who runs it at sim/cuda/host.h alone"},
      {"sim/", {"models/", "plugin/base/"}, "the simulator does not know what runs in it"},
      {"emu/", {"plugin/base/"}, "the emulated world takes plain values; it knows neither scenarios nor the simulator"},
      {"cli/bench/cost/", {"plugin/"}, "what counts the plugin's instructions knows the plugin alone"},
  };
  const auto add = [&all](const std::vector<Arrow>& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(layers(
      "plugin/net/",
      {"process", "wire", "link", "connect", "relay", "recover", "rdma", "tcp", "state", "report", "service"},
      {"plugin/base/", "plugin/verbs/"},
      "the transport's layers are process, wire, link and so on (docs/architecture.md), the transport itself on top"));
  all.push_back(
      {"plugin/net/", {"plugin/base/", "plugin/verbs/"}, "the transport stands on verbs; it does not know its ABI"});
  all.push_back({"plugin/ring/include/", {}, "the headers that users install need nothing else"});
  add(layers("plugin/ring/", {"abi", "queue", "kernel", "telemetry"}, {"plugin/base/", "plugin/ring/include/"},
             "work rings stand on base alone, in layers: abi, queue, kernel, telemetry"));
  all.push_back({"plugin/ring/gpu/", {"plugin/base/", "plugin/cuda/", "plugin/ring/"}, "a ring on a GPU"});
  add(layers(
      "plugin/coll/", {"plan", "reduce", "store", "transport", "run", "api"},
      {"plugin/base/", "plugin/cuda/", "plugin/ring/", "plugin/nccl/net_abi.h", "plugin/coll/meshcoll.h"},
      "the engine's layers are plan, reduce, store, transport, run, api; it meets the mesh only at the ncclNet table"));
  all.push_back({"plugin/coll/", {"plugin/base/"}, "meshcoll.cpp is the engine's C interface"});
  const std::vector<std::string> below_testbed{"sim/", "emu/", "models/", "plugin/"};
  add(layers(
      "testbed/", {"base", "plot", "scenario", "workload", "result", "world", "render"}, below_testbed,
      "the rooms of testbed are base, plot, scenario, workload, result, world, render, then topology, verify and "
      "fidelity; it "
      "knows no command"));
  const std::vector<std::string> beside_another{"testbed/base/",
                                                "testbed/plot/",
                                                "testbed/scenario/",
                                                "testbed/workload/",
                                                "testbed/result/",
                                                "testbed/world/",
                                                "testbed/render/",
                                                "sim/",
                                                "emu/",
                                                "models/",
                                                "plugin/"};
  const auto above = [&](const char* room, std::vector<std::string> allowed, const char* reason) {
    allowed.insert(allowed.end(), beside_another.begin(), beside_another.end());
    all.push_back({room, allowed, reason});
  };
  for (const char* room : {"testbed/topology/", "testbed/verify/", "testbed/fidelity/"}) {
    above(room, {}, "topology, verify and fidelity stand beside one another");
  }
  all.push_back({"testbed/include/", {"meshbed/"}, "what is installed includes what is installed"});
  above("testbed/import/", {}, "import makes scenarios of machines' files, below the commands that run them");
  above("testbed/export/", {"testbed/topology/"}, "export writes a cluster's files");
  above("testbed/library/", {"meshbed/", "testbed/fidelity/"},
        "the library's interface stands on scenario, result, world, render and fidelity");
  above("testbed/sweep/", {"meshbed/", "testbed/library/"}, "a sweep stands on the library's runs");
  above("testbed/plan/", {"testbed/sweep/", "testbed/topology/"}, "a plan stands on sweeps");
  above("testbed/page/", {"testbed/topology/", "testbed/fidelity/"},
        "a page is a rendering of results, with the picture of a topology and measured times");
  above("testbed/serve/", {"testbed/page/"}, "a server sends results, and their page");
  above("testbed/diagnose/", {"meshbed/", "testbed/library/", "testbed/import/"},
        "a diagnosis is proven by the library's runs, and reads machines as import does");
  all.push_back({"python/", {"meshbed/"}, "the Python module knows the installed headers alone"});
  const std::vector<std::string> below_cli{"testbed/", "sim/", "emu/", "models/", "plugin/"};
  all.push_back({"cli/common/", below_cli, "what several commands share stands below them"});
  for (const char* room : {"cli/ring/", "cli/bench/", "cli/nccl/"}) {
    std::vector<std::string> allowed = below_cli;
    allowed.push_back("cli/common/");
    all.push_back({room, allowed, "ring, bench and nccl stand beside one another, below the commands"});
  }
  all.push_back({"cli/command/",
                 {"cli/", "testbed/", "sim/", "emu/", "models/", "plugin/"},
                 "the commands are the roof: nothing stands on them"});
  return all;
}

}  // namespace meshbed::test
