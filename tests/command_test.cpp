// What the user types: exit statuses, one-line errors, and what goes to which stream.
#include "tests/support/command.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

namespace command_test {

using namespace meshbed::test;

namespace {

CommandResult command(const std::string& arguments, const std::string& environment = "") {
  return run_command_line(environment + meshbed_program() + " " + arguments);
}
/// Both streams together.
CommandResult command_all(const std::string& arguments, const std::string& environment = "") {
  return command(arguments + " 2>&1", environment);
}

bool has(const CommandResult& result, const std::string& text) { return result.output.find(text) != std::string::npos; }

bool is_one_line(const std::string& text) { return std::count(text.begin(), text.end(), '\n') == 1; }

std::string results_option(const char* name) { return " --results '" + scratch_folder(name) + "' "; }

}  // namespace

TEST_CASE("a wrong command, option or file is one line and status 2") {
  for (const char* arguments :
       {"dance", "run", "run nowhere.toml", "run --dance", "perf all_reduce", "perf dance --scenario x.toml",
        "run nowhere.toml --world moon", "run nowhere.toml --world emu", "compare sim emu", "shell node0",
        "shell nonode --scenario nowhere.toml", "run nowhere.toml --fabric rubber", "run nowhere.toml --contexts soup",
        "perf all_reduce -b 9X --scenario x.toml", "perf all_reduce -d half --scenario x.toml", "env --dance",
        "doctor --dance"}) {
    const CommandResult result = command_all(arguments);
    CHECK_MESSAGE(result.status == 2, arguments);
    CHECK_MESSAGE(is_one_line(result.output), arguments, ": ", result.output);
  }
}

TEST_CASE("an abbreviated option is refused, not guessed") {
  CHECK(command_all("run x.toml --scen y.toml").status == 2);
}

TEST_CASE("a misspelt command, option or operation is answered with the likely one") {
  CHECK(has(command_all("rnu x.toml"), "(did you mean \"run\"?)"));
  CHECK(has(command_all("run x.toml --sede=3"), "run: there is no option '--sede=3' (did you mean '--seed'?)"));
  CHECK(has(command_all("perf allreduce --scenario x.toml"), "(did you mean \"all_reduce\"?); accepted: all_reduce, "));
  CHECK(has(command_all("test"), "./meshbed test"));
}

TEST_CASE("a world that does not exist is answered with those that do, and each option with the world that it is for") {
  CHECK(command_all("run x.toml --world moon").output ==
        "meshbed: --world moon: there is no such world; accepted: sim, emu, metal\n");
  CHECK(has(command_all("run x.toml --world emu --fabric fluid"), "--fabric and --contexts are the simulated world's"));
  CHECK(has(command_all("bench perftest --world sim " + scenario_file("pair")),
            "--world sim: there is no such world; accepted: emu, metal"));
  CHECK(has(command_all("bench perftest " + scenario_file("spark-triangle")),
            "has 3 nodes and 3 ranks; it needs a pair, one rank a node"));
  CHECK(has(command_all("perf all_reduce --world metal --scenario " + scenario_file("pair")),
            "does not know its rank; start one a rank with"));
  CHECK(
      has(command_all("run --world metal " + scenario_file("pair")), "does not know its rank; start one a rank with"));
  const CommandResult few =
      command_all("run --world metal " + scenario_file("pair") + " 2>&1", "RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 ");
  CHECK(few.status == 2);
  CHECK(has(few, "pair has 2 ranks (2 nodes, 1 a node), RANK and WORLD_SIZE say 3"));
}

TEST_CASE("two ranks of metal meet, agree on their files, and end together where there is no RDMA device") {
  const std::string folder = scratch_folder("metal");
  const std::string scenario = folder + "/idle.toml";
  std::ofstream(scenario) << "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nkind = \"idle\"\n";
  const std::string run =
      meshbed_program() + " run --world metal '" + scenario + "' --results '" + folder + "' --time-limit 60 ";
  const std::string rank = "MASTER_ADDR=127.0.0.1 MASTER_PORT=28600 WORLD_SIZE=2 RANK=";
  const auto both = [&](const std::string& zero, const std::string& one) {
    return run_command_line("(" + rank + "1 " + run + one + ") & " + rank + "0 " + run + zero +
                            " 2>&1; status=$?; wait; exit $status");
  };
  // An idle run loads the real plugin over the real rdma-core, and needs no device.
  const CommandResult idle = both("", "");
  CHECK_MESSAGE(idle.status == 0, idle.output);
  CHECK(has(idle, "one plugin file: every rank has SHA-256 "));
  const CommandResult other = both("", "--seed 3 2>/dev/null");
  CHECK(other.status == 1);
  CHECK(has(other, "rank 1 has another seed: 3 where rank 0 has 1; give all ranks the same files and options"));
}

TEST_CASE("a rank of metal without an RDMA device says so before it waits for the others") {
  if (std::filesystem::exists("/sys/class/infiniband") && !std::filesystem::is_empty("/sys/class/infiniband")) {
    MESSAGE("skipped: this machine has RDMA devices");
    return;
  }
  const std::string place = "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 ";
  const CommandResult run =
      command("run --world metal " + scenario_file("pair") + " --time-limit 60 2>&1 >/dev/null", place);
  CHECK(run.status == 2);
  CHECK_MESSAGE(run.output.rfind("meshbed: --world metal: this machine has no RDMA device", 0) == 0, run.output);
}

TEST_CASE("ranks of metal on one machine without RDMA: over TCP where that is set, or by the local net plugin") {
  const std::string run = meshbed_program() + " run --world metal " + scenario_file("pair") +
                          " --set workload.bytes=64K --time-limit 60" + results_option("metal_one_machine");
  const auto both = [&](const std::string& environment, const std::string& options) {
    const std::string rank = environment + " MASTER_ADDR=127.0.0.1 MASTER_PORT=28620 WORLD_SIZE=2 RANK=";
    return run_command_line("(" + rank + "1 " + run + options + ") 2>&1 & " + rank + "0 " + run + options +
                            " 2>&1; status=$?; wait; exit $status");
  };
  const CommandResult tcp = both("NCCL_DEBUG=INFO NCCL_MESH_DISABLE_RDMA=1 NCCL_SOCKET_IFNAME=lo", "");
  CHECK_MESSAGE(tcp.status == 0, tcp.output);
  CHECK_MESSAGE(has(tcp, "everything goes over TCP"), tcp.output);
  CHECK_MESSAGE(has(tcp, "ok     data right"), tcp.output);
  const CommandResult local = both("", "--set workload.net_plugin=local");
  CHECK_MESSAGE(local.status == 0, local.output);
  CHECK_MESSAGE(has(local, "ok     data right"), local.output);
}

TEST_CASE("a number out of range is refused with the range, and never wraps round") {
  const std::string perf = "perf all_reduce -b 8 -e 8 --scenario " + scenario_file("pair");
  for (const char* factor : {"-2", "0", "1", "x"}) {
    const CommandResult result = command_all(perf + " -f " + factor);
    CHECK(result.status == 2);
    CHECK_MESSAGE(has(result, "expects a whole number from 2 to"), result.output);
  }
  for (const char* seed : {"-1", "18446744073709551616", "1.5", "''"}) {
    const CommandResult result = command_all("run x.toml --seed " + std::string(seed));
    CHECK(result.status == 2);
    CHECK_MESSAGE(has(result, "expects a whole number from 0 to 18446744073709551615"), result.output);
  }
}

TEST_CASE("data without a check is not reported as right") {
  const std::string perf = "perf all_reduce -c 0 -b 8 -e 8 --scenario " + scenario_file("pair");
  const CommandResult text = command(perf);
  CHECK(text.status == 0);
  CHECK(has(text, "# Out of bounds values : N/A (not checked)\n"));
  CHECK(has(text, "# proof - data right: nothing to check"));
  const auto summary = nlohmann::json::parse(command(perf + " --json 2>/dev/null").output);
  CHECK(summary.at("wrong").is_null());
  CHECK(summary.at("rows").at(0).at("in_place").at("wrong").is_null());
  CHECK(summary.at("bound_ns") > 0);
  for (const auto& proof : summary.at("proofs")) CHECK(proof.at("name") != "data right");
  CHECK(summary.at("nothing_to_check").at(0).at("name") == "data right");
}

TEST_CASE("more data than this machine can hold is refused before it is asked for, with what would fit") {
  const CommandResult run =
      command_all("run " + scenario_file("pair") + " --set workload.bytes=1T" + results_option("memory"));
  CHECK(run.status == 2);
  CHECK_MESSAGE(has(run, "meshbed: workload.bytes: 2 ranks with 1 buffer each of 1 TiB need 2 TiB of memory, and this"),
                run.output);
  const CommandResult perf = command_all("perf all_reduce -b 1024G -e 1024G --scenario " + scenario_file("pair"));
  CHECK(perf.status == 2);
  CHECK(has(perf, "-e: 2 ranks with 2 buffers each of "));
}

TEST_CASE("perf rounds a size down to whole floats, as nccl-tests does, and prints what it ran") {
  const CommandResult result = command("perf all_reduce -b 10 -e 10 --scenario " + scenario_file("pair"));
  CHECK(result.status == 0);
  CHECK(has(result, "\n           8             2     float     sum "));
}

TEST_CASE("a report names the warm-up that its messages and bytes include") {
  const std::string run = "run " + scenario_file("pair") + " --set workload.bytes=1M" + results_option("warmup");
  CHECK(has(command(run), "are of the whole run: 1 warm-up and 1 timed iteration\n"));
  CHECK_FALSE(has(command(run + " --set workload.warmup=0 --set expect.max_over_bound=2"), "warm-up"));
  const auto summary = nlohmann::json::parse(command(run + " --json 2>/dev/null").output);
  CHECK(summary.at("warmup_iterations") == 1);
  CHECK(summary.at("iterations") == 1);
}

TEST_CASE("two ranks a node: the ring is held against the bound of its hops between the nodes") {
  const CommandResult result =
      command("run " + scenario_file("pair") + " --set workload.algorithm=ring --set workload.ranks_per_node=2" +
              results_option("two_ranks"));
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK(has(result, "ok     no ring of equal shares is faster: "));
  CHECK(has(result, "ok     time at most 1.03 of the bound: 1.0"));
}

TEST_CASE("a broadcast is held against its ring, though nothing passes the hop into its root") {
  const CommandResult result =
      command("run " + scenario_file("spark-triangle") + " --set workload.algorithm=ring" +
              " --set workload.collective=broadcast --set workload.root=1" + results_option("broadcast"));
  CHECK(has(result, "ok     no ring is faster: "));
}

TEST_CASE("one slow cable sets the pace of every collective's ring, and the run needs no more than its bound") {
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"}) {
    for (const char* cable : {"node0-node1", "node2-node0"}) {
      const CommandResult result =
          command("run --json " + scenario_file("spark-triangle") + " --set cable." + cable +
                  ".rate=25Gb/s --set workload.algorithm=ring --set workload.collective=" + operation +
                  results_option("slow_cable") + "2>/dev/null");
      CHECK_MESSAGE(result.status == 0, operation, " over ", cable);
      const double over = nlohmann::json::parse(result.output).at("over_bound");
      CHECK_MESSAGE(over >= 1.0, operation, " over ", cable);
      CHECK_MESSAGE(over < 1.02, operation, " over ", cable);
    }
  }
}

TEST_CASE("every message of a replay belongs to two ranks, and each pair of ports of two ranks is one row") {
  const auto summary =
      nlohmann::json::parse(command("run --json " + scenario_file("nccl-calls-two-nodes-two-gpus-alltoall") +
                                    " 2>/dev/null" + results_option("replay"))
                                .output);
  CHECK(summary.at("pairs").size() == 8);
  for (const auto& pair : summary.at("pairs")) CHECK(pair.at("destination_rank") >= 0);
}

TEST_CASE("output that a full disk swallows is no success") {
  for (const std::string& arguments :
       {std::string("--version"), std::string("env"), std::string("run --help"), "lint " + scenario_file("pair"),
        "topo draw " + scenario_file("pair"), "run --no-trace " + scenario_file("pair") + results_option("full")}) {
    const CommandResult result = command(arguments + " 2>&1 >/dev/full");
    CHECK_MESSAGE(result.status == 2, arguments);
    CHECK_MESSAGE(has(result, "meshbed: standard output could not be written"), arguments);
  }
}

TEST_CASE("with standard descriptors closed, output is an error or lost, and never lands in a file of the run") {
  const std::string results = scratch_folder("closed");
  const std::string run = meshbed_program() + " run " + scenario_file("pair") + " --set workload.bytes=4M " +
                          "--set environment.NCCL_DEBUG=INFO --results '" + results + "' ";
  CHECK(run_command_line(run + "2>&-").status == 0);
  CHECK(run_command_line("cut -d, -f1 '" + results + "/pair/sim/messages.csv' | grep -c meshbed").output == "0\n");
  CHECK(run_command_line("exec 2>&1; " + run + ">&-").status == 2);
  CHECK(run_command_line(meshbed_program() + " perf all_reduce -b 8 -e 8 --json --scenario " + scenario_file("pair") +
                         " 2>/dev/null >&-")
            .status == 2);
  CHECK(run_command_line(run + "<&- >/dev/null").status == 0);
}

TEST_CASE("a NIC whose cable is on its second port, and a management network of IPv6") {
  for (const char* setting : {"node.node1.nic.rocep1s0f0.port=2", "management.subnet=fd01::/64"}) {
    const CommandResult result =
        run_command_line(meshbed_program() + " run " + scenario_file("pair") + " --set workload.bytes=4M --results '" +
                         scratch_folder("second_port") + "' --set " + setting + " 2>&1");
    CHECK_MESSAGE(result.status == 0, result.output);
  }
}

TEST_CASE("a rail that carries nothing breaks the promise that rails are balanced, and so does a failed run") {
  const auto run = [](const std::string& arguments) {
    return run_command_line(meshbed_program() + " run " + scenario_file("pair-dual-rail") + " --results '" +
                            scratch_folder("rails") + "' " + arguments + " 2>&1");
  };
  const CommandResult idle = run("--set workload.channels=1 --set 'environment.NCCL_MESH_STRIPE_BYTES=\"0\"'");
  CHECK(idle.status == 1);
  CHECK(idle.output.find("BROKEN rails within 0.05 of each other: 1.0000") != std::string::npos);
  CHECK(run("--set limits.time=1us").output.find("BROKEN rails within 0.05 of each other: the run failed") !=
        std::string::npos);
}

TEST_CASE("a results folder that cannot be is refused before the run, with the cause and the option") {
  const std::string run = "run --no-trace " + scenario_file("pair") + " --results ";
  CHECK(command_all(run + "''").output == "meshbed: --results is empty; name a folder, as in --results results\n");
  const CommandResult file = command_all(run + scenario_file("pair"));
  CHECK(file.status == 2);
  CHECK(has(file, "pair/sim: Not a directory; name a folder that you may write to"));
  CHECK(is_one_line(file.output));
}

TEST_CASE("help and version are success, no arguments at all is usage") {
  CHECK(has(command("--help"), "usage: meshbed COMMAND"));
  CHECK(command("--help").status == 0);
  CHECK(command("--version").output == "meshbed 0.1.0\n");
  CHECK(command("2>/dev/null").status == 2);
  for (const char* name : {"run", "perf", "env", "doctor", "bench", "lint", "topo", "emu", "zernel"}) {
    const CommandResult result = command(std::string(name) + " --help");
    CHECK(result.status == 0);
    CHECK(has(result, std::string("usage: meshbed ") + name));
    CHECK(has(result, "--help"));
    // What stands without a dash is no option.
    for (const char* operand : {"--op OP", "--action", "--file"}) CHECK_FALSE(has(result, operand));
  }
  CHECK(has(command("topo --help"), "arguments:\n  QUESTION "));
}

TEST_CASE("ranks see the scenario's variables, a misspelt one with a warning, and never the shell's") {
  const CommandResult misspelt =
      command_all("run " + scenario_file("pair") + " --set environment.NCCL_MESH_TIPO=1" + results_option("command"));
  CHECK(misspelt.status == 0);
  CHECK(has(misspelt, "NCCL_MESH_TIPO"));
  const CommandResult shell = run_command_line("NCCL_MESH_TIPO=1 NCCL_MESH_CONNECT_TIMEOUT_SEC=x " + meshbed_program() +
                                               " run " + scenario_file("pair") + results_option("command") + " 2>&1");
  CHECK(shell.status == 0);
  CHECK_FALSE(has(shell, "NCCL_MESH"));
}

TEST_CASE("a net plugin that is not there is refused by name, and no check passes") {
  const CommandResult result = command_all("run " + scenario_file("pair") + " --set workload.net_plugin=/nowhere.so" +
                                           results_option("command"));
  CHECK(result.status == 2);
  CHECK(has(result, "workload.net_plugin: /nowhere.so: there is no such file"));
  CHECK_FALSE(has(result, "ok     wrong"));
  CHECK_FALSE(has(result, "ok     subnet truth"));
}

TEST_CASE("a failed run says so in its summary, and lists no proof that had nothing to look at") {
  const auto summary = nlohmann::json::parse(command("run --json " + scenario_file("pair") +
                                                     " --fault port_down,target=node0/rocep1s0f0 2>/dev/null" +
                                                     results_option("command"))
                                                 .output);
  CHECK(summary.at("outcome") == "failed");
  CHECK(summary.at("passed") == false);
  CHECK(summary.at("wrong").is_null());
  CHECK(summary.at("bound_ns").is_null());
  CHECK(summary.at("over_bound").is_null());
  REQUIRE(summary.at("proofs").size() == 1);
  CHECK(summary.at("proofs").at(0).at("name") == "the plugin is the file on disk");
  CHECK(summary.at("nothing_to_check").size() == 2);
}

TEST_CASE("a run that is cut short says how long it was, and breaks no proof by it") {
  const CommandResult result =
      command_all("run " + scenario_file("pair") + " --set limits.time=1ms" + results_option("command"));
  CHECK(result.status == 3);
  CHECK_FALSE(has(result, "BROKEN utilisation"));
}

TEST_CASE("run prints the seed first and the digest last") {
  const CommandResult result = command("run " + scenario_file("pair") + results_option("command"));
  CHECK(result.status == 0);
  CHECK(result.output.rfind("seed 1 ", 0) == 0);
  const std::size_t last = result.output.rfind('\n', result.output.size() - 2);
  CHECK(result.output.substr(last + 1).rfind("digest ", 0) == 0);
}

TEST_CASE("run --json prints the summary and nothing else, and writes the same to summary.json") {
  const std::string folder = scratch_folder("json");
  const CommandResult result =
      command("run " + scenario_file("pair") + " --json --results '" + folder + "' 2>/dev/null");
  REQUIRE(result.status == 0);
  const auto printed = nlohmann::ordered_json::parse(result.output);
  std::vector<std::string> keys;
  for (const auto& item : printed.items()) keys.push_back(item.key());
  keys.resize(16);
  CHECK(keys == std::vector<std::string>{"scenario", "world", "seed", "plugin_sha256", "ranks", "collective", "bytes",
                                         "time_ns", "algbw_GBps", "busbw_GBps", "wrong", "messages", "cpu_s",
                                         "peak_rss_bytes", "proofs", "digest"});
  std::ifstream file(folder + "/pair/sim/summary.json");
  CHECK(nlohmann::ordered_json::parse(file) == printed);
  CHECK(std::filesystem::exists(folder + "/pair/sim/messages.csv"));
  CHECK(std::filesystem::exists(folder + "/pair/sim/provenance.json"));
}

TEST_CASE("--no-trace leaves no messages.csv, not even that of the run before") {
  const std::string folder = scratch_folder("no_trace");
  const std::string run = "run " + scenario_file("pair") + " --results '" + folder + "'";
  REQUIRE(command(run).status == 0);
  REQUIRE(std::filesystem::exists(folder + "/pair/sim/messages.csv"));
  CHECK(command(run + " --no-trace").status == 0);
  CHECK_FALSE(std::filesystem::exists(folder + "/pair/sim/messages.csv"));
  CHECK(std::filesystem::exists(folder + "/pair/sim/summary.json"));
}

TEST_CASE("an interrupted run leaves the results of the run before, and the next run removes what it left") {
  const std::string folder = scratch_folder("interrupted");
  const std::string results = " --results '" + folder + "'";
  const auto digest_of = [](const std::string& files) { return run_command_line("cat " + files + " | md5sum").output; };
  const std::string files = "'" + folder + "'/pair/sim/*";
  REQUIRE(command("run " + scenario_file("pair") + results).status == 0);
  const std::string before = digest_of(files + ".json " + files + ".csv");
  for (const char* signal : {"INT", "TERM"}) {
    // Far longer than the time that it gets.
    const CommandResult cut = run_command_line("timeout --signal=" + std::string(signal) + " --kill-after=5 0.7 " +
                                               meshbed_program() + " run " + scenario_file("pair") +
                                               " --set workload.iterations=1000000" + results + " >/dev/null 2>&1");
    CHECK(cut.status == 124);  // it was running
    CHECK(digest_of(files + ".json " + files + ".csv") == before);
  }
  REQUIRE(command("run " + scenario_file("pair") + results).status == 0);
  const auto sim = std::filesystem::directory_iterator(folder + "/pair/sim");
  CHECK(std::distance(begin(sim), end(sim)) == 3);
}

TEST_CASE("an expectation that is not met is status 1 and named") {
  const CommandResult result =
      command_all("run " + scenario_file("pair") + results_option("unmet") + "--set expect.min_busbw_GBps=1000");
  CHECK(result.status == 1);
  CHECK(has(result, "BROKEN bus bandwidth at least 1000 GB/s"));
}

TEST_CASE("a time limit that passes is status 3, and says who waited for what") {
  const CommandResult result =
      command_all("run " + scenario_file("pair") + results_option("limit") + "--set limits.time=1us");
  CHECK(result.status == 3);
  CHECK(has(result, "time limit"));
}

TEST_CASE("a diagonal with relays off is an error with both sides' subnets, unless it is expected") {
  const std::string refused = "run " + scenario_file("ring4-refused") + results_option("refused");
  CHECK(command_all(refused).status == 0);
  const CommandResult result = command_all(refused + "--set expect.error=dance");
  CHECK(result.status == 1);
  CHECK(has(result, "192.168.103.0/24"));
  CHECK(has(result, "192.168.101.0/24"));
  CHECK(has(result, "BROKEN an error with \"dance\""));
}

TEST_CASE("env shows each variable with its value in force and where it comes from") {
  const auto shell = nlohmann::json::parse(
      run_command_line("NCCL_MESH_RETRY_COUNT=5 NCCL_IB_TC=999 " + meshbed_program() + " env --json").output);
  const auto row = [&](const std::string& name) {
    return *std::find_if(shell.begin(), shell.end(), [&](const auto& one) { return one.at("name") == name; });
  };
  CHECK(row("NCCL_MESH_RETRY_COUNT").at("value") == "5");
  CHECK(row("NCCL_MESH_RETRY_COUNT").at("source") == "environment");
  CHECK(row("NCCL_MESH_TIMEOUT_MS").at("source") == "default");
  CHECK(row("NCCL_IB_TC").at("value") == "0");
  CHECK(row("NCCL_IB_TC").at("problem") != "");
  CHECK(row("NCCL_MESH_MAX_RELAY_HOPS").at("value") == "8 (as NCCL_MESH_MAX_HOPS)");
}

TEST_CASE(
    "env shows names like ours that are none as unknown, with the one that was meant; and devices that are none") {
  const std::string some = "NCCL_MESH_MAX_HOPS=3 NCCL_MESH_RETRY_CUONT=7 NCCL_MESH_XYZZY=1 ";
  const CommandResult shell = run_command_line(some + meshbed_program() + " env");
  const auto has_row = [&](const char* pattern) {
    return run_command_line("printf '%s' \"" + shell.output + "\" | grep -qE '" + pattern + "'").status == 0;
  };
  CHECK(
      has_row("^NCCL_MESH_RETRY_CUONT +7 +environment +unknown: no variable of this plugin; NCCL_MESH_RETRY_COUNT.$"));
  CHECK(has_row("^NCCL_MESH_XYZZY +1 +environment +unknown: no variable of this plugin$"));
  CHECK(has_row("^NCCL_MESH_MAX_RELAY_HOPS +3 .as NCCL_MESH_MAX_HOPS. +default "));
  const CommandResult ranks =
      command("env --scenario " + scenario_file("pair") +
              " --set environment.NCCL_IB_HCA=mlx5 --set environment.NCCL_MESH_DEBUGG=1 2>/dev/null");
  CHECK(has(ranks, "NCCL_IB_HCA=mlx5 allows none of the existing ports: rocep1s0f0:1"));
  CHECK(has(ranks, "unknown: no variable of this plugin; NCCL_MESH_DEBUG?"));
}

TEST_CASE("env --set without a scenario is refused, since there is nothing that it could change") {
  const CommandResult result = command_all("env --set environment.NCCL_MESH_RETRY_COUNT=5");
  CHECK(result.status == 2);
  CHECK(result.output ==
        "meshbed: env: --set environment.NCCL_MESH_RETRY_COUNT=5 changes a scenario, and none is named; add --scenario "
        "FILE\n");
}

TEST_CASE("a recording needs no management network; a sweep does, and says so") {
  const std::string off = " --set management.enabled=false";
  CHECK(command("run " + scenario_file("nccl-calls-pair-all-reduce") + off + results_option("no_management")).status ==
        0);
  const CommandResult perf =
      command_all("perf all_reduce -b 8 -e 8 --scenario " + scenario_file("nccl-calls-pair-all-reduce") + off);
  CHECK(perf.status == 2);
  CHECK_MESSAGE(has(perf, "perf's ranks meet over the management network"), perf.output);
  CHECK(is_one_line(perf.output));
}

TEST_CASE("a variable of the shell does not reach the simulated ranks") {
  const auto ranks = nlohmann::json::parse(run_command_line("NCCL_MESH_RETRY_COUNT=5 " + meshbed_program() +
                                                            " env --json --scenario " + scenario_file("pair"))
                                               .output);
  for (const auto& variable : ranks.at("node0")) CHECK(variable.at("source") == "default");
}

TEST_CASE("doctor says which worlds can run, with what each of them needs") {
  const CommandResult result = command("doctor --json");
  CHECK(result.status == 0);
  const auto worlds = nlohmann::json::parse(result.output);
  CHECK(worlds.at("sim").at("can_run") == true);
  for (const char* world : {"emu", "emu/namespaces", "metal"}) {
    const auto& findings = worlds.at(world).at("findings");
    const bool all = std::all_of(findings.begin(), findings.end(), [](const auto& one) { return one.at("present"); });
    CHECK(findings.size() >= 2);
    CHECK(worlds.at(world).at("can_run") == all);
  }
}

}  // namespace command_test
