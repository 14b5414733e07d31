// Each case runs in a separate child process: SimGrid allows one engine a process, and peak memory is counted by
// process.

#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/bench/bench_cost.h"
#include "cli/bench/bench_local.h"
#include "cli/bench/bench_measure.h"
#include "cli/bench/bench_perftest.h"
#include "cli/bench/bench_planner.h"
#include "cli/bench/bench_reduce.h"
#include "cli/bench/scale/bench_scale.h"
#include "cli/command/commands.h"
#include "cli/common/document_output.h"
#include "cli/common/run_options.h"
#include "testbed/base/child_process.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/interruption.h"
#include "testbed/workload/collective.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/workload.h"
#include "testbed/world/simulate.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct BenchCase {
  int ranks = 8;
  std::uint64_t message_bytes = 0;
  int iterations = 1;
};

/// Proportional set size of this process: its memory with shared pages counted once. Copies of a library share their
/// read-only pages, which a resident set counts once a copy.
std::uint64_t memory_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string key; rollup >> key;) {
    std::uint64_t kibibytes = 0;
    if (key == "Pss:" && rollup >> kibibytes) return kibibytes * kKiB;
  }
  throw std::runtime_error("bench: /proc/self/smaps_rollup has no Pss; it needs Linux 4.14");
}

/// A ring all-reduce on one switch whose every step is one message of `message_bytes`.
Scenario bench_scenario(const BenchCase& bench, const std::string& fabric) {
  return parse_scenario(fmt::format("[topology]\nkind = \"switch\"\nnodes = {}\n[fabric]\nkind = \"{}\"\n"
                                    "[workload]\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nbytes = {}\n",
                                    bench.ranks, fabric, bench.message_bytes * static_cast<std::uint64_t>(bench.ranks)),
                        "bench", {});
}

struct Marks {
  double start_s = 0, end_s = 0;
  std::uint64_t messages = 0;
  double load_s = 0;
  std::uint64_t memory_bytes = 0;
};

/// Loads the rank's two libraries ahead of the engine, to time just that.
Result<void> timed_load(RankHost& host, const EngineOptions& options, Marks& marks) {
  const double start = cpu_seconds();
  for (const std::string& path : {options.library, options.net_plugin}) {
    if (const Result<void*> loaded = host.load(path); !loaded) return loaded.error();
  }
  marks.load_s += cpu_seconds() - start;
  return ok();
}

Result<void> bench_rank(RankHost& host, const EngineOptions& options, const CollectiveCase& wanted, Marks& marks) {
  if (const Result<void> loaded = timed_load(host, options, marks); !loaded) return loaded;
  Result<Engine> engine = Engine::open(host, options);
  if (!engine) return engine.error();
  CollectiveBuffers buffers(wanted.bytes, host.ranks(), false);
  CollectiveCase warmup = wanted;
  warmup.iterations = 1;
  CaseResults unread;
  if (const Result<void> warm = run_case(host, *engine, buffers, warmup, 1, unread); !warm) return warm;
  const Result<meshcoll_stats> before = engine->stats();
  if (!before) return before.error();
  if (host.rank() == 0) marks.start_s = cpu_seconds();
  CaseResults board;
  if (const Result<void> done = run_case(host, *engine, buffers, wanted, 2, board); !done) return done;
  if (const Result<void> all = host.rendezvous(); !all) return all;
  if (host.rank() == 0) {
    marks.end_s = cpu_seconds();
    marks.memory_bytes = memory_bytes();
  }
  const Result<meshcoll_stats> after = engine->stats();
  if (!after) return after.error();
  marks.messages += after->messages_sent - before->messages_sent;
  if (const Result<void> all = host.rendezvous(); !all) return all;
  return engine->close();
}

nlohmann::json run_bench_case(const BenchCase& bench, const std::string& fabric) {
  const Scenario scenario = bench_scenario(bench, fabric);
  const SimulateOptions options{.files = built_files(), .contexts = ""};
  sim::Recorder recorder(scenario.cluster, "");
  const EngineOptions engine = engine_options(scenario, options.files);
  const CollectiveCase wanted{.op = models::Collective::kAllReduce,
                              .bytes = scenario.workload.bytes,
                              .in_place = true,
                              .iterations = bench.iterations,
                              .check = false};
  Marks marks;
  const std::uint64_t before = memory_bytes();
  const Simulation simulation =
      simulate(scenario, options, recorder, [&](RankHost& host) { return bench_rank(host, engine, wanted, marks); });
  if (!simulation.errors.empty()) throw std::runtime_error(simulation.errors.front().text);
  if (simulation.outcome.kind != sim::OutcomeKind::kFinished) throw std::runtime_error("the run made no progress");
  const double cpu = marks.end_s - marks.start_s;
  const std::uint64_t data = wanted.bytes * static_cast<std::uint64_t>(bench.ranks);  // the callers' own buffers
  const std::uint64_t grown = marks.memory_bytes - before;
  return {{"ranks", bench.ranks},
          {"message_bytes", bench.message_bytes},
          {"messages", marks.messages},
          {"cpu_s", cpu},
          {"messages_per_cpu_s", static_cast<double>(marks.messages) / cpu},
          {"memory_per_rank_bytes", (grown > data ? grown - data : 0) / static_cast<std::uint64_t>(bench.ranks)},
          {"copies", simulation.host.copies},
          {"load_ms_per_copy", marks.load_s * 1e3 / static_cast<double>(simulation.host.copies)}};
}

/// The repetition with the lowest CPU time: what else runs on the machine only ever adds to it. All rates are kept.
nlohmann::json best_of(const BenchCase& bench, const std::string& fabric, int repetitions) {
  nlohmann::json best;
  nlohmann::json rates = nlohmann::json::array();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    nlohmann::json row =
        json_of_child([&] { return run_bench_case(bench, fabric); }, fmt::format("the case of {} ranks", bench.ranks));
    rates.push_back(row["messages_per_cpu_s"]);
    if (best.is_null() || row["cpu_s"] < best["cpu_s"]) best = std::move(row);
  }
  best["messages_per_cpu_s_of_all_repetitions"] = std::move(rates);
  return best;
}

document::Document messages_document(const std::string& fabric) {
  using document::integer, document::number;
  document::Document report = bench_document("messages");
  document::Section& section = report.sections.front();
  section.with({document::text("fabric", "how the network is shared: fluid or chunk")});
  section.with(document::Table{
      .key = "cases",
      .meaning = "a ring all-reduce on one switch, the repetition of the least CPU time",
      .columns = {integer("ranks", "", "of the job").shown("ranks", 6, ""),
                  integer("message_bytes", "B", "of each message"),
                  integer("messages", "", "of all ranks").shown("messages", 11),
                  number("cpu_s", "s", "CPU time of all of them").shown("CPU s", 7).rounded(2),
                  number("messages_per_cpu_s", "1/s", "a CPU second").shown("messages/CPU s", 16).rounded(0),
                  integer("memory_per_rank_bytes", "B", "beyond the callers' own buffers")
                      .shown("KiB/rank", 10)
                      .rounded(0, 1.0 / static_cast<double>(kKiB)),
                  integer("copies", "", "of the plugin and the engine").shown("copies", 8),
                  number("load_ms_per_copy", "ms", "CPU time to load one").shown("ms/copy", 9).rounded(3),
                  document::any("messages_per_cpu_s_of_all_repetitions", "a list, [1/s]")}});
  section.set("fabric", fabric);
  return report;
}

}  // namespace

int bench_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.empty() && arguments.front() == "perftest") {
    return bench_perftest_command({arguments.begin() + 1, arguments.end()}, out, err);
  }
  const Interruption interruption("", "the rows above stay, no file is written");
  if (!arguments.empty() && arguments.front() == "cost") {
    return bench_cost_command({arguments.begin() + 1, arguments.end()}, out);
  }
  if (!arguments.empty() && arguments.front() == "reduce") {
    return bench_reduce_command({arguments.begin() + 1, arguments.end()}, out);
  }
  if (!arguments.empty() && arguments.front() == "local") {
    return bench_local_command({arguments.begin() + 1, arguments.end()}, out);
  }
  if (!arguments.empty() && arguments.front() == "scale") {
    return bench_scale_command({arguments.begin() + 1, arguments.end()}, out, err);
  }
  if (!arguments.empty() && arguments.front() == "planner") {
    return bench_planner_command({arguments.begin() + 1, arguments.end()}, out);
  }
  Syntax syntax(
      "bench [options], or bench perftest SCENARIO [options], or bench cost|local|planner|reduce|scale [options]");
  std::string fabric = "chunk";
  std::string message_text = "4096";
  std::string repetitions_text = "3";
  DocumentOutput output;
  syntax.options.add_options()                                                                                       //
      ("fabric", po::value(&fabric)->value_name("fluid|chunk")->default_value(fabric), "how the network is shared")  //
      ("message-bytes", po::value(&message_text)->value_name("N")->default_value(message_text),
       "size of a message; a multiple of 4")  //
      ("repetitions", po::value(&repetitions_text)->value_name("N")->default_value(repetitions_text),
       "runs of each case; the one of the least CPU time counts");
  output.describe(syntax.options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::uint64_t message_bytes = parse_count("--message-bytes", message_text, 4, 64 * kMiB);
  if (message_bytes % sizeof(float) != 0) {
    throw std::runtime_error(
        fmt::format("--message-bytes {}: not a multiple of 4, the bytes of a float", message_bytes));
  }
  require_fabric(fabric);
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 1000));

  const std::array<BenchCase, 3> cases = {
      {{.ranks = 8, .iterations = 2000}, {.ranks = 64, .iterations = 60}, {.ranks = 512, .iterations = 1}}};
  document::Document report = messages_document(fabric);
  report.sections.front().line(
      "ring all-reduce on one switch, {} bytes a message, real plugin and engine; CPU time, best of {}, fabric {}",
      message_bytes, repetitions, fabric);
  report.sections.front().show("cases");
  output.show(report, out);
  for (BenchCase bench : cases) {
    bench.message_bytes = message_bytes;
    report.sections.front().table("cases").add_object(best_of(bench, fabric, repetitions));
    output.show(report, out);
  }
  report.sections.push_back(bench_provenance());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
