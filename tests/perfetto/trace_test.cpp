// Runs' traces in Perfetto's own format: the schema decodes every packet, and what a viewer makes of them holds.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/dropin/programs.h"
#include "tests/perfetto/decoded.h"
#include "tests/support/command.h"

namespace trace_test {

using namespace meshbed::test;
using perfetto::protos::TrackEvent;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct TracedRun {
  DecodedTrace trace;
  nlohmann::json summary;
  std::string file;                                          // the trace's bytes
  std::vector<std::map<std::string, std::string>> messages;  // rows of messages.csv
};

std::vector<std::map<std::string, std::string>> rows_of(const std::string& csv) {
  const auto words_of = [](const std::string& line) {
    std::vector<std::string> words;
    std::istringstream text(line);
    for (std::string word; std::getline(text, word, ',');) words.push_back(word);
    return words;
  };
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> columns = words_of(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> words = words_of(line);
    REQUIRE(words.size() == columns.size());
    auto& row = rows.emplace_back();
    for (std::size_t index = 0; index < words.size(); ++index) row[columns[index]] = words[index];
  }
  return rows;
}

TracedRun traced_run(const std::string& scenario, const std::string& options = "") {
  const std::string folder = scratch_folder("perfetto-" + scenario);
  const std::string file = folder + "/run.pftrace";
  const CommandResult run = run_command_line(meshbed_program() + " run " + scenario_file(scenario) + " " + options +
                                             " --results " + folder + " --perfetto-out " + file + " 2>&1");
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  TracedRun traced;
  traced.file = content_of(file);
  traced.trace = decode_trace(traced.file);
  traced.summary = nlohmann::json::parse(content_of(folder + "/" + scenario + "/sim/summary.json"));
  traced.messages = rows_of(content_of(folder + "/" + scenario + "/sim/messages.csv"));
  return traced;
}

/// Slices end in the opposite order of their begin, on each track, and time never goes back.
void check_nesting(const DecodedTrace& trace) {
  std::map<std::uint64_t, int> open;
  std::uint64_t last_ns = 0;
  int broken = 0;
  for (const DecodedEvent& event : trace.events) {
    broken += event.at_ns < last_ns;
    last_ns = event.at_ns;
    if (event.type == TrackEvent::TYPE_SLICE_BEGIN) {
      ++open[event.track];
      broken += event.name.empty() || event.category.empty();
    }
    if (event.type == TrackEvent::TYPE_SLICE_END) broken += --open[event.track] < 0;
  }
  for (const auto& [track, slices] : open) broken += slices != 0;
  CHECK(broken == 0);
}

/// Each flow that ends has begun once, at its isend, and ends once, at an irecv, each step no earlier than the one
/// before; as many do as messages were delivered.
void check_flows(const TracedRun& run) {
  std::map<std::uint64_t, std::string> seen;
  int broken = 0;
  std::size_t ended = 0;
  for (const DecodedEvent& event : run.trace.events) {  // by time: check_nesting()
    for (const std::uint64_t id : event.flows) seen[id] += event.category + " ";
    for (const std::uint64_t id : event.ended_flows) {
      broken += seen[id] != "isend wire " || event.category != "irecv";
      seen[id] += "ended ";
      ++ended;
    }
  }
  const auto delivered = std::count_if(run.messages.begin(), run.messages.end(), [](const auto& row) {
    const long long started = std::stoll(row.at("started_ps"));
    return started >= std::stoll(row.at("posted_ps")) && std::stoll(row.at("delivered_ps")) >= started;
  });
  CHECK(broken == 0);
  CHECK(delivered > 0);
  CHECK(ended == static_cast<std::size_t>(delivered));
}

/// What a counter's track of `name` has below the track of a link: its samples, by that link's name in summary.json.
std::map<std::string, std::vector<std::pair<std::uint64_t, double>>> counters(const DecodedTrace& trace,
                                                                              const std::string& name) {
  std::map<std::string, std::vector<std::pair<std::uint64_t, double>>> samples;
  for (const DecodedEvent& event : trace.events) {
    const DecodedTrack& track = trace.tracks.at(event.track);
    if (event.type != TrackEvent::TYPE_COUNTER || track.name != name) continue;
    std::string link = trace.tracks.at(track.parent).name;  // "cable a > b"
    link.erase(0, link.find(' ') + 1);
    link.replace(link.find(" > "), 3, ">");
    samples[link].emplace_back(event.at_ns, event.value);
  }
  return samples;
}

void check_counters(const TracedRun& run) {
  const auto used = counters(run.trace, "utilisation");
  const auto depths = counters(run.trace, "queue depth");
  std::size_t links = 0;
  for (const auto& link : run.summary.at("links")) {
    const auto wire_bytes = link.at("wire_bytes").get<double>();
    if (wire_bytes == 0) continue;
    const auto name = link.at("name").get<std::string>();
    CAPTURE(name);
    ++links;
    REQUIRE(used.count(name) == 1);
    REQUIRE(depths.count(name) == 1);
    double carried = 0, most = 0;
    const auto& samples = used.at(name);
    for (std::size_t index = 0; index < samples.size(); ++index) {
      CHECK(samples[index].second >= 0);
      CHECK(samples[index].second <= 100);
      most = std::max(most, samples[index].second);
      if (index + 1 == samples.size()) continue;
      const double seconds = static_cast<double>(samples[index + 1].first - samples[index].first) * 1e-9;
      carried += samples[index].second / 100 * link.at("rate_bps").get<double>() / 8 * seconds;
    }
    CHECK(std::abs(carried - wire_bytes) <= 1 + 1e-9 * wire_bytes);
    CHECK(most > 0);
    CHECK(samples.back().second == 0);
    double deepest = 0;
    for (const auto& [at_ns, depth] : depths.at(name)) {
      CHECK(depth >= 0);
      deepest = std::max(deepest, depth);
    }
    CHECK(deepest >= 1);
    CHECK(depths.at(name).back().second == 0);
  }
  CHECK(links > 0);
  CHECK(used.size() == links);
}

/// Processes are the nodes, from pid 1.
void check_processes(const TracedRun& run, int nodes) {
  std::set<int> pids;
  for (const auto& [uuid, track] : run.trace.tracks) {
    if (track.pid == 0) continue;
    pids.insert(track.pid);
    CHECK(track.name == "node" + std::to_string(track.pid - 1));
  }
  CHECK(static_cast<int>(pids.size()) == nodes);
  CHECK(*pids.begin() == 1);
  CHECK(*pids.rbegin() == nodes);
}

void check_trace(const TracedRun& run, int nodes) {
  CHECK_MESSAGE(run.trace.problems.empty(), (run.trace.problems.empty() ? "" : run.trace.problems.front()));
  check_processes(run, nodes);
  check_nesting(run.trace);
  check_flows(run);
  check_counters(run);
  REQUIRE_FALSE(run.trace.events.empty());
  const double event_bytes = static_cast<double>(run.trace.bytes) / static_cast<double>(run.trace.events.size());
  MESSAGE(run.trace.events.size(), " events of ", event_bytes, " bytes on average");
  CHECK(event_bytes <= 100);
}

/// The tracks that have events, by their way from the process.
std::set<std::string> tracks_with_events(const DecodedTrace& trace) {
  std::set<std::string> paths;
  for (const DecodedEvent& event : trace.events) paths.insert(trace.path_of(event.track));
  return paths;
}

const DecodedEvent& first_of(const DecodedTrace& trace, const std::string& category) {
  const auto found = std::find_if(trace.events.begin(), trace.events.end(),
                                  [&](const DecodedEvent& event) { return event.category == category; });
  REQUIRE(found != trace.events.end());
  return *found;
}

}  // namespace

TEST_CASE("a triangle's trace: ranks, NICs and cables, calls with their plan, flows, and the same bytes each time") {
  const TracedRun run = traced_run("spark-triangle");
  check_trace(run, 3);
  const std::set<std::string> paths = tracks_with_events(run.trace);
  for (int node = 0; node < 3; ++node) {
    const std::string process = "node" + std::to_string(node) + " / ";
    for (const char* track : {"calls", "isend", "irecv"}) {
      CHECK(paths.count(process + "rank " + std::to_string(node) + " / " + track) == 1);
    }
    const auto below = [&](const std::string& start, const std::string& end) {
      return std::count_if(paths.begin(), paths.end(), [&](const std::string& path) {
        return path.rfind(process + start, 0) == 0 && path.ends_with(end);
      });
    };
    CHECK(below("NIC ", " / wire") >= 1);
    CHECK(below("cable ", " / utilisation") == below("cable ", " / queue depth"));
    CHECK(below("cable ", " / utilisation") == 2);
  }
  const DecodedEvent& call = first_of(run.trace, "collective");
  CHECK(call.name == run.summary.at("collective").get<std::string>());
  CHECK(call.arguments.count("algorithm") == 1);
  CHECK(call.arguments.at("size") == std::to_string(run.summary.at("bytes").get<std::uint64_t>()));
  const DecodedEvent& send = first_of(run.trace, "isend");
  for (const char* argument : {"size", "path", "qp", "sequence"}) CHECK(send.arguments.count(argument) == 1);
  CHECK(traced_run("spark-triangle").file == run.file);
}

TEST_CASE("a ring that loses a cable: its trace holds, with the fault on a track of its own") {
  const TracedRun run = traced_run("ring4-degraded");
  check_trace(run, 4);
  const DecodedEvent& fault = first_of(run.trace, "fault");
  CHECK(fault.type == TrackEvent::TYPE_INSTANT);
  CHECK(run.trace.path_of(fault.track) == "faults");
  CHECK(fault.name.find("node1") != std::string::npos);
}

TEST_CASE("the fluid fabric's trace: its counters, too, are what the links carried") {
  check_trace(traced_run("ring4", "--fabric fluid"), 4);
}

TEST_CASE("a megakernel's trace has a track a slot, with what its lane did inside the slice") {
  const TracedRun run = traced_run("megakernel-ring8");
  check_trace(run, 8);
  int slots = 0;
  for (const std::string& path : tracks_with_events(run.trace)) {
    slots += path.rfind("node0 / rank 0 / ring 0 / slot ", 0) == 0;
  }
  CHECK(slots > 1);
  std::map<std::uint64_t, int> open;
  std::set<std::string> steps;
  for (const DecodedEvent& event : run.trace.events) {
    if (event.type == TrackEvent::TYPE_SLICE_BEGIN) ++open[event.track];
    if (event.type == TrackEvent::TYPE_SLICE_END) --open[event.track];
    if (event.category != "slot" || event.type != TrackEvent::TYPE_INSTANT) continue;
    CHECK(open[event.track] == 1);
    steps.insert(event.name);
  }
  for (const char* step : {"put", "signal", "wait", "run"}) CHECK(steps.count(step) == 1);
}

TEST_CASE("a collective in GPU memory: the copies of each rank's stream, with their bytes") {
  const TracedRun run = traced_run("triangle-gpu");
  CHECK(run.trace.problems.empty());
  check_nesting(run.trace);
  std::map<std::string, std::uint64_t> copied;  // by rank's process
  for (const DecodedEvent& event : run.trace.events) {
    if (event.category != "gpu") continue;
    const std::string path = run.trace.path_of(event.track);
    CHECK(path.find(" / GPU 0, stream ") != std::string::npos);
    copied[path.substr(0, path.find(" / "))] += std::stoull(event.arguments.at("bytes"));
  }
  CHECK(first_of(run.trace, "cuda").name.rfind("cu", 0) == 0);
  CHECK(copied.size() == 3);
  for (const auto& [node, bytes] : copied) CHECK(bytes >= run.summary.at("bytes").get<std::uint64_t>());
}

TEST_CASE("cuda run's trace: the program's calls, and each stream's kernels with their grid") {
  const std::string file = scratch_folder("perfetto-cuda") + "/run.pftrace";
  const CommandResult run = run_command_line(meshbed_program() + " cuda run --virtual --perfetto-out " + file + " " +
                                             MESHBED_BINARY_DIR "/bin/cuda-saxpy");
  CHECK(run.status == 0);
  const DecodedTrace trace = decode_trace(content_of(file));
  CHECK(trace.problems.empty());
  check_nesting(trace);
  const DecodedEvent& kernel = first_of(trace, "gpu");
  CHECK(trace.path_of(kernel.track).rfind("program / GPU 0, stream ", 0) == 0);
  std::set<std::string> calls, kernels;
  for (const DecodedEvent& event : trace.events) {
    if (event.category == "cuda") calls.insert(event.name);
    if (event.arguments.count("grid") != 0) kernels.insert(event.name);
  }
  CHECK(calls.count("cudaMalloc") == 1);
  CHECK(kernels.count("saxpy") == 1);
}

TEST_CASE("a program's calls of NCCL: imported, found by dlsym, of a second thread, and one that never returns") {
  const Programs programs("perfetto-nccl");
  programs.compile("c++ -pthread", "calls", R"(
#include <cstdlib>
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <unistd.h>
static ncclComm_t comm;
static float x[1024], y[2048];
static void* broadcast(void*) {
  return (void*)(long)ncclBroadcast(x, x, 512, ncclHalf, 1, comm, nullptr);
}
int main() {
  const int rank = std::atoi(std::getenv("RANK"));
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return 2;
  if (ncclAllReduce(x, x, 1024, ncclFloat, ncclSum, comm, nullptr) != ncclSuccess) return 3;
  auto* gather = (ncclResult_t(*)(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))dlsym(
      RTLD_DEFAULT, "ncclAllGather");
  if (gather == nullptr || gather(x, y, 1024, ncclFloat, comm, nullptr) != ncclSuccess) return 4;
  ncclGroupStart();
  ncclSend(x, 100, ncclInt8, 1 - rank, comm, nullptr);
  ncclRecv(y, 100, ncclInt8, 1 - rank, comm, nullptr);
  if (ncclGroupEnd() != ncclSuccess) return 5;
  pthread_t thread;
  pthread_create(&thread, nullptr, broadcast, nullptr);
  void* result = nullptr;
  pthread_join(thread, &result);
  if (result != nullptr) return 6;
  if (rank == 0) return ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, nullptr);
  usleep(1000);
  return 7;
}
)");
  const auto run = [&](const std::string& options) {
    const CommandResult result = programs.run("calls", 2, "", "", "--results . " + options);
    CAPTURE(result.output);
    CHECK(result.status == 1);  // rank 1 ends with 7 while rank 0 waits for it
    return result.output.substr(result.output.find("\ndigest "), 24);
  };
  const std::string digest = run("");
  CHECK(run("--perfetto-out run.pftrace") == digest);
  const DecodedTrace trace = decode_trace(content_of(programs.folder() + "/run.pftrace"));
  CHECK(trace.problems.empty());
  check_nesting(trace);
  std::map<std::string, std::vector<DecodedEvent>> calls;  // of rank 0, by name
  for (const DecodedEvent& event : trace.events) {
    if (event.category == "nccl" && trace.path_of(event.track).find("rank 0 / NCCL calls") != std::string::npos) {
      calls[event.name].push_back(event);
    }
  }
  using Arguments = std::map<std::string, std::string>;
  REQUIRE(calls["ncclAllReduce"].size() == 2);
  CHECK(calls["ncclAllReduce"][0].arguments == Arguments{{"count", "1024"}, {"datatype", "float"}, {"bytes", "4096"}});
  CHECK(calls["ncclAllReduce"][1].arguments.at("end") == "it did not return");
  REQUIRE(calls["ncclAllGather"].size() == 1);
  CHECK(calls["ncclAllGather"][0].arguments.at("bytes") == "4096");
  REQUIRE(calls["ncclSend"].size() == 1);
  CHECK(calls["ncclSend"][0].arguments ==
        Arguments{{"count", "100"}, {"datatype", "int8"}, {"bytes", "100"}, {"peer", "1"}});
  REQUIRE(calls["ncclBroadcast"].size() == 1);
  CHECK(calls["ncclBroadcast"][0].arguments ==
        Arguments{{"count", "512"}, {"datatype", "half"}, {"bytes", "1024"}, {"root", "1"}});
  CHECK(trace.path_of(calls["ncclBroadcast"][0].track).find("rank 0 / NCCL calls, thread ") != std::string::npos);
  for (const char* once : {"ncclGetUniqueId", "ncclCommInitRank", "ncclGroupStart", "ncclGroupEnd", "ncclRecv"}) {
    CHECK_MESSAGE(calls[once].size() == 1, once);
  }
  // Their slices are as long as the calls took: none of a collective on host memory is empty.
  std::map<std::uint64_t, std::vector<DecodedEvent>> open;
  std::map<std::string, std::uint64_t> longest_ns;
  for (const DecodedEvent& event : trace.events) {
    if (event.type == TrackEvent::TYPE_SLICE_BEGIN) open[event.track].push_back(event);
    if (event.type != TrackEvent::TYPE_SLICE_END) continue;
    const DecodedEvent begun = open[event.track].back();
    open[event.track].pop_back();
    if (begun.category == "nccl") {
      std::uint64_t& longest = longest_ns[begun.name];
      longest = std::max(longest, event.at_ns - begun.at_ns);
    }
  }
  for (const char* waits : {"ncclAllReduce", "ncclAllGather", "ncclBroadcast", "ncclGroupEnd", "ncclCommInitRank"}) {
    CHECK_MESSAGE(longest_ns[waits] > 0, waits);
  }
}

}  // namespace trace_test
