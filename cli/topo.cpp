#include "cli/topo.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <stdexcept>

#include "cli/command.h"
#include "cli/topo_rules.h"
#include "models/topology.h"

namespace meshbed::cli {

int topo_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  namespace po = boost::program_options;
  std::string action;
  std::string file;
  std::string output;
  std::vector<std::string> overrides;
  bool all = false;
  std::string cablings;
  Syntax syntax("topo check|draw|rules FILE [options]");
  syntax.operands.add_options()  //
      ("action", po::value(&action)->value_name("check|draw|rules"),
       "check: who reaches whom over which subnet; draw: a picture (SVG); rules: what other plugins, NCCL and Mesh "
       "make "
       "of it")  //
      ("file", po::value(&file)->value_name("FILE"), "scenario file");
  syntax.positions.add("action", 1).add("file", 1);
  syntax.options.add_options()                                                                                    //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated")  //
      ("all", po::bool_switch(&all), "check: every pair, however many there are")                                 //
      ("cablings", po::value(&cablings)->value_name("N"),
       "rules: instead of a file, all cablings of 2 to N nodes (6 at most) with two NICs each")  //
      ("output,o", po::value(&output)->value_name("FILE"), "draw: where the SVG goes; default: standard output");
  if (!parse_arguments(arguments, syntax, out)) return 0;
  if (action == "rules" && !cablings.empty() && file.empty()) {
    constexpr int kLeast = 2, kMost = 6;
    out << cablings_report(kLeast, static_cast<int>(parse_count("--cablings", cablings, kLeast, kMost)));
    return 0;
  }
  if ((action != "check" && action != "draw" && action != "rules") || file.empty() || !cablings.empty()) {
    err << "usage: meshbed topo check|draw|rules FILE, or meshbed topo rules --cablings N\n";
    return 2;
  }
  const Scenario scenario = read_scenario(file, overrides);
  if (action == "rules") {
    out << rules_report(scenario);
    return 0;
  }
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
