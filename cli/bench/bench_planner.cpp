#include "cli/bench/bench_planner.h"

#include <fmt/format.h>

#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/bench/perf_format.h"
#include "cli/bench/planner_sweep.h"
#include "cli/common/document_output.h"
#include "models/algorithm.h"
#include "models/cut.h"
#include "models/strength.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct Case {
  const PlannerCabling& cabling;
  models::Collective collective;
  std::uint64_t bytes;
};

Scenario scenario_of(const Case& what, const char* algorithm) {
  return parse_scenario(
      fmt::format("{}[workload]\ncollective = \"{}\"\nbytes = {}\nwarmup = 1\nchannels = {}\n"
                  "algorithm = \"{}\"\n",
                  what.cabling.toml, name_of(what.collective), what.bytes, what.cabling.channels, algorithm),
      what.cabling.name, {});
}

/// Once, its connections made before.
double time_us(const Case& what, const char* algorithm) {
  return simulated_us(scenario_of(what, algorithm), fmt::format("{} by {}", what.cabling.name, algorithm));
}

double bound_us(const Case& what) {
  const Scenario scenario = scenario_of(what, "mesh");
  const int ranks = ranks_of(scenario);
  const std::vector<int> rates_mbps =
      coll::matrix_of_cables(coll::make_mesh(ranks, engine_options(scenario, built_files()).cables));
  const double bits = static_cast<double>(what.bytes) * 8;  // over bits a microsecond
  if (has_blocks(what.collective)) return bits / ranks / models::least_cut_per_block(ranks, rates_mbps);
  if (models::has_root(what.collective)) return bits / models::least_cut(ranks, rates_mbps, 0);
  return bits / models::strength(ranks, rates_mbps);
}

/// What the engine's planner has something to say about.
models::Collective planned(const std::string& name) {
  const auto collective = models::parse_collective(name);
  if (collective == models::Collective::kAllReduce || (collective && has_blocks(*collective)) ||
      collective == models::Collective::kBroadcast || collective == models::Collective::kReduce) {
    return *collective;
  }
  throw std::runtime_error(
      fmt::format("--collective {}: it is none of all_reduce, all_gather, reduce_scatter, broadcast and reduce", name));
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

std::uint64_t bytes_of(const std::string& text) {
  const std::uint64_t bytes = parse_size(text);
  if (bytes == 0 || bytes % sizeof(float) != 0) {
    throw std::runtime_error(fmt::format("--bytes {}: not a multiple of 4, the bytes of a float", text));
  }
  return bytes;
}

document::Document planner_document(const std::string& collective, std::uint64_t bytes) {
  using document::number;
  document::Document report = bench_document("planner");
  document::Section& section = report.sections.front();
  section.with(
      {document::text("collective", "of every row"), document::integer("bytes", "B", "as they were asked for")});
  section.with(
      document::Table{.key = "rows",
                      .meaning = "simulated times of one iteration",
                      .columns = {document::text("cabling", "its name").shown("cabling", 10, "").left(),
                                  document::integer("bytes", "B", "of the collective on it"),
                                  number("ring_us", "us", "by a ring").shown("ring", 9).rounded(1),
                                  number("tree_us", "us", "by a tree").shown("tree", 9).rounded(1),
                                  number("auto_us", "us", "by the engine's choice").shown("auto", 9).rounded(1),
                                  number("bound_us", "us", "that no algorithm is below").shown("bound", 9).rounded(1),
                                  document::in_text("auto/bound", 11)}});
  section.set("collective", collective);
  section.set("bytes", bytes);
  section.line("{} of {} bytes, simulated microseconds", collective, bytes);
  section.show("rows");
  return report;
}

}  // namespace

int bench_planner_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench planner [options]");
  std::string bytes_text = "16M", collective_name = "all_reduce";
  std::string rails_text = "1,2,4", cablings_text;
  DocumentOutput output;
  bool sweep = false;
  syntax.options.add_options()  //
      ("bytes,b", po::value(&bytes_text)->value_name("SIZE")->default_value(bytes_text),
       "as in perf, of float32; a gather's and a scatter's are made a multiple of 16 for each rank; of --sweep a "
       "list")  //
      ("collective,c", po::value(&collective_name)->value_name("NAME")->default_value(collective_name),
       "all_reduce, all_gather, reduce_scatter, broadcast or reduce; the last two at rank 0; of --sweep a list")  //
      ("sweep", po::bool_switch(&sweep), "every algorithm on rings, tori, a switch and others")                   //
      ("rails", po::value(&rails_text)->value_name("LIST")->default_value(rails_text), "of --sweep")              //
      ("cablings", po::value(&cablings_text)->value_name("LIST"),
       "of --sweep, or groups of them: standard, less-a-cable, random, large (128 nodes), huge (about 1,000, "
       "replayed); all but "
       "the last two without it");
  output.describe(syntax.options);
  syntax.only_with({"sweep"}, {"rails", "cablings", "keep"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (sweep) {
    if (output.json) throw std::runtime_error("--json has no effect with --sweep; --keep FILE has the JSON");
    PlannerSweep wanted;
    for (const std::string& name : parts_of(collective_name)) wanted.collectives.push_back(planned(name));
    for (const std::string& size : parts_of(bytes_text)) wanted.sizes_bytes.push_back(bytes_of(size));
    std::vector<int> rails;
    for (const std::string& count : parts_of(rails_text))
      rails.push_back(static_cast<int>(parse_count("--rails", count, 1, 8)));
    wanted.cablings = sweep_cablings(rails, parts_of(cablings_text));
    document::Document report = bench_document("planner sweep");
    run_planner_sweep(wanted, report.sections.front(), [&] { output.show(report, out); });
    report.sections.push_back(bench_provenance());
    output.finish(report, out);
    return kExitOk;
  }
  const std::uint64_t bytes = bytes_of(bytes_text);
  const models::Collective collective = planned(collective_name);
  document::Document report = planner_document(collective_name, bytes);
  output.show(report, out);
  for (const PlannerCabling& cabling : planner_cablings()) {
    const Case what{cabling, collective, planner_bytes(cabling, collective, bytes)};
    const double ring = time_us(what, "ring"), tree = time_us(what, "tree");
    const double chosen = time_us(what, "auto"), bound = bound_us(what);
    report.sections.front().table("rows").add(
        {cabling.name, what.bytes, ring, tree, chosen, bound, fmt::format("{:.2f}", chosen / bound)});
    output.show(report, out);
  }
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
