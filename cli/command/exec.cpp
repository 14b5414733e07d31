// meshbed exec: any program, once a rank, in the nodes of an emulated cluster.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "emu/shell_quote.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/world/emulated_program.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// "NAME=VALUE", or "NAME" for this shell's value.
std::pair<std::string, std::string> variable_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  if (!emu::is_variable_name(name)) {
    throw std::runtime_error(fmt::format("exec: --env {}: '{}' is not a variable name", text, name));
  }
  if (equals != std::string::npos) return {name, text.substr(equals + 1)};
  const auto value = from_environment(name.c_str());
  if (!value) throw std::runtime_error(fmt::format("exec: --env {}: it is not set in this shell", name));
  return {name, *value};
}

/// Before this shell's own LD_LIBRARY_PATH, which the nodes' ranks get, too: the host's files are there.
std::string library_path(const std::vector<std::string>& folders) {
  std::string path;
  for (const std::string& folder : folders) path += (path.empty() ? "" : ":") + folder;
  const std::string own = from_environment("LD_LIBRARY_PATH").value_or("");
  return path.empty() || own.empty() ? path + own : path + ":" + own;
}

std::string ended(const RankEnd& rank) {
  if (!rank.status) return "had not ended and was stopped";
  if (*rank.status > 128 && *rank.status < 128 + NSIG) {
    return fmt::format("was ended by signal {} ({})", *rank.status - 128, strsignal(*rank.status - 128));
  }
  return fmt::format("ended with status {}", *rank.status);
}

}  // namespace

int exec_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  std::string file, world = name_of(WorldKind::kEmulated), time_limit = "300", memory = "512", cpus = "1",
                    output = "256", after_port;
  std::vector<std::string> overrides, variables;
  ProgramOptions options;
  bool plugin = false, dropin = false;
  Syntax syntax("exec --scenario FILE [options] -- PROGRAM [ARGUMENT ...] [: PROGRAM ...]");
  syntax.options.add_options()                                                                                        //
      ("scenario", po::value(&file)->required()->value_name("FILE"), "the cluster, and the ranks of a node")          //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated")      //
      ("world", po::value(&world)->value_name("NAME"), "emu, which is the default and the only one")                  //
      ("nccl-plugin", po::bool_switch(&plugin), "the ranks' NCCL finds Meshbed's net plugin: NCCL_NET_PLUGIN=mesh")   //
      ("nccl-dropin", po::bool_switch(&dropin), "the ranks' libnccl.so.2 is Meshbed's drop-in, over the net plugin")  //
      ("mpi", po::bool_switch(&options.mpi), "mpirun of Open MPI in the first node starts the ranks")                 //
      ("after-port", po::value(&after_port)->value_name("PORT"),
       "the other ranks begin when rank 0's node listens on this TCP port")  //
      ("env", po::value(&variables)->value_name("NAME[=VALUE]"),
       "a variable of every rank; without a value, this shell's; may be repeated")    //
      ("memory", po::value(&memory)->value_name("MIB"), "of a node; default 512")     //
      ("cpus", po::value(&cpus)->value_name("N"), "processors of a node; default 1")  //
      ("output-limit", po::value(&output)->value_name("MIB"),
       "of what all ranks write to standard output and standard error; default 256")                 //
      ("time-limit", po::value(&time_limit)->value_name("SECONDS"), "of the programs; default 300")  //
      ("results", po::value(&options.results)->value_name("FOLDER"),
       "keep what rank N leaves in $MESHBED_RESULTS as FOLDER/rank-N");
  if (!parse_arguments(Arguments(arguments.begin(), dashes), syntax, out)) return kExitOk;

  if (world != name_of(WorldKind::kEmulated)) {
    throw std::runtime_error(
        fmt::format("exec: --world {}: programs run in emulated nodes, --world {}; in virtual time `meshbed run` runs "
                    "them, with workload.kind = \"program\", and on real machines you start a program yourself",
                    world, name_of(WorldKind::kEmulated)));
  }
  options.programs = split_programs(dashes == arguments.end() ? Arguments{} : Arguments(dashes + 1, arguments.end()));
  options.time_limit_s = static_cast<double>(parse_count("--time-limit", time_limit, 1, 1'000'000));
  options.memory_mib = static_cast<int>(parse_count("--memory", memory, emu::kLeastMemoryMib, 1'000'000));
  options.cpus = static_cast<int>(parse_count("--cpus", cpus, 1, 64));
  options.output_mib = parse_count("--output-limit", output, 1, 1'000'000);
  if (!after_port.empty()) options.after_port = static_cast<int>(parse_count("--after-port", after_port, 1, 65535));

  const fs::path net_plugin = built_files().net_plugin;
  std::vector<std::string> folders;
  if (dropin) folders.push_back((net_plugin.parent_path().parent_path() / "nccl-lib").string());
  if (dropin)
    err << fmt::format("meshbed: nccl: the drop-in {}, SHA-256 {}\n", built_files().nccl,
                       sha256_of_file(built_files().nccl).substr(0, 16));
  if (dropin || plugin) folders.push_back(net_plugin.parent_path().string());
  if (const std::string path = library_path(folders); !path.empty()) options.environment = {{"LD_LIBRARY_PATH", path}};
  if (dropin || plugin) {
    options.environment.insert(options.environment.end(), {{"NCCL_NET_PLUGIN", "mesh"},
                                                           // NCCL's own sockets stay off the cables.
                                                           {"NCCL_SOCKET_IFNAME", emu::kManagementNetdev}});
  }
  for (const std::string& one : variables) options.environment.push_back(variable_of(one));

  const ProgramRun run = run_program_in_nodes(read_scenario(file, overrides), options, out, err);
  for (const std::string& trouble : run.troubles) err << "meshbed: " << trouble << "\n";
  for (const RankEnd& rank : run.ranks) {
    if (rank.status != 0) err << "meshbed: " << rank.name << " on " << rank.node << " " << ended(rank) << "\n";
  }
  if (run.timed_out) err << "meshbed: the time limit of " << time_limit << " s came first; --time-limit sets it\n";
  err << fmt::format("meshbed: {:.1f} s in all, of them {:.1f} until the nodes were ready; nothing is left running\n",
                     run.total_s, run.ready_s);
  return run.exit_status();
}

}  // namespace meshbed::testbed
