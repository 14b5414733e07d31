#include "testbed/plan/plan.h"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/interruption.h"
#include "testbed/base/json_text.h"
#include "testbed/base/processors.h"
#include "testbed/render/render.h"
#include "testbed/result/results_folder.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/bring_up.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct PlanWords {
  std::string nodes, nics = "2", switch_price, cable_price, workload, survive, folder, finalists = "12",
                     time_limit = "300";
  bool json = false;
};

double price_of(const std::string& option, const std::string& text) {
  std::size_t end = 0;
  double price = -1;
  try {
    price = std::stod(text, &end);
  } catch (const std::logic_error&) {  // reported below
  }
  if (end != text.size() || !(price >= 0) || price > 1e12) {
    throw std::runtime_error(option + " " + text + ": expects a price of 0 or more, as in 45 or 1299.90");
  }
  return price;
}

plan::Request request_of(const PlanWords& words, plan::Request request) {
  request.nodes = static_cast<int>(parse_count("--nodes", words.nodes, 2, 8));
  request.nics = static_cast<int>(parse_count("--nics", words.nics, 1, 8));
  if (!words.switch_price.empty()) request.switch_price = price_of("--switch", words.switch_price);
  if (!words.cable_price.empty()) request.cable_price = price_of("--cable", words.cable_price);
  if (!words.survive.empty() && words.survive != "any-cable") {
    throw std::runtime_error("--survive " + words.survive + ": expects any-cable");
  }
  request.must_survive = !words.survive.empty();
  request.finalists = parse_count("--finalists", words.finalists, 3, 5000);
  request.time_limit_s = static_cast<double>(parse_count("--time-limit", words.time_limit, 1, 1'000'000));
  request.workers = own_processors();
  read_workload(words.workload, request);
  request.folder = words.folder.empty() ? fmt::format("{}/plan", kResultsFolder) : words.folder;
  std::error_code problem;
  std::filesystem::create_directories(request.folder, problem);
  if (problem) {
    throw std::runtime_error(
        fmt::format("--output {}: {}; name a folder that you may write to", request.folder, problem.message()));
  }
  return request;
}

/// What the winner is built and run with. Returns what was written.
std::string write_winner(const plan::Request& request, const plan::Candidate& winner) {
  const std::string& folder = request.folder;
  const std::string path = folder + "/scenario.toml";
  write_text_file(path, plan::scenario_of(request, winner.cabling, winner.algorithm, winner.protocol));
  const Scenario scenario = read_scenario(path, request.overrides);
  std::filesystem::create_directories(folder + "/netplan");
  for (const models::Node& node : scenario.cluster.nodes) {
    write_text_file(fmt::format("{}/netplan/{}.yaml", folder, node.name), netplan_of(node));
  }
  write_text_file(folder + "/cables.csv", cable_list(scenario.cluster));
  write_text_file(folder + "/environment", job_environment(scenario));
  std::string command = "meshbed run " + path;
  for (const std::string& each : request.overrides) command += " --set " + each;
  return fmt::format("{0}/scenario.toml, {0}/netplan/*.yaml, {0}/cables.csv, {0}/environment\n{1}\n", folder, command);
}

}  // namespace

int plan_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  PlanWords words;
  plan::Request request;
  Syntax syntax("plan --nodes N --workload WHAT [options]");
  syntax.options.add_options()                                                                                   //
      ("nodes", po::value(&words.nodes)->required()->value_name("N"), "nodes, 2 to 8")                           //
      ("nics", po::value(&words.nics)->value_name("N")->default_value(words.nics), "NICs of each node, 1 to 8")  //
      ("workload", po::value(&words.workload)->required()->value_name("WHAT"),
       "COLLECTIVE:SIZE, as all_reduce:64M; decode:NAME, a token of a model of models/data/decode; or a scenario file, "
       "for everything in it except its cabling")  //
      ("switch", po::value(&words.switch_price)->value_name("PRICE"),
       "of a switch with a port for each node; without this only cables are considered")  //
      ("cable", po::value(&words.cable_price)->value_name("PRICE"), "of a cable")         //
      ("survive", po::value(&words.survive)->value_name("any-cable"),
       "only cablings that survive the loss of any one cable")  //
      ("rate", po::value(&request.rate)->value_name("RATE")->default_value(request.rate),
       "of NICs, cables and switch ports")                                                               //
      ("latency", po::value(&request.latency)->value_name("TIME"), "of a cable, one way; default: 1us")  //
      ("functions", po::value(&request.functions)->value_name("HOW"),
       "how NICs share PCIe lanes, as topology.functions: spark-merged of a DGX Spark with a NIC for each port")  //
      ("profile", po::value(&request.profile)->value_name("NAME"),
       "what software costs, as models.profile: dgx-spark, or one that meshbed models lists")                     //
      ("set", po::value(&request.overrides)->value_name("KEY=VALUE"), "a key of each scenario; may be repeated")  //
      ("finalists", po::value(&words.finalists)->value_name("N")->default_value(words.finalists),
       "so many cablings are run, if there are more")  //
      ("time-limit", po::value(&words.time_limit)->value_name("SECONDS")->default_value(words.time_limit),
       "of one run, wall-clock time")  //
      ("output,o", po::value(&words.folder)->value_name("DIR"),
       "gets plan.json, the winner's scenario, netplan files, cables and environment; default: results/plan")  //
      ("json", po::bool_switch(&words.json), "print JSON instead of the report");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  request = request_of(words, std::move(request));

  const Interruption interruption("", "nothing is kept of a plan that was cut off");
  const plan::Outcome outcome = plan::run(request);
  const std::string json = json_text(json_of(outcome.report), kIndent) + "\n";
  write_text_file(request.folder + "/plan.json", json);
  const std::string written = write_winner(request, outcome.candidates.front());
  out << (words.json ? json : text_of(outcome.report) + "\n" + written);
  return kExitOk;
}

}  // namespace meshbed::testbed
