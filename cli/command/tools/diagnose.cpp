#include "testbed/diagnose/diagnose.h"

#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

}  // namespace

int diagnose_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  bool json = false, table = false;
  std::vector<std::string> inputs;
  Syntax syntax("diagnose FILE|FOLDER... [options]");
  syntax.options.add_options()                                          //
      ("json", po::bool_switch(&json), "print JSON: causes and facts")  //
      ("table", po::bool_switch(&table), "print docs/troubleshooting.md, the table of all causes");
  syntax.operands.add_options()(
      "input", po::value(&inputs)->value_name("FILE"),
      "logs of NCCL and of the plugin, nccl-tests, RAS, the flight recorder, Inspector, dmesg, "
      "meshbed state, results, scenarios, or folders of them");
  syntax.positions.add("input", -1);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (table) {
    out << diagnose::troubleshooting_page();
    return kExitOk;
  }
  if (inputs.empty())
    throw std::runtime_error("diagnose: expects a log, results or a scenario; --help lists the formats");
  diagnose::Case found;
  for (const std::string& input : inputs) diagnose::read_input(input, found);
  diagnose::Diagnosis diagnosis = diagnose::judge(found);
  diagnosis.inputs = inputs;
  out << (json ? json_text(diagnose::json_of(diagnosis), kIndent) + "\n" : diagnose::text_of(diagnosis));
  return kExitOk;
}

}  // namespace meshbed::testbed
