// meshbed nccl compare: the same calls on NVIDIA's NCCL and on the drop-in, beside the bound.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "cli/bench/perf_format.h"
#include "cli/command/commands.h"
#include "cli/nccl/compare.h"
#include "cli/nccl/library.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kFactorMost = 1ULL << 40U;

std::vector<models::Collective> parse_operations(const std::string& list) {
  std::vector<models::Collective> operations;
  std::istringstream text(list);
  for (std::string name; std::getline(text, name, ',');) {
    require_choice("nccl compare: -c", "operation", name, compared_operations());
    operations.push_back(*models::parse_collective(name));
  }
  if (operations.empty()) throw std::runtime_error("nccl compare: -c: which operations?");
  return operations;
}

std::string bound_text(const ComparedPoint& row) {
  return row.bound_us > 0 ? fmt::format("{:.1f}", row.bound_us) : "-";
}

void print_text(const std::string& version, const ProgramRun& run, const NcclComparison& comparison,
                std::ostream& out) {
  out << fmt::format("NCCL {} beside the drop-in, {}, {} ranks: the third call, slowest rank, in microseconds\n",
                     version, run.scenario, comparison.ranks)
      << fmt::format("{:<15} {:>11} {:>10} {:>10} {:>10} {:>13}  {:<6}  {:<26}  {}\n", "operation", "bytes", "NCCL",
                     "drop-in", "bound", "drop-in/NCCL", "", "NCCL chose", "drop-in chose");
  int slower = 0;
  for (const ComparedPoint& row : comparison.points) {
    if (row.dropin_is_slower()) ++slower;
    out << fmt::format("{:<15} {:>11} {:>10.1f} {:>10.1f} {:>10} {:>13.2f}  {:<6}  {:<26}  {}\n",
                       models::name_of(row.point.operation), row.point.bytes, row.nccl_us, row.dropin_us,
                       bound_text(row), row.ratio(), row.dropin_is_slower() ? "slower" : "", text_of(row.nccl_chose),
                       text_of(row.dropin_chose));
  }
  out << fmt::format("the drop-in is slower in {} of {}; results in {}\n", slower, comparison.points.size(),
                     run.results);
}

nlohmann::ordered_json as_json(const NcclChoice& choice) {
  if (!choice) return nullptr;
  return {{"algorithm", choice->algorithm}, {"protocol", choice->protocol}, {"channels", choice->channels}};
}

nlohmann::ordered_json as_json(const std::string& version, const ProgramRun& run, const NcclComparison& comparison) {
  auto rows = nlohmann::ordered_json::array();
  for (const ComparedPoint& row : comparison.points) {
    rows.push_back({{"operation", models::name_of(row.point.operation)},
                    {"bytes", row.point.bytes},
                    {"nccl_us", row.nccl_us},
                    {"dropin_us", row.dropin_us},
                    {"bound_us", row.bound_us > 0 ? nlohmann::ordered_json(row.bound_us) : nullptr},
                    {"ratio", row.ratio()},
                    {"dropin_is_slower", row.dropin_is_slower()},
                    {"nccl_chose", as_json(row.nccl_chose)},
                    {"dropin_chose", as_json(row.dropin_chose)}});
  }
  return {{"nccl", {{"file", run.library}, {"version", version}, {"sha256", sha256_of_file(run.library)}}},
          {"scenario", run.scenario},
          {"overrides", cluster_overrides(run)},
          {"ranks", comparison.ranks},
          {"rows", std::move(rows)},
          {"results", run.results}};
}

}  // namespace

int nccl_compare_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::string action, operations = fmt::format("{}", fmt::join(compared_operations(), ","));
  std::string first = "4K", last = "16M", factor = "16";
  bool json = false;
  ProgramRun run;
  run.results = "results/nccl-compare";
  Syntax syntax("nccl compare --nccl LIBRARY --scenario FILE [options]");
  syntax.operands.add_options()("action", po::value(&action)->required()->value_name("compare"), "compare");
  syntax.positions.add("action", 1);
  syntax.options.add_options()                                                                                     //
      ("nccl", po::value(&run.library)->value_name("LIBRARY"), "a libnccl.so.2 that you have built")               //
      ("scenario", po::value(&run.scenario)->value_name("FILE"), "the cluster, one rank a node; in virtual time")  //
      ("gpu", po::value(&run.gpu)->value_name("NAME"), "every node has one GPU of this model")                     //
      ("operations,c", po::value(&operations)->value_name("LIST")->default_value(operations),
       "of these, a sweep each")                                                                                      //
      ("minbytes,b", po::value(&first)->value_name("SIZE")->default_value(first), "the first size, as in perf")       //
      ("maxbytes,e", po::value(&last)->value_name("SIZE")->default_value(last), "the last size")                      //
      ("stepfactor,f", po::value(&factor)->value_name("N")->default_value(factor), "from one size to the next")       //
      ("set", po::value(&run.overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated")  //
      ("results", po::value(&run.results)->value_name("DIR")->default_value(run.results),
       "where both runs' results go: DIR/nccl, DIR/drop-in")  //
      ("json", po::bool_switch(&json), "print JSON");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  require_library_and_scenario("nccl compare", run);
  SweepOptions sweep{.min_bytes = parse_size(first), .max_bytes = parse_size(last)};
  sweep.step_factor = parse_count("nccl compare: -f", factor, 2, kFactorMost);
  const std::vector<models::Collective> wanted = parse_operations(operations);
  const std::vector<std::uint64_t> sizes_bytes = sweep_sizes(sweep);
  require_gpus_that_fit("nccl compare", run);
  const NcclComparison comparison = compare_nccl(run, wanted, sizes_bytes);
  if (!comparison.failure.empty()) {
    err << "meshbed: nccl compare: " << comparison.failure;
    return kExitBroken;
  }
  const std::string version = inspect_nccl(run.library).version;
  if (json) {
    out << json_text(as_json(version, run, comparison), kIndent) << "\n";
  } else {
    print_text(version, run, comparison, out);
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
