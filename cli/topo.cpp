#include "cli/topo.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <stdexcept>

#include "cli/command.h"
#include "models/topology.h"

namespace meshbed::cli {

int topo_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  namespace po = boost::program_options;
  std::string action;
  std::string file;
  std::string output;
  std::vector<std::string> overrides;
  bool all = false;
  Syntax syntax("topo check|draw FILE [options]");
  syntax.operands.add_options()  //
      ("action", po::value(&action)->value_name("check|draw"),
       "check: who reaches whom over which subnet; draw: a picture (SVG)")  //
      ("file", po::value(&file)->value_name("FILE"), "scenario file");
  syntax.positions.add("action", 1).add("file", 1);
  syntax.options.add_options()                                                                                    //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated")  //
      ("all", po::bool_switch(&all), "check: every pair, however many there are")                                 //
      ("output,o", po::value(&output)->value_name("FILE"), "draw: where the SVG goes; default: standard output");
  if (!parse_arguments(arguments, syntax, out)) return 0;
  if ((action != "check" && action != "draw") || file.empty()) {
    err << "usage: meshbed topo check|draw FILE\n";
    return 2;
  }
  const Scenario scenario = read_scenario(file, overrides);
  if (action == "check") {
    out << topology_report(scenario, all);
    return models::analyse(scenario.cluster).crossed.empty() ? 0 : 1;
  }
  const std::string svg = topology_svg(scenario);
  if (output.empty() || output == "-") {
    out << svg;
    return 0;
  }
  errno = 0;
  std::ofstream picture(output, std::ios::binary);
  picture << svg;
  picture.close();
  if (!picture) {
    throw std::runtime_error("cannot write " + output + (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
  }
  out << output << "\n";
  return 0;
}

}  // namespace meshbed::cli
