// meshbed nccl compare: the same calls on NVIDIA's NCCL and on the drop-in, beside the bound.

#include <fmt/format.h>

#include <ostream>
#include <sstream>
#include <stdexcept>

#include "cli/bench/perf_format.h"
#include "cli/command/commands.h"
#include "cli/common/document_output.h"
#include "cli/nccl/compare.h"
#include "cli/nccl/library.h"
#include "testbed/base/exit_status.h"

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
  DocumentOutput output{.json = json};
  output.finish(comparison_document(inspect_nccl(run.library).version, run, comparison), out);
  return kExitOk;
}

}  // namespace meshbed::testbed
