// meshbed emu, as far as it goes without root and modules: what it would do, and what it refuses.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/command.h"

namespace emu_command_test {

using namespace meshbed::test;

namespace {

/// Standard output and standard error.
CommandResult emu(const std::string& arguments) {
  return run_command_line(meshbed_program() + " " + arguments + " 2>&1");
}

bool has(const CommandResult& result, const std::string& text) { return result.output.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("emu up --dry-run prints a script for sh, in both layouts, and changes nothing") {
  const std::string links = run_command_line("ls /sys/class/net; ls /run").output;
  for (const char* scenario : {"pair", "spark-triangle", "ring4", "switch64", "pair-dual-rail"}) {
    for (const char* layout : {"auto", "policy-routing", "network-namespaces"}) {
      CAPTURE(scenario);
      CAPTURE(layout);
      const std::string line =
          meshbed_program() + " emu up --dry-run --layout " + layout + " " + scenario_file(scenario);
      const CommandResult script = run_command_line(line);
      CHECK(script.status == 0);
      CHECK(script.output.rfind("#!/bin/sh\n", 0) == 0);
      CHECK(has(script, "rdma link add mb1p0 type rxe netdev mb1p0\n"));
      CHECK(run_command_line(line + " | sh -n").status == 0);
    }
  }
  CHECK(run_command_line("ls /sys/class/net; ls /run").output == links);
}

TEST_CASE("what emu and --backend cannot do is one line and status 2") {
  struct Case {
    const char* arguments;
    const char* line;
  };
  const std::string pair = scenario_file("pair");
  const Case cases[] = {
      {"emu", "emu: up, down or status? usage: meshbed emu up SCENARIO | emu down | emu status"},
      {"emu sideways", "emu: there is no 'sideways'"},
      {"emu up", "emu up: SCENARIO is missing"},
      {"emu down here.toml", "emu down: takes no scenario"},
      {"emu up here.toml --layout round", "--layout round: there is no such layout; accepted: auto, policy-routing"},
      {"run --world sim --backend microvm here.toml", "--backend is the emulated world's; --world sim has none"},
      {"run --world emu --backend docker here.toml", "--backend docker: there is no such backend; accepted: auto"},
  };
  for (const Case& each : cases) {
    const CommandResult result = emu(each.arguments);
    CHECK_MESSAGE(result.status == 2, each.arguments);
    CHECK_MESSAGE(has(result, each.line), result.output);
    CHECK_MESSAGE(result.output.find('\n') == result.output.size() - 1, result.output);
  }
}

TEST_CASE("a host without soft-RoCE, or without root, gets an error before anything is changed") {
  const CommandResult status = emu("emu status");
  if (run_command_line("[ -e /sys/module/rdma_rxe ] && [ \"$(id -u)\" = 0 ]").status == 0 ||
      !has(status, "nothing is set up")) {
    MESSAGE("skipped: this host could set namespaces up, or has");
    return;
  }
  CHECK(status.status == 0);
  CHECK(emu("emu down").output == "nothing is set up\n");
  for (const std::string& arguments :
       {"emu up " + scenario_file("pair"), "run --world emu --backend namespaces " + scenario_file("pair") +
                                               " --results '" + scratch_folder("no_namespaces") + "' --json"}) {
    const CommandResult result = emu(arguments);
    CHECK(result.status == 2);
    CHECK_MESSAGE((has(result, "namespaces need root") || has(result, "namespaces cannot be set up here")),
                  result.output);
    CHECK_MESSAGE(has(result, "--backend microvm"), result.output);
  }
  CHECK(emu("emu status").output == "nothing is set up\n");
}

TEST_CASE("a machine that cannot run the virtual machines gets an error before anything is downloaded") {
  const std::string cache = scratch_folder("no_machines") + "/cache";
  const auto said_to = [&](const std::string& environment, const std::string& arguments) {
    return run_command_line(environment + " MESHBED_EMU_CACHE='" + cache + "' " + meshbed_program() +
                            " run --world emu --backend microvm --json " + arguments + " --results '" +
                            scratch_folder("no_machines_results") + "' 2>&1");
  };
  const CommandResult no_programs = said_to("PATH=/no-such-folder", scenario_file("pair"));
  CHECK(no_programs.status == 2);
  CHECK_MESSAGE(has(no_programs,
                    "\nmeshbed: virtual machines cannot run here: qemu-system-x86_64: not in PATH: install "
                    "qemu-system-x86\n"),
                no_programs.output);
  const CommandResult no_memory = said_to("", scenario_file("switch16") + " --set workload.bytes=64G");
  CHECK(no_memory.status == 2);
  // Where QEMU is not installed, that is said.
  CHECK_MESSAGE((has(no_memory, "the nodes node0 to node15 (16 nodes) need 10") ||
                 has(no_memory, "virtual machines cannot run here")),
                no_memory.output);
  CHECK(run_command_line("ls '" + cache + "' 2>/dev/null").output.empty());
}

}  // namespace emu_command_test
