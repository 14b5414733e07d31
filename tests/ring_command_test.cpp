// meshbed ring by the command line.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace ring_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult ring(const std::string& words) {
  return run_command_line(meshbed_program() + " ring " + words + " 2>&1");
}

}  // namespace

TEST_CASE("ring policy prints each field of the recommendation, as text and as JSON") {
  const std::string dense =
      "policy --queue 131072 --workers 256 --max-x 256 --nodes 32768 --edges 500000 --density 7500 --hot-windows 4";
  const json launch = json::parse(ring(dense + " --json").output);
  CHECK(launch == json{{"topology", "fused-dense"},
                       {"mode", "jit"},
                       {"queue_pressure", "balanced"},
                       {"worker_groups", 256},
                       {"workgroup_size_x", 256},
                       {"slot_count", 131072},
                       {"grid_x", 256},
                       {"lanes", 65536},
                       {"hit_capacity", 262144},
                       {"peak_device_bytes", 4194304},
                       {"frontier_density_bps", 7500},
                       {"memory_pressure_bps", 0},
                       {"promote_hot_opcodes", false},
                       {"promote_hot_windows", true},
                       {"age_priority_work", false}});
  const CommandResult text = ring(dense);
  CHECK(text.status == 0);
  for (auto field = launch.begin(); field != launch.end(); ++field) {
    const std::string& name = field.key();
    const std::string shown = field->is_string() ? field->get<std::string>() : field->dump();
    CHECK_MESSAGE(text.output.find(name + std::string(22 - name.size(), ' ') + shown + "\n") != std::string::npos,
                  name);
  }
}

TEST_CASE("ring policy: each field of a request has its option") {
  const auto told = [](const std::string& words, const std::string& field) {
    return json::parse(ring("policy --queue 16384 --json " + words).output).at(field).dump();
  };
  CHECK(told("--workers 128 --max-x 100", "workgroup_size_x") == "100");
  CHECK(told("--max-groups 7", "worker_groups") == "7");
  CHECK(told("--workers 0 --max-groups 300 --max-invocations 4096", "worker_groups") == "64");
  CHECK(told("--hit-capacity 77", "hit_capacity") == "77");
  CHECK(told("--hits-per-item 3", "hit_capacity") == "98304");
  CHECK(told("--hot-opcodes 8", "promote_hot_opcodes") == "true");
  CHECK(told("--requeues 1", "queue_pressure") == "\"saturated\"");
  CHECK(told("--age 32", "age_priority_work") == "true");
  CHECK(told("--workers 128 --memory-pressure 8500", "worker_groups") == "96");
  CHECK(told("--resident 900000 --budget 1000000 --hit-capacity 1", "memory_pressure_bps") == "9000");
  CHECK(told("--density 600", "topology") == "\"hybrid-frontier\"");
  CHECK(told("--density 600 --previous sparse-frontier", "topology") == "\"sparse-frontier\"");
}

TEST_CASE("ring: what it cannot do is one line, and status 2") {
  const auto refused = [](const std::string& words, const std::string& wanted) {
    const CommandResult result = ring(words);
    CHECK_MESSAGE(result.status == 2, words);
    CHECK_MESSAGE(result.output.find(wanted) != std::string::npos, result.output);
    CHECK_MESSAGE(result.output.find('\n') == result.output.size() - 1, result.output);
  };
  refused("", "usage: meshbed ring dump|check|replay|program|import|tune|bench|policy|quirks [options]");
  refused("polcy", "there is no \"polcy\"");
  refused("policy --queue -1", "--queue -1: expects a whole number from 0 to 4294967295");
  refused("policy --density 10001", "--density 10001: expects a whole number from 0 to 10000");
  refused("policy --previous dense", "accepted: empty, memory-constrained, sparse-frontier");
  CHECK(ring("policy --queue 300 --workers 0").status == 0);
  refused("policy --max-groups 0", "max workgroups per dimension is 0");
  refused("policy --queue 1024 --workers 64 --hits-per-item 4 --resident 1024 --budget 65536",
          "needs 132096 bytes of device memory, 65536 are its budget");
}

TEST_CASE("ring dump writes example files and prints each buffer; check and replay find nothing wrong with them") {
  const std::string folder = scratch_folder("ring");
  REQUIRE(ring("dump --example " + folder).status == 0);
  const std::string files =
      "--control " + folder + "/control.bin --debug " + folder + "/debug.bin --io " + folder + "/io.bin ";
  const std::string slots = "--ring " + folder + "/ring.bin ";
  const json dump = json::parse(ring("dump --json " + slots + files).output);
  CHECK(dump.at("control").at("done_count") == 1);
  CHECK(dump.at("ring").at("not_empty").size() == 4);
  CHECK(dump.at("ring").at("not_empty")[0].at("status") == "DONE");
  CHECK(dump.at("ring").at("not_empty")[1].at("opcode") == "user 0xf101");
  CHECK(dump.at("ring").at("not_empty")[2].at("packed").at("ops").size() == 2);
  CHECK(dump.at("debug").at("records") == json::parse("[[1, 2, 3, 16]]"));
  CHECK(dump.at("io").at("not_empty")[0].at("tag") == 42);
  // A user's opcode that this project's kernels have as PUT: both are said.
  const std::string own = folder + "/own.bin";
  run_command_line("cp " + folder + "/ring.bin " + own + " && printf '\\020\\000' | dd of=" + own +
                   " bs=1 seek=68 conv=notrunc 2>/dev/null");
  CHECK(json::parse(ring("dump --json --ring " + own).output).at("ring").at("not_empty")[1].at("opcode") ==
        "user 0x10 (PUT)");
  const CommandResult text = ring("dump " + slots + files);
  CHECK(text.status == 0);
  CHECK(text.output.find("  done_count              1\n") != std::string::npos);
  const CommandResult check = ring("check " + folder + "/life.ring " + slots + files);
  CHECK(check.status == 0);
  CHECK(check.output == "ok: 5 snapshots, every step legal\n");
  const json replay = json::parse(ring("replay --json " + folder + "/life.ring").output);
  REQUIRE(replay.at("snapshots").size() == 5);
  CHECK(replay.at("ok") == true);
  CHECK(replay.at("snapshots")[3].at("verdict") == "progress");
  CHECK(replay.at("snapshots")[4].at("verdict") == "suspected-stall");
  CHECK(ring("replay " + folder + "/life.ring").status == 0);
}

TEST_CASE("ring dump: the counters of the specification's golden ring, its windows and its sketch") {
  const std::string folder = scratch_folder("ring_golden");
  // [REQUEUE, DONE, PUBLISHED, EMPTY], done count 7, tenant fairness {3, 9}, priority fairness 5.
  std::vector<std::uint32_t> control(160), slots(4 * 16);
  control[1] = 7;
  control[2] = 3;
  control[64] = 3;
  control[65] = 9;
  control[136] = 5;
  slots[0] = 6;
  slots[16] = 3;
  slots[32] = 1;
  for (const std::size_t slot : {0, 16, 32}) {
    slots[slot + 1] = 0xF101;
    slots[slot + 2] = 3;
    slots[slot + 4] = 7;
  }
  const auto write = [&](const char* name, const std::vector<std::uint32_t>& words) {
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
  };
  write("control.bin", control);
  write("ring.bin", slots);
  const json dump = json::parse(
      ring("dump " + folder + "/ring.bin --control " + folder + "/control.bin --windows 0xF101 --abi 2026-05 --json")
          .output);
  CHECK(dump.at("counters") == json{{"total_slots", 4},
                                    {"queue_depth", 2},
                                    {"gpu_idle_slots", 1},
                                    {"gpu_idle_ppm", 250000},
                                    {"frontier_density_bps", 5000},
                                    {"occupancy_proxy_bps", 7500},
                                    {"drained_slots", 7},
                                    {"unreclaimed_done_slots", 1},
                                    {"tenant_fairness_total", 12},
                                    {"tenant_fairness_skew", 6},
                                    {"priority_fairness_total", 5},
                                    {"requeue_slots", 1},
                                    {"fault_slots", 0}});
  const json& window = dump.at("windows").at("list").at(0);
  CHECK(dump.at("windows").at("list").size() == 1);
  CHECK(window.at("ticket") == 7);
  CHECK(window.at("tenant") == 3);
  CHECK(window.at("required") == 3);
  CHECK(window.at("active") == true);
  CHECK(dump.at("sketch").at("active_slots") == 2);
  CHECK(dump.at("sketch").at("ring_opcode").at("user 0xf101") == 3);
}

TEST_CASE("ring check names the first illegal step, and status 1 says that something is broken") {
  const std::string folder = scratch_folder("ring_broken");
  REQUIRE(ring("dump --example " + folder).status == 0);
  // Slot 1 of the last snapshot, which a handler has put back, is EMPTY.
  const int last_ring = 24 + 5 * (8 + 656 + 512) - 512;
  run_command_line("printf '\\000' | dd of=" + folder +
                   "/life.ring bs=1 conv=notrunc seek=" + std::to_string(last_ring + 64) + " 2>/dev/null");
  for (const char* command : {"check ", "replay "}) {
    const CommandResult result = ring(command + folder + "/life.ring");
    CHECK(result.status == 1);
    CHECK_MESSAGE(result.output.find("life.ring: step 4: slot 1: CLAIMED -> EMPTY: no legal way leads there\n") !=
                      std::string::npos,
                  result.output);
  }
}

TEST_CASE("ring replay waits for as long as its threshold before it suspects a stall") {
  const std::string folder = scratch_folder("ring_threshold");
  REQUIRE(ring("dump --example " + folder).status == 0);
  const auto verdicts = [&](const std::string& options) {
    std::vector<std::string> all;
    const json replay = json::parse(ring("replay --json " + folder + "/life.ring" + options).output);
    for (const json& row : replay.at("snapshots")) {
      all.push_back(row.at("verdict"));
    }
    return all;
  };
  // A snapshot each microsecond.
  const std::vector<std::string> at_once = verdicts("");
  CHECK(std::count(at_once.begin(), at_once.end(), "suspected-stall") > 0);
  const std::vector<std::string> patient = verdicts(" --threshold 1s");
  CHECK(std::count(patient.begin(), patient.end(), "suspected-stall") == 0);
  CHECK(std::count(patient.begin(), patient.end(), "waiting") ==
        std::count(at_once.begin(), at_once.end(), "suspected-stall"));
  CHECK(ring("replay " + folder + "/life.ring --threshold soon").status == 2);
}

TEST_CASE("ring dump, check and replay: bad input is one line with its place, and status 2") {
  const std::string folder = scratch_folder("ring_refused");
  run_command_line("head -c 512 /dev/zero > " + folder + "/old.bin; head -c 100 /dev/zero > " + folder + "/odd.bin");
  const auto refused = [&](const std::string& words, const std::string& wanted) {
    const CommandResult result = ring(words);
    CHECK_MESSAGE(result.status == 2, words);
    CHECK_MESSAGE(result.output.find(wanted) != std::string::npos, result.output);
  };
  refused("dump", "give at least one of RING, --control");
  refused("dump --windows 7", "--windows needs RING and --control FILE");
  refused("dump --windows 7,x " + folder + "/odd.bin", "--windows 7,x: \"x\" is not an opcode");
  refused("check", "give a recording, or at least one of");
  refused("replay", "give a recording");
  refused("dump --abi 2026-06 --ring x", "--abi 2026-06");
  refused("dump --mode lax --ring x", "--mode lax");
  refused("dump --ring " + folder + "/none.bin", "none.bin");
  refused("dump " + folder, "cannot read " + folder + ": it is a folder");
  refused("dump /dev/zero", "/dev/zero: not a file: a device or pipe may have no end");
  refused("dump --ring " + folder + "/odd.bin", "odd.bin: a ring of 100 bytes: not whole slots of 64 bytes");
  refused("dump --control " + folder + "/old.bin", "WARN: a control buffer of 512 bytes speaks for --abi 2026-04");
  CHECK(ring("dump --abi 2026-04 --control " + folder + "/old.bin").status == 0);
  refused("replay " + folder + "/odd.bin", "this is no recording of a ring");
}

TEST_CASE("ring bench measures both rings and the hand-over; ring quirks names each") {
  const json bench = json::parse(
      ring("bench --slots 2048 --repetitions 1 --hand-overs 50 --interpreted 2048 --items 40 --ranks-most 2 --json")
          .output);
  CHECK(bench.at("decode").size() == 2);
  CHECK(bench.at("decode")[1].at("decode_gigabytes_per_cpu_s") > 0);
  CHECK(bench.at("decode")[1].at("scan_gigabytes_per_cpu_s") > 0);
  REQUIRE(bench.at("interpreter").size() == 4);
  for (const json& row : bench.at("interpreter")) CHECK(row.at("slots") == 2048);
  const json& queues = bench.at("simulated").at("queues");
  REQUIRE(queues.size() == 4);  // one rank: one ring and four, of 64 slots and of 1024
  for (const json& row : queues) {
    CHECK(row.at("slots") == 40);
    CHECK(row.at("virtual_ps") >= 40'000'000);
  }
  REQUIRE(bench.at("simulated").at("mesh").size() == 1);
  CHECK(bench.at("simulated").at("mesh")[0].at("ranks") == 2);
  CHECK(bench.at("simulated").at("mesh")[0].at("slots") > 0);
  CHECK(bench.at("publish_claim_done").at("p99_ns") >= bench.at("publish_claim_done").at("median_ns"));
  CHECK(bench.at("provenance").at("cpu").is_string());
  CHECK(json::parse(ring("quirks --json").output).size() == 15);
  CHECK(ring("quirks").output.find("watchdog-wrap\n  strict  ") != std::string::npos);
}

TEST_CASE("ring check refuses empty files and names what no host and no kernel writes") {
  const std::string folder = scratch_folder("ring-garbage");
  REQUIRE(ring("dump --example " + folder).status == 0);
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
  };
  write("empty", "");
  for (const char* option : {"--control", "--ring", "--debug", "--io"}) {
    CAPTURE(option);
    const CommandResult empty = ring(std::string("check ") + option + " " + folder + "/empty");
    CHECK(empty.status == 2);
    CHECK(empty.output.find("empty: the file is empty, not a ") != std::string::npos);
  }
  write("control", std::string(640, '\x5a'));
  const CommandResult control = ring("check --control " + folder + "/control");
  CHECK(control.status == 1);
  CHECK(control.output.find("word 2 (TENANT_BASE) is 1515870810; hosts write 3") != std::string::npos);
  write("io", std::string(2048, '\x5a'));
  const CommandResult io = ring("check --io " + folder + "/io");
  CHECK(io.status == 1);
  CHECK(io.output.find("io: entry 0: operation 1515870810") != std::string::npos);
  CHECK(ring("check --control " + folder + "/control.bin --ring " + folder + "/ring.bin --io " + folder + "/io.bin")
            .status == 0);
}

TEST_CASE("a recording says its ABI: another one on the command line is refused, and so is one without a snapshot") {
  const std::string folder = scratch_folder("ring-abi");
  REQUIRE(ring("dump --example " + folder).status == 0);
  for (const char* command : {"check ", "replay "}) {
    CAPTURE(command);
    const CommandResult other = ring(command + folder + "/life.ring --abi 2026-04");
    CHECK(other.status == 2);
    CHECK(other.output.find("a recording of ABI 2026-05, and --abi says 2026-04") != std::string::npos);
    CHECK(ring(command + folder + "/life.ring --abi 2026-05").status == 0);
    std::string head(24, '\0');
    std::ifstream(folder + "/life.ring", std::ios::binary).read(head.data(), 24);
    std::ofstream(folder + "/none.ring", std::ios::binary) << head;
    const CommandResult none = ring(command + folder + "/none.ring");
    CHECK(none.status == 2);
    CHECK(none.output.find("a recording without a snapshot") != std::string::npos);
  }
}

}  // namespace ring_command_test
