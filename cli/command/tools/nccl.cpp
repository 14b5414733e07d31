// meshbed nccl check, meshbed nccl run: NVIDIA's own NCCL, as its user has built it.

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "cli/command/program.h"
#include "cli/common/environment.h"
#include "cli/common/exit_status.h"
#include "cli/common/files.h"
#include "cli/common/json_text.h"
#include "cli/nccl/host_ranks.h"
#include "cli/nccl/library.h"
#include "cli/scenario/scenario.h"
#include "cli/world/world.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

void print_text(const std::string& path, const std::string& sha256, const NcclLibrary& library,
                const std::vector<std::string>& obstacles, const std::vector<NcclOnGpu>& gpus, std::ostream& out) {
  fmt::print(out, "{}: NCCL {}{}\n", path, library.version,
             library.cuda_version.empty() ? "" : ", for CUDA " + library.cuda_version);
  fmt::print(out, "  SHA-256       {}\n", sha256);
  fmt::print(out, "  PTX           {}{}\n", architecture_names(library.ptx, "compute"),
             library.ptx_texts == 0 ? ""
                                    : fmt::format(" ({} texts, {:.1f} MiB in the file)", library.ptx_texts,
                                                  static_cast<double>(library.ptx_bytes) / (1 << 20)));
  fmt::print(
      out, "  machine code  {}\n",
      architecture_names(library.machine_code, "sm") + (library.machine_code.empty() ? "" : " (not executed here)"));
  fmt::print(out, "  CUDA runtime  {}\n", library.cuda_runtime.empty() ? "linked in statically" : library.cuda_runtime);
  fmt::print(out, "  C++ runtime   {}\n", library.shared_cxx_runtime ? "shared" : "linked in statically");
  if (!library.refused.empty()) {
    fmt::print(out, "  it may call, and is refused here ({}), as on a machine that cannot do it:\n",
               library.refused.size());
    std::string line;
    constexpr std::size_t kNamed = 24;
    for (std::size_t index = 0; index < std::min(library.refused.size(), kNamed); ++index) {
      const std::string& name = library.refused[index];
      constexpr std::size_t kWidth = 100;
      if (!line.empty() && line.size() + 2 + name.size() > kWidth) {
        fmt::print(out, "    {},\n", line);
        line.clear();
      }
      line += (line.empty() ? "" : ", ") + name;
    }
    const std::size_t more = library.refused.size() - std::min(library.refused.size(), kNamed);
    fmt::print(out, "    {}{}\n", line, more == 0 ? "" : fmt::format(" and {} more (--json)", more));
  }
  for (const std::string& obstacle : obstacles) fmt::print(out, "cannot run here: {}\n", obstacle);
  if (!obstacles.empty()) return;
  for (const NcclOnGpu& gpu : gpus) {
    fmt::print(
        out, "{}\n",
        gpu.obstacle.empty() ? fmt::format("runs with gpu_model = \"{}\"", gpu.gpu) : "not with: " + gpu.obstacle);
  }
}

nlohmann::ordered_json as_json(const std::string& path, const std::string& sha256, const NcclLibrary& library,
                               const std::vector<std::string>& obstacles, const std::vector<NcclOnGpu>& gpus) {
  auto list = nlohmann::ordered_json::array();
  for (const NcclOnGpu& gpu : gpus) {
    list.push_back({{"gpu_model", gpu.gpu},
                    {"architecture", gpu.architecture},
                    {"runs", obstacles.empty() && gpu.obstacle.empty()},
                    {"obstacle", gpu.obstacle}});
  }
  return {{"file", path},
          {"sha256", sha256},
          {"version", library.version},
          {"cuda_version", library.cuda_version},
          {"ptx", library.ptx},
          {"machine_code", library.machine_code},
          {"cuda_runtime", library.cuda_runtime},
          {"shared_cxx_runtime", library.shared_cxx_runtime},
          {"refused", library.refused},
          {"obstacles", obstacles},
          {"gpus", std::move(list)}};
}

int check(const std::string& path, bool json, std::ostream& out) {
  const NcclLibrary library = inspect_nccl(path);
  const std::string sha256 = sha256_of_file(path);
  const std::vector<std::string> obstacles = obstacles_of(library);
  const std::vector<NcclOnGpu> gpus = nccl_on_gpus(library);
  if (json) {
    out << json_text(as_json(path, sha256, library, obstacles, gpus), kIndent) << "\n";
  } else {
    print_text(path, sha256, library, obstacles, gpus, out);
  }
  const bool somewhere =
      std::any_of(gpus.begin(), gpus.end(), [](const NcclOnGpu& gpu) { return gpu.obstacle.empty(); });
  return obstacles.empty() && somewhere ? kExitOk : kExitBroken;
}

constexpr const char* kHostWorld = "host";

struct NcclRun {
  std::string library, scenario, world = kSimulatedWorld, gpu, results;
  std::vector<std::string> overrides, faults;
  bool json = false;
  Arguments program;  // with its arguments
};

/// Throws where the library cannot run on a GPU of the scenario's, or a node has none.
void require_gpus_that_fit(const NcclRun& run) {
  const NcclLibrary library = inspect_nccl(run.library);
  if (const auto obstacles = obstacles_of(library); !obstacles.empty()) {
    throw std::runtime_error(fmt::format("nccl run: {}: {}", run.library, obstacles.front()));
  }
  const std::vector<NcclOnGpu> gpus = nccl_on_gpus(library);
  for (const models::Node& node : read_scenario(run.scenario, run.overrides).cluster.nodes) {
    if (node.gpus.empty() || node.gpus.front().model.empty()) {
      throw std::runtime_error(fmt::format(
          "nccl run: {} has no GPU of a model, and NCCL needs one for each rank: --gpu H100 gives every node one",
          node.name));
    }
    const auto of_model = std::find_if(gpus.begin(), gpus.end(),
                                       [&](const NcclOnGpu& gpu) { return gpu.gpu == node.gpus.front().model; });
    if (of_model != gpus.end() && !of_model->obstacle.empty()) {
      throw std::runtime_error(fmt::format("nccl run: {}: {}", run.library, of_model->obstacle));
    }
  }
}

/// Outside of `sim` the dynamic linker looks for the library by its name.
void require_link(const NcclRun& run) {
  std::error_code none;
  if (fs::equivalent(fs::absolute(run.library).parent_path() / "libnccl.so.2", run.library, none)) return;
  throw std::runtime_error(fmt::format(
      "nccl run: --world {}: the ranks look for libnccl.so.2, and there is none beside {}; make a link of that name",
      run.world, run.library));
}

std::string results_of(const NcclRun& run) { return "results/nccl-" + fs::path(run.program.front()).stem().string(); }

/// The words of `meshbed run`, or of `meshbed exec`, that come to the same.
Arguments words_of(const NcclRun& run) {
  Arguments words;
  const auto set = [&words](const std::string& text) { words.insert(words.end(), {"--set", text}); };
  const fs::path program = program_in_path("nccl run", run.program.front());
  if (run.world == kSimulatedWorld) {
    words = {"run", run.scenario, "--no-expect"};
    for (const std::string& text : run.overrides) set(text);
    for (const std::string& fault : run.faults) words.insert(words.end(), {"--fault", fault});
    set("workload.kind=program");
    set("workload.program=" + json_text(nlohmann::json(fs::absolute(program).string())));
    set("workload.arguments=" + json_text(nlohmann::json(Arguments(run.program.begin() + 1, run.program.end()))));
    set("workload.nccl=" + json_text(nlohmann::json(fs::absolute(run.library).string())));
    if (run.json) words.emplace_back("--json");
    words.insert(words.end(), {"--results", run.results.empty() ? results_of(run) : run.results});
    return words;
  }
  if (run.json) throw std::runtime_error("nccl run: --json: of --world sim alone");
  require_link(run);
  const fs::path folder = fs::absolute(run.library).parent_path();
  words = {"exec", "--world", run.world, "--scenario", run.scenario, "--nccl-plugin", "--memory", "2048"};
  for (const std::string& text : run.overrides) set(text);
  const std::string own = from_environment("LD_LIBRARY_PATH").value_or("");
  const std::string plugin = fs::path(built_files().net_plugin).parent_path().string();
  words.insert(words.end(), {"--env", fmt::format("LD_LIBRARY_PATH={}:{}{}{}", folder.string(), plugin,
                                                  own.empty() ? "" : ":", own)});
  if (!run.results.empty()) words.insert(words.end(), {"--results", run.results});
  words.insert(words.end(), {"--", program.string()});
  words.insert(words.end(), run.program.begin() + 1, run.program.end());
  return words;
}

/// Ranks as processes of this machine.
int run_here(const NcclRun& run, std::ostream& out, std::ostream& err) {
  if (run.json) throw std::runtime_error("nccl run: --json: of --world sim alone");
  require_link(run);
  Arguments program = run.program;
  program.front() = program_in_path("nccl run", program.front());
  const HostRanks ranks{.library = fs::absolute(run.library).string(),
                        .version = inspect_nccl(run.library).version,
                        .program = program,
                        .results = run.results.empty() ? results_of(run) : run.results};
  return run_on_host(read_scenario(run.scenario, run.overrides), ranks, out, err);
}

/// Goes on as `meshbed run` or `meshbed exec`.
int start(NcclRun run, std::ostream& out, std::ostream& err) {
  if (run.library.empty()) throw std::runtime_error("nccl run: --nccl LIBRARY: which libnccl.so?");
  if (run.scenario.empty()) throw std::runtime_error("nccl run: --scenario FILE: on which cluster?");
  if (run.program.empty()) {
    throw std::runtime_error("nccl run: which program? --nccl LIBRARY --scenario FILE -- PROGRAM [ARGUMENT ...]");
  }
  if (run.world != kSimulatedWorld && !run.faults.empty()) {
    throw std::runtime_error("nccl run: --fault: of --world sim alone");
  }
  require_choice("nccl run", "--world", run.world, {kSimulatedWorld, kEmulatedWorld, kHostWorld});
  if (!run.gpu.empty()) {
    run.overrides.insert(run.overrides.begin(), {"topology.gpus=1", "topology.gpu_model=" + run.gpu});
  }
  // NCCL looks for libnccl-net-mesh.so and libnccl-profiler-meshbed.so.
  run.overrides.insert(run.overrides.begin(),
                       {"environment.NCCL_NET_PLUGIN=mesh", "environment.NCCL_PROFILER_PLUGIN=meshbed"});
  require_gpus_that_fit(run);
  if (run.world == kHostWorld) return run_here(run, out, err);
  const Arguments words = words_of(run);
  err << "meshbed: " << fmt::format("{}", fmt::join(words, " ")) << "\n";
  out.flush();
  err.flush();
  return become_command(words);
}

}  // namespace

int nccl_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::string action, path;
  bool json = false;
  NcclRun run;
  Syntax syntax(
      "nccl check LIBRARY [--json], or nccl run --nccl LIBRARY --scenario FILE [options] -- PROGRAM [ARGUMENT ...]");
  syntax.operands.add_options()("action", po::value(&action)->required()->value_name("check|run"), "check or run")(
      "library", po::value(&path)->value_name("LIBRARY"), "check: a libnccl.so that you have built");
  syntax.positions.add("action", 1).add("library", 1);
  syntax.options.add_options()                                                                                 //
      ("nccl", po::value(&run.library)->value_name("LIBRARY"), "run: the ranks' libnccl.so.2")                 //
      ("scenario", po::value(&run.scenario)->value_name("FILE"), "run: the cluster, and the ranks of a node")  //
      ("gpu", po::value(&run.gpu)->value_name("NAME"), "run: every node has one GPU of this model")            //
      ("set", po::value(&run.overrides)->value_name("KEY=VALUE"),
       "run: override a key of the scenario; may be repeated")                                              //
      ("fault", po::value(&run.faults)->value_name("KIND,..."), "run: as of meshbed run; may be repeated")  //
      ("world", po::value(&run.world)->value_name("NAME"),
       "run: sim, which is the default (virtual time), emu (real verbs in virtual machines), or host (processes of "
       "this "
       "machine over the loopback)")                                                                      //
      ("results", po::value(&run.results)->value_name("DIR"), "run: as of meshbed run and meshbed exec")  //
      ("json", po::bool_switch(&json), "print JSON");
  if (!parse_arguments(Arguments(arguments.begin(), dashes), syntax, out)) return kExitOk;
  require_choice("nccl", "action", action, {"check", "run"});
  if (action == "run") {
    if (!path.empty()) throw std::runtime_error(fmt::format("nccl run: {}: the program stands behind --", path));
    run.json = json;
    if (dashes != arguments.end()) run.program.assign(dashes + 1, arguments.end());
    return start(std::move(run), out, err);
  }
  if (path.empty()) throw std::runtime_error("nccl check: which libnccl.so?");
  return check(path, json, out);
}

}  // namespace meshbed::cli
