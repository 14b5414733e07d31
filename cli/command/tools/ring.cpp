#include "cli/ring/ring.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/bench/bench_ring.h"
#include "cli/command/commands.h"
#include "cli/command/tools/ring_import.h"
#include "cli/command/tools/ring_tune.h"
#include "plugin/ring/abi/quirks.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed {
namespace {

int ring_quirks_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  Syntax syntax("ring quirks [options]");
  bool json = false;
  syntax.options.add_options()("json", boost::program_options::bool_switch(&json), "one JSON array");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ring::Quirk& quirk : ring::quirks()) {
    list.push_back({{"name", quirk.name}, {"strict", quirk.strict}, {"safe", quirk.safe}, {"section", quirk.section}});
    if (!json) out << fmt::format("{}\n  strict  {}\n  safe    {}\n", quirk.name, quirk.strict, quirk.safe);
  }
  if (json) out << json_text(list) << "\n";
  return kExitOk;
}

}  // namespace

int ring_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  struct Part {
    const char* name;
    CommandFunction function;
  };
  static constexpr Part kParts[] = {
      {"dump", ring_dump_command},   {"check", ring_check_command},   {"replay", ring_replay_command},
      {"bench", ring_bench_command}, {"policy", ring_policy_command}, {"program", ring_program_command},
      {"tune", ring_tune_command},   {"quirks", ring_quirks_command}, {"import", ring_import_command}};
  constexpr const char* kUsage =
      "usage: meshbed ring dump|check|replay|program|import|tune|bench|policy|quirks [options]";
  if (!arguments.empty() && (arguments.front() == "--help" || arguments.front() == "-h")) {
    out << kUsage << "; meshbed ring dump --help and so on list them\n";
    return kExitOk;
  }
  for (const Part& part : kParts) {
    if (!arguments.empty() && arguments.front() == part.name) {
      return part.function(Arguments(arguments.begin() + 1, arguments.end()), out, err);
    }
  }
  err << "meshbed: ring: " << (arguments.empty() ? "say what" : "there is no \"" + arguments.front() + "\"") << "; "
      << kUsage << "\n";
  return kExitUsage;
}

}  // namespace meshbed::testbed
