// Megakernels, one a rank, whose slots are a collective's steps (over the net plugin), or come from a queue (no
// network): plugin/ring executed in virtual time. Simulated world only.

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/workload/collective.h"
#include "cli/workload/megakernel/host.h"
#include "cli/workload/megakernel/outcome.h"
#include "cli/workload/megakernel/programs.h"
#include "cli/workload/rank_table.h"
#include "cli/workload/workload.h"
#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::cli {
namespace {

constexpr int kQueueSlotsDefault = 64, kSafeLanesDefault = 8;

struct RingBoard {
  std::vector<IterationTime> iterations;
  std::vector<std::uint64_t> results;  // by rank
  RingCheck check;
  std::uint64_t engine_elements = 0;  // that were compared with the engine's
  std::uint64_t engine_differs = 0;
  bool stuck = false;                      // a rank's ring is: nobody begins another epoch
  std::vector<const RingKernel*> kernels;  // by rank; nullptr: not there, or not any more

  bool works() const {
    return std::any_of(kernels.begin(), kernels.end(),
                       [](const RingKernel* kernel) { return kernel != nullptr && kernel->works(); });
  }

  void add(const RingCheck& one) {
    if (check.wrong == 0) check.first_wrong = one.first_wrong;
    check.checked += one.checked;
    check.wrong += one.wrong;
  }
};

/// The engine as it adds up in the order of the slots: round the ring, on one channel.
EngineOptions ring_engine_options(const Scenario& scenario, const BuiltFiles& files) {
  EngineOptions options = engine_options(scenario, files);
  options.algorithm = "ring";
  return options;
}

/// A kernel is on the board as long as this lives.
class AtWork {
 public:
  AtWork(const RingKernel*& place, const RingKernel& kernel) : place_(place) { place_ = &kernel; }
  ~AtWork() { place_ = nullptr; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  const RingKernel*& place_;
};

class MegakernelRun final : public WorkloadRun {
 public:
  MegakernelRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : scenario_(scenario),
        workload_(scenario.workload),
        settings_(scenario.workload.megakernel),
        plugin_(net_plugin_of(scenario, files)),
        engine_(ring_engine_options(scenario, files)),
        world_(ranks_of(scenario)),
        spaces_(static_cast<std::size_t>(ranks.count)),
        outcome_(std::make_shared<RingOutcome>()) {
    if (ranks.first != 0 || ranks.count != world_) {
      throw std::runtime_error("kind = \"megakernel\" is the simulated world's: leave --world out");
    }
    outcome_->times = ring_times(settings_);
    outcome_->verdicts.resize(static_cast<std::size_t>(world_));
    board_.results.resize(static_cast<std::size_t>(world_));
    board_.kernels.resize(static_cast<std::size_t>(world_), nullptr);
    board_.iterations.resize(is_queue() ? 1 : static_cast<std::size_t>(workload_.iterations));
  }

  Result<void> run_rank(RankHost& host) override { return is_queue() ? run_queue(host) : run_program(host); }

  nlohmann::json findings() const override { return nlohmann::json::object(); }
  void take_in(const nlohmann::json&) override {}
  void conclude(RunResult& result) override;

 private:
  bool is_queue() const { return settings_.program == "queue"; }
  coll::DataType type() const { return parse_data_type("dtype", workload_.dtype); }
  std::uint32_t salt_of(std::uint32_t epoch) const { return first_salt(scenario_.seed) + epoch * 0x9e37'79b9U; }
  ring::Word lanes_for(ring::Word slots) const {
    if (settings_.lanes > 0) return static_cast<ring::Word>(settings_.lanes);
    return settings_.strict && !settings_.by_priority ? slots : kSafeLanesDefault;
  }
  RingKernel::Setting kernel_of(RankHost& host, const RingBuffers& buffers, const coll::SlotProgram& program);
  void time_epoch(std::size_t index, Picoseconds start_ps, Picoseconds end_ps);

  Result<void> run_queue(RankHost& host);
  Result<void> run_program(RankHost& host);
  Result<void> run_epochs(RankHost& host, const RingProgram& program, RingHost& ring_host, RingProxy& proxy);
  Result<void> compare_with_engine(RankHost& host, const RingProgram& program);

  const Scenario& scenario_;
  const Workload& workload_;
  const Megakernel& settings_;
  std::string plugin_;
  EngineOptions engine_;
  int world_;
  // Kept until the run is over: what a failed rank leaves registered may still be written to.
  std::vector<RingSpaces> spaces_;
  RingBoard board_;
  std::shared_ptr<RingOutcome> outcome_;
};

RingKernel::Setting MegakernelRun::kernel_of(RankHost& host, const RingBuffers& buffers,
                                             const coll::SlotProgram& program) {
  return {.host = host,
          .settings = settings_,
          .kernel = buffers.kernel,
          .program = program,
          .spaces = spaces_[static_cast<std::size_t>(host.rank())],
          .type = type(),
          .op = settings_.program == "pipeline" ? coll::ReduceOp::kSum : parse_reduction("op", workload_.op),
          .trace = outcome_->trace};
}

void MegakernelRun::time_epoch(std::size_t index, Picoseconds start_ps, Picoseconds end_ps) {
  if (index >= board_.iterations.size()) return;
  IterationTime& time = board_.iterations[index];
  time.start_ps = start_ps;
  time.end_ps = std::max(time.end_ps, end_ps);
}

Result<void> MegakernelRun::run_queue(RankHost& host) {
  const auto slots = static_cast<ring::Word>(settings_.slots > 0 ? settings_.slots : kQueueSlotsDefault);
  const coll::SlotProgram nothing;
  // Its ADDs go to observables of its own.
  RingBuffers buffers(settings_, slots, lanes_for(slots), {.ids = RingHost::kAddWords});
  RingKernel kernel(kernel_of(host, buffers, nothing));
  const AtWork at_work(board_.kernels[static_cast<std::size_t>(host.rank())], kernel);
  RingHost ring_host(host, settings_, buffers, kernel, outcome_->trace, [this] { return board_.works(); });
  const Picoseconds start_ps = host.now_ps();
  host.run_together({{"kernel", [&] { kernel.run(); }}, {"host", [&] {
                                                           ring_host.run_queue(scenario_.seed);
                                                           kernel.stop();
                                                         }}});
  time_epoch(0, start_ps, host.now_ps());
  outcome_->verdicts[static_cast<std::size_t>(host.rank())] = ring_host.verdict();
  outcome_->slots_done += buffers.control[ring::control_word::kDoneCount];
  std::uint64_t adds = 0;
  const auto* const observables = buffers.control.data() + ring::kLayout2026_05.observables;
  for (ring::Word index = 1; index <= RingHost::kAddWords; ++index) adds += observables[index];
  // What a drained ring was told to add up, it has added up; once each.
  if (!ring_host.stuck()) {
    board_.add({.checked = ring_host.counted().published,
                .wrong = std::max(adds, ring_host.counted().adds) - std::min(adds, ring_host.counted().adds),
                .first_wrong =
                    fmt::format("rank {}: {} added up instead of {}", host.rank(), adds, ring_host.counted().adds)});
  }
  board_.results[static_cast<std::size_t>(host.rank())] =
      XXH3_64bits(buffers.control.data(), buffers.control.size() * sizeof(ring::Word));
  return host.rendezvous();
}

Result<void> MegakernelRun::run_program(RankHost& host) {
  const Result<RingProgram> program = ring_program(workload_, host.rank(), world_);
  if (!program) return program.error();
  const auto needed = static_cast<ring::Word>(program->slots.slots.size() + 1);  // and BATCH_FENCE
  const ring::Word slots = settings_.slots > 0 ? static_cast<ring::Word>(settings_.slots) : needed;
  if (slots < needed) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .scope = Scope::kJob,
                 .text = fmt::format("slots: {} are too few for the {} of {}", slots, needed, settings_.program)};
  }
  RingSpaces& spaces = spaces_[static_cast<std::size_t>(host.rank())];
  for (std::size_t space = 0; space < spaces.size(); ++space) spaces[space].resize(program->space_bytes[space]);

  const Result<RankTable> opened = begin_rank_table(host, plugin_, workload_.net_version);
  if (!opened) return opened.error();
  coll::NetTable& net = *opened->table;
  const std::uint64_t warns = coll::warn_count();

  RingBuffers buffers(settings_, slots, lanes_for(slots), program->slots.board());
  RingKernel kernel(kernel_of(host, buffers, program->slots));
  RingProxy proxy(host, net, program->slots, spaces, kernel);
  const AtWork at_work(board_.kernels[static_cast<std::size_t>(host.rank())], kernel);
  RingHost ring_host(host, settings_, buffers, kernel, outcome_->trace, [this] { return board_.works(); });
  if (auto connected = proxy.connect(); !connected) return connected;
  if (auto all = host.rendezvous(); !all) return all;
  Result<void> ran;
  host.run_together({{"kernel", [&] { kernel.run(); }}, {"proxy", [&] { proxy.run(); }}, {"host", [&] {
                                                                                            ran = run_epochs(
                                                                                                host, *program,
                                                                                                ring_host, proxy);
                                                                                            kernel.stop();
                                                                                            proxy.stop();
                                                                                          }}});
  outcome_->verdicts[static_cast<std::size_t>(host.rank())] = ring_host.verdict();
  outcome_->slots_done += buffers.control[ring::control_word::kDoneCount];
  if (!ran) return ran;
  // Nobody closes a connection that a slower rank still needs.
  if (auto all = host.rendezvous(); !all) return all;
  if (auto closed = proxy.close(); !closed) return closed;
  if (const int code = net.finalize(); code != nccl::kNcclSuccess) return table_error(net, "finalize", code, warns);
  return board_.stuck ? host.rendezvous() : compare_with_engine(host, *program);
}

Result<void> MegakernelRun::run_epochs(RankHost& host, const RingProgram& program, RingHost& ring_host,
                                       RingProxy& proxy) {
  RingSpaces& spaces = spaces_[static_cast<std::size_t>(host.rank())];
  // The last one is rough: the engine's result of the same must be the same bits.
  const auto epochs = static_cast<ring::Word>(workload_.iterations) + 1;
  for (ring::Word epoch = 1; epoch <= epochs; ++epoch) {
    const bool rough = epoch == epochs;
    fill_source(program, workload_, host.rank(), world_, salt_of(epoch), rough, spaces);
    proxy.begin_epoch();
    if (auto all = host.rendezvous(); !all) return all;
    const Picoseconds start_ps = host.now_ps();
    ring_host.run_epoch(program.slots, epoch, &proxy);
    if (proxy.failure()) return *proxy.failure();
    board_.stuck = board_.stuck || ring_host.stuck().has_value();
    if (!rough) time_epoch(epoch - 1, start_ps, host.now_ps());
    if (auto all = host.rendezvous(); !all) return all;
    if (board_.stuck) return ok();
    if (!rough) board_.add(check_pattern(program, workload_, host.rank(), world_, salt_of(epoch), spaces));
  }
  return ok();
}

Result<void> MegakernelRun::compare_with_engine(RankHost& host, const RingProgram& program) {
  RingSpaces& spaces = spaces_[static_cast<std::size_t>(host.rank())];
  Result<Engine> engine = Engine::open(host, engine_);
  if (!engine) return engine.error();
  const auto theirs = engine_result(*engine, program, workload_, world_, spaces);
  if (!theirs) return theirs.error();
  const std::byte* const ours = spaces[static_cast<std::size_t>(coll::Space::kOutput)].data();
  const std::size_t element_bytes = coll::size_of(type());
  std::uint64_t wrong = 0;
  for (std::uint64_t element = 0; element < program.result_count; ++element) {
    const std::uint64_t at = element * element_bytes;
    if (std::equal(ours + at, ours + at + element_bytes, theirs->data() + at)) continue;
    if (wrong++ == 0 && board_.engine_differs == 0 && board_.check.wrong == 0) {
      board_.check.first_wrong = fmt::format("rank {}, element {}: not the engine's bits", host.rank(), element);
    }
  }
  board_.engine_elements += program.result_count;
  board_.engine_differs += wrong;
  board_.results[static_cast<std::size_t>(host.rank())] = XXH3_64bits(ours, program.result_count * element_bytes);
  if (auto all = host.rendezvous(); !all) return all;
  return engine->close();
}

void MegakernelRun::conclude(RunResult& result) {
  result.workload = "megakernel " + settings_.program;
  result.bytes = is_queue() ? 0 : workload_.bytes;
  const bool gathers = settings_.program == "all_gather";
  if (gathers || settings_.program == "all_reduce" || settings_.program == "fused_all_reduce") {
    result.busbw_factor =
        models::bus_factor(gathers ? models::Collective::kAllGather : models::Collective::kAllReduce, world_);
  }
  result.iterations = static_cast<int>(board_.iterations.size());
  result.wrong = board_.check.wrong + board_.engine_differs;
  result.checked = board_.check.checked + board_.engine_elements;
  if (result.wrong > 0) result.first_wrong = board_.check.first_wrong;
  result.data = board_.results;
  result.rings = outcome_;
  if (!result.simulation.ended_well()) return;
  if (std::any_of(outcome_->verdicts.begin(), outcome_->verdicts.end(),
                  [](const RingVerdict& one) { return one.reached && one.cause != ring::Cause::kDrained; })) {
    return;  // how long it took until somebody saw that is no time of it
  }
  Picoseconds total_ps = 0;
  for (const IterationTime& time : board_.iterations) total_ps += time.end_ps - time.start_ps;
  result.time_ps = total_ps / static_cast<Picoseconds>(board_.iterations.size());
  result.proofs.push_back(sim::data_right(result.wrong, result.checked, !is_queue()));
  if (is_queue()) return;
  result.proofs.push_back(outcome_->trace.in_order());
  result.proofs.push_back({"the engine's result is the same bits",
                           board_.engine_elements > 0 && board_.engine_differs == 0,
                           fmt::format("{} of {} elements differ", board_.engine_differs, board_.engine_elements)});
}

}  // namespace

std::unique_ptr<WorkloadRun> make_megakernel(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<MegakernelRun>(scenario, files, ranks);
}

}  // namespace meshbed::cli
