#include "testbed/world/emulated_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <stdexcept>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "emu/process.h"
#include "emu/scratch.h"
#include "emu/shell_quote.h"
#include "plugin/base/deadline.h"
#include "plugin/base/units.h"
#include "plugin/coll/store/job_key.h"
#include "testbed/base/machine_signals.h"
#include "testbed/scenario/placement.h"
#include "testbed/world/emulate.h"
#include "testbed/world/gpus.h"
#include "testbed/world/kept_results.h"
#include "testbed/world/line_follower.h"
#include "testbed/world/metal_place.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

constexpr double kOutputTurn_s = 0.1;  // between two looks at what the ranks say
constexpr double kBootOnTop_s = 120;   // on top of the programs' own limit: TCG boots slowly on a busy machine
constexpr double kGrace_s = 10;        // for the others' own errors, once a rank has failed
constexpr const char* kMpirun = "mpirun";

// Files of a node's job folder, which the host sees, too.
constexpr const char* kListening = "listening";  // rank 0's port is open
constexpr const char* kBegin = "begin";          // the other ranks may begin

/// A rank: $1 its number, $2 where it starts, $3 the TCP port that rank 0 is to open or 0, then the program. Its status
/// is in a file of its own, for the guest waits for its commands in their order.
constexpr const char* kRankScript = R"(
folder=$PWD rank=$1 port=$3
ended() {
  echo "$1" >"$folder/rank-$rank.status"
  exit "$1"
}
export MESHBED_RESULTS="$folder/rank-$rank"
mkdir -p "$MESHBED_RESULTS" && cd "$2" || ended 126
shift 3
if [ "$port" != 0 ] && [ "$rank" = 0 ]; then
  hex=$(printf %04X "$port")
  # State 0A is LISTEN (proc_net_tcp.rst of the kernel's documentation).
  { until cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q "^ *[0-9]*: [0-9A-F]*:$hex [0-9A-F:]* 0A"; do
    sleep 0.05
  done; : >"$folder/listening"; } >/dev/null 2>&1 &
elif [ "$port" != 0 ]; then
  until [ -e "$folder/begin" ]; do sleep 0.05; done
fi
"$@"
ended "$?"
)";

// What mpirun's ranks find in their node, which ssh's environment does not bring them.
constexpr const char* kNodeFile = "/run/meshbed-node";
std::string leave_node_file() {
  return std::string("{ export -p; echo \"export MESHBED_RESULTS='$PWD'\"; } >") + kNodeFile + "\n";
}

/// The first node under mpirun: $1 where it starts, $2 the other nodes' names, $3 what reaches them, then mpirun.
constexpr const char* kMpirunScript = R"(
folder=$PWD
ended() {
  echo "$1" >"$folder/mpirun.status"
  exit "$1"
}
cd "$1" || ended 126
# A node whose server does not come up is seen from the host.
for node in $2; do until $3 "$node" true 2>/dev/null; do sleep 0.1; done; done
shift 3
"$@"
ended "$?"
)";

/// The other nodes: $1 the folder with the keys, $2 the address. Keys and server go with the machine.
constexpr const char* kServerScript = R"(
home=~root
mount -t tmpfs home "$home" && mkdir -m 700 "$home/.ssh" && cp "$1/user.pub" "$home/.ssh/authorized_keys" || exit 126
chmod 700 "$home" && chmod 600 "$home/.ssh/authorized_keys" || exit 126
exec dropbear -F -E -s -r "$1/host" -p "$2:22"
)";

/// Each rank under mpirun. One line: Open MPI hands it through a shell.
std::string mpi_rank_script() {
  return std::string(". ") + kNodeFile +
         "; export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE "
         "LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK; export MESHBED_RESULTS=\"$MESHBED_RESULTS/rank-$RANK\"; "
         "mkdir -p \"$MESHBED_RESULTS\"; exec \"$@\"";
}

/// Where rank 0 is.
std::size_t first_node(const Scenario& scenario) { return static_cast<std::size_t>(node_of(scenario, 0)); }

std::string master_address(const Scenario& scenario) {
  return to_text(scenario.cluster.nodes[first_node(scenario)].management->address.address);
}

/// The program by its path, for the nodes look nowhere else.
std::vector<std::string> found(std::vector<std::string> words) {
  std::string& program = words.front();
  const std::string path = program.find('/') != std::string::npos ? program : emu::find_program(program);
  std::error_code problem;
  if (path.empty() || !fs::is_regular_file(path, problem)) {
    throw std::runtime_error(path.empty() ? fmt::format("exec: there is no program {} in PATH", program)
                                          : fmt::format("exec: there is no program {}", path));
  }
  program = fs::absolute(path).string();
  return words;
}

/// What all ranks get, the scenario's variables of their node first, what its GPUs need last.
std::vector<std::pair<std::string, std::string>> environment_of(const Scenario& scenario, const models::Node& node,
                                                                const ProgramOptions& options,
                                                                const std::string& job_key) {
  std::vector<std::pair<std::string, std::string>> all{{"MASTER_ADDR", master_address(scenario)},
                                                       {"MASTER_PORT", std::to_string(MetalPlace().port)},
                                                       {coll::kJobKeyVariable, job_key}};
  all.insert(all.end(), node.environment.begin(), node.environment.end());
  all.insert(all.end(), options.environment.begin(), options.environment.end());
  std::string library_path;
  for (const auto& [name, value] : all) {
    if (name == "LD_LIBRARY_PATH") library_path = value;
  }
  const auto gpus = gpu_environment(node, library_path);
  all.insert(all.end(), gpus.begin(), gpus.end());
  return all;
}

std::string ssh_client(const std::string& keys) { return "dbclient -y -y -i " + keys + "/user"; }

std::vector<std::string> mpirun_words(const Scenario& scenario, const ProgramOptions& options,
                                      const std::string& keys) {
  std::string hosts, others;
  for (std::size_t node = 0; node < scenario.cluster.nodes.size(); ++node) {
    int slots = 0;
    for (int rank = 0; rank < ranks_of(scenario); ++rank) slots += node_of(scenario, rank) == static_cast<int>(node);
    const std::string& name = scenario.cluster.nodes[node].name;
    if (slots > 0) hosts += fmt::format("{}{}:{}", hosts.empty() ? "" : ",", name, slots);
    if (node > 0 && slots > 0) others += (others.empty() ? "" : " ") + name;
  }
  std::vector<std::string> words{
      "/bin/sh",       "-c", leave_node_file() + kMpirunScript, kMpirun, fs::current_path().string(), others,
      ssh_client(keys)};
  // Open MPI itself keeps to the management network: what runs on the cables is the program's.
  for (const char* word : {"mpirun", "--allow-run-as-root", "--tag-output", "--bind-to", "none", "--mca", "pml", "ob1",
                           "--mca", "btl", "self,vader,tcp", "--mca", "oob_tcp_if_include", emu::kManagementNetdev,
                           "--mca", "btl_tcp_if_include", emu::kManagementNetdev}) {
    words.emplace_back(word);
  }
  words.insert(words.end(), {"--mca", "plm_rsh_agent", ssh_client(keys), "-np", std::to_string(ranks_of(scenario)),
                             "--host", hosts, "/bin/sh", "-c", mpi_rank_script(), "rank"});
  const std::vector<std::string> program = found(options.programs.front());
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

void say_line(std::ostream& out, const std::string& label, std::string_view line) {
  // mpirun's --tag-output: "[JOB,RANK]<stdout>:what the rank said".
  int job = 0, rank = 0, length = 0;
  if (label == kMpirun && std::sscanf(std::string(line).c_str(), "[%d,%d]<std%*3c>:%n", &job, &rank, &length) == 2 &&
      length > 0) {
    out << "rank " << rank << ": " << line.substr(static_cast<std::size_t>(length)) << "\n";
  } else {
    out << label << ": " << line << "\n";
  }
}

std::optional<int> status_in(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  // A file that is being written has no end of its line yet.
  if (!std::getline(file, line) || file.eof()) return std::nullopt;
  return std::atoi(line.c_str());
}

/// The ranks of a run, from the host's side: what they say, and whether they have ended.
class RankWatch {
 public:
  RankWatch(const Scenario& scenario, const ProgramOptions& options, const emu::ClusterOutcome& outcome,
            std::ostream& out, std::ostream& err)
      : out_(out), err_(err) {
    std::vector<std::size_t> commands(outcome.nodes.size());
    for (int rank = 0; rank < (options.mpi ? 1 : ranks_of(scenario)); ++rank) {
      const auto node = options.mpi ? 0 : static_cast<std::size_t>(node_of(scenario, rank));
      const emu::NodeOutcome& there = outcome.nodes[node];
      const std::string name = options.mpi ? kMpirun : fmt::format("rank {}", rank);
      const emu::CommandOutcome& command = there.commands[commands[node]++];
      ends_.push_back({.name = name, .node = there.name, .status = std::nullopt});
      status_files_.push_back(there.folder + (options.mpi ? "/mpirun" : fmt::format("/rank-{}", rank)) + ".status");
      places_.emplace_back(node, commands[node] - 1);
      followers_.emplace_back(command.stdout_path, [&out, name](auto line) { say_line(out, name, line); });
      followers_.emplace_back(command.stderr_path, [&err, name](auto line) { say_line(err, name, line); });
    }
  }

  void look(const emu::ClusterOutcome& now) {
    find_ends(now);
    for (LineFollower& one : followers_) one.follow();
    flush();
  }
  /// All have ended. `stops`: hand on no more.
  void finish(const emu::ClusterOutcome& now, const std::function<bool()>& stops) {
    find_ends(now);
    for (LineFollower& one : followers_) one.finish(stops);
    flush();
  }
  /// What all ranks have written by now, and the one that has written most.
  struct Written {
    std::uint64_t bytes = 0;
    std::string most_by{};
  };
  Written written() const {
    Written all;
    std::uint64_t most = 0;
    for (std::size_t at = 0; at < followers_.size(); ++at) {
      const std::uint64_t bytes = followers_[at].written_bytes();
      all.bytes += bytes;
      if (std::exchange(most, std::max(most, bytes)) < bytes) all.most_by = ends_[at / 2].name;
    }
    return all;
  }
  const std::vector<RankEnd>& ends() const { return ends_; }
  bool one_failed() const {
    return std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& one) { return one.status.value_or(0) != 0; });
  }

 private:
  void find_ends(const emu::ClusterOutcome& now) {
    for (std::size_t rank = 0; rank < ends_.size(); ++rank) {
      if (!ends_[rank].status) ends_[rank].status = status_in(status_files_[rank]);
      // A rank that was killed, or had no room for the file, has left none.
      const auto [node, command] = places_[rank];
      if (!ends_[rank].status) ends_[rank].status = now.nodes[node].commands[command].exit_code;
    }
  }
  void flush() {
    out_.flush();
    err_.flush();
  }

  std::ostream& out_;
  std::ostream& err_;
  std::vector<RankEnd> ends_;
  std::vector<std::string> status_files_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;  // [rank] its node, and its command there
  std::vector<LineFollower> followers_;                      // two a rank: standard output, standard error
};

/// A server of the other nodes that has ended, with its last words: none is to, and mpirun would wait for it for ever.
std::optional<std::string> ended_server(const emu::ClusterOutcome& now) {
  for (std::size_t node = 1; node < now.nodes.size(); ++node) {
    const emu::CommandOutcome& server = now.nodes[node].commands.front();
    if (!server.exit_code) continue;
    return fmt::format("{}: its ssh server ended with status {}: {}", now.nodes[node].name, *server.exit_code,
                       emu::last_line(emu::read_file(server.stderr_path)));
  }
  return std::nullopt;
}

/// Keys of a small ssh server, thrown away with their folder. Throws std::runtime_error where a program is missing that
/// `exec --mpi` needs.
void make_ssh_keys(const std::string& folder) {
  for (const char* program : {"mpirun", "dropbear", "dbclient", "dropbearkey"}) {
    if (emu::find_program(program).empty()) {
      throw std::runtime_error(
          fmt::format("exec --mpi: there is no {} here; the packages are openmpi-bin and dropbear-bin", program));
    }
  }
  for (const char* key : {"host", "user"}) {
    const std::string file = fmt::format("{}/{}", folder, key);
    const emu::ProgramResult made = emu::run_program({"dropbearkey", "-t", "ed25519", "-f", file});
    const std::size_t line = made.output.find("ssh-ed25519 ");
    if (made.status != 0 || line == std::string::npos) {
      throw std::runtime_error(fmt::format("exec --mpi: dropbearkey makes no key: {}", emu::last_line(made.errors)));
    }
    emu::write_file(file + ".pub", made.output.substr(line, made.output.find('\n', line) + 1 - line));
  }
}

void refuse_for_mpirun(const Scenario& scenario, const std::string& keys) {
  if (!std::is_sorted(scenario.rank_nodes.begin(), scenario.rank_nodes.end())) {
    throw std::runtime_error("exec --mpi: mpirun fills one node after the other; leave out workload.placement");
  }
  // Open MPI and the shell take the words of its plm_rsh_agent apart at blanks.
  if (keys.find_first_of(" \t\n") != std::string::npos) {
    throw std::runtime_error(fmt::format(
        "exec --mpi: mpirun's ssh client takes no key from a path with a blank, as {} is; set TMPDIR to another folder",
        keys));
  }
}

}  // namespace

int ProgramRun::exit_status() const {
  if (interrupted) return kExitInterrupted;
  if (timed_out) return kExitNoProgress;
  for (const RankEnd& rank : ranks) {
    if (rank.status.value_or(0) != 0) return *rank.status;
  }
  const bool all_ended = std::all_of(ranks.begin(), ranks.end(), [](const RankEnd& rank) { return rank.status; });
  return all_ended && troubles.empty() ? kExitOk : kExitBroken;
}

std::vector<std::vector<std::string>> split_programs(const std::vector<std::string>& words) {
  std::vector<std::vector<std::string>> programs(1);
  for (const std::string& word : words) {
    if (word == ":") {
      programs.emplace_back();
    } else {
      programs.back().push_back(word);
    }
  }
  for (std::size_t index = 0; index < programs.size(); ++index) {
    if (!programs[index].empty()) continue;
    throw std::runtime_error(words.empty() ? "exec: no program is named; write it behind --, as in: exec --scenario "
                                             "FILE -- PROGRAM ARGUMENTS"
                                           : fmt::format("exec: program {} of those between \":\" is empty", index));
  }
  return programs;
}

emu::EmuCluster program_cluster(const Scenario& scenario, const ProgramOptions& options, const std::string& keys) {
  const auto ranks = static_cast<std::size_t>(ranks_of(scenario));
  if (options.programs.size() > ranks) {
    throw std::runtime_error(
        fmt::format("exec: {} programs for the {} ranks of {}; one a rank, and the last one for "
                    "all that follow",
                    options.programs.size(), ranks, scenario.name));
  }
  if (options.mpi && (options.programs.size() > 1 || options.after_port)) {
    throw std::runtime_error(
        "exec --mpi: mpirun starts one program for all ranks, at once; leave out \":\" and "
        "--after-port");
  }
  if (options.mpi) refuse_for_mpirun(scenario, keys);
  emu::EmuCluster cluster = emulated_cluster(scenario, {});
  const std::string job_key = new_job_key();
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    emu::EmuNode& node = cluster.nodes[index];
    node.commands.clear();
    node.memory_mib = options.memory_mib;
    node.cpus = options.cpus;
    node.environment = environment_of(scenario, scenario.cluster.nodes[index], options, job_key);
    if (options.mpi) {
      const std::string address = to_text(scenario.cluster.nodes[index].management->address.address);
      node.commands.push_back(index == 0 ? mpirun_words(scenario, options, keys)
                                         : std::vector<std::string>{"/bin/sh", "-c", leave_node_file() + kServerScript,
                                                                    "server", keys, address});
    }
  }
  std::vector<int> local(cluster.nodes.size());
  for (int rank = 0; !options.mpi && rank < static_cast<int>(ranks); ++rank) {
    const auto node = static_cast<std::size_t>(node_of(scenario, rank));
    const std::vector<std::string> program =
        found(options.programs[std::min(static_cast<std::size_t>(rank), options.programs.size() - 1)]);
    std::vector<std::string> words{"/usr/bin/env",
                                   fmt::format("RANK={}", rank),
                                   fmt::format("WORLD_SIZE={}", ranks),
                                   fmt::format("LOCAL_RANK={}", local[node]++),
                                   "/bin/sh",
                                   "-c",
                                   kRankScript,
                                   "rank",
                                   std::to_string(rank),
                                   fs::current_path().string(),
                                   std::to_string(options.after_port.value_or(0))};
    words.insert(words.end(), program.begin(), program.end());
    cluster.nodes[node].commands.push_back(std::move(words));
  }
  return cluster;
}

ProgramRun run_program_in_nodes(const Scenario& scenario, const ProgramOptions& options, std::ostream& out,
                                std::ostream& err) {
  const auto say = say_on(err);
  if (!options.results.empty()) emu::make_folder(options.results);  // to be refused now, not after the run
  std::optional<emu::Scratch> keys;
  if (options.mpi) keys.emplace(fs::temp_directory_path().string(), "meshbed-ssh");
  // What was asked for is looked at before what the machine has.
  const emu::EmuCluster cluster = program_cluster(scenario, options, keys ? keys->path() : "");
  if (keys) make_ssh_keys(keys->path());
  const emu::Accelerator accelerator = emu::probe_accelerator();
  emu::require_machine_for(cluster, accelerator.kvm);
  const emu::BootImage image = emu::make_boot_image(emu::cache_folder(), say);
  say(fmt::format("{} virtual machines, kernel {}; {}", cluster.nodes.size(), image.kernel_version,
                  accelerator.reason));
  emu::MicroVms machines(cluster, {.image = image,
                                   .accelerator = accelerator,
                                   .work_dir = "",
                                   .keep_folder = false,
                                   .time_limit_s = options.time_limit_s + kBootOnTop_s,
                                   .commands_s = options.time_limit_s,
                                   .on_progress = {}});
  const MachineSignals signals(machines);
  machines.start();
  const emu::ClusterOutcome begun = machines.outcome();
  const emu::NodeOutcome& first = begun.nodes[first_node(scenario)];
  RankWatch ranks(scenario, options, begun, out, err);
  std::optional<Deadline> grace;  // from when a rank has failed
  bool waiting = options.after_port.has_value(), ready = false, flooded = false;
  ProgramRun run;
  while (!machines.advance(kOutputTurn_s)) {
    if (!std::exchange(ready, machines.ready_s() > 0) && ready) {
      say(fmt::format("ready after {:.1f} s", machines.ready_s()));
    }
    const emu::ClusterOutcome now = machines.outcome();
    ranks.look(now);
    if (const auto written = ranks.written(); !flooded && written.bytes > options.output_mib * kMiB) {
      flooded = true;
      run.troubles.push_back(fmt::format(
          "the ranks have written more than {} MiB of output, {} most of it: the run is stopped; write less, "
          "write to a file in MESHBED_RESULTS, or raise --output-limit",
          options.output_mib, written.most_by));
      machines.stop();
    }
    if (waiting && fs::exists(first.folder + "/" + kListening)) {
      for (const emu::NodeOutcome& node : begun.nodes) emu::write_file(node.folder + "/" + kBegin, "");
      waiting = false;
    }
    if (waiting && ranks.ends().front().status) {
      run.troubles.push_back(
          fmt::format("rank 0 ended before anything in {} listened on TCP port {}: the other ranks "
                      "did not begin",
                      first.name, *options.after_port));
      machines.stop();
    }
    if (ranks.one_failed() && !grace) grace = Deadline::after_s(kGrace_s);
    const bool mpirun_ended = options.mpi && ranks.ends().front().status;
    if (options.mpi && !mpirun_ended && run.troubles.empty()) {
      if (const auto ended = ended_server(now)) {
        run.troubles.push_back(*ended);
        machines.stop();
      }
    }
    if ((grace && grace->passed()) || mpirun_ended) machines.stop();
  }
  const emu::ClusterOutcome outcome = machines.wait();
  ranks.finish(outcome, [&] { return flooded || MachineSignals::interrupted(); });
  run.ranks = ranks.ends();
  run.interrupted = MachineSignals::interrupted();
  run.troubles.insert(run.troubles.end(), outcome.troubles.begin(), outcome.troubles.end());
  run.timed_out = std::any_of(outcome.nodes.begin(), outcome.nodes.end(),
                              [](const emu::NodeOutcome& node) { return node.end == emu::NodeEnd::kTimedOut; });
  run.ready_s = outcome.ready_s;
  run.total_s = outcome.total_s;
  if (!options.results.empty()) {
    for (std::string& trouble : keep_results(options.results, outcome)) run.troubles.push_back(std::move(trouble));
  }
  return run;
}

}  // namespace meshbed::testbed
