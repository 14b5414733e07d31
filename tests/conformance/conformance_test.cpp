// `meshbed conformance` on Meshbed's own plugin, and on one that breaks the rule that it is set to break.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "tests/support/command.h"

namespace conformance_test {

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
  CHECK(report.at("cases").size() == 5 * 40);
  for (const json& one : report.at("cases")) {
    // The two rules of table v11 are all that has nothing to look at.
    const bool later = one.at("name") == "attributes" || one.at("name") == "optional-completion";
    CHECK_MESSAGE(one.at("kept") == (!later || one.at("version") >= 11), one.dump());
  }
  CHECK(report.at("not_looked_at") == 2 * 3);
  CHECK(conformance("libnccl-net-mesh.so", "--json").output == first.output);
}

TEST_CASE("over TCP the ends of things are in order with all five versions, also if an end closes with bytes unread") {
  std::string cases;
  for (const char* name : {"receives-in-flight", "sends-in-flight", "peer-closed", "sent-is-sent", "unread-by-receiver",
                           "unread-by-sender", "listener-unused"}) {
    cases += std::string(" --only ") + name;
  }
  const CommandResult result = conformance(
      "libnccl-net-mesh.so",
      "--set environment.NCCL_MESH_DISABLE_RDMA=1 --set 'environment.NCCL_SOCKET_IFNAME=\"=mgmt0\"'" + cases);
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK_MESSAGE(result.output.find("35 cases on 5 versions of the table: 35 kept, 0 broken\n") != std::string::npos,
                result.output);
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
      {"other properties each time", "devices", "reports the same properties when queried again"},
      {"no physical device", "devices", "vProps.ndevs is 1 at least"},
      {"any device will do", "no-such-device", "listen on a device that does not exist is an error"},
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

TEST_CASE("a rule that nothing here could show is marked with the reason, and counted apart from those kept") {
  struct Lack {
    const char* options;
    const char* rule;
    const char* reason;
  };
  const std::vector<Lack> lacks{
      {"--set topology.gpu_direct=off", "dma-buf", "ptrSupport of device 0 has no DMABUF; only that -1 is refused"},
      {"--set topology.gpu_direct=off", "gpu-flush", "ptrSupport of device 0 has no DMABUF"},
      {"--set environment.NCCL_MESH_DISABLE_RDMA=1", "dma-buf", "ptrSupport of device 0 has no DMABUF"},
      {"--net-version 8", "attributes", "the table has no setNetAttr before v11"},
      {"--net-version 10", "optional-completion", "NCCL says so from v11 of the table on only"},
      {"--set topology.rails=1", "reversed-devices", "a single device is its own reverse"},
      {"--set environment.NCCL_IB_HCA=none0", "every-device", "rank 0 has no device"},
      {"--set environment.NCCL_IB_HCA=none0", "sizes", "rank 0 has no device"},
  };
  for (const Lack& lack : lacks) {
    CAPTURE(lack.options);
    CAPTURE(lack.rule);
    const bool versioned = std::string(lack.options).find("--net-version") != std::string::npos;
    const std::string options = std::string(lack.options) + (versioned ? "" : " --net-version 12") +
                                " --only handles --only " + lack.rule + " 2>/dev/null";
    const CommandResult result = conformance("libnccl-net-mesh.so", options);
    CHECK_MESSAGE(result.output.find("\n  -      " + std::string(lack.rule)) != std::string::npos, result.output);
    CHECK_MESSAGE(result.output.find("not looked at: " + std::string(lack.reason)) != std::string::npos, result.output);
    const json report = json::parse(conformance("libnccl-net-mesh.so", "--json " + options).output);
    CHECK(report.at("broken") == 0);
    CHECK(report.at("kept").get<int>() + report.at("not_looked_at").get<int>() == 2);
    for (const json& one : report.at("cases")) {
      if (one.at("name") == lack.rule) CHECK(one.at("kept") == false);
    }
  }
  const CommandResult bare =
      run_command_line("FAULTY_NET='entries are missing' " + meshbed_program() + " conformance " + kLibraries +
                       "libfaulty-net.so --only flush --only attributes 2>/dev/null");
  CHECK_MESSAGE(bare.output.find("2 cases on 1 version of the table: 0 kept, 0 broken, 2 not looked at: nothing was "
                                 "shown\n") != std::string::npos,
                bare.output);
  const CommandResult groups = with_fault("no groups", "--only tags --only part-missing --only groups-in-order");
  CHECK_MESSAGE(groups.output.find("3 not looked at") != std::string::npos, groups.output);
  CHECK_MESSAGE(groups.output.find("maxRecvs is 1: no receive is grouped") != std::string::npos, groups.output);
  // Where nothing could be looked at nothing was shown, and who asks for a status must not take it for a pass.
  CHECK(bare.status == 1);
}

TEST_CASE("with no device at all one rule says so, and the others are not blamed for it") {
  const CommandResult result =
      conformance("libnccl-net-mesh.so", "--net-version 12 --set environment.NCCL_IB_HCA=none0 2>/dev/null");
  CHECK(result.status == 1);
  CHECK_MESSAGE(result.output.find("BROKEN devices") != std::string::npos, result.output);
  CHECK_MESSAGE(result.output.find("ok     no-such-device") != std::string::npos, result.output);
  CHECK_MESSAGE(result.output.find("40 cases on 1 version of the table: 1 kept, 1 broken, 38 not looked at\n") !=
                    std::string::npos,
                result.output);
}

TEST_CASE("with the flush switched off the rule for it is broken, that for dma-bufs is kept") {
  const std::string cases = "--json --net-version 12 --only dma-buf --only gpu-flush 2>/dev/null";
  const CommandResult unflushed =
      conformance("libnccl-net-mesh.so", "--set environment.NCCL_GDR_FLUSH_DISABLE=1 " + cases);
  CHECK(unflushed.status == 1);
  CHECK(json::parse(unflushed.output).at("cases").at(0).at("kept") == true);
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

TEST_CASE("a plugin that ends its process before the first case is reported with the version and the place") {
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

TEST_CASE("a plugin's words that are not UTF-8 are reported as well") {
  const CommandResult result = with_fault("words are no UTF-8", "--only tags --json 2>/dev/null");
  CHECK(result.status == 1);
  const std::string error = json::parse(result.output).at("error");
  CHECK_MESSAGE(error.find("ncclSystemError: no \xEF\xBF\xBD\xEF\xBF\xBD here") != std::string::npos, error);
}

TEST_CASE("a file without a table, a missing file and unknown cases each have an error of their own") {
  const CommandResult other = conformance("libmeshcoll.so", "2>&1");
  CHECK(other.status == 2);
  CHECK_MESSAGE(
      other.output.find("libmeshcoll.so: it exports no ncclNetPlugin_v8 to v12, so it is not a net plugin\n") !=
          std::string::npos,
      other.output);
  const CommandResult only_v12 = conformance("libfaulty-net.so", "--net-version 9 2>&1");
  CHECK(only_v12.status == 1);
  CHECK(only_v12.output.find("v9: the file does not export it; skipped") != std::string::npos);
  const std::pair<const char*, const char*> refused[]{
      {"/nowhere.so", "/nowhere.so: there is no such file"},
      {"/bin/../bin", "/bin/../bin: it is a folder, no net plugin"},
      {"/dev/null", "/dev/null: it is not a regular file"},
      {"/etc/passwd", "/etc/passwd: it is not a shared object (ELF, x86-64)"},
      {"/bin/ls", "/bin/ls: it is a program, no shared object"},
      {"--net-version x", "--net-version x: expects a whole number from 8 to 12"},
      {"--net-version 7", "--net-version 7: expects a whole number from 8 to 12"}};
  for (const auto& [arguments, said] : refused) {
    const CommandResult result = run_command_line(meshbed_program() + " conformance " + arguments + " 2>&1");
    CHECK(result.status == 2);
    CHECK(result.output == "meshbed: " + std::string(said) + "\n");
  }
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

}  // namespace conformance_test
