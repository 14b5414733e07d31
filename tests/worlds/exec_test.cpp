// meshbed exec: programs of others, and ours, as ranks on soft-RoCE.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "emu/config.h"
#include "emu/scratch.h"
#include "emu/shell_quote.h"
#include "testbed/scenario/scenario.h"
#include "testbed/world/emulated_program.h"
#include "testbed/world/kept_results.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace exec_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

std::string exec_line(const std::string& scenario, const std::string& rest) {
  return fmt::format("{} exec --scenario {} {} 2>&1", meshbed_program(), scenario_file(scenario), rest);
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int count(const std::string& text, const std::string& part) {
  int times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

testbed::ProgramOptions alone(const std::string& program, bool mpi = false) {
  testbed::ProgramOptions options;
  options.programs = {{program}};
  options.mpi = mpi;
  return options;
}

/// A program against nccl.h, compiled as its user would.
std::string compiled(const std::string& name, const std::string& libraries = "") {
  const std::string file = scratch_folder("exec_" + name) + "/" + name;
  const CommandResult made = run_command_line(
      fmt::format("cc -I'{0}' -I'{0}/plugin/dropin' '{0}/tests/dropin/program/{3}.c' -o '{2}' -L'{1}/nccl-lib' -lnccl "
                  "-L'{1}/cuda-lib' {4} 2>&1",
                  MESHBED_SOURCE_DIR, MESHBED_BINARY_DIR, file, name, libraries));
  REQUIRE_MESSAGE(made.status == 0, made.output);
  return file;
}

}  // namespace

TEST_CASE("exec says what it cannot do before anything boots") {
  const struct {
    const char* arguments;
    const char* says;
  } refusals[] = {
      {"", "no program is named; write it behind --"},
      {"--", "no program is named; write it behind --"},
      {"-- true :", "program 1 of those between \":\" is empty"},
      {"-- true : true : true", "3 programs for the 2 ranks of pair; one a rank, and the last one for all that follow"},
      {"-- no-such-program", "there is no program no-such-program in PATH"},
      {"-- /no/such/program", "there is no program /no/such/program"},
      {"--world sim -- true", "--world sim: programs run in emulated nodes, --world emu"},
      {"--env 1A=2 -- true", "--env 1A=2: '1A' is not a variable name"},
      {"--env NOBODY_SETS_THIS -- true", "--env NOBODY_SETS_THIS: it is not set in this shell"},
      {"--after-port 70000 -- true", "--after-port"},
      {"--memory 16 -- true", "--memory"},
      {"--output-limit 0 -- true", "--output-limit"},
      {"--mpi -- true : false", "mpirun starts one program for all ranks"},
      {"--worlds emu -- true", "--worlds"},
  };
  for (const auto& refusal : refusals) {
    const CommandResult result = run_command_line(exec_line("pair", refusal.arguments));
    CHECK_MESSAGE(result.status == 2, refusal.arguments, ": ", result.output);
    CHECK_MESSAGE(has(result.output, refusal.says), refusal.arguments, ": ", result.output);
  }
}

TEST_CASE("exec: each rank has its place in its environment, then the scenario's variables, then those asked for") {
  const testbed::Scenario scenario =
      testbed::read_scenario(std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml",
                             {"workload.ranks_per_node=2", "environment.NCCL_DEBUG=\"WARN\""});
  const emu::EmuCluster cluster = testbed::program_cluster(scenario,
                                                           {.programs = {{"true", "a b"}, {"false"}},
                                                            .environment = {{"MINE", "1"}},
                                                            .after_port = {},
                                                            .memory_mib = 700,
                                                            .cpus = 3,
                                                            .results = ""},
                                                           "");
  REQUIRE(cluster.nodes.size() == 2);
  const emu::EmuNode& second = cluster.nodes[1];
  CHECK(second.memory_mib == 700);
  CHECK(second.cpus == 3);
  REQUIRE(second.commands.size() == 2);
  const std::vector<std::string>& last = second.commands[1];
  for (const char* word : {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1"}) {
    CHECK_MESSAGE(std::count(last.begin(), last.end(), word) == 1, word);
  }
  CHECK(last.back() == emu::find_program("false"));
  const std::vector<std::string>& first = cluster.nodes[0].commands[0];
  CHECK(first[first.size() - 2] == emu::find_program("true"));
  CHECK(first.back() == "a b");
  const auto value = [&](const char* name) {
    for (const auto& [key, text] : second.environment) {
      if (key == name) return text;
    }
    return std::string("(not set)");
  };
  CHECK(value("NCCL_DEBUG") == "WARN");
  CHECK(value("MINE") == "1");
  CHECK(cluster.nodes[0].management_address->rfind(value("MASTER_ADDR") + "/", 0) == 0);
}

TEST_CASE(
    "exec: nodes with GPUs have CUDA behind the libraries that were asked for; others, and GPUs without a model, "
    "none") {
  const auto environment = [](const std::vector<std::string>& overrides) {
    testbed::ProgramOptions options = alone("true");
    options.environment = {{"LD_LIBRARY_PATH", "/mine"}};
    const std::string file = std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml";
    return testbed::program_cluster(testbed::read_scenario(file, overrides), options, "").nodes.front().environment;
  };
  using Variable = std::pair<std::string, std::string>;
  const auto with = environment({"topology.gpus=2", "topology.gpu_model=\"H100\""});
  CHECK(with.back() == Variable{"MESHBED_CUDA_GPU", "H100,H100"});
  // The last one holds.
  CHECK(with[with.size() - 2] == Variable{"LD_LIBRARY_PATH", "/mine:" MESHBED_BINARY_DIR "/cuda-lib"});
  CHECK(environment({"topology.gpus=0"}).back() == Variable{"LD_LIBRARY_PATH", "/mine"});
  CHECK(environment({"topology.gpus=2"}).back() == Variable{"LD_LIBRARY_PATH", "/mine"});
}

TEST_CASE("exec: rank 0's address is that of the node where placement puts it") {
  const testbed::Scenario scenario = testbed::read_scenario(std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml",
                                                            {"workload.placement=[\"node1\", \"node0\"]"});
  const emu::EmuCluster cluster = testbed::program_cluster(scenario, alone("true"), "");
  for (const emu::EmuNode& node : cluster.nodes) {
    REQUIRE(node.environment.front().first == "MASTER_ADDR");
    CHECK(cluster.nodes[1].management_address->rfind(node.environment.front().second + "/", 0) == 0);
  }
  const std::vector<std::string>& first = cluster.nodes[1].commands.at(0);
  CHECK(std::count(first.begin(), first.end(), "RANK=0") == 1);
}

TEST_CASE("exec --mpi refuses a placement that mpirun does not follow, and keys whose path has a blank") {
  const auto refusal = [](const std::vector<std::string>& overrides, const std::string& keys) -> std::string {
    const testbed::Scenario scenario =
        testbed::read_scenario(std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml", overrides);
    try {
      testbed::program_cluster(scenario, alone("true", true), keys);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const std::string placement = "exec --mpi: mpirun fills one node after the other; leave out workload.placement";
  CHECK(refusal({"workload.placement=[\"node1\", \"node0\"]"}, "/keys") == placement);
  CHECK(refusal({"workload.ranks_per_node=2", "workload.placement=round-robin"}, "/keys") == placement);
  CHECK(refusal({"workload.placement=[\"node0\", \"node1\"]"}, "/keys").empty());
  CHECK(has(refusal({}, "/my folder/keys"), "takes no key from a path with a blank, as /my folder/keys is"));
}

TEST_CASE("exec: a rank and an mpirun that cannot begin leave a status, as those that end do") {
  const testbed::Scenario scenario =
      testbed::read_scenario(std::string(MESHBED_SOURCE_DIR) + "/scenarios/pair.toml", {});
  const std::string folder = scratch_folder("exec_status");
  const auto status_of = [&](bool mpi, const std::string& starts_in, const std::string& file) {
    std::vector<std::string> words =
        testbed::program_cluster(scenario, alone("false", mpi), "/keys").nodes[0].commands.at(0);
    std::replace(words.begin(), words.end(), std::filesystem::current_path().string(), starts_in);
    if (mpi) {  // neither /run nor the other nodes are of this host
      words[2].erase(0, words[2].find("folder=$PWD"));
      words.resize(7);
      words[5] = "";
      words.emplace_back("false");
    }
    const CommandResult ended = run_command_line(fmt::format("cd '{}' && {} 2>&1", folder, emu::shell_command(words)));
    return fmt::format("{} {}", ended.status, emu::read_file(folder + "/" + file));
  };
  for (const bool mpi : {false, true}) {
    const std::string file = mpi ? "mpirun.status" : "rank-0.status";
    CHECK(status_of(mpi, folder, file) == "1 1\n");
    CHECK(status_of(mpi, "/no/such/folder", file) == "126 126\n");
  }
}

TEST_CASE("exec: results are kept with links as links, and one that cannot be kept costs no other") {
  namespace fs = std::filesystem;
  const std::string node = scratch_folder("exec_keep_node"), kept = scratch_folder("exec_keep");
  fs::create_directories(node + "/rank-0/below");
  fs::create_directory(node + "/elsewhere");
  emu::write_file(node + "/rank-0/below/said", "new\n");
  emu::write_file(node + "/rank-0/other", "mine\n");
  emu::write_file(node + "/rank-0/taken", "it\n");
  fs::create_symlink("/", node + "/rank-0/root");
  fs::create_symlink("nowhere", node + "/rank-0/dangling");
  fs::create_directory_symlink(node + "/elsewhere", node + "/rank-1");
  REQUIRE(run_command_line("mkfifo '" + node + "/rank-0/pipe'").status == 0);
  // What an earlier run has left.
  const std::string outside = scratch_folder("exec_keep_outside") + "/file";
  emu::write_file(outside, "theirs\n");
  fs::create_directories(kept + "/rank-0/below");
  fs::create_directories(kept + "/rank-0/taken");
  emu::write_file(kept + "/rank-0/below/said", "old\n");
  fs::create_symlink(outside, kept + "/rank-0/other");

  emu::ClusterOutcome outcome;
  outcome.nodes.resize(1);
  outcome.nodes[0].folder = node;
  const std::vector<std::string> troubles = testbed::keep_results(kept, outcome);
  REQUIRE(troubles.size() == 1);
  CHECK_MESSAGE(has(troubles[0], "/rank-0/taken is not kept: "), troubles[0]);
  CHECK(emu::read_file(kept + "/rank-0/below/said") == "new\n");
  CHECK(emu::read_file(kept + "/rank-0/other") == "mine\n");
  CHECK(emu::read_file(outside) == "theirs\n");
  CHECK(fs::read_symlink(kept + "/rank-0/root") == "/");
  CHECK(fs::read_symlink(kept + "/rank-0/dangling") == "nowhere");
  CHECK(!fs::exists(fs::symlink_status(kept + "/rank-0/pipe")));
  CHECK(!fs::exists(kept + "/rank-1"));
}

TEST_CASE("exec: perftest's server and client on a cable, and a rank that fails or crashes is named") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  if (emu::find_program("ib_send_bw").empty()) {
    MESSAGE("skipped: no ib_send_bw; the package is perftest");
    return;
  }
  const std::string perftest = "ib_send_bw -d rocep1s0f0 -x 1 -F -s 4096 -n 200";
  const CommandResult pair = run_command_line(
      exec_line("pair", fmt::format("--after-port 18515 -- {0} : sh -c '{0} $MASTER_ADDR'", perftest)));
  CHECK_MESSAGE(pair.status == 0, pair.output);
  CHECK_MESSAGE(has(pair.output, "rank 0: "), pair.output);
  CHECK_MESSAGE(has(pair.output, "rank 1:  4096       200"), pair.output);
  CHECK_MESSAGE(has(pair.output, "nothing is left running"), pair.output);

  const std::string kept = scratch_folder("exec_results");
  const CommandResult failing = run_command_line(exec_line(
      "pair",
      fmt::format("--results '{}' -- sh -c 'echo $RANK of $WORLD_SIZE >$MESHBED_RESULTS/place; kill -SEGV $$' : "
                  "sh -c 'echo $RANK >$MESHBED_RESULTS/place; echo oh no >&2; exit 7'",
                  kept)));
  CHECK_MESSAGE(failing.status == 128 + 11, failing.output);
  CHECK_MESSAGE(has(failing.output, "rank 0 on node0 was ended by signal 11"), failing.output);
  CHECK_MESSAGE(has(failing.output, "rank 1 on node1 ended with status 7"), failing.output);
  CHECK_MESSAGE(has(failing.output, "rank 1: oh no"), failing.output);
  CHECK(run_command_line("cat '" + kept + "/rank-0/place' '" + kept + "/rank-1/place'").output == "0 of 2\n1\n");

  const CommandResult never = run_command_line(exec_line("pair", "--after-port 18515 -- true"));
  CHECK_MESSAGE(never.status == 1, never.output);
  CHECK_MESSAGE(has(never.output, "rank 0 ended before anything in node0 listened on TCP port 18515"), never.output);
  const CommandResult slow = run_command_line(exec_line("pair", "--time-limit 3 -- sleep 1000"));
  CHECK_MESSAGE(slow.status == 3, slow.output);
  CHECK_MESSAGE(has(slow.output, "the time limit of 3 s came first"), slow.output);
}

TEST_CASE("exec: a rank that floods its output is stopped at the limit, at the time limit and by SIGTERM") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string only_ours = " | grep -v '^rank '";
  const auto status_of = [&](const std::string& line) {
    return run_command_line("{ " + line + "; echo \"status $?\"; }" + only_ours).output;
  };
  const std::string much = status_of(exec_line("pair", "--output-limit 2 -- yes : sleep 1000"));
  CHECK_MESSAGE(has(much, "the ranks have written more than 2 MiB of output, rank 0 most of it"), much);
  CHECK_MESSAGE(has(much, "status 1"), much);
  const std::string slow = status_of(exec_line("pair", "--output-limit 100000 --time-limit 3 -- yes : sleep 1000"));
  CHECK_MESSAGE(has(slow, "the time limit of 3 s came first"), slow);
  CHECK_MESSAGE(has(slow, "status 3"), slow);
  // Without an end of its line, too.
  const std::string ended = status_of("timeout 60 " + exec_line("pair", "--output-limit 2 -- cat /dev/zero"));
  CHECK_MESSAGE(has(ended, "the ranks have written more than 2 MiB of output"), ended);
  const std::string stopped =
      status_of("timeout 40 " + exec_line("pair", "--output-limit 100000 --time-limit 1000 -- yes : sleep 1000"));
  CHECK_MESSAGE(has(stopped, "nothing is left running"), stopped);
}

TEST_CASE("exec: a program against nccl.h on the drop-in over a ring of four: twenty runs in a row, right and quiet") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult runs = run_command_line(exec_line(
      "ring4",
      fmt::format("--nccl-dropin -- sh -c 'export NCCL_COMM_ID=$MASTER_ADDR:29511; for run in $(seq 20); do \"{}\" || "
                  "exit; done; echo all twenty'",
                  compiled("four_ranks"))));
  CHECK_MESSAGE(runs.status == 0, runs.output);
  CHECK_MESSAGE(count(runs.output, ": all twenty") == 4, runs.output);
  CHECK_MESSAGE(!has(runs.output, "WARN"), runs.output);
}

TEST_CASE("exec: ranks that call different operations, or leave early, are named with their calls") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string program = compiled("differ");
  const auto run = [&](const std::string& how) {
    return run_command_line(exec_line(
        "spark-triangle",
        fmt::format("--nccl-dropin -- sh -c 'NCCL_COMM_ID=$MASTER_ADDR:29511 exec \"{}\" {}'", program, how)));
  };
  const CommandResult differs = run("collective");
  CHECK_MESSAGE(differs.status == 4, differs.output);
  CHECK_MESSAGE(count(differs.output,
                      "rank 2: broadcast 1, 1 MiB float, root 0; ranks 0, 1: all_reduce 1, 1 MiB float "
                      "sum") >= 3,
                differs.output);
  const CommandResult left = run("leaves");
  CHECK_MESSAGE(left.status == 4, left.output);
  CHECK_MESSAGE(count(left.output, "failed: ncclAllReduce: all_reduce 1: ") == 2, left.output);
  CHECK_MESSAGE(count(left.output, "rank 2 has left") + count(left.output, "rank 2: has left") >= 2, left.output);
}

TEST_CASE("exec: a program of nccl.h and CUDA, GPU memory in two streams and a graph of both, on nodes with GPUs") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult run = run_command_line(
      exec_line("ring4", fmt::format("--set topology.gpus=1 --set topology.gpu_model=H100 --nccl-dropin -- "
                                     "sh -c 'NCCL_COMM_ID=$MASTER_ADDR:29511 exec \"{}\"'",
                                     compiled("two_streams", "-lcuda"))));
  CHECK_MESSAGE(run.status == 0, run.output);
  CHECK_MESSAGE(count(run.output, ": all is right") == 4, run.output);
}

TEST_CASE("exec: Open MPI starts the same ranks, whose output keeps their names") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  for (const char* program : {"mpirun", "dropbear", "dbclient", "dropbearkey"}) {
    if (emu::find_program(program).empty()) {
      MESSAGE("skipped: no ", program, "; the packages are openmpi-bin and dropbear-bin");
      return;
    }
  }
  const std::string kept = scratch_folder("exec_mpi_results");
  const CommandResult ranks = run_command_line(
      exec_line("spark-triangle",
                fmt::format("--mpi --env 'GREETING=good morning' --results '{}' -- sh -c "
                            "'echo \"$GREETING $RANK of $WORLD_SIZE\" in $(hostname) | tee $MESHBED_RESULTS/said'",
                            kept)));
  CHECK_MESSAGE(ranks.status == 0, ranks.output);
  for (const char* line : {"rank 0: good morning 0 of 3 in node0", "rank 1: good morning 1 of 3 in node1",
                           "rank 2: good morning 2 of 3 in node2"}) {
    CHECK_MESSAGE(has(ranks.output, line), ranks.output);
  }
  CHECK(run_command_line("cat '" + kept + "'/rank-2/said").output == "good morning 2 of 3 in node2\n");
  const CommandResult failing = run_command_line(exec_line("pair", "--mpi -- sh -c 'exit $(($RANK * 5))'"));
  CHECK_MESSAGE(failing.status == 5, failing.output);
}

}  // namespace exec_test
