// meshbed plan: the best cabling, why, and what it is built with.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace plan_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;
using nlohmann::json;

namespace {

CommandResult plan(const std::string& arguments) {
  return run_command_line(meshbed_program() + " plan " + arguments + " 2>&1");
}

json run_json(const std::string& scenario, const std::string& folder) {
  return json::parse(run_command_line(meshbed_program() + " run --json --no-trace " + scenario + " --results " +
                                      folder + " 2>/dev/null")
                         .output);
}

}  // namespace

TEST_CASE("four nodes: the ring before the line, with its reason; its scenario runs as predicted") {
  const std::string folder = scratch_folder("plan_four");
  const CommandResult planned = plan("--nodes 4 --workload all_reduce:1M -o " + folder);
  CHECK(planned.status == 0);
  CHECK(planned.output.find("4 nodes, 2 NICs each: 2 cablings in which all reach each other, all run") !=
        std::string::npos);
  CHECK(planned.output.find("With the ring it takes ") != std::string::npos);
  CHECK(planned.output.find("with the line: it ends without node0-node1") != std::string::npos);
  const json report = json::parse(read_text_file(folder + "/plan.json"));
  REQUIRE(report.at("candidates").size() == 2);
  const json& first = report.at("candidates")[0];
  CHECK(first.at("cabling") == "ring");
  CHECK(first.at("survives") == true);
  CHECK(report.at("candidates")[1].at("survives") == false);
  CHECK(report.at("reasons").size() <= 5);
  const json run = run_json(folder + "/scenario.toml", folder + "/run");
  CHECK(run.at("time_ns").get<double>() / 1e3 == doctest::Approx(first.at("time_us").get<double>()).epsilon(1e-9));
  CHECK(run.at("wrong") == 0);
}

TEST_CASE("the winner's netplan files, cables and environment are those of its scenario") {
  const std::string folder = scratch_folder("plan_files");
  CHECK(plan("--nodes 3 --nics 2 --rate 200Gb/s --workload all_gather:64K -o " + folder).status == 0);
  CHECK(read_text_file(folder + "/netplan/node1.yaml") ==
        "# node1: /etc/netplan/60-meshbed.yaml\n"
        "network:\n"
        "  version: 2\n"
        "  ethernets:\n"
        "    enp1s0f0np0:\n"
        "      mtu: 9000\n"
        "      link-local: []\n"
        "      addresses:\n"
        "        - 192.168.100.2/24\n"
        "    enp1s0f1np1:\n"
        "      mtu: 9000\n"
        "      link-local: []\n"
        "      addresses:\n"
        "        - 192.168.101.1/24\n");
  CHECK(read_text_file(folder + "/cables.csv") ==
        "cable,from,to,subnet,rate\n"
        "node0-node1,node0/rocep1s0f1,node1/rocep1s0f0,192.168.100.0/24,200 Gb/s\n"
        "node1-node2,node1/rocep1s0f1,node2/rocep1s0f0,192.168.101.0/24,200 Gb/s\n"
        "node2-node0,node2/rocep1s0f1,node0/rocep1s0f0,192.168.102.0/24,200 Gb/s\n");
  const std::string environment = read_text_file(folder + "/environment");
  CHECK(environment.find("\nNCCL_NET_PLUGIN=mesh\n") != std::string::npos);
  CHECK(environment.find("NCCL_IB_SUBNET_AWARE_ROUTING=1") != std::string::npos);
}

TEST_CASE("prices, a switch and a decode step with a profile: ties within the error are decided by the price") {
  const std::string folder = scratch_folder("plan_decode");
  const CommandResult planned = plan(
      "--nodes 4 --switch 1000 --cable 50 --workload decode:minimax-m2 --profile dgx-spark --rate 200Gb/s "
      "--functions spark-merged -o " +
      folder);
  CHECK(planned.status == 0);
  const json report = json::parse(read_text_file(folder + "/plan.json"));
  CHECK(report.at("candidates").size() == 6);
  double price = 0;
  for (const json& one : report.at("candidates")) {
    CHECK(one.at("status") == "ok");
    if (one.at("tie") == true) {
      CHECK(one.at("price").get<double>() >= price);
      price = one.at("price").get<double>();
    }
    if (one.at("cabling") == "switch") {
      CHECK(one.at("price") == 1200);
      CHECK(one.at("switch_ends_it") == true);
    }
    if (one.at("cabling") == "2 switches") CHECK(one.at("switch_ends_it") == false);
  }
  // 62 layers, each with two calls and a fourth of one node's computing.
  const json run = run_json(folder + "/scenario.toml", folder + "/run");
  CHECK(report.at("candidates")[0].at("time_us").get<double>() ==
        doctest::Approx(62 * (2 * run.at("time_ns").get<double>() / 1e3 + 443.0 / 4)).epsilon(1e-9));
}

TEST_CASE("--survive leaves out what a lost cable ends; where all end the plan says so") {
  const std::string folder = scratch_folder("plan_survive");
  CHECK(plan("--nodes 4 --workload all_reduce:64K --cable 10 --survive any-cable -o " + folder).status == 0);
  CHECK(json::parse(read_text_file(folder + "/plan.json")).at("candidates")[0].at("cabling") == "ring");
  // One switch ends with a cable, two do not.
  const CommandResult switched = plan(
      "--nodes 3 --nics 2 --workload all_reduce:64K --switch 1 --survive any-cable --set workload.algorithm=tree -o " +
      folder);
  CHECK(switched.status == 0);
  const json report = json::parse(read_text_file(folder + "/plan.json"));
  for (const json& one : report.at("candidates")) {
    if (one.at("survives") == false) CHECK(one.at("tie") == false);
  }
  CHECK(report.at("candidates")[0].at("survives") == true);
  CHECK(report.at("candidates").back().at("survives") == false);
  const CommandResult none = plan("--nodes 2 --nics 1 --workload all_reduce:64K --survive any-cable -o " + folder);
  CHECK(none.status == 2);
  CHECK(none.output.find("no cabling of 2 nodes with 1 NIC each survives the loss of any cable") != std::string::npos);
}

TEST_CASE("a scenario's workload on cablings that no [topology] generates") {
  const std::string folder = scratch_folder("plan_file");
  CHECK(plan("--nodes 4 --nics 3 --finalists 4 --workload " + scenario_file("ring4-alltoall") +
             " --set workload.bytes=64K -o " + folder)
            .status == 0);
  const json report = json::parse(read_text_file(folder + "/plan.json"));
  REQUIRE(report.at("candidates").size() == 4);
  CHECK(report.at("candidates")[0].at("cabling") == "full mesh");
  for (const json& one : report.at("candidates")) CHECK(one.at("status") == "ok");
}

TEST_CASE("bad requests are refused in one line, before anything runs") {
  const std::string folder = " -o " + scratch_folder("plan_bad");
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    CAPTURE(arguments);
    const CommandResult result = plan(arguments + folder);
    CHECK(result.status == 2);
    CAPTURE(result.output);
    CHECK(result.output.find(words) != std::string::npos);
    CHECK(result.output.find('\n') + 1 == result.output.size());
  };
  refused("--nodes 9 --workload all_reduce:1M", "--nodes");
  refused("--nodes 4 --workload all_reduc:1M", "did you mean all_reduce:1M?");
  refused("--nodes 4 --workload all_reduce", "the size is missing; give all_reduce:64M");
  refused("--nodes 4 --workload decode:llama", "there are: gpt-oss-120b, minimax-m2");
  refused("--nodes 4 --workload all_reduce:1M --switch cheap", "expects a price of 0 or more");
  refused("--nodes 4 --workload all_reduce:1M --switch nan", "expects a price of 0 or more");
  refused("--nodes 4 --workload all_reduce:1M --survive all", "expects any-cable");
  refused("--nodes 4 --nics 1 --workload all_reduce:1M",
          "cannot all reach each other by cables alone; give --switch PRICE");
  refused("--nodes 8 --nics 4 --workload all_reduce:1M", "more than 5000 cablings of 8 nodes");
  refused("--nodes 4 --workload all_reduce:1M --profile dgx-sparc", "dgx-sparc");
  refused("--nodes 4 --workload all_reduce:x", "bytes: expects a size such as");
}

}  // namespace plan_command_test
