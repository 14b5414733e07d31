// A run's records against its own summary: what monitoring tools would add up is what the run says of itself.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "plugin/base/deadline.h"
#include "testbed/base/files.h"
#include "testbed/result/zernel/metrics.h"
#include "tests/support/command.h"
#include "tests/support/free_address.h"

namespace telemetry_test {

using namespace meshbed::testbed;
using namespace meshbed::test;
using nlohmann::json;

namespace {

constexpr std::uint64_t kFirst_ns = 1'000'000'000'000;  // the ranks' CLOCK_MONOTONIC when the simulation starts

struct Run {
  std::string folder;  // zernel/ inspector/ metrics.prom
  json summary{};
  zernel::Streams streams{};
};

CommandResult command(const std::string& words) { return run_command_line(meshbed_program() + " " + words); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Run run(const std::string& name, const std::string& scenario, const std::string& words = "") {
  Run done{.folder = scratch_folder(name)};
  const CommandResult result = command(fmt::format(
      "run {0} --json --no-trace --results '{1}/results' --zernel-out '{1}/zernel' --prom-out "
      "'{1}/metrics.prom' --inspector-out '{1}/inspector' --set expect.max_over_bound=1000 {2} 2> /dev/null",
      scenario_file(scenario), done.folder, words));
  REQUIRE_MESSAGE(result.status == 0, scenario, " ", words, ": ", result.output);
  done.summary = json::parse(result.output);
  zernel::read_streams(done.streams, done.folder + "/zernel", std::nullopt);
  return done;
}

/// The mean time of the timed iterations, from their first start to their last end, as the records have it.
double mean_time_ns(const Run& done) {
  const auto ranks = done.summary.at("ranks").get<std::size_t>();
  const auto warmup = done.summary.at("warmup_iterations").get<std::size_t>();
  std::map<std::uint32_t, std::size_t> calls;  // by rank: they end in the order in which they are made
  std::map<std::size_t, std::pair<std::uint64_t, std::uint64_t>> spans;
  for (const zernel::NcclEvent& event : done.streams.nccl) {
    const std::size_t call = calls[event.rank]++;
    auto& [start, end] = spans.try_emplace(call, event.start_ns, 0).first->second;
    start = std::min(start, event.start_ns);
    end = std::max(end, event.start_ns + event.duration_ns);
  }
  CHECK(calls.size() == ranks);
  double sum_ns = 0;
  for (const auto& [call, span] : spans) sum_ns += call < warmup ? 0 : static_cast<double>(span.second - span.first);
  return sum_ns / static_cast<double>(spans.size() - warmup);
}

void totals_are_the_summary(const Run& done, zernel::NcclOp op) {
  const auto ranks = done.summary.at("ranks").get<std::uint64_t>();
  const auto calls =
      done.summary.at("iterations").get<std::uint64_t>() + done.summary.at("warmup_iterations").get<std::uint64_t>();
  std::uint64_t bytes = 0, before_ns = 0;
  for (const zernel::NcclEvent& event : done.streams.nccl) {
    bytes += event.size_bytes;
    CHECK(event.op == static_cast<std::uint8_t>(op));
    CHECK(event.num_ranks == ranks);
    CHECK(event.pid == 10'000 + 1'000 * event.rank);
    CHECK(event.start_ns >= kFirst_ns);
    CHECK(event.start_ns + event.duration_ns >= before_ns);
    before_ns = event.start_ns + event.duration_ns;
  }
  CHECK(done.streams.nccl.size() == ranks * calls);
  CHECK(bytes == done.summary.at("bytes").get<std::uint64_t>() * ranks * calls);
  // Records are in whole nanoseconds.
  CHECK(std::abs(mean_time_ns(done) - done.summary.at("time_ns").get<double>()) <= 1);
}

std::vector<json> inspector_lines(const Run& done, const std::string& file) {
  std::istringstream text(read_text_file(done.folder + "/inspector/" + file));
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("the triangle's records add up to its summary, and its digest is the one without them") {
  const Run done = run("telemetry_triangle", "spark-triangle");
  CHECK(done.summary.at("digest") == "be69db26c1a19e16");
  totals_are_the_summary(done, zernel::NcclOp::kAllReduce);
  CHECK(done.streams.cuda.empty());
  CHECK(done.streams.dataload.empty());
  CHECK(done.streams.gpu_memory.empty());

  // What the command reads back is what the run wrote.
  const CommandResult shown = command("zernel '" + done.folder + "/zernel'");
  CHECK(shown.status == 0);
  CHECK(shown.output == read_text_file(done.folder + "/metrics.prom"));
  CHECK(has(shown.output, "zernel_nccl_collective_duration_seconds{op=\"all_reduce\",quantile=\"0.99\"} 0.0"));
  std::istringstream page(read_text_file(MESHBED_SOURCE_DIR "/docs/telemetry.md"));
  int in_page = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("zernel_", 0) != 0) continue;
    ++in_page;
    CHECK_MESSAGE(has(shown.output, line + "\n"), line);
  }
  CHECK(in_page == 2);
  const json snapshot = json::parse(command("zernel --json '" + done.folder + "/zernel'").output);
  CHECK(snapshot.at("nccl_allreduce_p99_ms") > 0);

  const std::vector<json> lines = inspector_lines(done, "node2-pid12000.log");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("dump_stats").at("coll_records") == 2);
  const json& perf = lines[2].at("coll_perf");
  CHECK(lines[2].at("header").at("rank") == 2);
  CHECK(lines[2].at("header").at("n_ranks") == 3);
  CHECK(lines[2].at("metadata").at("hostname") == "node2");
  CHECK(perf.at("coll") == "AllReduce");
  CHECK(perf.at("coll_sn") == 2);
  CHECK(perf.at("coll_msg_size_bytes") == done.summary.at("bytes"));
  CHECK(perf.at("coll_exec_time_us").get<double>() <= done.summary.at("time_ns").get<double>() / 1e3);
  CHECK(perf.at("coll_busbw_gbs").get<double>() >= done.summary.at("busbw_GBps").get<double>() * (1 - 1e-6));
}

TEST_CASE("files are replaced as a whole: who reads an old one goes on with it, and nothing else stays beside") {
  const std::string folder = run("telemetry_replaced", "pair").folder;
  struct Reader {
    std::string path, before;
    std::ifstream file;
  };
  std::vector<Reader> readers;
  for (const char* name : {"/zernel/nccl.zev", "/metrics.prom", "/inspector/node0-pid10000.log"}) {
    readers.push_back({folder + name, read_text_file(folder + name), std::ifstream(folder + name, std::ios::binary)});
  }
  const CommandResult again = command(
      fmt::format("run {0} --no-trace --results '{1}/results' --zernel-out '{1}/zernel' --prom-out '{1}/metrics.prom' "
                  "--inspector-out '{1}/inspector' --set workload.bytes=2K --set expect.max_over_bound=1000 2>&1",
                  scenario_file("pair"), folder));
  REQUIRE_MESSAGE(again.status == 0, again.output);
  for (Reader& reader : readers) {
    CAPTURE(reader.path);
    const std::string read((std::istreambuf_iterator<char>(reader.file)), {});
    CHECK(read == reader.before);
    CHECK(read_text_file(reader.path) != reader.before);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    CHECK(entry.path().filename().string().front() != '.');
  }
}

TEST_CASE("a link stays one, and the file behind it is replaced; a pipe is written as it comes") {
  const std::string folder = scratch_folder("telemetry_links");
  write_text_file(folder + "/file", "old");
  std::filesystem::create_symlink("file", folder + "/link");
  write_text_file(folder + "/link", "new");
  CHECK(std::filesystem::is_symlink(folder + "/link"));
  CHECK(read_text_file(folder + "/file") == "new");
  const CommandResult piped = run_command_line(
      fmt::format("mkfifo '{1}/pipe'; wc -c < '{1}/pipe' & {2} run {0} --no-trace --results '{1}/results' --zernel-out "
                  "'{1}/pipe' > /dev/null 2>&1; wait",
                  scenario_file("pair"), folder, meshbed_program()));
  CHECK(std::filesystem::is_fifo(folder + "/pipe"));
  CHECK(std::stoi(piped.output) > 0);
}

TEST_CASE("a disk that fills up takes nothing from the file that was there") {
  const std::string folder = scratch_folder("telemetry_kept");
  write_text_file(folder + "/file", "old");
  {
    ReplacingFile file(folder + "/file");
    file.stream() << "half of a new";
  }
  CHECK(read_text_file(folder + "/file") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
}

TEST_CASE("Inspector logs of an earlier run of ours are replaced, and anything else's are refused before the run") {
  const std::string folder = scratch_folder("telemetry_stale");
  const auto run_into = [&](const std::string& scenario) {
    return command(fmt::format("run {0} --no-trace --results '{1}/results' --inspector-out '{1}/logs' 2>&1 > /dev/null",
                               scenario_file(scenario), folder));
  };
  CHECK(run_into("ring4").output.empty());
  const CommandResult second = run_into("pair");
  CHECK(second.status == 0);
  CHECK(second.output == "meshbed: " + folder + "/logs: 4 Inspector logs of an earlier run were replaced\n");
  std::set<std::string> logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/logs")) logs.insert(entry.path().filename());
  CHECK(logs == std::set<std::string>{"node0-pid10000.log", "node1-pid11000.log"});
  write_text_file(folder + "/logs/gpu7-pid4711.log", "{\"metadata\":{\"rec_mechanism\":\"nccl_inspector\"}}\n");
  const CommandResult third = run_into("pair");
  CHECK(third.status == 2);
  CHECK(has(third.output, "/logs/gpu7-pid4711.log is an Inspector log of something else"));
  CHECK(std::filesystem::exists(folder + "/logs/gpu7-pid4711.log"));
}

TEST_CASE("the same run writes the same bytes") {
  const Run first = run("telemetry_first", "pair"), second = run("telemetry_second", "pair");
  const std::string compared = fmt::format(
      "diff -r '{0}/zernel' '{1}/zernel' && diff -r '{0}/inspector' "
      "'{1}/inspector' && diff '{0}/metrics.prom' '{1}/metrics.prom'",
      first.folder, second.folder);
  CHECK(run_command_line(compared).status == 0);
  CHECK(first.summary.at("digest") == second.summary.at("digest"));
}

TEST_CASE("every operation that zernel knows adds up, in total or by shares") {
  const std::string many = "--set workload.bytes=48K --set workload.iterations=5 --set workload.collective=";
  totals_are_the_summary(run("telemetry_broadcast", "ring4", many + "broadcast"), zernel::NcclOp::kBroadcast);
  const Run scattered = run("telemetry_scattered", "ring4", many + "reduce_scatter");
  totals_are_the_summary(scattered, zernel::NcclOp::kReduceScatter);
  const Run gathered = run("telemetry_gathered", "ring4", many + "all_gather");
  totals_are_the_summary(gathered, zernel::NcclOp::kAllGather);
  CHECK(inspector_lines(gathered, "node0-pid10000.log").at(1).at("coll_perf").at("coll_msg_size_bytes") == 12 * 1024);

  const Run shares = run("telemetry_shares", "ring4", many + "all_gather --zernel-bytes rank --zernel-epoch 5");
  REQUIRE(shares.streams.nccl.size() == gathered.streams.nccl.size());
  for (std::size_t index = 0; index < shares.streams.nccl.size(); ++index) {
    const zernel::NcclEvent &share = shares.streams.nccl[index], &total = gathered.streams.nccl[index];
    CHECK(share.size_bytes * 4 == total.size_bytes);
    CHECK(share.start_ns - 5 == total.start_ns - kFirst_ns);
    CHECK(share.duration_ns == total.duration_ns);
  }
}

TEST_CASE("sends and receives are the Inspector's, with both ends; zernel has no number for them") {
  const Run done = run("telemetry_messages", "ring4",
                       "--set workload.bytes=48K --set workload.iterations=3 --set workload.warmup=0 "
                       "--set workload.collective=sendrecv --set workload.shift=1");
  CHECK(done.streams.nccl.empty());
  const std::vector<json> lines = inspector_lines(done, "node1-pid11000.log");
  REQUIRE(lines.size() == 7);
  CHECK(lines[0].at("dump_stats").at("p2p_records") == 6);
  CHECK(lines[1].at("p2p_perf").at("p2p") == "Send");
  CHECK(lines[1].at("p2p_perf").at("p2p_peer") == 2);
  CHECK(lines[2].at("p2p_perf").at("p2p") == "Recv");
  CHECK(lines[2].at("p2p_perf").at("p2p_peer") == 0);
  CHECK(lines[6].at("p2p_perf").at("p2p_sn") == 3);
  std::uint64_t bytes = 0;
  for (std::size_t index = 1; index < lines.size(); ++index) {
    bytes += lines[index].at("p2p_perf").at("p2p_msg_size_bytes").get<std::uint64_t>();
  }
  CHECK(bytes == 6 * done.summary.at("bytes").get<std::uint64_t>());
}

TEST_CASE("ranks that wait for a late one at the barrier are in dist_sync, to the nanosecond") {
  const Run done = run("telemetry_late", "pair",
                       "--set workload.bytes=4K --set workload.warmup=0 --set workload.iterations=2 "
                       "--set workload.collective=broadcast --set topology.latency=3us");
  // A broadcast's root is done before the other rank is: it waits for it.
  REQUIRE(!done.streams.dist_sync.empty());
  for (const zernel::DistSyncEvent& event : done.streams.dist_sync) {
    CHECK(event.wait_ns > 1'000);
    CHECK(event.tid / 1'000 == event.pid / 1'000);
    CHECK(event.timestamp_ns - event.wait_ns >= kFirst_ns);
  }
  // The wait ends when the other's call does.
  const auto ends = [&](const zernel::DistSyncEvent& wait) {
    return std::any_of(done.streams.nccl.begin(), done.streams.nccl.end(), [&](const zernel::NcclEvent& call) {
      return call.pid != wait.pid && call.start_ns + call.duration_ns == wait.timestamp_ns;
    });
  };
  CHECK(std::any_of(done.streams.dist_sync.begin(), done.streams.dist_sync.end(), ends));
}

TEST_CASE("enqueue: the time inside the call that starts the work, which costs nothing in virtual time") {
  const std::string words = "--set workload.bytes=1M --set workload.warmup=1";
  const Run completion = run("telemetry_completion", "ring4", words);
  const Run enqueue = run("telemetry_enqueue", "ring4", words + " --zernel-duration enqueue");
  REQUIRE(enqueue.streams.nccl.size() == completion.streams.nccl.size());
  for (const zernel::NcclEvent& event : enqueue.streams.nccl) CHECK(event.duration_ns == 0);
  for (const zernel::NcclEvent& event : completion.streams.nccl) CHECK(event.duration_ns > 1'000);
  CHECK(enqueue.summary.at("wrong") == 0);
  CHECK(enqueue.summary.at("time_ns").get<double>() ==
        doctest::Approx(completion.summary.at("time_ns").get<double>()).epsilon(0.01));
}

TEST_CASE("what cannot be written, read or meant is one line and status 2, before anything runs") {
  const std::string folder = scratch_folder("telemetry_refused");
  write_text_file(folder + "/file", "");
  const std::string begin = "run " + scenario_file("pair") + " --results '" + folder + "/results' ";
  const auto refused = [&](const std::string& words, const std::string& part) {
    const CommandResult result = command(words + " 2>&1");
    CHECK_MESSAGE(result.status == 2, words);
    CHECK_MESSAGE(has(result.output, part), words, ": ", result.output);
    CHECK_MESSAGE(std::count(result.output.begin(), result.output.end(), '\n') == 1, words);
  };
  refused(begin + "--zernel-out " + folder + "/file/below", "file/below: Not a directory; name a folder that you may");
  refused(begin + "--prom-out " + folder, "cannot write to " + folder + ": Is a directory; name a file that you may");
  refused(begin + "--inspector-out " + folder + "/file", folder + "/file: ");
  refused(begin + "--zernel-out " + folder + "/x --zernel-duration later",
          "--zernel-duration later: there is no such duration; accepted: completion, enqueue");
  refused(begin + "--zernel-out " + folder + "/x --zernel-bytes all", "accepted: total, rank");
  refused(begin + "--zernel-out " + folder + "/x --zernel-epoch -1", "--zernel-epoch");
  refused(begin + "--zernel-bytes rank", "add --zernel-out or --prom-out");
  for (const char* world : {"emu", "metal"}) {
    refused(fmt::format("{}--world {} --zernel-out {}/x --zernel-epoch 5", begin, world, folder),
            fmt::format("--zernel-epoch 5: the records of --world {} have the machines' own clocks", world));
  }
  refused(begin + "--zernel-out " + folder + "/file", "/file: this file is there, and no .zev file; name a folder");
  refused(begin + "--prom-out " + folder + "/new/", "cannot write to " + folder + "/new/: Is a directory");
  refused(begin + "--zernel-out " + folder + "/a.zev --prom-out " + folder + "/a.zev", "one would replace the other");
  CHECK(!std::filesystem::exists(folder + "/results"));
  refused("zernel", "zernel");
  refused("zernel " + folder + "/none.zev", "/none.zev: no such file or folder; meshbed run SCENARIO --zernel-out");
  refused("zernel " + folder + "/file", "/file: the name does not say which stream it holds");
  refused("zernel --stream tea " + folder + "/file", "--stream tea: there is no such stream; accepted: nccl, gpu_mem");
}

TEST_CASE("two ranks of metal tell the same of their calls: every record of both, on the machine's own clock") {
  const std::string folder = scratch_folder("telemetry_metal");
  write_text_file(folder + "/pair.toml",
                  "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nkind = \"collective\"\ncollective = "
                  "\"all_gather\"\nbytes = 65536\niterations = 3\nwarmup = 1\nnet_plugin = \"" +
                      std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so\"\n");
  const auto now_ns = [] { return static_cast<std::uint64_t>(meshbed::now_ns()); };
  const std::uint64_t before_ns = now_ns();
  const std::string rank = fmt::format(
      "{0} run --world metal '{1}/pair.toml' --results '{1}' --time-limit 60 --json --zernel-out '{1}/zernel' "
      "--prom-out "
      "'{1}/metrics.prom' --inspector-out '{1}/inspector'",
      meshbed_program(), folder);
  const std::string address = free_address();
  const std::string place =
      fmt::format("export MASTER_ADDR=127.0.0.1 MASTER_PORT={} WORLD_SIZE=2 NCCL_MESH_DISABLE_RDMA=1; ",
                  address.substr(address.rfind(':') + 1));
  const CommandResult ran = run_command_line(place + "RANK=1 " + rank + " 2> '" + folder + "/said' & RANK=0 " + rank +
                                             " 2>> '" + folder + "/said'; status=$?; wait; exit $status");
  const std::string said = read_text_file(folder + "/said");
  if (has(said, "over TCP, by no interface")) {
    MESSAGE("skipped: the plugin sends nothing over the loopback, and this machine has no other interface");
    return;
  }
  REQUIRE_MESSAGE(ran.status == 0, said);
  Run done{.folder = folder, .summary = json::parse(ran.output)};
  zernel::read_streams(done.streams, folder + "/zernel", std::nullopt);
  REQUIRE(done.streams.nccl.size() == 2 * 4);
  std::map<std::uint32_t, std::set<std::uint32_t>> processes;  // by rank
  std::uint64_t last_ns = 0;
  for (const zernel::NcclEvent& event : done.streams.nccl) {
    processes[event.rank].insert(event.pid);
    CHECK(event.num_ranks == 2);
    CHECK(event.size_bytes == done.summary.at("bytes"));
    CHECK(event.start_ns > before_ns);
    CHECK(event.start_ns + event.duration_ns >= last_ns);
    last_ns = event.start_ns + event.duration_ns;
  }
  CHECK(last_ns < now_ns());
  // Wall time of a machine that may be busy: the figures are of one order, and no closer is promised.
  CHECK(mean_time_ns(done) < 10 * done.summary.at("time_ns").get<double>());
  CHECK(mean_time_ns(done) > 0);
  REQUIRE(processes.size() == 2);
  for (const auto& [number, pids] : processes) {
    CAPTURE(number);
    REQUIRE(pids.size() == 1);
    const std::vector<json> lines = inspector_lines(done, fmt::format("node{}-pid{}.log", number, *pids.begin()));
    REQUIRE(lines.size() == 5);
    CHECK(lines[4].at("header").at("rank") == number);
    CHECK(lines[4].at("coll_perf").at("coll") == "AllGather");
  }
  CHECK(command("zernel '" + folder + "/zernel'").output == read_text_file(folder + "/metrics.prom"));
}

TEST_CASE("what workloads take of GPU memory is in gpu_mem, and given back at the end") {
  const std::string folder = scratch_folder("telemetry_gpu");
  write_text_file(folder + "/gpu.toml",
                  "[topology]\nkind = \"line\"\nnodes = 2\ngpu_direct = \"dma-buf\"\n"
                  "[workload]\nkind = \"reconnect\"\nbytes = 8192\niterations = 1\nreceives = 1\nmemory = \"gpu\"\n");
  const CommandResult result =
      command(fmt::format("run '{0}/gpu.toml' --results '{0}' --zernel-out '{0}/zernel' 2>&1", folder));
  REQUIRE_MESSAGE(result.status == 0, result.output);
  zernel::Streams streams;
  zernel::read_streams(streams, folder + "/zernel", std::nullopt);
  CHECK(streams.nccl.empty());
  std::map<std::uint32_t, std::uint64_t> held;  // by process
  std::uint64_t taken = 0;
  for (const zernel::GpuMemoryEvent& event : streams.gpu_memory) {
    CHECK((event.alloc_bytes == 0) != (event.free_bytes == 0));
    CHECK((held[event.pid] += event.alloc_bytes - event.free_bytes) == event.total_usage);
    taken += event.alloc_bytes;
  }
  REQUIRE(held.size() == 2);
  for (const auto& [pid, bytes] : held) CHECK(bytes == 0);
  CHECK(taken >= 2 * 2 * 8192);  // each rank's outgoing and incoming buffer, in whole pages
}

TEST_CASE("a disk that is full when the run is over costs the telemetry, not the results") {
  const std::string folder = scratch_folder("telemetry_full");
  const CommandResult result = command(
      fmt::format("run {} --results '{}' --prom-out /dev/full 2>&1 > /dev/null", scenario_file("pair"), folder));
  CHECK(result.status == 2);
  CHECK(has(result.output, "meshbed: cannot write /dev/full: No space left on device\n"));
  CHECK(std::filesystem::exists(folder + "/pair/sim/summary.json"));
}

TEST_CASE("a run that fails still exports what its ranks had done") {
  const std::string folder = scratch_folder("telemetry_failed");
  const CommandResult failed = command(fmt::format("run {} --results '{}' --zernel-out '{}/zernel' > /dev/null 2>&1",
                                                   scenario_file("pair-cable-pulled"), folder, folder));
  CHECK(failed.status == 0);  // as the scenario expects
  zernel::Streams streams;
  zernel::read_streams(streams, folder + "/zernel", std::nullopt);
  CHECK(streams.nccl.size() == 2);  // of the first iteration: the one that lost its cable has no end
  // Nor does a rank that never comes back keep what it did, in the warm-up.
  const CommandResult late = command(
      fmt::format("run {} --results '{}' --set workload.warmup=1000 --set limits.time=20ms --zernel-out '{}/late' 2>&1",
                  scenario_file("pair"), folder, folder));
  CHECK_MESSAGE(late.status == 3, late.output);
  zernel::Streams warm;
  zernel::read_streams(warm, folder + "/late", std::nullopt);
  CHECK(!warm.nccl.empty());
}

}  // namespace telemetry_test
