// The slot graphs of scenarios/ as a user runs them, and wrong programs of an author's own: each is named by the run.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_graphs_test {

using namespace meshbed::test;

namespace {

nlohmann::json run_graph(const std::string& scenario, const std::string& options, int& status) {
  return summary_of_run(scenario, options, status, scratch_folder("megakernel-graphs"));
}

double latency_us(const nlohmann::json& summary, const std::string& group, const std::string& name,
                  const std::string& part, const std::string& key) {
  for (const auto& row : summary.at("rings").at("latencies")) {
    if (row.at("group") != group || row.at("name") != name || row.at("part") != part) continue;
    return row.at(key).get<double>() / 1e3;
  }
  FAIL("no latency of " << group << " " << name << " " << part);
  return 0;
}

/// A scenario of two ranks around this graph, and what its run prints on either stream.
CommandResult run_own(const std::string& graph, const std::string& kernel = "", const std::string& options = "") {
  const std::string folder = scratch_folder("own-graph");
  std::ofstream(folder + "/graph.toml") << graph;
  std::ofstream(folder + "/own.toml") << "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nkind = \"megakernel\"\n"
                                         "[workload.megakernel]\nprogram = \"graph.toml\"\n"
                                      << kernel;
  return run_command_line(meshbed_program() + " run " + folder + "/own.toml --results '" + folder + "/results' " +
                          options + " 2>&1");
}

std::string explored(const std::string& graph, const std::string& options = "") {
  const std::string folder = scratch_folder("own-graph-explored");
  std::ofstream(folder + "/graph.toml") << graph;
  return run_command_line(meshbed_program() + " fuzz --explore --rings --program " + folder + "/graph.toml " + options +
                          " 2>&1")
      .output;
}

bool has(const std::string& text, const std::string& words) {
  const bool found = text.find(words) != std::string::npos;
  CHECK_MESSAGE(found, text, " has no ", words);
  return found;
}

std::string slots(const std::string& lines) { return "ranks = 2\nslot = [\n" + lines + "]\n"; }

const std::string kPut = "{id = \"p\", op = \"put\", peer = 1, bytes = \"64K\"},\n";
const std::string kWait = "{rank = 1, id = \"w\", op = \"wait\", to = \"staging\", needs = [\"0:p\"]},\n";
const std::string kSum = "{rank = 1, op = \"reduce\", elements = 16384, from = \"staging\", with = \"input\"";

}  // namespace

TEST_CASE("a mixture of experts by a routing matrix; one slow rank holds up all") {
  int status = -1;
  const nlohmann::json summary = run_graph("megakernel-moe", "", status);
  CHECK(status == 0);
  CHECK(summary.at("wrong") == 0);
  CHECK(summary.at("time_ns").get<double>() > 42'000);  // an expert's 42 tokens, 1 us each
  const nlohmann::json slower =
      run_graph("megakernel-moe", "--set workload.megakernel.speed='[1, 1, 0.5, 1, 1, 1, 1, 1]'", status);
  CHECK(slower.at("time_ns").get<double>() > summary.at("time_ns").get<double>() + 20'000);
}

TEST_CASE("two tenants: by priority the burst does not delay the other tenant; in one order it does") {
  int status = -1;
  const nlohmann::json levels = run_graph("megakernel-two-tenants", "", status);
  CHECK(status == 0);
  const nlohmann::json plain = run_graph("megakernel-two-tenants", "--set workload.megakernel.kernel=plain", status);
  CHECK(status == 0);
  const double by_priority_us = latency_us(levels, "tenant", "chat", "completion", "p99_ns");
  const double in_order_us = latency_us(plain, "tenant", "chat", "completion", "p99_ns");
  CHECK(in_order_us > 1.5 * by_priority_us);
  CHECK(latency_us(levels, "priority", "LOW", "queueing", "p99_ns") >
        latency_us(levels, "priority", "HIGH", "queueing", "p99_ns"));
}

TEST_CASE("a ring and a queue that are too small cost time, and the report has the waits") {
  int status = -1;
  const nlohmann::json small = run_graph("megakernel-small-ring", "", status);
  CHECK(status == 0);
  const nlohmann::json large = run_graph(
      "megakernel-small-ring", "--set workload.megakernel.slots=0 --set workload.megakernel.queue_depth=64", status);
  CHECK(status == 0);
  const auto waits = [](const nlohmann::json& summary) {
    return summary.at("rings").at("ranks")[0].at("credit_waits").get<int>();
  };
  CHECK(waits(small) > 0);
  CHECK(waits(large) == 0);
  CHECK(small.at("rings").at("ranks")[0].at("queue_depth_most") == 4);
  CHECK(small.at("time_ns").get<double>() > 1.1 * large.at("time_ns").get<double>());
  CHECK(small.at("data") == large.at("data"));
}

TEST_CASE("ring tune finds a depth, lanes, slots and proxies that cost no more than they may") {
  const CommandResult result =
      run_command_line(meshbed_program() + " ring tune " + scenario_file("megakernel-small-ring") +
                       " --set workload.megakernel.layers=2 --within 5% --json 2>/dev/null");
  CHECK(result.status == 0);
  const nlohmann::json tuned = nlohmann::json::parse(result.output);
  CHECK(tuned.at("chosen").size() == 4);
  CHECK(tuned.at("chosen_us").get<double>() <= 1.05 * tuned.at("unlimited_us").get<double>());
  CHECK(tuned.at("points").size() > 10);
  CHECK(tuned.at("chosen")[0] != "queue_depth=1024");
  CHECK(run_command_line(meshbed_program() + " ring tune " + scenario_file("pair") + " 2>/dev/null").status == 2);
}

TEST_CASE("lost messages are sent again after the queue pair's timeout, and the watchdog lets them") {
  int status = -1;
  for (const char* scenario : {"megakernel-decode", "megakernel-ring8"}) {
    CAPTURE(scenario);
    const nlohmann::json summary = run_graph(scenario, "--fault loss,target=node0-node1,amount=0.01", status);
    CHECK(status == 0);
    CHECK(summary.at("wrong") == 0);
  }
  for (const char* seed : {"1", "2", "3"}) {
    CAPTURE(seed);
    (void)run_graph("megakernel-task-graph", std::string("--fault loss,target=node0-node1,amount=0.05 --seed ") + seed,
                    status);
    CHECK(status == 0);
  }
}

TEST_CASE("a program of more than sixteen ranks gives the engine's bits") {
  int status = -1;
  const nlohmann::json summary =
      run_graph("megakernel-ring8", "--set topology.nodes=20 --set workload.bytes=80K", status);
  CHECK(status == 0);
  CHECK(summary.at("wrong") == 0);
}

TEST_CASE("a printed program takes the time of the built-in one") {
  const std::string folder = scratch_folder("printed-graph");
  const std::string base = "[topology]\nkind = \"ring\"\nnodes = 4\n[workload]\nkind = \"megakernel\"\n";
  const auto time_of = [&](const std::string& scenario) {
    std::ofstream(folder + "/s.toml") << scenario;
    const CommandResult result = run_command_line(meshbed_program() + " run " + folder + "/s.toml --json --results '" +
                                                  folder + "/results' 2>/dev/null");
    CHECK_MESSAGE(result.status == 0, result.output);
    return nlohmann::json::parse(result.output).at("time_ns").get<double>();
  };
  for (const char* name : {"decode", "task_graph", "all_reduce"}) {
    CAPTURE(name);
    const std::string keys = std::string(name) == "all_reduce" ? "" : "layers = 4\ncompute = \"10us\"\n";
    std::string set;
    if (!keys.empty()) set = " --set workload.megakernel.layers=4 --set workload.megakernel.compute=10us";
    run_command_line(meshbed_program() + " ring program " + name + " --ranks 4" + set + " > " + folder + "/graph.toml");
    const std::string profile = "profile = \"dgx-spark-ring\"\n";
    const double built_in_ns =
        time_of(base + "bytes = \"48K\"\n[workload.megakernel]\nprogram = \"" + name + "\"\n" + keys + profile);
    const double printed_ns = time_of(base + "[workload.megakernel]\nprogram = \"graph.toml\"\n" + profile);
    CHECK(printed_ns == built_in_ns);
  }
}

TEST_CASE("wrong programs: a missing need, a wrong peer, a put that is not there, a slot that is there twice") {
  const std::string missing = slots(kPut + kWait + kSum + "},\n");
  CommandResult run = run_own(missing);
  CHECK(run.status == 2);
  has(run.output,
      "graph.toml:5:1: needs: rank 1: a slot without an id reads bytes 0 to 65535 that the message of 'p' of "
      "rank 0 lands in too, and nothing orders the two");
  const std::string schedule = explored(missing);
  has(schedule, "(REDUCE, block 1) reads message 0 of connection 0 before its data has landed");
  has(schedule, "the shortest way there has");
  run =
      run_own(slots("{id = \"p\", op = \"put\", peer = 0, bytes = 8, rank = 1},\n"
                    "{rank = 1, op = \"wait\", needs = [\"1:p\"]},\n"));
  CHECK(run.status == 2);
  has(run.output, "puts to rank 0, and this wait is of rank 1");
  run = run_own(slots("{rank = 1, op = \"wait\", needs = [\"0:p\"]},\n"));
  CHECK(run.status == 2);
  has(run.output, "needs: rank 0 has no slot 'p'");
  run = run_own(slots(kPut + kPut));
  CHECK(run.status == 2);
  has(run.output, "id: rank 0 has two slots 'p'");
}

TEST_CASE("wrong programs: two slots that wait for each other, a ring that is too small, a masked tenant") {
  const std::string circle = slots("{id = \"a\", needs = [\"1:b\"]},\n{rank = 1, id = \"b\", needs = [\"0:a\"]},\n");
  CommandResult run = run_own(circle);
  CHECK(run.status == 1);
  has(run.output, "wait-cycle");
  has(explored(circle), "a cycle");
  run = run_own(circle, "slot_order = \"ready\"\n");
  CHECK(run.status == 1);
  const std::string late = slots("{needs = [\"c\"]},\n{needs = [\"c\"]},\n{id = \"c\"},\n");
  run = run_own(late, "slots = 2\n");
  CHECK(run.status == 1);
  has(run.output, "waits for operation 2, which is not published");
  has(explored(late, "--slots 2"), "which is not published");
  const std::string tenants =
      "ranks = 2\ntenant = [{name = \"a\"}, {name = \"b\"}]\n"
      "slot = [{tenant = \"a\"}, {tenant = \"b\", at = \"1ms\"}]\n";
  run = run_own(tenants, "masked_tenant = 1\n");
  CHECK(run.status == 1);
  has(run.output, "tenant-masked");
  has(explored(tenants, "--masked"), "tenant-masked");
}

TEST_CASE("wrong programs: too many blocks, and flags on another queue pair than their data") {
  const std::string sound = slots(kPut + kWait + kSum + ", needs = [\"w\"]},\n");
  CommandResult run = run_own(sound);
  CHECK_MESSAGE(run.status == 0, run.output);
  has(explored(sound), "0 broken");
  run = run_own(slots("{needs = [\"c\"]},\n{needs = [\"c\"]},\n{id = \"c\"},\n"), "lanes = 3\nsms = 2\n");
  CHECK(run.status == 2);
  has(run.output, "not-resident");
  for (const char* queue : {"direct", "gin", "fifo"}) {
    CAPTURE(queue);
    run = run_own(sound, std::string("flag_qp = \"other\"\nqueue = \"") + queue + "\"\n");
    CHECK(run.status == 1);
    has(run.output, "flag-before-data: slot 1 (REDUCE) reads message 0 of connection 0 in epoch 1 from rank 0");
    has(run.output, "its data is under way on another queue pair");
  }
  has(explored(sound, "--flag-qp other"), "reads message 0 of connection 0 before its data has landed");
  // As soon as the data come in time, all is well: nothing but the order is wrong.
  run = run_own(
      slots("{id = \"p\", op = \"put\", peer = 1, bytes = 8},\n{rank = 1, id = \"w\", op = \"wait\", to = "
            "\"staging\", needs = [\"0:p\"]},\n{rank = 1, time = \"1ms\", id = \"t\", needs = [\"w\"]},\n{rank = "
            "1, op = \"reduce\", elements = 2, from = \"staging\", with = \"input\", needs = [\"t\"]},\n"),
      "flag_qp = \"other\"\n");
  has(run.output, "drained");
}

}  // namespace megakernel_graphs_test
