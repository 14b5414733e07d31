// Megakernels that run as kernels on simulated GPUs: kind = "megakernel" with memory = "gpu". Each rank's slots are
// executed by the persistent kernel of plugin/ring/gpu, in PTX, on messages in GPU memory; a proxy on the host sends
// them over the net plugin. Times come from the GPU's model, not from [workload.megakernel].

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "models/gpu.h"
#include "plugin/coll/transport/plugin_log.h"
#include "testbed/scenario/megakernel/blocks.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/collective.h"
#include "testbed/workload/megakernel/gpu.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/workload/megakernel/programs.h"
#include "testbed/workload/rank_table.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

/// Engine options that give the order of additions of the slots: a ring algorithm on one channel.
EngineOptions slot_engine_options(const Scenario& scenario, const BuiltFiles& files) {
  EngineOptions options = engine_options(scenario, files);
  options.algorithm = "ring";
  return options;
}

class MegakernelGpuRun final : public WorkloadRun {
 public:
  MegakernelGpuRun(const Scenario& scenario, const BuiltFiles& files, RankRange ranks)
      : scenario_(scenario),
        workload_(scenario.workload),
        settings_(scenario.workload.megakernel),
        plugin_(net_plugin_of(scenario, files)),
        engine_(slot_engine_options(scenario, files)),
        local_ranks_(local_ranks(scenario)),
        world_(ranks_of(scenario)),
        images_(static_cast<std::size_t>(ranks.count)),
        results_(static_cast<std::size_t>(ranks.count)),
        iterations_(static_cast<std::size_t>(workload_.iterations)),
        outcome_(std::make_shared<RingOutcome>()) {
    if (ranks.first != 0 || ranks.count != world_) {
      throw std::runtime_error("kind = \"megakernel\" is the simulated world's: leave --world out");
    }
    if (const auto problem = ring_slots_problem(workload_, world_))
      throw std::runtime_error("workload.megakernel.slots: " + *problem);
    outcome_->program = settings_.program;
    outcome_->times = times();
    outcome_->verdicts.resize(static_cast<std::size_t>(world_));
    outcome_->ranks.resize(static_cast<std::size_t>(world_));
  }

  Result<void> run_rank(RankHost& host) override;
  nlohmann::json findings() const override { return nlohmann::json::object(); }
  void take_in(const nlohmann::json&) override {}
  void conclude(RunResult& result) override;

 private:
  struct Rank {
    RankHost& host;
    RingProgram& program;
    RingSpaces& images;
    RingGpu& gpu;
    RingProxy& proxy;
    bool stopping = false;         // the proxy's thread is to end
    std::optional<Error> failure;  // the proxy's
  };
  /// Costs of a run in addition to the kernel's instructions, by the first rank's GPU.
  std::vector<RingTime> times() const {
    const auto ns = [](Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e3; };
    std::vector<RingTime> all{{"publish", ns(settings_.publish_ps),
                               settings_.publish_ps == kSlotWriteRfcTarget_ps ? "RFC target" : "scenario"}};
    const std::string& name = scenario_.cluster.at(node_of(scenario_, 0)).gpus.front().model;
    if (const models::GpuModel* const model = models::find_gpu(name)) {
      const std::string source = "model of the " + name;
      all.push_back({"launch", ns(model->launch_call_ps + model->launch_delay_ps), source});
      all.push_back({"poll", ns(model->host_flag_ps), source});
      all.push_back({"flag", ns(model->host_flag_ps), source});
    }
    return all;
  }
  coll::DataType type() const { return parse_data_type("dtype", workload_.dtype); }
  std::uint32_t salt_of(ring::Word epoch) const { return first_salt(scenario_.seed) + epoch * 0x9e37'79b9U; }
  ring::Word epochs() const { return static_cast<ring::Word>(workload_.iterations) + 1; }
  std::size_t place_of(const RankHost& host) const { return static_cast<std::size_t>(host.rank()); }

  Result<void> run_proxy(Rank& rank);
  Result<void> run_host(Rank& rank);
  Result<void> run_epoch(Rank& rank, ring::Word epoch);
  Result<void> until_done(Rank& rank, ring::Word slots);
  Result<void> compare(RankHost& host, RingProgram& program);

  const Scenario& scenario_;
  const Workload& workload_;
  const Megakernel& settings_;
  std::string plugin_;
  EngineOptions engine_;
  std::vector<int> local_ranks_;
  int world_;
  // Kept until the run has ended: memory that a failed rank leaves registered may still be written to.
  std::vector<RingSpaces> images_;
  std::vector<std::uint64_t> results_;  // by rank
  std::vector<IterationTime> iterations_;
  RingCheck check_;
  std::uint64_t engine_elements_ = 0, engine_differs_ = 0;
  GpuWork work_;
  std::shared_ptr<RingOutcome> outcome_;
};

Result<void> MegakernelGpuRun::run_rank(RankHost& host) {
  Result<RingProgram> program = ring_program(workload_, host.rank(), world_);
  if (!program) return program.error();
  RingSpaces& images = images_[place_of(host)];
  for (std::size_t space = 0; space < images.size(); ++space) images[space].resize(program->space_bytes[space]);
  const ring::Word slots = ring_slots_of(settings_, &*program);
  const auto gpu = RingGpu::make(
      {.host = host,
       .program = program->slots,
       .images = images,
       .trace = outcome_->trace,
       .device = local_ranks_[place_of(host)],
       .slots = slots,
       .lanes = lanes_of(settings_, slots),
       .element = gpu_element_of(type()).value_or(ring::GpuElement::kFloat32),
       .reduction = gpu_reduction_of(parse_reduction("op", workload_.op)).value_or(ring::GpuReduction::kSum)});
  if (!gpu) return gpu.error();
  const Result<RankTable> opened = begin_rank_table(host, plugin_, workload_.net_version);
  if (!opened) return opened.error();
  coll::NetTable& net = *opened->table;
  const std::uint64_t warns = coll::warn_count();
  const char thread = 0;  // what the proxy would doze on, if it did
  RingProxy proxy({.host = host,
                   .net = net,
                   .program = program->slots,
                   .spaces = images,
                   .kernel = **gpu,
                   .settings = settings_,
                   .threads = &thread});
  if (auto connected = proxy.connect(); !connected) return connected;
  if (auto all = host.rendezvous(); !all) return all;
  Rank rank{.host = host, .program = *program, .images = images, .gpu = **gpu, .proxy = proxy, .failure = {}};
  Result<void> ran, carried;
  std::vector<RankThread> threads;
  threads.push_back({"proxy", [&] {
                       carried = run_proxy(rank);
                       if (!carried) rank.failure = carried.error();
                     }});
  threads.push_back({"host", [&] {
                       ran = run_host(rank);
                       rank.stopping = true;
                     }});
  host.run_together(std::move(threads));
  if (!ran) return ran;
  if (!carried) return carried;
  outcome_->verdicts[place_of(host)] = {
      .rank = host.rank(), .reached = true, .at_ps = host.now_ps(), .text = "nothing is queued"};
  if (const auto work = host.gpu_work()) {
    work_.launches += work->launches;
    work_.device_syncs += work->device_syncs;
  }
  // A slower rank may still need its connections: close them only after all ranks are done.
  if (auto all = host.rendezvous(); !all) return all;
  if (auto closed = proxy.close(); !closed) return closed;
  if (const int code = net.finalize(); code != nccl::kNcclSuccess) return table_error(net, "finalize", code, warns);
  return compare(host, *program);
}

Result<void> MegakernelGpuRun::run_proxy(Rank& rank) {
  const auto current = rank.gpu.enter();
  if (!current->outcome()) return current->outcome();
  while (!rank.stopping) {
    const Result<bool> triggers = rank.gpu.pass();
    if (!triggers) return triggers.error();
    const Result<bool> messages = rank.proxy.pass(0);
    if (!messages) return messages.error();
    if (!*triggers && !*messages) rank.host.idle("megakernel: the proxy's triggers and messages");
  }
  return ok();
}

Result<void> MegakernelGpuRun::run_host(Rank& rank) {
  const auto current = rank.gpu.enter();
  if (!current->outcome()) return current->outcome();
  RingRank& seen = outcome_->ranks[place_of(rank.host)];
  seen.launch.start_ps = rank.host.now_ps();
  if (auto begun = rank.gpu.launch(); !begun) return begun;
  seen.launch.end_ps = rank.host.now_ps();
  Result<void> ran;
  for (ring::Word epoch = 1; epoch <= epochs() && ran; ++epoch) ran = run_epoch(rank, epoch);
  // A running kernel would never release its memory.
  if (auto ended = rank.gpu.end(!ran); !ended) return ran ? ended : ran;
  seen.rank = rank.host.rank();
  seen.reached = true;
  seen.lanes = lanes_of(settings_, ring_slots_of(settings_, &rank.program));
  seen.slots = ring_slots_of(settings_, &rank.program);
  seen.saw_lanes = false;
  seen.watch.counters = rank.gpu.counters();
  outcome_->slots_done += rank.gpu.done_count();
  return ran;
}

/// Waits until that many slots have become DONE.
Result<void> MegakernelGpuRun::until_done(Rank& rank, ring::Word slots) {
  Picoseconds moved_ps = rank.host.now_ps();
  for (ring::Word done = 0; done < slots;) {
    if (rank.failure) return *rank.failure;
    if (rank.host.others_failed()) {
      return Error{.code = ErrorCode::kClosed, .scope = Scope::kJob, .text = "another rank has failed"};
    }
    const ring::Word now = rank.gpu.see_done();
    if (now > 0) moved_ps = rank.host.now_ps();
    if ((done += now) == slots) return ok();
    if (rank.host.now_ps() - moved_ps > 2 * settings_.watchdog_ps) {
      return Error{.code = ErrorCode::kTimeout,
                   .scope = Scope::kJob,
                   .text = fmt::format("no slot of the megakernel has ended in two looks of the watchdog: {}",
                                       rank.gpu.waiting_text())};
    }
    rank.host.idle("megakernel: the host waits for slots");
  }
  return ok();
}

Result<void> MegakernelGpuRun::run_epoch(Rank& rank, ring::Word epoch) {
  const bool rough = epoch == epochs();
  fill_source(rank.program, workload_, rank.host.rank(), world_, salt_of(epoch), rough, rank.images);
  if (auto given = rank.gpu.give(rank.program.source); !given) return given;
  rank.proxy.begin_epoch();
  if (auto all = rank.host.rendezvous(); !all) return all;
  const Picoseconds start_ps = rank.host.now_ps();
  const auto publish = [&](ring::Word slot, const ring::MeshSlot& what) {
    rank.host.spend(settings_.publish_ps);
    return rank.gpu.publish(slot, what);
  };
  const auto slots = static_cast<ring::Word>(rank.program.slots.slots.size());
  for (ring::Word slot = 0; slot < slots; ++slot) {
    if (auto given = publish(slot, slot_of_epoch(rank.program.slots, slot, epoch)); !given) return given;
  }
  if (auto done = until_done(rank, slots); !done) return done;
  ring::MeshSlot fence{.opcode = ring::opcode::kBatchFence};
  fence.args[0] = slots;
  fence.args[1] = epoch;
  if (auto given = publish(slots, fence); !given) return given;
  if (auto done = until_done(rank, 1); !done) return done;
  const Picoseconds end_ps = rank.host.now_ps();
  outcome_->calls.push_back({.rank = rank.host.rank(), .start_ps = start_ps, .end_ps = end_ps});
  if (!rough) {
    IterationTime& time = iterations_[epoch - 1];
    time.start_ps = start_ps;
    time.end_ps = std::max(time.end_ps, end_ps);
  }
  if (auto taken = rank.gpu.take(coll::Space::kOutput); !taken) return taken;
  if (auto all = rank.host.rendezvous(); !all) return all;
  if (rough) return ok();
  const RingCheck check = check_pattern(rank.program, workload_, rank.host.rank(), world_, salt_of(epoch), rank.images);
  if (check_.wrong == 0) check_.first_wrong = check.first_wrong;
  check_.checked += check.checked;
  check_.wrong += check.wrong;
  return ok();
}

/// The last epoch uses rough data: the engine's result of the same data, in host memory, must be equal bit for bit.
Result<void> MegakernelGpuRun::compare(RankHost& host, RingProgram& program) {
  Result<Engine> engine = Engine::open(host, engine_);
  if (!engine) return engine.error();
  RingSpaces& images = images_[place_of(host)];
  const auto theirs = engine_result(*engine, program, workload_, world_, images);
  if (!theirs) return theirs.error();
  const std::byte* const ours = images[static_cast<std::size_t>(coll::Space::kOutput)].data();
  const std::size_t element_bytes = coll::size_of(type());
  for (std::uint64_t element = 0; element < program.result_count; ++element) {
    const std::uint64_t at = element * element_bytes;
    if (std::equal(ours + at, ours + at + element_bytes, theirs->data() + at)) continue;
    if (engine_differs_++ == 0 && check_.wrong == 0) {
      check_.first_wrong = fmt::format("rank {}, element {}: not the engine's bits", host.rank(), element);
    }
  }
  engine_elements_ += program.result_count;
  results_[place_of(host)] = XXH3_64bits(ours, program.result_count * element_bytes);
  if (auto all = host.rendezvous(); !all) return all;
  return engine->close();
}

void MegakernelGpuRun::conclude(RunResult& result) {
  result.workload = "megakernel " + settings_.program + " on GPUs";
  result.bytes = workload_.bytes;
  result.busbw_factor = models::bus_factor(
      settings_.program == "all_gather" ? models::Collective::kAllGather : models::Collective::kAllReduce, world_);
  result.iterations = workload_.iterations;
  result.wrong = check_.wrong + engine_differs_;
  result.checked = check_.checked + engine_elements_;
  if (result.wrong > 0) result.first_wrong = check_.first_wrong;
  result.data = results_;
  measure_rings(*outcome_);
  result.rings = outcome_;
  if (!result.simulation.ended_well()) return;
  Picoseconds total_ps = 0;
  for (const IterationTime& time : iterations_) total_ps += time.end_ps - time.start_ps;
  result.time_ps = total_ps / static_cast<Picoseconds>(iterations_.size());
  result.proofs.push_back(sim::data_right(result.wrong, result.checked, true));
  result.proofs.push_back({"the engine's result is the same bits", engine_elements_ > 0 && engine_differs_ == 0,
                           fmt::format("{} of {} elements differ", engine_differs_, engine_elements_)});
  result.proofs.push_back(
      {"one kernel a rank did it all, and nothing waited for a whole device",
       work_.launches == static_cast<std::uint64_t>(world_) && work_.device_syncs == 0,
       fmt::format("{} ranks: {} launches, {} waits for a whole device", world_, work_.launches, work_.device_syncs)});
}

}  // namespace

std::unique_ptr<WorkloadRun> make_megakernel_on_gpus(const Scenario& scenario, const BuiltFiles& files,
                                                     RankRange ranks) {
  return std::make_unique<MegakernelGpuRun>(scenario, files, ranks);
}

}  // namespace meshbed::testbed
