#include "cli/bench/bench_ring_simulated.h"

// In CPU time: what else runs on the machine only ever adds to it. A simulated slot costs what it costs however far
// apart slots are in virtual time, since nothing is done while nothing happens; so a slot's cost says how many of them
// a second of virtual time may have.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "plugin/ring/abi/control.h"
#include "plugin/ring/kernel/step.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/world/run_workload.h"

namespace meshbed::testbed {
namespace {

constexpr double kPatience_s = 60;  // that a second of virtual time may take

struct InterpreterCase {
  const char* name;
  ring::Word slots, lanes;
  bool by_priority;
};
constexpr InterpreterCase kInterpreterCases[] = {{"plain", 1024, 1024, false},
                                                 {"plain, few lanes", 1024, 8, false},
                                                 {"priority", 1024, 1024, true},
                                                 {"priority, few lanes", 1024, 8, true}};

/// A ring and its kernel, in memory of their own. Every slot adds 1 to an observable.
class InterpreterRun {
 public:
  explicit InterpreterRun(const InterpreterCase& now)
      : control_(ring::kLayout2026_05.control_min_words + 1), slots_(now.slots * ring::kSlotWords), lanes_(now.lanes) {
    control_[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
    control_[ring::control_word::kTenantMasks] = ring::kTenantMaskAll;
    const auto levels = ring::levels_of(now.slots);
    std::copy(levels.begin(), levels.end(), control_.begin() + ring::kLayout2026_05.priority_offsets);
    kernel_ = {.control = control_.data(),
               .control_words = static_cast<ring::Word>(control_.size()),
               .ring = slots_.data(),
               .slots = now.slots,
               .lanes = now.lanes,
               .by_priority = now.by_priority};
    for (ring::Word index = 0; index < now.lanes; ++index) lanes_[index].index = index;
  }

  /// The whole ring is published, then every lane has its turn until nothing is left. How many slots ended.
  int fill_and_drain() {
    for (ring::Word slot = 0; slot < kernel_.slots; ++slot) {
      ring::Word* const words = ring::slot_at(kernel_, slot);
      words[ring::slot_word::kOpcode] = ring::opcode::kAtomicAdd;
      words[ring::slot_word::kTenant] = 0;
      words[ring::kLayout2026_05.priority_word] = ring::priority::kNormal;
      words[ring::kLayout2026_05.arg0_word] = 1;
      words[ring::kLayout2026_05.arg0_word + 1] = ring::kLayout2026_05.observables;
      words[ring::slot_word::kStatus] = ring::status::kPublished;
    }
    int ended = 0;
    ring::NoUserOperations user;
    for (bool busy = true; busy;) {
      busy = false;
      for (ring::KernelLane& lane : lanes_) {
        if (ring::turn<ring::PlainWords>(kernel_, lane, user) != ring::Step::kEnded) continue;
        busy = true;
        ++ended;
      }
    }
    return ended;
  }
  ring::Word added() const { return control_[ring::kLayout2026_05.observables]; }

 private:
  std::vector<ring::Word> control_, slots_;
  std::vector<ring::KernelLane> lanes_;
  ring::Kernel kernel_;
};

nlohmann::json run_interpreter(const InterpreterCase& now, int slots) {
  InterpreterRun run(now);
  int ended = 0;
  const double before_s = cpu_seconds();
  while (ended < slots) ended += run.fill_and_drain();
  const double spent_s = cpu_seconds() - before_s;
  if (run.added() != static_cast<ring::Word>(ended)) {
    throw std::runtime_error(fmt::format("ring bench: {} slots ended, and {} were done", ended, run.added()));
  }
  return {{"kernel", now.name},
          {"slots_of_ring", now.slots},
          {"lanes", now.lanes},
          {"slots", ended},
          {"slots_per_cpu_s", ended / spent_s}};
}

/// What one run in a process of its own took, and came to.
nlohmann::json run_rings(const Scenario& scenario, const std::string& name) {
  const auto body = [&]() -> nlohmann::json {
    sim::Recorder recorder(scenario.cluster, "");
    const double before_s = cpu_seconds();
    RunResult result = run_workload(run_world(WorldKind::kSimulated), scenario, {.recorder = &recorder});
    const double spent_s = cpu_seconds() - before_s;
    if (!result.simulation.errors.empty()) throw std::runtime_error(result.simulation.errors.front().text);
    add_process_usage(result);
    if (result.rings == nullptr || result.wrong > 0) throw std::runtime_error(name + " went wrong");
    return {{"slots", result.rings->slots_done},
            {"cpu_s", spent_s},
            {"peak_rss_bytes", result.peak_rss_bytes},
            {"virtual_ps", result.simulation.elapsed_ps}};
  };
  return json_of_child(body, name);
}

/// `slots_per_cpu_s`, and what follows from it.
void add_rates(nlohmann::json& row, double slots_per_cpu_s) {
  row["slots_per_cpu_s"] = slots_per_cpu_s;
  row["slots_per_virtual_s_in_a_minute"] = kPatience_s * slots_per_cpu_s;
}

nlohmann::json bench_mesh(int ranks, int iterations) {
  const auto run = [&](int count) {
    const Scenario scenario = parse_scenario(
        fmt::format("[topology]\nkind = \"ring\"\nnodes = {}\n[workload]\nkind = \"megakernel\"\nbytes = \"64K\"\n"
                    "iterations = {}\n[workload.megakernel]\nprogram = \"all_reduce\"\n",
                    ranks, count),
        "ring bench", {});
    return run_rings(scenario, fmt::format("the all-reduce of {} ranks", ranks));
  };
  const nlohmann::json few = run(1), many = run(1 + iterations);
  const double slots = many.at("slots").get<double>() - few.at("slots").get<double>();
  const double spent_s = many.at("cpu_s").get<double>() - few.at("cpu_s").get<double>();
  nlohmann::json row = {{"ranks", ranks}, {"bytes", 65536}, {"iterations", iterations}, {"slots", slots}};
  add_rates(row, spent_s > 0 ? slots / spent_s : 0);
  return row;
}

nlohmann::json bench_queue(int ranks, int rings, int slots, int items) {
  const Scenario scenario = parse_scenario(
      fmt::format(
          "[topology]\nkind = \"switch\"\nnodes = {}\n[workload]\nkind = \"megakernel\"\n[workload.megakernel]\n"
          "program = \"queue\"\nitems = {}\narrivals = \"constant\"\narrival_gap = \"1us\"\nmix = [\"compute\"]\n"
          "compute = \"1us\"\nrings = {}\nslots = {}\n",
          ranks, items, rings, slots),
      "ring bench", {});
  nlohmann::json row = run_rings(scenario, fmt::format("queues of {} ranks", ranks));
  row["ranks"] = ranks;
  row["rings"] = rings;
  row["slots_of_ring"] = slots;
  const double rate = row.at("slots").get<double>() / row.at("cpu_s").get<double>();
  add_rates(row, rate);
  row["slots_per_virtual_s_of_a_ring"] = kPatience_s * rate / (ranks * rings);
  return row;
}

constexpr double kMillionth = 1e-6, kMebibyte = 1U << 20U;

document::Table interpreter_table() {
  using document::integer, document::number;
  return {
      .key = "interpreter",
      .meaning = "slots through the interpreter alone, the best of the repetitions",
      .columns = {
          document::text("kernel", "which kernel").shown(" ", 20, "  ").left(),
          integer("slots_of_ring", "", "of its ring").shown(" ", 5).followed_by(" slots,"),
          integer("lanes", "", "of the kernel").shown(" ", 4).followed_by(" lanes"), integer("slots", "", "that ended"),
          number("slots_per_cpu_s", "1/s", "a CPU second").shown(" ", 8).rounded(1, kMillionth).followed_by(" million"),
          document::any("slots_per_cpu_s_of_all_repetitions", "a list, [1/s]")}};
}

document::Table mesh_table() {
  using document::integer, document::number;
  return {
      .key = "mesh",
      .meaning = "an all-reduce by slots over the simulated mesh",
      .columns = {integer("ranks", "", "of the ring").shown(" ", 3, "  ").followed_by(" ranks"),
                  integer("bytes", "B", "of the all-reduce"), integer("iterations", "", "that are counted"),
                  number("slots", "", "that they took"),
                  number("slots_per_cpu_s", "1/s", "a CPU second")
                      .shown(" ", 8)
                      .rounded(3, kMillionth)
                      .followed_by(" million slots a CPU second"),
                  number("slots_per_virtual_s_in_a_minute", "1/s", "of virtual time that takes a minute to simulate")}};
}

document::Table queue_table() {
  using document::integer, document::number;
  return {
      .key = "queues",
      .meaning = "queues of slots, 1 us apart",
      .columns = {
          integer("ranks", "", "of the job").shown("ranks", 5, "  "),
          integer("rings", "", "of each rank").shown("rings", 6),
          integer("slots_of_ring", "", "of each ring").shown("slots", 6), integer("slots", "", "that ended"),
          number("cpu_s", "s", "that the run took"), integer("virtual_ps", "ps", "that passed"),
          number("slots_per_cpu_s", "1/s", "a CPU second").shown("slots/CPU s", 13).rounded(0),
          number("slots_per_virtual_s_in_a_minute", "1/s", "of virtual time that takes a minute to simulate")
              .shown("slots/virtual s", 17)
              .rounded(0),
          number("slots_per_virtual_s_of_a_ring", "1/s", "the same of one ring").shown("of each ring", 14).rounded(0),
          integer("peak_rss_bytes", "B", "of the run's process")
              .shown("peak MiB of the run", 21)
              .rounded(0, 1 / kMebibyte)}};
}

}  // namespace

document::Section bench_interpreter(int slots, int repetitions) {
  document::Section section{.title = "Interpreter"};
  section.with(interpreter_table());
  for (const InterpreterCase& now : kInterpreterCases) {
    nlohmann::json best, rates = nlohmann::json::array();
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      nlohmann::json row = run_interpreter(now, slots);
      rates.push_back(row["slots_per_cpu_s"]);
      if (best.is_null() || row["slots_per_cpu_s"] > best["slots_per_cpu_s"]) best = std::move(row);
    }
    best["slots_per_cpu_s_of_all_repetitions"] = std::move(rates);
    section.table("interpreter").add_object(best);
  }
  section.line("simulated slots a CPU second, the interpreter alone:");
  section.show_rows("interpreter");
  return section;
}

document::Section bench_simulated_rings(int items, int ranks_most) {
  document::Section section{.key = "simulated", .title = "Simulated rings"};
  section.with(mesh_table());
  section.with(queue_table());
  constexpr int kMeshRanksMost = 16;  // what programs are for
  for (int ranks = 2; ranks <= std::min(ranks_most, kMeshRanksMost); ranks *= 2) {
    section.table("mesh").add_object(bench_mesh(ranks, std::max(1, items / 250)));
  }
  for (int ranks = 1; ranks <= ranks_most; ranks *= 4) {
    for (const int rings : {1, 4}) {
      for (const int slots : {64, 1024}) section.table("queues").add_object(bench_queue(ranks, rings, slots, items));
    }
  }
  section.line("an all-reduce of 64 KiB by slots, over the simulated mesh:");
  section.show_rows("mesh");
  section.line("queues: 1 s of virtual time takes a minute with so many slots");
  section.show("queues");
  return section;
}

}  // namespace meshbed::testbed
