#include <fmt/format.h>

#include <ostream>
#include <string>
#include <vector>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/page/page.h"

namespace meshbed::testbed {

namespace po = boost::program_options;

int report_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  std::vector<std::string> folders, measured;
  std::string file = "report.html";
  Syntax syntax("report RESULTS... [-o FILE.html]");
  syntax.operands.add_options()  //
      ("results", po::value(&folders)->required()->value_name("RESULTS"),
       "folders of runs (results/SCENARIO/WORLD, or results/SCENARIO for all its worlds) and of sweeps");
  syntax.positions.add("results", -1);
  syntax.options.add_options()  //
      ("measured", po::value(&measured)->value_name("FILE"),
       "measured times to draw beside the curves of a sweep, in any form that validate reads; may be repeated")  //
      ("output,o", po::value(&file)->value_name("FILE")->default_value(file), "the page");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::string page = page::report_page(folders, measured);
  write_text_file(file, page);
  out << fmt::format("{}: {} bytes\n", file, page.size());
  return kExitOk;
}

}  // namespace meshbed::testbed
