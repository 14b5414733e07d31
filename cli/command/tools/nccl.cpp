// meshbed nccl check, meshbed nccl run: NVIDIA's own NCCL, as built by the user.

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "cli/command/program.h"
#include "cli/nccl/host_ranks.h"
#include "cli/nccl/library.h"
#include "cli/nccl/program_run.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/scenario.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
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
  ProgramRun with;
  std::string world = name_of(WorldKind::kSimulated);
  bool json = false;

  bool simulated() const { return world == name_of(WorldKind::kSimulated); }
};

/// Outside of `sim` the dynamic linker looks for the library by its name.
void require_link(const NcclRun& run) {
  std::error_code none;
  const std::string& library = run.with.library;
  if (fs::equivalent(fs::absolute(library).parent_path() / "libnccl.so.2", library, none)) return;
  throw std::runtime_error(fmt::format(
      "nccl run: --world {}: the ranks look for libnccl.so.2, and there is none beside {}; make a link of that name",
      run.world, library));
}

std::string results_of(const ProgramRun& run) {
  return run.results.empty() ? "results/nccl-" + fs::path(run.program).stem().string() : run.results;
}

/// The words of `meshbed exec` that come to the same in nodes that are booted.
Arguments exec_words(const NcclRun& run) {
  const ProgramRun& with = run.with;
  if (run.json) throw std::runtime_error("nccl run: --json: of --world sim alone");
  require_link(run);
  Arguments words{"exec", "--world", run.world, "--scenario", with.scenario, "--nccl-plugin", "--memory", "2048"};
  for (const std::string& text : cluster_overrides(with)) words.insert(words.end(), {"--set", text});
  words.insert(words.end(), {"--env", "LD_LIBRARY_PATH=" + library_path(with.library)});
  if (!with.results.empty()) words.insert(words.end(), {"--results", with.results});
  words.insert(words.end(), {"--", with.program});
  words.insert(words.end(), with.arguments.begin(), with.arguments.end());
  return words;
}

/// The words of the command that it goes on as.
Arguments words_of(NcclRun run) {
  if (!run.simulated()) return exec_words(run);
  run.with.results = results_of(run.with);
  Arguments words = simulated_words(run.with);
  if (run.json) words.emplace_back("--json");
  return words;
}

/// Ranks as processes of this machine.
int run_here(const NcclRun& run, std::ostream& out, std::ostream& err) {
  if (run.json) throw std::runtime_error("nccl run: --json: of --world sim alone");
  require_link(run);
  Arguments program{run.with.program};
  program.insert(program.end(), run.with.arguments.begin(), run.with.arguments.end());
  const HostRanks ranks{.library = fs::absolute(run.with.library).string(),
                        .version = inspect_nccl(run.with.library).version,
                        .program = program,
                        .results = results_of(run.with)};
  return run_on_host(read_scenario(run.with.scenario, cluster_overrides(run.with)), ranks, out, err);
}

/// Goes on as `meshbed run` or `meshbed exec`. `program`: with its arguments.
int start(NcclRun run, const Arguments& program, std::ostream& out, std::ostream& err) {
  require_library_and_scenario("nccl run", run.with);
  if (program.empty()) {
    throw std::runtime_error("nccl run: which program? --nccl LIBRARY --scenario FILE -- PROGRAM [ARGUMENT ...]");
  }
  if (!run.simulated() && !run.with.faults.empty()) {
    throw std::runtime_error("nccl run: --fault: of --world sim alone");
  }
  require_choice("nccl run", "--world", run.world,
                 {name_of(WorldKind::kSimulated), name_of(WorldKind::kEmulated), kHostWorld});
  require_gpus_that_fit("nccl run", run.with);
  run.with.program = program_in_path("nccl run", program.front());
  run.with.arguments.assign(program.begin() + 1, program.end());
  if (run.world == kHostWorld) return run_here(run, out, err);
  const Arguments words = words_of(std::move(run));
  err << "meshbed: " << fmt::format("{}", fmt::join(words, " ")) << "\n";
  out.flush();
  err.flush();
  return become_command(words);
}

}  // namespace

int nccl_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.empty() && arguments.front() == "compare") return nccl_compare_command(arguments, out, err);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::string action, path;
  bool json = false;
  NcclRun run;
  Syntax syntax(
      "nccl check LIBRARY [--json], nccl run --nccl LIBRARY --scenario FILE [options] -- PROGRAM [ARGUMENT ...], or "
      "nccl compare --nccl LIBRARY --scenario FILE [options]");
  syntax.operands.add_options()("action", po::value(&action)->required()->value_name("check|run|compare"),
                                "check, run or compare, which has a --help of its own")(
      "library", po::value(&path)->value_name("LIBRARY"), "check: a libnccl.so that you have built");
  syntax.positions.add("action", 1).add("library", 1);
  syntax.options.add_options()                                                                                      //
      ("nccl", po::value(&run.with.library)->value_name("LIBRARY"), "run: the ranks' libnccl.so.2")                 //
      ("scenario", po::value(&run.with.scenario)->value_name("FILE"), "run: the cluster, and the ranks of a node")  //
      ("gpu", po::value(&run.with.gpu)->value_name("NAME"), "run: every node has one GPU of this model")            //
      ("set", po::value(&run.with.overrides)->value_name("KEY=VALUE"),
       "run: override a key of the scenario; may be repeated")                                                   //
      ("fault", po::value(&run.with.faults)->value_name("KIND,..."), "run: as of meshbed run; may be repeated")  //
      ("world", po::value(&run.world)->value_name("NAME"),
       "run: sim, which is the default (virtual time), emu (real verbs in virtual machines), or host (processes of "
       "this "
       "machine over the loopback)")                                                                           //
      ("results", po::value(&run.with.results)->value_name("DIR"), "run: as of meshbed run and meshbed exec")  //
      ("json", po::bool_switch(&json), "print JSON");
  if (!parse_arguments(Arguments(arguments.begin(), dashes), syntax, out)) return kExitOk;
  require_choice("nccl", "action", action, {"check", "run", "compare"});
  if (action == "compare") throw std::runtime_error("nccl compare: compare comes first, its options behind it");
  if (action == "run") {
    if (!path.empty()) throw std::runtime_error(fmt::format("nccl run: {}: the program must follow --", path));
    run.json = json;
    const Arguments program(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
    return start(std::move(run), program, out, err);
  }
  if (path.empty()) throw std::runtime_error("nccl check: which libnccl.so?");
  return check(path, json, out);
}

}  // namespace meshbed::testbed
