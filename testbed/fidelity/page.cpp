// meshbed fidelity's page: every file with its errors, the targets, what is left out, and where the models fail.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>

#include "plugin/base/units.h"
#include "testbed/fidelity/competitors.h"
#include "testbed/fidelity/decode_step.h"
#include "testbed/fidelity/fidelity.h"
#include "testbed/fidelity/left_out.h"
#include "testbed/fidelity/peers.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

/// The size at which the model is off most, and by how much measured times there differ from one another.
std::string worst_size(const Validated& validated) {
  std::map<std::uint64_t, std::vector<double>> errors, times;
  const std::vector<double> of_rows = errors_of(validated);
  for (std::size_t index = 0; index < of_rows.size(); ++index) {
    const MeasuredRow& row = validated.file.rows[index];
    errors[row.point.call.bytes].push_back(of_rows[index]);
    times[row.point.call.bytes].push_back(row.point.time_us);
  }
  std::uint64_t worst = 0;
  double most = -1, differ = 0;
  for (const auto& [bytes, of_size] : errors) {
    const double error = models::summarise(of_size).median;
    if (error <= most) continue;
    most = error;
    worst = bytes;
    const auto& seen = times[bytes];
    differ = *std::max_element(seen.begin(), seen.end()) / *std::min_element(seen.begin(), seen.end()) - 1;
  }
  constexpr double kMoreThanNoise = 0.1;
  return fmt::format("{} B: {}{}", worst, percent(most),
                     differ > kMoreThanNoise ? fmt::format("; times there differ by {}", percent(differ)) : "");
}

/// spec/mesh-plugin.md 1.11 (a): 3 DGX Spark, milliseconds; all_gather's size is one rank's.
struct TriangleRow {
  int mib;
  double all_reduce_ms, broadcast_ms, all_gather_ms, reduce_scatter_ms;
};
constexpr TriangleRow kTriangle[] = {{1, 4.27, 0.23, 2.48, 2.27},          {10, 2.85, 2.84, 4.13, 2.28},
                                     {50, 9.05, 6.12, 12.57, 6.89},        {100, 13.77, 10.64, 24.64, 8.99},
                                     {250, 32.57, 36.01, 56.82, 18.27},    {500, 63.32, 67.19, 107.42, 34.79},
                                     {1000, 123.89, 132.64, 209.30, 68.05}};

std::string triangle_section(const models::Machine& machine) {
  std::string text =
      "\n## The triangle of the ancestor's BENCHMARKS\n\n"
      "Milliseconds, measured / predicted (spec/mesh-plugin.md 1.11; all_gather's size is one rank's). Profile "
      "`spark-mesh3-plugin`, fitted to the all_reduce and all_gather columns; broadcast and reduce_scatter are "
      "predictions.\n\n| MiB | all_reduce | broadcast | all_gather | reduce_scatter |\n|---|---|---|---|---|\n";
  const auto predicted_ms = [&](models::Collective collective, int mib) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(mib) * kMiB;
    constexpr double kUsPerMs = 1e3;
    return models::collective_us(machine, {.collective = collective, .ranks = 3, .nodes = 3, .bytes = bytes}) /
           kUsPerMs;
  };
  for (const TriangleRow& row : kTriangle) {
    text += fmt::format("| {} | {} / {:.2f} | {} / {:.2f} | {} / {:.2f} | {} / {:.2f} |\n", row.mib, row.all_reduce_ms,
                        predicted_ms(models::Collective::kAllReduce, row.mib), row.broadcast_ms,
                        predicted_ms(models::Collective::kBroadcast, row.mib), row.all_gather_ms,
                        predicted_ms(models::Collective::kAllGather, 3 * row.mib), row.reduce_scatter_ms,
                        predicted_ms(models::Collective::kReduceScatter, row.mib));
  }
  return text +
         "\nCells that no model should hit:\n\n"
         "- all_reduce of 1 MiB took longer than that of 10 MiB: the first call of the run, cold. A model that hit it "
         "would say that ten times the bytes take less.\n"
         "- broadcast of 1 MiB took a tenth of what each of the other three took, and of what two hops of the class "
         "take by their own columns; the table does not say which rank was timed, and a root that has handed on its "
         "sends is done.\n"
         "- broadcast had a higher rate at 100 MiB (9.9 GB/s) than at 250 MiB (7.3 GB/s), and reduce_scatter of 10 MiB "
         "took as long as that of 1 MiB: no line through the sizes has both.\n\n"
         "Broadcast from 250 MiB on is a miss of the model, not of the table: it moved 7.9 GB/s where the other three "
         "moved 10 to 11.\n";
}

std::string decode_section(const std::vector<models::Machine>& profiles) {
  const DecodeStep step;
  return fmt::format(
             "\n## A decode step of four Sparks\n\n{} layers, {} all_reduces of {} KiB each: communication of a step, "
             "and its share beside 20 and 40 ms of computing (which no profile says). In brackets is where 9 of "
             "10 measurements lie, by what the last column names; `meshbed models --decode` prints the same "
             "of other steps.\n\n",
             step.layers, step.calls_per_layer, step.bytes / kKiB) +
         decode_table(step, profiles);
}

std::vector<double> other_errors(const Validated& validated, const std::vector<models::Machine>& machines) {
  return errors_of(validate_with(validated, machines));
}

/// Machines without what was fitted to them.
std::vector<models::Machine> bare(const Validated& validated) {
  std::vector<models::Machine> machines;
  for (const models::Machine& machine : validated.machines) machines.push_back(models::without_fits(machine));
  return machines;
}

struct FileErrors {
  const Validated* validated;
  std::vector<double> own, bare, unseen;
};

void add_table(std::string& text, const std::vector<FileErrors>& all, const std::string& plots) {
  text +=
      "| file | quality | profile | points | median | p90 | max | own line | carried line | two regimes | uncalibrated "
      "| class unseen | worst size |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const FileErrors& each : all) {
    const Validated& validated = *each.validated;
    const std::string stem = std::filesystem::path(validated.file.name).stem();
    const std::string name = plots.empty() ? stem : fmt::format("[{}]({}/{}.svg)", stem, plots, stem);
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name,
                        validated.file.quality, validated.profile_names(), validated.file.rows.size(),
                        percent(validated.errors.median), percent(validated.errors.p90), percent(validated.errors.max),
                        percent(validated.own_line.median), percent(validated.carried_line.median),
                        percent(validated.two_regime.median), percent(models::summarise(each.bare).median),
                        percent(models::summarise(each.unseen).median), worst_size(validated));
  }
}

std::string kept(bool is_kept) { return is_kept ? "reached" : "**not reached**"; }

std::string targets_section(const std::vector<Validated>& all, const std::vector<FileErrors>& errors,
                            const std::vector<LeftOut>& left_out) {
  WeightedErrors calibrated, bare, unseen, left, left_large, left_kinds, lines_kinds;
  std::size_t files = 0, beats_line = 0;
  for (const FileErrors& each : errors) {
    if (!is_good_quality(each.validated->file.quality)) continue;
    ++files;
    if (each.validated->errors.median < each.validated->own_line.median) ++beats_line;
    calibrated.add(each.own);
    bare.add(each.bare);
    unseen.add(each.unseen);
  }
  std::size_t better = 0;
  for (const LeftOut& each : left_out) {
    left.add(each.model);
    if (!each.large.empty()) left_large.add(each.large);
    const double own_median = models::summarise(each.model).median;
    left_kinds.add({own_median});
    lines_kinds.add({each.naive_median});
    if (own_median < each.naive_median) ++better;
  }
  const OrderCount order = count_order(all);
  const auto share = [](std::size_t part, std::size_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  std::string text = "\n## Targets\n\n| what | target | here | |\n|---|---|---|---|\n";
  const auto line = [&](const char* what, const char* target, const std::string& here, bool is_kept) {
    text += fmt::format("| {} | {} | {} | {} |\n", what, target, here, kept(is_kept));
  };
  const double median = calibrated.percentile(0.5), p90 = calibrated.percentile(0.9);
  line("calibrated, quality A and B, each file once", "median 6 %, p90 15 %",
       fmt::format("median {}, p90 {}", percent(median), percent(p90)), median <= 0.06 && p90 <= 0.15);
  line("the same, better than a line fitted to the file itself", "-", fmt::format("{} of {}", beats_line, files), true);
  const double left_median = left.percentile(0.5), left_p90 = left.percentile(0.9);
  line("left out of its class's fit", "median 10 %, p90 25 %",
       fmt::format("median {}, p90 {}, {} kinds", percent(left_median), percent(left_p90), left_out.size()),
       !left_out.empty() && left_median <= 0.10 && left_p90 <= 0.25);
  const auto of_kinds = [](const WeightedErrors& medians) {
    return fmt::format("median {}, p90 {}", percent(medians.percentile(0.5)), percent(medians.percentile(0.9)));
  };
  line("the same, of the kinds' medians, one each", "-",
       fmt::format("{}; best line carried over: {}", of_kinds(left_kinds), of_kinds(lines_kinds)), true);
  line("the same, 8 MiB and more", "median 5 %", fmt::format("median {}", percent(left_large.percentile(0.5))),
       !left_out.empty() && left_large.percentile(0.5) <= 0.05);
  line("the same, better than the best line carried over", "80 %", fmt::format("{} of {}", better, left_out.size()),
       share(better, left_out.size()) >= 0.8);
  line("uncalibrated: data sheet, perftest, NCCL's constants", "median 25 %",
       fmt::format("median {}", percent(bare.percentile(0.5))), bare.percentile(0.5) <= 0.25);
  line("a class never measured: the same, and what other classes of its transport tell", "median 25 %",
       fmt::format("median {}, p90 {}", percent(unseen.percentile(0.5)), percent(unseen.percentile(0.9))),
       unseen.percentile(0.5) <= 0.25);
  line("order of pairs more than 10 % apart", "90 %", fmt::format("{} of {}", order.right, order.pairs),
       share(order.right, order.pairs) >= 0.9);
  line("the same, where the intervals do not overlap; else it is a tie", "90 %",
       fmt::format("{} of {}, {} ties", order.decided_right, order.decided, order.pairs - order.decided),
       share(order.decided_right, order.decided) >= 0.9);
  return text;
}

std::string left_out_section(const std::vector<LeftOut>& left_out) {
  std::string text =
      "\n## Left out\n\nA class's other collectives and sizes of job are fitted, this one is predicted; beside it the "
      "best of the lines fitted to the others and scaled by steps and bytes.\n\n| profile | predicted | median | p90 | "
      "best "
      "line's median |\n|---|---|---|---|---|\n";
  for (const LeftOut& each : left_out) {
    const models::ErrorSummary errors = models::summarise(each.model);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", each.profile, each.what, percent(errors.median),
                        percent(errors.p90), percent(each.naive_median));
  }
  return text;
}

std::string failures_section() {
  return R"(
## Where the models fail, and why

- **NCCL called eagerly on the Spark ring** (`spark-ring-nccl-eager`): measured times are not monotonic (1.4 MiB takes
  half of what 1 MiB takes), because NCCL changes its channels and threads by size; the model has one rate. LL above
  256 KiB collapses on GB10 by a factor that no published constant explains; a window and a second rate model it.
- **libsircl on the Spark ring**: seven settings of the library under one profile; at 4 to 8 KiB they differ by a factor
  of two from one another. nccl-tests of 20 iterations measures some 8 us more for a call than the project's own sweep:
  `skew_us` models it. It does not follow from nccl-tests alone, so that all_reduce, the one kind with both, is off most
  where it is left out. A message of its sends and receives is a kernel (`peer_us`), and has a hop of its own only.
- **Slingshot** (`gh200-slingshot`): the provider changes its protocol at sizes that the set-up does not state.
- **MSCCL++**: one profile for nineteen points of eight different kernels, chosen by hand; their numbers are explained in
  its test sources alone.
- **Left out, the 90th percentile**: an all_gather of 8 KiB of MSCCL++ took 13 times an all_reduce of it, and the cold first
  call of the Spark triangle is one of its seven points: what was fitted to them expects the same of the other. Four
  flat points of an alltoall on GB200 NVLink are one sum of launch, hop and the cost of sends and receives, and do not
  separate them; small all_reduces of two Sparks do not follow from all_gathers of half a GiB and more.
- **Files of quality C and D** are shown and not counted: two ranks that share one GPU, an 800 us floor of a harness, a
  V100 sweep that differs by a factor of six between two calls, a link that is not stated.
- **Single points of many machines** (`cal_perftest_points_*`) have no set-up in common: no profile is theirs.
- **Noise**: repeats of the same code on two days differ by 2 to 13 % at 10 KiB and by 2 to 4 % at 480 KiB
  (`cal_spark4ring_oneshot_repeats`). Nothing is claimed below that.
)";
}

}  // namespace

std::string fidelity_page(const std::vector<Validated>& all, const std::vector<models::Machine>& profiles,
                          const std::string& plots) {
  std::vector<MeasuredFile> files, good;
  for (const Validated& each : all) {
    files.push_back(each.file);
    if (is_good_quality(each.file.quality)) good.push_back(each.file);
  }
  const std::vector<models::Peer> peers = peers_among(files, profiles);
  const auto sweeps = sweeps_by_profile(good, profiles);
  std::map<std::string, models::Machine> unseen;  // by profile: without fits, with the values pooled from other classes
  std::vector<LeftOut> left_out;
  for (const models::Machine& machine : profiles) {
    unseen.emplace(machine.name, models::with_pool(models::without_fits(machine), peers));
    const auto own = sweeps.find(machine.name);
    if (own == sweeps.end()) continue;
    for (LeftOut& each : leave_one_out(machine, own->second, peers)) left_out.push_back(std::move(each));
  }
  std::vector<FileErrors> errors;
  for (const Validated& each : all) {
    std::vector<models::Machine> pooled = bare(each);
    for (models::Machine& machine : pooled) {
      const auto own = std::find_if(profiles.begin(), profiles.end(),
                                    [&](const models::Machine& one) { return one.name == machine.name; });
      // The class nearest to a file's keeps the file's own ranks and adapters.
      const bool as_known = own != profiles.end() && own->ranks_per_node == machine.ranks_per_node &&
                            (*own)[models::MachineParameter::kNicGBps] == machine[models::MachineParameter::kNicGBps];
      machine = as_known ? unseen.at(machine.name) : models::with_pool(std::move(machine), peers);
    }
    errors.push_back({&each, errors_of(each), other_errors(each, bare(each)), other_errors(each, pooled)});
  }
  std::string text =
      "# Fidelity\n\nMade by `meshbed fidelity --out results/fidelity`. Errors are |predicted / measured - 1|; no "
      "number "
      "here is held out from the calibration unless it says so. Every file of models/data that is a sweep or a set of "
      "points of one set-up is here; those of quality C and D are not counted below. A profile is one for its class; "
      "the three lines are the naive models that it must beat: a line fitted to the file itself, the profile's line "
      "carried over and scaled by steps, and two lines, below and above the best size. Uncalibrated: data sheets, "
      "perftest and NCCL's constants; class unseen: the same, with one set of values fitted to the other classes of "
      "its "
      "transport (models/fit/pool.h), none that shares the file's class.\n\n";
  add_table(text, errors, plots);
  text += targets_section(all, errors, left_out);
  text += left_out_sources_section(score_groups(leave_sources_out(files, profiles)));
  text += competitors_section(sweeps, profiles, peers);
  text += left_out_section(left_out);
  text += failures_section();
  text += decode_section(profiles);
  const auto triangle = std::find_if(profiles.begin(), profiles.end(),
                                     [](const models::Machine& one) { return one.name == "spark-mesh3-plugin"; });
  if (triangle != profiles.end()) text += triangle_section(*triangle);
  return text;
}

}  // namespace meshbed::testbed
