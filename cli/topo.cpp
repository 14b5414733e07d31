#include "cli/topo.h"

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
  po::options_description options("options");
  add_help(options);
  options.add_options()                                                                                           //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated")  //
      ("all", po::bool_switch(&all), "check: every pair, however many there are")                                 //
      ("output,o", po::value(&output)->value_name("FILE"), "draw: where the SVG goes; default: standard output");
  po::options_description everything(options);
  everything.add_options()("action", po::value(&action), "check or draw")("file", po::value(&file), "scenario file");
  po::positional_options_description positional;
  positional.add("action", 1).add("file", 1);
  const auto values = parse_arguments(arguments, "topo check|draw FILE", everything, positional, out);
  if (!values) return 0;
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
  if (output.empty()) {
    out << svg;
    return 0;
  }
  std::ofstream picture(output, std::ios::binary);
  picture << svg;
  picture.close();
  if (!picture) throw std::runtime_error(output + ": cannot be written");
  out << output << "\n";
  return 0;
}

}  // namespace meshbed::cli
