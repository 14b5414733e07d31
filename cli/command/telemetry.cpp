#include "cli/command/telemetry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "cli/common/command_line.h"
#include "plugin/base/counted.h"
#include "sim/host/thread/clocks.h"
#include "testbed/base/files.h"
#include "testbed/result/inspector.h"
#include "testbed/result/zernel/metrics.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;
/// Latest start of the clock: 2^63 ns, which leaves the same time for the run.
constexpr std::uint64_t kEpochMax_ns = std::numeric_limits<std::int64_t>::max();

std::uint64_t epoch_ns(const TelemetryOptions& options, bool virtual_time) {
  if (!virtual_time) return 0;
  if (options.zernel_epoch.empty()) return sim::kMonotonicStartSeconds * kNanosecondsPerSecond;
  return parse_count("--zernel-epoch", options.zernel_epoch, 0, kEpochMax_ns);
}

std::optional<zernel::NcclOp> zernel_op(models::Collective op) {
  switch (op) {
    case models::Collective::kAllReduce:
      return zernel::NcclOp::kAllReduce;
    case models::Collective::kBroadcast:
      return zernel::NcclOp::kBroadcast;
    case models::Collective::kAllGather:
      return zernel::NcclOp::kAllGather;
    case models::Collective::kReduceScatter:
      return zernel::NcclOp::kReduceScatter;
    default:
      return std::nullopt;  // zernel reads no other kind
  }
}

/// Virtual time in the records' unit. Both ends of a span are rounded down, so that adjacent spans stay adjacent.
class Clock {
 public:
  explicit Clock(std::uint64_t epoch) : epoch_ns_(epoch) {}
  std::uint64_t at(Picoseconds time_ps) const {
    return epoch_ns_ + static_cast<std::uint64_t>(time_ps / kPicosecondsPerNanosecond);
  }

 private:
  std::uint64_t epoch_ns_;
};

/// In the order of their streams. `end_ns`: of an item.
template <typename Item, typename EndOf>
std::vector<Item> by_end_and_rank(std::vector<Item> items, EndOf end_ns) {
  std::stable_sort(items.begin(), items.end(), [&](const Item& left, const Item& right) {
    return std::pair(end_ns(left), left.rank) < std::pair(end_ns(right), right.rank);
  });
  return items;
}

std::uint32_t process_of(const Simulation& simulation, int rank) {
  return simulation.process_ids[static_cast<std::size_t>(rank)];
}

std::vector<zernel::NcclEvent> nccl_events(const Scenario& scenario, const RunResult& result, const Clock& clock,
                                           const TelemetryOptions& options) {
  const CollectiveCase& collective = result.calls.collective;
  const auto op = zernel_op(collective.op);
  std::vector<zernel::NcclEvent> events;
  if (!op) return events;
  const int ranks = ranks_of(scenario);
  const CollectiveShape shape = shape_of(collective.op, collective.bytes, ranks, collective.type);
  const std::uint64_t size_bytes =
      options.zernel_bytes == "rank" ? shape.count * coll::size_of(collective.type) : shape.bytes;
  const bool enqueue = options.zernel_duration == "enqueue";
  const auto end_ns = [&](const CallTime& call) { return clock.at(enqueue ? call.returned_ps : call.end_ps); };
  for (const CallTime& call : by_end_and_rank(result.calls.times, end_ns)) {
    const std::uint64_t start_ns = clock.at(call.start_ps);
    events.push_back({.pid = process_of(result.simulation, call.rank),
                      .op = static_cast<std::uint8_t>(*op),
                      .size_bytes = size_bytes,
                      .start_ns = start_ns,
                      .duration_ns = end_ns(call) - start_ns,
                      .rank = static_cast<std::uint32_t>(call.rank),
                      .num_ranks = static_cast<std::uint32_t>(ranks)});
  }
  return events;
}

/// FNV-1a of a kernel's name.
std::uint64_t kernel_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3;
  return hash;
}

/// Each megakernel's launch: from the host's call until its lanes look at their slots.
std::vector<zernel::CudaEvent> cuda_events(const RunResult& result, const Clock& clock) {
  std::vector<zernel::CudaEvent> events;
  if (result.rings == nullptr) return events;
  std::vector<RingRank> launched;
  for (const RingRank& one : result.rings->ranks) {
    if (one.reached) launched.push_back(one);
  }
  const std::uint64_t name = kernel_hash("meshbed_megakernel_" + result.rings->program);
  const auto end_ns = [&](const RingRank& one) { return clock.at(one.launch.end_ps); };
  for (const RingRank& one : by_end_and_rank(launched, end_ns)) {
    const std::uint64_t start_ns = clock.at(one.launch.start_ps);
    events.push_back({.pid = process_of(result.simulation, one.rank),
                      .kernel_hash = name,
                      .launch_ns = start_ns,
                      .return_ns = end_ns(one),
                      .latency_ns = end_ns(one) - start_ns});
  }
  return events;
}

/// The collectives executed by slots: one a rank and epoch, including the last one, which is compared with the
/// engine's. They make no NCCL calls, so tools that trace calls do not see them.
std::vector<zernel::NcclEvent> ring_events(const Scenario& scenario, const RunResult& result, const Clock& clock,
                                           const TelemetryOptions& options) {
  std::vector<zernel::NcclEvent> events;
  const std::string& program = result.rings->program;
  const bool gathers = program == "all_gather";
  if (options.zernel_duration == "enqueue") return events;
  if (!gathers && program != "all_reduce" && program != "fused_all_reduce") return events;
  const auto ranks = static_cast<std::uint32_t>(ranks_of(scenario));
  const std::uint64_t size_bytes = gathers && options.zernel_bytes == "rank" ? result.bytes / ranks : result.bytes;
  const auto end_ns = [&](const RingCall& call) { return clock.at(call.end_ps); };
  for (const RingCall& call : by_end_and_rank(result.rings->calls, end_ns)) {
    const std::uint64_t start_ns = clock.at(call.start_ps);
    events.push_back(
        {.pid = process_of(result.simulation, call.rank),
         .op = static_cast<std::uint8_t>(gathers ? zernel::NcclOp::kAllGather : zernel::NcclOp::kAllReduce),
         .size_bytes = size_bytes,
         .start_ns = start_ns,
         .duration_ns = end_ns(call) - start_ns,
         .rank = static_cast<std::uint32_t>(call.rank),
         .num_ranks = ranks});
  }
  return events;
}

std::vector<zernel::DistSyncEvent> dist_sync_events(const Simulation& simulation, const Clock& clock) {
  std::vector<zernel::DistSyncEvent> events;
  const auto end_ns = [&](const BarrierWait& wait) { return clock.at(wait.end_ps); };
  for (const BarrierWait& wait : by_end_and_rank(simulation.waits, end_ns)) {
    const std::uint64_t wait_ns = end_ns(wait) - clock.at(wait.start_ps);
    if (wait_ns <= zernel::kLongestBlink_ns) continue;
    events.push_back({.pid = process_of(simulation, wait.rank),
                      .tid = wait.thread_id,
                      .wait_ns = wait_ns,
                      .timestamp_ns = end_ns(wait)});
  }
  return events;
}

std::vector<zernel::GpuMemoryEvent> gpu_memory_events(const Simulation& simulation, const Clock& clock) {
  std::vector<zernel::GpuMemoryEvent> events;
  const auto at_ns = [&](const GpuMemoryChange& change) { return clock.at(change.at_ps); };
  for (const GpuMemoryChange& change : by_end_and_rank(simulation.gpu_memory, at_ns)) {
    events.push_back({.pid = process_of(simulation, change.rank),
                      .gpu_id = 0,  // each rank has one GPU, its own number 0
                      .alloc_bytes = change.taken_bytes,
                      .free_bytes = change.given_back_bytes,
                      .total_usage = change.held_bytes,
                      .timestamp_ns = at_ns(change)});
  }
  return events;
}

/// Throws if a file (or files in a folder) at `path` cannot be written later.
void require_writable(const std::string& option, const std::string& path, bool folder) {
  const auto refuse = [&](const std::string& where, int cause) {
    throw std::runtime_error(fmt::format("{} {}: cannot write to {}: {}; name a {} that you may write to", option, path,
                                         where, std::strerror(cause), folder ? "folder" : "file"));
  };
  if (path.empty()) return;
  std::error_code problem;
  if (!folder && (fs::is_directory(path, problem) || !fs::path(path).has_filename())) refuse(path, EISDIR);
  if (!folder && fs::exists(path, problem)) {
    if (access(path.c_str(), W_OK) != 0) refuse(path, errno);
    if (!fs::is_regular_file(path, problem)) return;  // it is replaced as a whole, in its folder
  }
  const fs::path place = folder ? fs::path(path) : fs::absolute(path).parent_path();
  fs::create_directories(place, problem);
  if (problem) refuse(place, problem.value());
  if (access(place.c_str(), W_OK | X_OK) != 0) refuse(place, errno);
}

}  // namespace

void add_telemetry_options(po::options_description& options, TelemetryOptions& values) {
  options.add_options()  //
      ("zernel-out", po::value(&values.zernel_out)->value_name("PATH"),
       "write zernel's records: a folder gets nccl.zev, gpu_mem.zev, cuda.zev, dataload.zev and dist_sync.zev "
       "(empty where nothing of the kind happened); a pipe, or a name that ends in .zev, gets nccl's alone")  //
      ("zernel-duration", po::value(&values.zernel_duration)->value_name("WHAT")->default_value(values.zernel_duration),
       "of a collective: completion, or enqueue: as a probe sees a call that returns at once (the workload then starts "
       "its calls and waits for them)")  //
      ("zernel-bytes", po::value(&values.zernel_bytes)->value_name("WHAT")->default_value(values.zernel_bytes),
       "of an all-gather or reduce-scatter: total, as nccl-tests counts, or rank: one rank's share")  //
      ("zernel-epoch", po::value(&values.zernel_epoch)->value_name("NS"),
       "sim: the records' time when the simulation starts, in nanoseconds; default: the ranks' CLOCK_MONOTONIC, 1000 "
       "s")  //
      ("prom-out", po::value(&values.prom_out)->value_name("FILE"),
       "write these records as zernel's /metrics would report them")  //
      ("inspector-out", po::value(&values.inspector_out)->value_name("DIR"),
       "write JSON lines as NCCL's Inspector plugin does, DIR/<node>-pid<process>.log for each rank; those of an "
       "earlier run there are replaced");
}

void check_telemetry_options(const TelemetryOptions& options, const WorldFacts& world) {
  require_choice("--zernel-duration", "duration", options.zernel_duration, {"completion", "enqueue"});
  require_choice("--zernel-bytes", "count of bytes", options.zernel_bytes, {"total", "rank"});
  epoch_ns(options, true);
  if (!options.zernel_epoch.empty() && !world.virtual_time) {
    throw std::runtime_error(
        fmt::format("--zernel-epoch {}: the records of --world {} have the machines' own clocks; "
                    "leave it out, or take --world sim",
                    options.zernel_epoch, world.name));
  }
  const bool records = !options.zernel_out.empty() || !options.prom_out.empty();
  if (!records &&
      (options.zernel_duration != "completion" || options.zernel_bytes != "total" || !options.zernel_epoch.empty())) {
    throw std::runtime_error(
        "--zernel-duration, --zernel-bytes and --zernel-epoch say what the records hold; add --zernel-out or "
        "--prom-out");
  }
}

void check_telemetry_places(const TelemetryOptions& options) {
  if (!options.zernel_out.empty()) {
    if (fs::is_regular_file(options.zernel_out) && fs::path(options.zernel_out).extension() != zernel::kExtension) {
      throw std::runtime_error(
          fmt::format("--zernel-out {}: this file is there, and no {} file; name a folder, a pipe, or NAME{}",
                      options.zernel_out, zernel::kExtension, zernel::kExtension));
    }
    if (options.zernel_out == options.prom_out) {
      throw std::runtime_error(fmt::format(
          "--zernel-out and --prom-out are both {}: one would replace the other; name two files", options.prom_out));
    }
    require_writable("--zernel-out", options.zernel_out, zernel::is_stream_folder(options.zernel_out));
  }
  require_writable("--prom-out", options.prom_out, false);
  require_writable("--inspector-out", options.inspector_out, true);
  if (!options.inspector_out.empty()) check_inspector_folder(options.inspector_out);
}

zernel::Streams zernel_streams(const Scenario& scenario, const RunResult& result, const TelemetryOptions& options) {
  const Clock clock(epoch_ns(options, result.world.virtual_time));
  zernel::Streams streams;
  streams.nccl = result.rings != nullptr ? ring_events(scenario, result, clock, options)
                                         : nccl_events(scenario, result, clock, options);
  streams.cuda = cuda_events(result, clock);
  streams.gpu_memory = gpu_memory_events(result.simulation, clock);
  streams.dist_sync = dist_sync_events(result.simulation, clock);
  return streams;
}

namespace {

bool wanted(const TelemetryOptions& options) {
  return !options.zernel_out.empty() || !options.prom_out.empty() || !options.inspector_out.empty();
}

void tell_replaced(const TelemetryOptions& options, int replaced, std::ostream& err) {
  if (replaced == 0) return;
  err << fmt::format("meshbed: {}: {} of an earlier run {} replaced\n", options.inspector_out,
                     counted(static_cast<std::uint64_t>(replaced), "Inspector log"), replaced == 1 ? "was" : "were");
}

// In a node's folder.
constexpr const char *kNodeStreams = "telemetry/zernel", *kNodeMetrics = "telemetry/metrics.prom",
                     *kNodeLogs = "telemetry/inspector";

}  // namespace

void ask_for_telemetry(const TelemetryOptions& options, Workload& workload) {
  workload.start_and_wait = options.zernel_duration == "enqueue";
  workload.tell_calls = wanted(options);
}

std::vector<std::string> telemetry_words(const TelemetryOptions& options) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& value, std::initializer_list<const char*> option) {
    if (!value.empty()) words.insert(words.end(), option.begin(), option.end());
  };
  add(options.zernel_out, {"--zernel-out", kNodeStreams});
  add(options.prom_out, {"--prom-out", kNodeMetrics});
  add(options.inspector_out, {"--inspector-out", kNodeLogs});
  if (options.zernel_out.empty() && options.prom_out.empty()) return words;
  words.insert(words.end(), {"--zernel-duration", options.zernel_duration, "--zernel-bytes", options.zernel_bytes});
  return words;
}

NodeTelemetry take_node_telemetry(const TelemetryOptions& options, const std::string& folder) {
  const fs::path node(folder);
  NodeTelemetry taken;
  // A rank that did not end has left no record.
  if (!options.zernel_out.empty() && fs::exists(node / kNodeStreams)) {
    zernel::read_streams(taken.streams, node / kNodeStreams, std::nullopt);
  }
  if (!options.prom_out.empty() && fs::exists(node / kNodeMetrics)) {
    taken.metrics = read_text_file(node / kNodeMetrics);
  }
  std::error_code none;
  for (const auto& log : fs::directory_iterator(node / kNodeLogs, none)) {
    taken.logs[log.path().filename()] = read_text_file(log.path());
  }
  return taken;
}

void write_node_telemetry(const TelemetryOptions& options, const NodeTelemetry& telemetry, std::ostream& err) {
  if (!wanted(options)) return;
  std::signal(SIGPIPE, SIG_IGN);  // as below
  if (!options.inspector_out.empty()) {
    EarlierLogs earlier(options.inspector_out);
    for (const auto& [name, text] : telemetry.logs) {
      const std::string log = fs::path(options.inspector_out) / name;
      write_text_file(log, text);
      earlier.replaced(log);
    }
    tell_replaced(options, earlier.remove_others(), err);
  }
  if (!options.prom_out.empty()) write_text_file(options.prom_out, telemetry.metrics);
  if (!options.zernel_out.empty()) zernel::write_streams(telemetry.streams, options.zernel_out);
}

void write_telemetry(const TelemetryOptions& options, const Scenario& scenario, const RunResult& result,
                     std::ostream& err) {
  if (!wanted(options)) return;
  const bool has_rings = scenario.workload.kind == WorkloadKind::kMegakernel;
  if (scenario.workload.kind != WorkloadKind::kCollective && !has_rings) {
    const bool matrix = scenario.workload.kind == WorkloadKind::kMatrix;
    err << "meshbed: the telemetry has no collectives: "
        << (matrix ? "it covers one repeated collective, not a matrix" : "this workload calls the net plugin itself")
        << "\n";
  }
  // A reader may close the pipe: the write then fails with an ordinary error, after all other files are written.
  std::signal(SIGPIPE, SIG_IGN);
  if (!options.inspector_out.empty()) {
    tell_replaced(options, write_inspector_logs(scenario, result, options.inspector_out), err);
  }
  if (!options.zernel_out.empty() || !options.prom_out.empty()) {
    const zernel::Streams streams = zernel_streams(scenario, result, options);
    if (!options.prom_out.empty()) write_text_file(options.prom_out, zernel::Metrics(streams).prometheus());
    if (!options.zernel_out.empty()) zernel::write_streams(streams, options.zernel_out);
  }
}

}  // namespace meshbed::testbed
