// `meshbed conformance` on Meshbed's own plugin, and on one that breaks the rule that it is told to.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/command.h"

using namespace meshbed::test;
using nlohmann::json;

namespace {

const std::string kLibraries = MESHBED_BINARY_DIR "/lib/";

CommandResult conformance(const std::string& plugin, const std::string& options) {
  return run_command_line(meshbed_program() + " conformance " + kLibraries + plugin + " " + options);
}

CommandResult with_fault(const std::string& fault, const std::string& options) {
  return conformance("libfaulty-net.so",
                     "--net-version 12 --set 'environment.FAULTY_NET=\"" + fault + "\"' " + options);
}

}  // namespace

TEST_CASE("Meshbed's own plugin keeps every rule with all five versions of the table, and twice in the same time") {
  const CommandResult first = conformance("libnccl-net-mesh.so", "--json");
  CHECK_MESSAGE(first.status == 0, first.output);
  const json report = json::parse(first.output);
  CHECK(report.at("absent_versions").empty());
  CHECK(report.at("broken") == 0);
  CHECK(report.at("cases").size() == 5 * 38);
  for (const json& one : report.at("cases")) CHECK_MESSAGE(one.at("kept") == true, one.dump());
  CHECK(conformance("libnccl-net-mesh.so", "--json").output == first.output);
}

TEST_CASE("the plugin that is faulty on demand has no fault without it") {
  const CommandResult result = with_fault("none", "");
  CHECK_MESSAGE(result.status == 0, result.output);
}

TEST_CASE("each fault is found by the case whose rule it breaks") {
  struct Fault {
    const char* fault;
    const char* found_by;
    const char* finding;
  };
  const std::vector<Fault> faults{
      {"no host pointers", "devices", "ptrSupport has NCCL_PTR_HOST"},
      {"other properties each time", "devices", "says the same when it is asked again"},
      {"no physical device", "devices", "vProps.ndevs is 1 at least"},
      {"any device will do", "no-such-device", "listen on a device that is not there is an error"},
      {"handle of 140 bytes", "handles", "no more than the 128 bytes of a handle"},
      {"connect waits", "connect-polled", "connect does not wait"},
      {"accept waits", "accept-polled", "accept does not wait"},
      {"dev is ignored backwards", "every-device", "connect"},
      {"close_listen fails", "listener-closed", "closeListen: ncclInvalidUsage"},
      {"second init fails", "initialised-twice", "init for a second communicator: ncclSystemError"},
      {"attributes are refused", "attributes", "setNetAttr, all undefined: ncclInvalidArgument"},
      {"first byte is wrong", "sizes", "what arrives is what was sent: byte 0"},
      {"a byte too many", "sizes", "nothing is written outside a message"},
      {"sizes are those posted", "longer-receives", "where 0 were sent"},
      {"empty messages stay", "empty-messages", "isend of 1000 bytes"},
      {"first byte is wrong", "in-order", "messages come in the order"},
      {"full is an error", "send-first", "isend of 10000 bytes: ncclSystemError"},
      {"full is an error", "more-than-fits", "ncclSystemError"},
      {"receives wait for a call", "left-alone", "isend gives a request: nothing for 30 s"},
      {"tags are mixed up", "tags", "of tag"},
      {"done too early", "part-missing", "a grouped receive is done when all its parts are"},
      {"flush fails", "flush", "iflush: ncclInternalError"},
      {"flush does nothing", "gpu-flush", "the GPU sees what was received: byte"},
      {"dma-bufs are ignored", "dma-buf", "regMrDmaBuf without a dma-buf is an error"},
      {"optional receives have no request", "optional-completion", "a request of its own"},
      {"close(NULL) crashes", "close-nothing", "the process crashed: Aborted"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.fault);
    const CommandResult result =
        with_fault(fault.fault, std::string("--json --only ") + fault.found_by + " 2>/dev/null");
    CHECK(result.status == 1);
    const json report = json::parse(result.output);
    REQUIRE(report.at("cases").size() == 1);
    const json& one = report.at("cases").at(0);
    CHECK(one.at("kept") == false);
    const std::string finding = one.at("finding");
    CHECK_MESSAGE(finding.find(fault.finding) != std::string::npos, finding);
  }
}

TEST_CASE("without GPU memory the rules for it are kept by refusing it; with the flush switched off they are not") {
  const std::string cases = "--json --net-version 12 --only dma-buf --only gpu-flush 2>/dev/null";
  const CommandResult off = conformance("libnccl-net-mesh.so", "--set topology.gpu_direct=off " + cases);
  CHECK_MESSAGE(off.status == 0, off.output);
  const CommandResult unflushed =
      conformance("libnccl-net-mesh.so", "--set environment.NCCL_GDR_FLUSH_DISABLE=1 " + cases);
  CHECK(unflushed.status == 1);
  CHECK(json::parse(unflushed.output).at("cases").at(1).at("kept") == false);
}

TEST_CASE("a case that takes its process with it costs only itself") {
  // The case before it, which the other rank may have left already, is not to blame.
  const CommandResult result =
      with_fault("close(NULL) crashes", "--only tags --only close-nothing --only sent-is-sent 2>/dev/null");
  CHECK(result.status == 1);
  CHECK_MESSAGE(result.output.find("ok     tags") != std::string::npos, result.output);
  CHECK_MESSAGE(result.output.find("BROKEN close-nothing") != std::string::npos, result.output);
  CHECK_MESSAGE(result.output.find("ok     sent-is-sent") != std::string::npos, result.output);
  CHECK_MESSAGE(result.output.find("3 cases on 1 version of the table: 2 kept, 1 broken\n") != std::string::npos,
                result.output);
}

TEST_CASE("a plugin that never returns is given up, and named") {
  const CommandResult result = with_fault("isend never returns", "--time-limit 3 --only sizes 2>/dev/null");
  CHECK(result.status == 3);
  CHECK_MESSAGE(result.output.find("it has not ended in 3 s (--time-limit), and is given up") != std::string::npos,
                result.output);
}

TEST_CASE("a plugin that ends its process before the first case is told with the version and the place") {
  struct Ending {
    const char* fault;
    int status;
    const char* told;
  };
  const std::vector<Ending> endings{
      {"init crashes", 1, "error: v12, as it was loaded, or in its init: the process crashed: Aborted\n"},
      {"init ends the process", 1, "error: v12, as it was loaded, or in its init: the process ended early\n"},
      {"init never returns", 3,
       "error: v12, as it was loaded, or in its init: it has not ended in 2 s (--time-limit), and is given up\n"},
  };
  for (const Ending& ending : endings) {
    CAPTURE(ending.fault);
    const CommandResult result = with_fault(ending.fault, "--only tags --time-limit 2 2>/dev/null");
    CHECK(result.status == ending.status);
    CHECK_MESSAGE(result.output.find(ending.told) != std::string::npos, result.output);
  }
}

TEST_CASE("a plugin's words that are no UTF-8 are told all the same") {
  const CommandResult result = with_fault("words are no UTF-8", "--only tags --json 2>/dev/null");
  CHECK(result.status == 1);
  const std::string error = json::parse(result.output).at("error");
  CHECK_MESSAGE(error.find("ncclSystemError: no \xEF\xBF\xBD\xEF\xBF\xBD here") != std::string::npos, error);
}

TEST_CASE("a file without a table, no file and cases that there are not are told as what they are") {
  const CommandResult other = conformance("libmeshcoll.so", "2>&1");
  CHECK(other.status == 1);
  CHECK_MESSAGE(other.output.find("exports no ncclNetPlugin_v8 to v12 that was asked for") != std::string::npos,
                other.output);
  const CommandResult only_v12 = conformance("libfaulty-net.so", "--net-version 9 2>&1");
  CHECK(only_v12.status == 1);
  CHECK(only_v12.output.find("v9: the file does not export it; skipped") != std::string::npos);
  CHECK(run_command_line(meshbed_program() + " conformance /nowhere.so 2>&1").status == 2);
  CHECK(run_command_line(meshbed_program() + " conformance \"$NO_SUCH_VARIABLE\" 2>&1").status == 2);
  const CommandResult faults =
      run_command_line(meshbed_program() + " conformance --scenario " + scenario_file("pair-cable-pulled") + " 2>&1");
  CHECK(faults.status == 2);
  CHECK_MESSAGE(faults.output.find("a fault that counts from point = \"iteration\"") != std::string::npos,
                faults.output);
  CHECK(run_command_line(meshbed_program() + " conformance --net-version 12 --only devices").status == 0);
  const CommandResult unknown = conformance("libnccl-net-mesh.so", "--only size 2>&1");
  CHECK(unknown.status == 2);
  CHECK_MESSAGE(unknown.output.find("sizes") != std::string::npos, unknown.output);
}
