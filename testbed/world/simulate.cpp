#include "testbed/world/simulate.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

#include "plugin/coll/transport/plugin_log.h"
#include "sim/cuda/world/world_cuda.h"
#include "sim/engine/world.h"
#include "sim/host/device_memory.h"
#include "sim/host/file/descriptors.h"
#include "sim/host/host.h"
#include "sim/host/load/program.h"
#include "sim/host/load/program_guard.h"
#include "sim/host/thread/clocks.h"
#include "sim/verbs/verbs_host.h"
#include "testbed/base/exit_status.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/nccl/library.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/followed_messages.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/software.h"
#include "testbed/world/gpus.h"
#include "testbed/world/loaded_nccl.h"
#include "testbed/world/simulated_faults.h"

namespace meshbed::testbed {
namespace {

constexpr int kBootstrapPort = 29'500;
constexpr int kMasterPort = 29'400;  // for a program's own meeting; torchrun's default port of the rendezvous
constexpr Picoseconds kLauncherLooksEveryPs = 100 * kPicosecondsPerMillisecond;  // torchrun's --monitor-interval
constexpr std::uint32_t kProgramStackBytes = 8U << 20U;                          // as `ulimit -s` has it
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// The barrier at which ranks wait for each other. A failed rank opens it permanently.
struct Gate {
  int ranks = 0;
  int arrived = 0;
  int ended = 0;
  std::uint64_t round = 0;
  bool broken = false;
  std::vector<sim::Thread*> waiting{};
  std::map<std::string, std::string> published{};

  void open(sim::World& world) {
    ++round;
    arrived = 0;
    std::vector<sim::Thread*> leaving;
    leaving.swap(waiting);
    for (sim::Thread* thread : leaving) world.wake(*thread);
  }
};

/// Records the calls and the use of the ranks' GPU memory.
class GpuMemoryLog {
 public:
  GpuMemoryLog(const sim::World& world, std::vector<GpuMemoryChange>& changes) : world_(world), changes_(changes) {}
  void take(int rank, std::uint64_t bytes) {
    changes_.push_back({.rank = rank, .at_ps = world_.now(), .taken_bytes = bytes, .held_bytes = held_[rank] += bytes});
  }
  void give_back(int rank, std::uint64_t bytes) {
    changes_.push_back(
        {.rank = rank, .at_ps = world_.now(), .given_back_bytes = bytes, .held_bytes = held_[rank] -= bytes});
  }

 private:
  const sim::World& world_;
  std::vector<GpuMemoryChange>& changes_;
  std::map<int, std::uint64_t> held_;
};

class SimulatedGpuMemory final : public GpuMemory {
 public:
  SimulatedGpuMemory(sim::Process& process, GpuMemoryLog& log, std::uint64_t size_bytes)
      : buffer_(sim::allocate_device_memory(process, size_bytes)),
        descriptor_(sim::export_dma_buf({.memory = buffer_, .size_bytes = buffer_->size_bytes})),
        log_(log) {
    log_.take(process.rank, buffer_->size_bytes);
  }
  ~SimulatedGpuMemory() override {
    log_.give_back(buffer_->owner.rank, buffer_->size_bytes);
    sim::close_descriptor(buffer_->owner, descriptor_);
    sim::free_device_memory(*buffer_);
  }
  void* address() const override { return reinterpret_cast<void*>(buffer_->address); }
  int descriptor() const override { return descriptor_; }
  std::uint8_t seen(std::uint64_t at) const override { return static_cast<std::uint8_t>(buffer_->bytes[at]); }
  void write(std::span<const std::byte> bytes) override { std::memcpy(buffer_->bytes, bytes.data(), bytes.size()); }

 private:
  std::shared_ptr<sim::DeviceBuffer> buffer_;
  int descriptor_;
  GpuMemoryLog& log_;
};

/// The state reports of all ranks' net plugins, by rank. None of the ranks' threads runs meanwhile.
std::vector<std::string> plugin_states(const sim::World& world, const std::string& net_plugin) {
  using StateFunction = std::size_t (*)(std::int64_t now_ns, char* text, std::size_t size_bytes);
  // As the ranks' own clocks count.
  const std::int64_t now_ns = sim::kMonotonicStartSeconds * kNsPerSecond + world.now() / kPicosecondsPerNanosecond;
  std::vector<std::string> states;
  for (const auto& process : world.processes()) {
    if (process->rank < 0) continue;
    std::string& state = states.emplace_back();
    void* library = sim::loaded_by(*process, net_plugin);
    if (library == nullptr) continue;
    const auto function = reinterpret_cast<StateFunction>(sim::symbol_of(library, "meshbedState"));
    if (function == nullptr) continue;  // another plugin
    state.resize(function(now_ns, nullptr, 0) + 1);
    state.resize(function(now_ns, state.data(), state.size()));
  }
  return states;
}

/// The same, of one moment: when the first rank fails, as long as that one has not closed anything, or when all wait.
class PluginLook {
 public:
  PluginLook(const sim::World& world, std::string net_plugin) : world_(world), net_plugin_(std::move(net_plugin)) {}
  const std::vector<std::string>& states() {
    if (states_.empty()) states_ = plugin_states(world_, net_plugin_);
    return states_;
  }

 private:
  const sim::World& world_;
  std::string net_plugin_;
  std::vector<std::string> states_;
};

class SimulatedHost final : public RankHost {
 public:
  SimulatedHost(sim::World& world, sim::Process& process, Gate& gate, SimulatedFaults& faults, GpuMemoryLog& gpu_log,
                PluginLook& look, std::vector<BarrierWait>& waits, sim::Recorder& recorder, std::string bootstrap)
      : world_(world),
        process_(process),
        gate_(gate),
        faults_(faults),
        gpu_log_(gpu_log),
        look_(look),
        waits_(waits),
        recorder_(recorder),
        bootstrap_(std::move(bootstrap)) {}

  int rank() const override { return process_.rank; }
  int ranks() const override { return gate_.ranks; }
  const std::string& bootstrap() const override { return bootstrap_; }
  Picoseconds now_ps() const override { return world_.now(); }

  void idle(const char* why) override { world_.spin({why}, {.what = why}); }
  void be_elsewhere(Picoseconds duration_ps) override { world_.sleep(duration_ps); }
  void spend(Picoseconds duration_ps) override { world_.spend(duration_ps); }
  void set_hop(Picoseconds hop_ps) override { sim::set_hop(process_.rank, hop_ps); }

  void doze(const void* what, Picoseconds deadline_ps, const char* why) override {
    if (nudged_.erase(what) > 0) return;
    dozing_[what] = sim::World::current();
    if (deadline_ps < 0) {
      world_.block({.what = why});
    } else if (deadline_ps > world_.now()) {
      world_.block_until(deadline_ps, {.what = why});
    }
    dozing_.erase(what);
  }
  void nudge(const void* what) override {
    const auto found = dozing_.find(what);
    if (found == dozing_.end()) {
      nudged_.insert(what);
    } else {
      world_.wake(*found->second);
      dozing_.erase(found);
    }
    world_.signal(process_);  // it may be polling its net plugin
  }

  Result<void> rendezvous() override {
    if (!gate_.broken && ++gate_.arrived == gate_.ranks) {
      gate_.open(world_);
      return ok();
    }
    const std::uint64_t round = gate_.round;
    const Picoseconds start_ps = world_.now();
    while (!gate_.broken && gate_.round == round) {
      gate_.waiting.push_back(sim::World::current());
      world_.block({.what = "rendezvous of all ranks"});
    }
    if (gate_.broken) return Error{.code = ErrorCode::kClosed, .scope = Scope::kJob, .text = "another rank failed"};
    if (const Picoseconds end_ps = world_.now(); end_ps > start_ps) {
      waits_.push_back({process_.rank, sim::current_thread_id(), start_ps, end_ps});
    }
    return ok();
  }

  Result<void> reach(const std::string& point) override {
    if (const Result<void> all = rendezvous(); !all) return all;
    faults_.reach(point);
    return ok();
  }

  Result<void> publish(const std::string& key, const std::string& value) override {
    gate_.published[key] = value;
    return ok();
  }

  Result<std::optional<std::string>> look_up(const std::string& key) override {
    const auto found = gate_.published.find(key);
    if (found == gate_.published.end()) return std::optional<std::string>();
    std::optional<std::string> value(std::move(found->second));
    gate_.published.erase(found);
    return value;
  }

  bool others_failed() override { return failed_under_way_ = gate_.broken; }
  /// Whether this rank has seen another's failure during its own work; a rank that waits at the rendezvous has
  /// finished.
  bool failed_under_way() const { return failed_under_way_; }

  /// What has stopped its program (sim::ProgramStop::kind); empty: nothing has.
  const std::string& stopped_by() const { return stopped_by_; }

  void about_to_fail() override { look_.states(); }
  std::optional<std::map<sim::PairKey, sim::PairUsage>> take_carried() override { return recorder_.take_carried(); }

  void run_together(std::vector<RankThread> threads) override {
    std::vector<sim::Thread*> running;
    for (RankThread& thread : threads) {
      running.push_back(&world_.spawn(process_, process_.name + "." + thread.name, std::move(thread.body)));
    }
    for (sim::Thread* thread : running) thread->join();
  }

  Result<void*> load(const std::string& path) override {
    try {
      return sim::load_for(process_, path);
    } catch (const std::runtime_error& error) {
      return Error{.code = ErrorCode::kSystem, .scope = Scope::kJob, .text = error.what()};
    }
  }

  void* symbol(void* library, const char* name) override { return sim::symbol_of(library, name); }

  Result<int> run_program(const std::string& path, const std::vector<std::string>& arguments) override {
    try {
      return sim::run_program(path, arguments);
    } catch (const sim::ProgramStopped& stopped) {
      stopped_by_ = stopped.kind();
      return Error{.code = ErrorCode::kInternal, .scope = Scope::kJob, .text = stopped.what()};
    } catch (const std::runtime_error& error) {
      return Error{.code = ErrorCode::kSystem, .scope = Scope::kJob, .text = error.what()};
    }
  }

  std::unique_ptr<GpuMemory> gpu_memory(std::uint64_t size_bytes) override {
    return std::make_unique<SimulatedGpuMemory>(process_, gpu_log_, size_bytes);
  }

  std::optional<GpuWork> gpu_work() override {
    const sim::CudaCounts counts = sim::cuda_counts_of(process_);
    return GpuWork{.copies = counts.copies,
                   .copied_bytes = counts.copied_bytes,
                   .launches = counts.launches,
                   .host_copies = counts.host_copies,
                   .device_syncs = counts.device_syncs};
  }

 private:
  sim::World& world_;
  sim::Process& process_;
  Gate& gate_;
  SimulatedFaults& faults_;
  GpuMemoryLog& gpu_log_;
  PluginLook& look_;
  std::vector<BarrierWait>& waits_;
  sim::Recorder& recorder_;
  std::string bootstrap_;
  std::map<const void*, sim::Thread*> dozing_;
  std::set<const void*> nudged_;
  bool failed_under_way_ = false;
  std::string stopped_by_;
};

sim::WorldOptions world_options(const Scenario& scenario, const SimulateOptions& options) {
  sim::WorldOptions world{.cluster = reached_cluster(scenario)};
  world.fabric = std::string_view(fabric_name(scenario)) == "fluid" ? sim::FabricKind::kFluid : sim::FabricKind::kChunk;
  world.seed = scenario.seed;
  world.time_limit_ps = static_cast<Picoseconds>(scenario.time_limit_s * static_cast<double>(kPicosecondsPerSecond));
  world.contexts = options.contexts;
  world.keep_link_load = options.for_time_line;
  if (scenario.workload.kind == WorkloadKind::kProgram) {
    world.stall_limit_ps = world.time_limit_ps;  // a program may sleep as long as it likes
    world.stack_bytes = kProgramStackBytes;
  }
  return world;
}

/// Which rank a plugin's line comes from that is printed by our own logger, which all ranks share.
std::optional<coll::Speaker> speaker_of_thread() {
  const sim::Process* const process = sim::World::current() != nullptr ? sim::World::current_process() : nullptr;
  if (process == nullptr || process->rank < 0) return std::nullopt;
  const auto debug = process->environment.find("NCCL_DEBUG");
  return coll::Speaker{.rank = process->rank,
                       .debug = debug != process->environment.end() ? debug->second.c_str() : nullptr};
}

/// Where the ranks of a collective meet; empty without a management network, which the other workloads do without.
std::string bootstrap_of(const Scenario& scenario) {
  const models::Cluster& cluster = scenario.cluster;
  if (cluster.nodes.empty()) return "";
  const auto& management = cluster.at(node_of(scenario, 0)).management;
  return management ? address_and_port(to_text(management->address.address), kBootstrapPort) : "";
}

/// Standard output is reserved for the report.
void print_line(const sim::Process& process, std::string_view line) {
  const std::string text = process.name + ": " + std::string(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

/// As torchrun and mpirun set them, and where NCCL's ranks meet.
std::map<std::string, std::string> launcher_variables(const Scenario& scenario, int rank, int local,
                                                      const std::string& meeting) {
  std::map<std::string, std::string> variables;
  const auto set = [&variables](const char* torchrun, const char* mpirun, int value) {
    variables[torchrun] = variables[std::string("OMPI_COMM_WORLD_") + mpirun] = std::to_string(value);
  };
  set("RANK", "RANK", rank);
  set("WORLD_SIZE", "SIZE", ranks_of(scenario));
  set("LOCAL_RANK", "LOCAL_RANK", local);
  set("LOCAL_WORLD_SIZE", "LOCAL_SIZE", ranks_on(scenario, node_of(scenario, rank)));
  if (meeting.empty()) return variables;
  const std::size_t colon = meeting.rfind(':');
  variables["NCCL_COMM_ID"] = meeting;
  variables["MASTER_ADDR"] = meeting.substr(0, colon);
  variables["MASTER_PORT"] = std::to_string(kMasterPort);
  return variables;
}

/// Ends all other processes, as a launcher does when one process of the job has failed.
void end_all_nodes(void* self, std::uint64_t) {
  auto& world = *static_cast<sim::World*>(self);
  for (std::size_t node = 0; node < world.cluster().nodes.size(); ++node) world.kill_node(static_cast<int>(node));
}

/// Records the failures of ranks, and notifies the other ranks.
class Failures {
 public:
  struct Options {
    bool ends_all = false;  // as a launcher does
  };
  Failures(sim::World& world, Gate& gate, PluginLook& look, Simulation& result, const Options& options)
      : world_(world), gate_(gate), look_(look), result_(result), options_(options) {}

  /// `is_consequence`: it ended in the middle of something only because another rank has failed.
  /// `repeatable` as in RankError.
  void add(int rank, const Error& error, bool is_consequence, const std::string& repeatable) {
    result_.states = look_.states();
    // A rank that failed only because another one did adds no information.
    if (gate_.broken && error.code == ErrorCode::kClosed) {
      const auto is_own = [&](const RankError& known) { return known.rank == rank; };  // it lost its power
      const bool had_power = std::none_of(result_.errors.begin(), result_.errors.end(), is_own);
      if (had_power && is_consequence) ++result_.stopped;
    } else {
      result_.errors.push_back({rank, world_.now(), error.text, class_of(error.code), repeatable});
    }
    gate_.broken = true;
    gate_.open(world_);
    // Other ranks that fail for the same reason may report it until then.
    if (options_.ends_all) world_.at(world_.now() + kLauncherLooksEveryPs, 0, &end_all_nodes, &world_, 0);
  }

 private:
  sim::World& world_;
  Gate& gate_;
  PluginLook& look_;
  Simulation& result_;
  const Options options_;
};

/// The body of a rank's main thread. Failures are kept, never thrown across the simulator.
void run_rank(sim::World& world, SimulatedHost& host, Gate& gate, const std::set<std::string>& points,
              const RankProgram& program, Failures& failures, Simulation& result) {
  const auto fail = [&](const Error& error) {
    failures.add(host.rank(), error, host.failed_under_way(), host.stopped_by());
  };
  try {
    Result<void> outcome = reach_if_used(host, points, kPointStart);
    if (outcome) outcome = program(host);
    if (!outcome) fail(outcome.error());
  } catch (const std::exception& error) {
    fail({.code = ErrorCode::kInternal, .scope = Scope::kJob, .text = error.what()});
  }
  ++gate.ended;
  result.elapsed_ps = std::max(result.elapsed_ps, world.now());
}

}  // namespace

Simulation simulate(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    const RankProgram& program) {
  const std::string bootstrap = bootstrap_of(scenario);
  const std::string net_plugin = net_plugin_of(scenario, options.files);
  const std::string nccl = nccl_library_of(scenario, options.files.nccl);
  Simulation result;
  Gate gate{.ranks = ranks_of(scenario)};
  const bool is_program = scenario.workload.kind == WorkloadKind::kProgram;
  sim::NcclCalls nccl_calls;
  sim::World world(world_options(scenario, options));
  sim::install_host(world, {.libraries = {{"libnccl-net-mesh.so", options.files.net_plugin},
                                          {"libmeshcoll.so", options.files.engine},
                                          {"libnccl.so.2", nccl},
                                          {"libnccl-profiler-meshbed.so", options.files.profiler},
                                          {"libmpi.so.40", options.files.mpi}},
                            .nccl_calls = is_program && options.for_time_line ? &nccl_calls : nullptr});
  FollowedMessages messages(recorder);
  sim::install_verbs(world, options.files.libibverbs, &messages);
  std::optional<sim::WorldCuda> gpus;
  if (const auto files = cuda_files_of(scenario, options.files.cuda_folder)) gpus.emplace(world, *files);
  if (gpus && options.for_time_line) gpus->keep_spans();

  coll::set_speaker_of_thread(&speaker_of_thread);

  const std::set<std::string> points = points_of(scenario);
  SimulatedFaults faults(scenario, world, [&](int node) {
    std::vector<RankError> errors = without_power(scenario, node, world.now());
    if (errors.empty()) return;  // no rank ran on this node
    for (RankError& error : errors) result.errors.push_back(std::move(error));
    gate.broken = true;
    gate.open(world);
  });
  GpuMemoryLog gpu_log(world, result.gpu_memory);
  PluginLook look(world, net_plugin);
  Failures failures(world, gate, look, result, {.ends_all = is_program});
  std::optional<sim::ProgramOutput> output;
  std::optional<sim::ProgramGuard> guard;
  if (is_program) {
    constexpr std::uint64_t kMiB = 1 << 20;
    output.emplace(sim::ProgramOutput::Options{
        .print = &print_line, .limit_bytes = static_cast<std::uint64_t>(scenario.workload.output_limit_mib) * kMiB});
    world.never_hold(&end_all_nodes);
    const auto end = [&failures](const sim::Process& process, const sim::ProgramStop& stop) {
      const Error error{.code = ErrorCode::kInternal, .scope = Scope::kJob, .text = stop.text};
      failures.add(process.rank, error, false, stop.kind);
    };
    guard.emplace(sim::ProgramGuard::Options{
        .busy_limit_s = 1.0 * scenario.workload.busy_limit_s, .on_end = end, .fatal_status = kExitBroken});
  }
  const std::vector<int> locals = local_ranks(scenario);
  std::vector<std::unique_ptr<SimulatedHost>> hosts;
  for (int rank = 0; rank < gate.ranks; ++rank) {
    const int node = node_of(scenario, rank);
    sim::Process& process = world.add_process(rank, node, "rank" + std::to_string(rank));
    result.process_ids.push_back(sim::process_id_of(process));
    if (is_program) {
      process.environment.merge(launcher_variables(scenario, rank, locals[static_cast<std::size_t>(rank)], bootstrap));
    }
    for (const auto& [name, value] : scenario.cluster.at(node).environment) {
      process.environment[name] = value;
    }
    hosts.push_back(std::make_unique<SimulatedHost>(world, process, gate, faults, gpu_log, look, result.waits, recorder,
                                                    bootstrap));
    SimulatedHost& host = *hosts.back();
    host.set_hop(message_cost(scenario).hop_ps);
    world.spawn(process, process.name + ".main",
                [&] { run_rank(world, host, gate, points, program, failures, result); });
  }

  result.outcome = world.run();
  guard.reset();
  output.reset();
  if (is_program && result.outcome.kind == sim::OutcomeKind::kFinished && gate.ended < gate.ranks) {
    result.stopped = gate.ranks - gate.ended;
    result.elapsed_ps = world.now();
  }
  // If ranks are still waiting, the run lasted until the last event.
  if (result.outcome.kind != sim::OutcomeKind::kFinished) {
    result.elapsed_ps = world.now();
    result.states = look.states();
  }
  if (gpus && options.for_time_line) result.gpu_spans = gpu_spans(*gpus);
  result.faults = faults.taken();
  result.links = world.network().links();
  result.paths.assign(world.network().paths().begin(), world.network().paths().end());
  result.verbs = sim::verbs_counters();
  result.host = sim::host_counters();
  result.plugin_sha256 = sim::loaded_sha256(net_plugin);
  result.engine_sha256 = sim::loaded_sha256(options.files.engine);
  if (is_program) result.nccl = loaded_nccl(world, nccl, options.files.profiler);
  result.nccl_calls = nccl_call_spans(nccl_calls);
  return result;
}

}  // namespace meshbed::testbed
