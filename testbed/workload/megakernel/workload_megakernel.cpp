// Megakernels, one a rank, whose slots are a collective's steps (over the net plugin), or come from a queue (no
// network): plugin/ring executed in virtual time. Simulated world only.

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/workload/collective.h"
#include "testbed/workload/megakernel/host.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/workload/megakernel/programs.h"
#include "testbed/workload/megakernel/ring_of_rank.h"
#include "testbed/workload/megakernel/times.h"
#include "testbed/workload/megakernel/waits.h"
#include "testbed/workload/rank_table.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

struct RingBoard {
  std::vector<IterationTime> iterations;
  std::vector<std::uint64_t> results;  // by rank, then by ring
  RingCheck check;
  std::uint64_t engine_elements = 0;  // compared with the engine's result
  std::uint64_t engine_differs = 0;
  std::vector<RingToken> tokens;           // of decode, by initiation: sums over tokens and ranks
  Picoseconds token_end_ps = 0;            // when the last rank ended the current token
  bool stuck = false;                      // a rank's ring is stuck: no rank begins another epoch
  std::vector<const RingKernel*> kernels;  // by rank, then by ring; nullptr: not created yet, or destroyed

  /// Whether there is work under way; messages count only as long as retransmissions may take (kPatience_ps).
  bool works(Picoseconds without_progress_ps) const {
    return std::any_of(kernels.begin(), kernels.end(), [&](const RingKernel* kernel) {
      return kernel != nullptr && (kernel->works() || (without_progress_ps < kPatience_ps && kernel->sends()));
    });
  }

  void add(const RingCheck& one) {
    if (check.wrong == 0) check.first_wrong = one.first_wrong;
    check.checked += one.checked;
    check.wrong += one.wrong;
  }
};

/// Engine options that give the order of additions of the slots: a ring algorithm on one channel.
EngineOptions ring_engine_options(const Scenario& scenario, const BuiltFiles& files) {
  EngineOptions options = engine_options(scenario, files);
  options.algorithm = "ring";
  return options;
}

class MegakernelRun final : public WorkloadRun {
 public:
  MegakernelRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : scenario_(scenario),
        workload_(scenario.workload),
        settings_(scenario.workload.megakernel),
        of_ring_(workload_of_ring(scenario.workload)),
        initiations_(initiations_of(settings_)),
        plugin_(net_plugin_of(scenario, files)),
        engine_(ring_engine_options(scenario, files)),
        world_(ranks_of(scenario)),
        rings_(static_cast<std::size_t>(settings_.rings)),
        spaces_(static_cast<std::size_t>(ranks.count) * rings_),
        parts_(ranks_of(scenario)),
        outcome_(std::make_shared<RingOutcome>()) {
    if (ranks.first != 0 || ranks.count != world_) {
      throw std::runtime_error("kind = \"megakernel\" is the simulated world's: leave --world out");
    }
    if (const auto problem = ring_slots_problem(workload_, world_))
      throw std::runtime_error("workload.megakernel.slots: " + *problem);
    refuse_graph_too_large(workload_);
    const std::size_t rings = static_cast<std::size_t>(world_) * rings_;
    outcome_->rings = settings_.rings;
    outcome_->program = settings_.program;
    outcome_->times = ring_times(settings_);
    outcome_->recorded = settings_.recorded;
    if (settings_.graph) outcome_->tenants = settings_.graph->tenants;
    settings_.initiation = initiations_.front();
    if (is_decode()) {
      for (const std::string& initiation : initiations_) board_.tokens.push_back({.initiation = initiation});
    }
    outcome_->verdicts.resize(rings);
    outcome_->ranks.resize(rings);
    board_.results.resize(rings);
    board_.kernels.resize(rings, nullptr);
    board_.iterations.resize(is_queue() ? 1 : static_cast<std::size_t>(workload_.iterations));
  }

  Result<void> run_rank(RankHost& host) override { return is_queue() ? run_queue(host) : run_program(host); }

  nlohmann::json findings() const override { return nlohmann::json::object(); }
  void take_in(const nlohmann::json&) override {}
  void conclude(RunResult& result) override;

 private:
  bool is_queue() const { return settings_.program == "queue"; }
  bool is_decode() const { return settings_.program == "decode"; }
  /// Whether the slots come from a file: their expected results are not known, but each message's bytes are checked.
  bool is_graph() const { return settings_.graph != nullptr; }
  coll::DataType type() const { return parse_data_type("dtype", workload_.dtype); }
  std::uint32_t salt_of(std::uint32_t epoch) const { return first_salt(scenario_.seed) + epoch * 0x9e37'79b9U; }
  /// Each ring has data of its own.
  std::uint32_t salt_of(std::uint32_t epoch, std::size_t ring) const {
    return salt_of(epoch) + static_cast<std::uint32_t>(ring) * 0x85eb'ca6bU;
  }
  /// Whether the epoch uses rough data: the last one does, if the program's result is compared.
  ring::Word epochs() const {
    const auto timed = static_cast<ring::Word>(workload_.iterations) * static_cast<ring::Word>(initiations_.size());
    return is_graph() ? timed : timed + 1;
  }
  /// Index of a ring in all vectors by rank and ring.
  std::size_t place_of(const RankHost& host, std::size_t ring) const {
    return static_cast<std::size_t>(host.rank()) * rings_ + ring;
  }
  RingKernel::Setting kernel_of(RankHost& host, const RingBuffers& buffers, const coll::SlotProgram& program,
                                std::size_t ring, const void* ended);
  Result<void> time_token(RankHost& host, RingToken& token, Picoseconds start_ps);
  void time_epoch(std::size_t index, Picoseconds start_ps, Picoseconds end_ps);
  void take_outcome(RankHost& host, RingHost& ring_host, std::size_t ring, const RingBuffers& buffers,
                    const RingKernel& kernel);
  std::function<bool(Picoseconds)> anything_works() {
    return [this](Picoseconds without_progress_ps) { return board_.works(without_progress_ps); };
  }

  Result<void> run_queue(RankHost& host);
  Result<void> run_program(RankHost& host);
  Result<void> run_epochs(RankHost& host, std::deque<ProgramRing>& rings, RingHost& ring_host, RingProxies& proxies);
  void note_waits(RingHost& ring_host);
  Result<void> compare_with_serial(RankHost& host, std::deque<ProgramRing>& rings);
  Result<void> compare_with_engine(RankHost& host, std::deque<ProgramRing>& rings);
  void compare(const RankHost& host, const ProgramRing& one, std::size_t ring, const std::vector<std::byte>& expected,
               const char* whose);

  const Scenario& scenario_;
  const Workload& workload_;
  Megakernel settings_;  // all ranks change its initiation at once
  const Workload of_ring_;
  std::vector<std::string> initiations_;
  std::string plugin_;
  EngineOptions engine_;
  int world_;
  std::size_t rings_;  // of each rank
  // Kept until the run has ended: memory that a failed rank leaves registered may still be written to.
  std::vector<RingSpaces> spaces_;
  RingBoard board_;
  RingRegistry registry_;
  RingParts parts_;
  MessageBytes bytes_;
  std::shared_ptr<RingOutcome> outcome_;
};

RingKernel::Setting MegakernelRun::kernel_of(RankHost& host, const RingBuffers& buffers,
                                             const coll::SlotProgram& program, std::size_t ring, const void* ended) {
  return {.host = host,
          .settings = settings_,
          .kernel = buffers.kernel,
          .program = program,
          .spaces = spaces_[place_of(host, ring)],
          .type = type(),
          .op = settings_.program == "pipeline" ? coll::ReduceOp::kSum : parse_reduction("op", workload_.op),
          .trace = outcome_->trace,
          .ring = static_cast<int>(ring),
          .ended_key = ended,
          .parts = is_decode() ? &parts_ : nullptr,
          .bytes = is_graph() ? &bytes_ : nullptr};
}

void MegakernelRun::time_epoch(std::size_t index, Picoseconds start_ps, Picoseconds end_ps) {
  if (index >= board_.iterations.size()) return;
  IterationTime& time = board_.iterations[index];
  time.start_ps = start_ps;
  time.end_ps = std::max(time.end_ps, end_ps);
}

void MegakernelRun::take_outcome(RankHost& host, RingHost& ring_host, std::size_t ring, const RingBuffers& buffers,
                                 const RingKernel& kernel) {
  outcome_->verdicts[place_of(host, ring)] = ring_host.verdict(ring);
  outcome_->slots_done += buffers.control[ring::control_word::kDoneCount];
  outcome_->ranks[place_of(host, ring)] = {.rank = host.rank(),
                                           .ring = static_cast<int>(ring),
                                           .reached = true,
                                           .lanes = buffers.kernel.lanes,
                                           .slots = buffers.kernel.slots,
                                           .launch = kernel.launch(),
                                           .credit_waits = kernel.credit_waits(),
                                           .watch = ring_host.watched(ring)};
}

Result<void> MegakernelRun::run_queue(RankHost& host) {
  const ring::Word slots = ring_slots_of(settings_, nullptr);
  const coll::SlotProgram nothing;
  const char ended = 0;  // what the kernels nudge
  RingHost ring_host(host, settings_, outcome_->trace, anything_works(), &ended);
  std::deque<QueueRing> rings;
  std::deque<RingRegistry::Entry> entries;
  std::vector<RankThread> threads;
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    // Its ADDs go to observables of its own.
    QueueRing& made = rings.emplace_back(
        RingBuffers(settings_, slots, lanes_of(settings_, slots), {.ids = RingHost::kAddWords}),
        [&](const RingBuffers& buffers) { return kernel_of(host, buffers, nothing, ring, &ended); },
        board_.kernels[place_of(host, ring)]);
    ring_host.add(made.buffers, made.kernel, nothing);
    entries.emplace_back(registry_, RingAtWork{.rank = host.rank(),
                                               .ring = static_cast<int>(ring),
                                               .buffers = &made.buffers,
                                               .kernel = &made.kernel,
                                               .program = &nothing});
    threads.push_back({"kernel", [&made] { made.kernel.run(); }});
  }
  threads.push_back({"host", [&] {
                       ring_host.run_queue(scenario_.seed);
                       note_waits(ring_host);
                       for (QueueRing& one : rings) one.kernel.stop();
                     }});
  const Picoseconds start_ps = host.now_ps();
  host.run_together(std::move(threads));
  time_epoch(0, start_ps, host.now_ps());
  ring_host.look_once_more();
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    const RingBuffers& buffers = rings[ring].buffers;
    take_outcome(host, ring_host, ring, buffers, rings[ring].kernel);
    std::uint64_t adds = 0;
    const auto* const observables = buffers.control.data() + ring::kLayout2026_05.observables;
    for (ring::Word index = 1; index <= RingHost::kAddWords; ++index) adds += observables[index];
    // A drained ring has executed each ADD exactly once.
    if (!ring_host.stuck()) {
      const QueueCount& counted = ring_host.counted(ring);
      board_.add({.checked = counted.published,
                  .wrong = std::max(adds, counted.adds) - std::min(adds, counted.adds),
                  .first_wrong = fmt::format("rank {}: {} added up instead of {}", host.rank(), adds, counted.adds)});
    }
    board_.results[place_of(host, ring)] =
        XXH3_64bits(buffers.control.data(), buffers.control.size() * sizeof(ring::Word));
  }
  return host.rendezvous();
}

Result<void> MegakernelRun::run_program(RankHost& host) {
  const char ended = 0;  // what the kernels nudge
  RingHost ring_host(host, settings_, outcome_->trace, anything_works(), &ended);
  std::vector<RingProgram> programs;
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    Result<RingProgram> program = ring_program(of_ring_, host.rank(), world_);
    if (!program) return program.error();
    if (settings_.waits_first) put_waits_first(*program);
    RingSpaces& spaces = spaces_[place_of(host, ring)];
    for (std::size_t space = 0; space < spaces.size(); ++space) spaces[space].resize(program->space_bytes[space]);
    programs.push_back(*std::move(program));
  }

  const Result<RankTable> opened = begin_rank_table(host, plugin_, workload_.net_version);
  if (!opened) return opened.error();
  coll::NetTable& net = *opened->table;
  const std::uint64_t warns = coll::warn_count();
  std::deque<ProgramRing> rings;
  std::deque<RingRegistry::Entry> entries;
  RingProxies proxies(host, settings_);
  std::vector<RankThread> threads;
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    RingProgram& program = programs[ring];
    const ring::Word slots = ring_slots_of(settings_, &program);
    RingBuffers buffers(settings_, slots, lanes_of(settings_, slots), program.slots.board());
    if (const auto levels = ring_places_of(settings_, program).levels) {
      std::copy(levels->begin(), levels->end(), buffers.control.begin() + kRingLayout.priority_offsets);
    }
    ProgramRing& made = rings.emplace_back(
        std::move(program), std::move(buffers),
        [&](const RingBuffers& its, const RingProgram& steps) {
          RingKernel::Setting setting = kernel_of(host, its, steps.slots, ring, &ended);
          setting.begins = &steps.begins;
          return setting;
        },
        [&](const coll::SlotProgram& steps, RingKernel& kernel) -> RingLandings::Setting {
          return {.host = host,
                  .settings = settings_,
                  .program = steps,
                  .spaces = spaces_[place_of(host, ring)],
                  .kernel = kernel,
                  .element_bytes = coll::size_of(type()),
                  .seed = scenario_.seed + ring};
        },
        [&](const coll::SlotProgram& steps, RingKernel& kernel) -> RingProxy::Setting {
          return {.host = host,
                  .net = net,
                  .program = steps,
                  .spaces = spaces_[place_of(host, ring)],
                  .kernel = kernel,
                  .settings = settings_,
                  .ring = static_cast<int>(ring),
                  .threads = proxies.threads()};
        },
        board_.kernels[place_of(host, ring)]);
    ring_host.add(made.buffers, made.kernel, made.program);
    proxies.add(made.proxy, made.kernel);
    entries.emplace_back(registry_, RingAtWork{.rank = host.rank(),
                                               .ring = static_cast<int>(ring),
                                               .buffers = &made.buffers,
                                               .kernel = &made.kernel,
                                               .proxy = &made.proxy,
                                               .program = &made.program.slots});
    threads.push_back({"kernel", [&made] { made.kernel.run(); }});
  }
  if (auto connected = proxies.connect(); !connected) return connected;
  if (auto all = host.rendezvous(); !all) return all;
  Result<void> ran;
  proxies.add_threads(threads);
  threads.push_back({"host", [&] {
                       ran = run_epochs(host, rings, ring_host, proxies);
                       for (ProgramRing& one : rings) one.kernel.stop();
                       proxies.stop();
                     }});
  host.run_together(std::move(threads));
  ring_host.look_once_more();
  if (!ran) ring_host.give_up();
  if (proxies.failure()) ring_host.note_failed(proxies.failure()->text);
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    take_outcome(host, ring_host, ring, rings[ring].buffers, rings[ring].kernel);
  }
  if (!ran) return ran;
  // A slower rank may still need its connections: close them only after all ranks are done.
  if (auto all = host.rendezvous(); !all) return all;
  if (auto closed = proxies.close(); !closed) return closed;
  if (const int code = net.finalize(); code != nccl::kNcclSuccess) return table_error(net, "finalize", code, warns);
  if (board_.stuck || is_graph()) return host.rendezvous();
  return adds_in_rank_order(workload_) ? compare_with_serial(host, rings) : compare_with_engine(host, rings);
}

/// The chain of waits, as seen by the first host that finds a ring stuck.
void MegakernelRun::note_waits(RingHost& ring_host) {
  if (!ring_host.stuck()) return;
  ring::WaitChain& waits = outcome_->waits;
  if (waits.links.empty()) {
    waits = registry_.waits();
    outcome_->doorbells = registry_.doorbells();
  }
  if (!waits.is_cycle) return;
  for (const ring::WaitLink& link : waits.links) {
    if (link.rank == ring_host.rank()) ring_host.note_cycle(link.ring);
  }
}

/// Adds the parts of this rank's time from `start_ps` until the last rank has ended the token.
Result<void> MegakernelRun::time_token(RankHost& host, RingToken& token, Picoseconds start_ps) {
  board_.token_end_ps = std::max(board_.token_end_ps, host.now_ps());
  if (auto all = host.rendezvous(); !all) return all;
  if (board_.stuck) return ok();  // the time until a stuck ring was detected is not a token's time
  const RingPartTimes parts = parts_.take(host.rank(), start_ps, board_.token_end_ps);
  ++token.tokens;
  token.token_ps += board_.token_end_ps - start_ps;
  for (std::size_t part = 0; part < parts.size(); ++part) token.parts[part] += parts[part];
  return ok();
}

Result<void> MegakernelRun::run_epochs(RankHost& host, std::deque<ProgramRing>& rings, RingHost& ring_host,
                                       RingProxies& proxies) {
  const auto spaces_of = [&](std::size_t ring) -> RingSpaces& { return spaces_[place_of(host, ring)]; };
  // No iteration begins before the kernel runs: the launch is not part of any time.
  host.spend(settings_.launch_ps);
  // The last epoch uses rough data: the engine's result must be equal bit for bit.
  const auto timed = static_cast<ring::Word>(workload_.iterations);
  for (ring::Word epoch = 1; epoch <= epochs(); ++epoch) {
    const bool rough = epoch == epochs() && !is_graph();
    const std::size_t turn = rough ? initiations_.size() - 1 : (epoch - 1) / timed;
    for (std::size_t ring = 0; ring < rings_; ++ring) {
      fill_source(rings[ring].program, of_ring_, host.rank(), world_, salt_of(epoch, ring), rough, spaces_of(ring));
    }
    proxies.begin_epoch();
    if (auto all = host.rendezvous(); !all) return all;
    settings_.initiation = initiations_[turn];
    const Picoseconds start_ps = host.now_ps();
    ring_host.run_epoch(epoch, proxies);
    if (proxies.failure()) return *proxies.failure();
    note_waits(ring_host);
    for (std::size_t ring = 0; ring < rings_ && !ring_host.stuck(); ++ring) {
      RingLandings& landings = rings[ring].landings;
      landings.end_epoch();
      if (!landings.stale().empty()) ring_host.note_stale(ring, landings.stale());
    }
    board_.stuck = board_.stuck || ring_host.stuck();
    if (!rough && turn == 0) time_epoch(epoch - 1, start_ps, host.now_ps());
    outcome_->calls.push_back({.rank = host.rank(), .start_ps = start_ps, .end_ps = host.now_ps()});
    if (is_decode() && !rough) {
      if (auto counted = time_token(host, board_.tokens[turn], start_ps); !counted) return counted;
    }
    if (auto all = host.rendezvous(); !all) return all;
    if (board_.stuck) return ok();
    for (std::size_t ring = 0; ring < rings_ && !rough; ++ring) {
      board_.add(
          check_pattern(rings[ring].program, of_ring_, host.rank(), world_, salt_of(epoch, ring), spaces_of(ring)));
    }
  }
  return ok();
}

/// Compares the last epoch, which uses rough data, with `expected` bit for bit.
void MegakernelRun::compare(const RankHost& host, const ProgramRing& one, std::size_t ring,
                            const std::vector<std::byte>& expected, const char* whose) {
  const RingSpaces& spaces = spaces_[place_of(host, ring)];
  const std::byte* const ours = spaces[static_cast<std::size_t>(coll::Space::kOutput)].data();
  const std::size_t element_bytes = coll::size_of(type());
  std::uint64_t wrong = 0;
  for (std::uint64_t element = 0; element < one.program.result_count; ++element) {
    const std::uint64_t at = element * element_bytes;
    if (std::equal(ours + at, ours + at + element_bytes, expected.data() + at)) continue;
    if (wrong++ == 0 && board_.engine_differs == 0 && board_.check.wrong == 0) {
      board_.check.first_wrong =
          fmt::format("rank {}, ring {}, element {}: not {} bits", host.rank(), ring, element, whose);
    }
  }
  board_.engine_elements += one.program.result_count;
  board_.engine_differs += wrong;
  board_.results[place_of(host, ring)] = XXH3_64bits(ours, one.program.result_count * element_bytes);
}

Result<void> MegakernelRun::compare_with_serial(RankHost& host, std::deque<ProgramRing>& rings) {
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    compare(host, rings[ring], ring, rank_order_result(rings[ring].program, of_ring_, world_, salt_of(epochs(), ring)),
            "the serial sum's");
  }
  return host.rendezvous();
}

Result<void> MegakernelRun::compare_with_engine(RankHost& host, std::deque<ProgramRing>& rings) {
  Result<Engine> engine = Engine::open(host, engine_);
  if (!engine) return engine.error();
  for (std::size_t ring = 0; ring < rings_; ++ring) {
    const auto theirs = engine_result(*engine, rings[ring].program, of_ring_, world_, spaces_[place_of(host, ring)]);
    if (!theirs) return theirs.error();
    compare(host, rings[ring], ring, *theirs, "the engine's");
  }
  if (auto all = host.rendezvous(); !all) return all;
  return engine->close();
}

void MegakernelRun::conclude(RunResult& result) {
  result.workload = "megakernel " + settings_.program;
  result.bytes =
      is_queue() || is_graph() ? 0 : workload_.bytes * (is_decode() ? static_cast<std::uint64_t>(settings_.layers) : 1);
  const bool gathers = settings_.program == "all_gather";
  if (gathers || settings_.program == "all_reduce" || settings_.program == "fused_all_reduce" || is_decode()) {
    result.busbw_factor =
        models::bus_factor(gathers ? models::Collective::kAllGather : models::Collective::kAllReduce, world_);
  }
  result.iterations = static_cast<int>(board_.iterations.size());
  const std::uint64_t element_bytes = coll::size_of(type());
  result.wrong = board_.check.wrong + board_.engine_differs + bytes_.wrong() / element_bytes;
  result.checked = board_.check.checked + board_.engine_elements + bytes_.checked() / element_bytes;
  if (result.wrong > 0) result.first_wrong = is_graph() ? bytes_.first_wrong() : board_.check.first_wrong;
  for (std::size_t rank = 0; rank < board_.results.size() / rings_; ++rank) {
    const std::uint64_t* const first = &board_.results[rank * rings_];
    result.data.push_back(rings_ == 1 ? *first : XXH3_64bits(first, rings_ * sizeof *first));
  }
  measure_rings(*outcome_);
  outcome_->layers = is_decode() ? settings_.layers : 0;
  for (RingToken token : board_.tokens) {
    if (token.tokens == 0) continue;
    const auto tokens = static_cast<Picoseconds>(token.tokens);
    token.token_ps /= tokens;
    for (Picoseconds& part : token.parts) part /= tokens;
    outcome_->tokens.push_back(token);
  }
  result.rings = outcome_;
  if (!result.simulation.ended_well()) return;
  if (std::any_of(outcome_->verdicts.begin(), outcome_->verdicts.end(),
                  [](const RingVerdict& one) { return one.reached && one.cause != ring::Cause::kDrained; })) {
    return;  // the time until a stuck ring was detected is not a result
  }
  Picoseconds total_ps = 0;
  for (const IterationTime& time : board_.iterations) total_ps += time.end_ps - time.start_ps;
  result.time_ps = total_ps / static_cast<Picoseconds>(board_.iterations.size());
  result.proofs.push_back(sim::data_right(result.wrong, result.checked, !is_queue() && !is_graph()));
  if (is_queue()) return;
  result.proofs.push_back(outcome_->trace.in_order());
  if (is_graph()) return;
  result.proofs.push_back({adds_in_rank_order(workload_) ? "the serial sum in rank order is the same bits"
                                                         : "the engine's result is the same bits",
                           board_.engine_elements > 0 && board_.engine_differs == 0,
                           fmt::format("{} of {} elements differ", board_.engine_differs, board_.engine_elements)});
}

}  // namespace

std::unique_ptr<WorkloadRun> make_megakernel(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  return std::make_unique<MegakernelRun>(scenario, files, ranks);
}

}  // namespace meshbed::testbed
