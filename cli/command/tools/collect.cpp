#include <ostream>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/import/collect/collect_here.h"
#include "testbed/import/collect/collect_script.h"

namespace meshbed::testbed {

int collect_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  std::string output;
  bool prints_script = false;
  Syntax syntax("collect [--script | -o FILE]");
  syntax.options.add_options()  //
      ("script", po::bool_switch(&prints_script),
       "print the shell script instead, for other nodes: ssh NODE sh -s - <script >NODE.tar.gz")  //
      ("output,o", po::value(&output)->value_name("FILE"),
       "the archive; -: standard output; default: meshbed-collect-HOST.tar.gz");
  syntax.only_without({"script"}, {"output"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (prints_script) {
    out << hosts::collect_script();
    return kExitOk;
  }
  out.flush();
  hosts::collect_here(output);
  return kExitOk;
}

}  // namespace meshbed::testbed
