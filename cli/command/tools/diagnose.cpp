#include "testbed/diagnose/diagnose.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/command/commands.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/processors.h"
#include "testbed/base/progress.h"
#include "testbed/diagnose/live.h"
#include "testbed/diagnose/machines.h"
#include "testbed/diagnose/prove/prove.h"
#include "testbed/diagnose/prove/self_check.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct DiagnoseWords {
  std::vector<std::string> inputs, overrides;
  std::string scenario, places = "2", healthy = "10", only;
  bool json = false, table = false, prove = false, live = false, self_check = false;
};

/// The scenario that the causes are put into: the one that is named, one among the inputs, or that of results, with its
/// settings before the command's. An empty path: a built-in one.
std::pair<std::string, std::vector<std::string>> scenario_for(const DiagnoseWords& words) {
  std::string path = words.scenario;
  std::vector<std::string> overrides = words.overrides;
  for (const std::string& input : words.inputs) {
    if (!path.empty()) break;
    if (input.size() > 5 && input.compare(input.size() - 5, 5, ".toml") == 0) path = input;
    for (const char* below : {"/provenance.json", "/sim/provenance.json"}) {
      if (!path.empty() || !std::filesystem::exists(input + below)) continue;
      const auto provenance = nlohmann::json::parse(read_text_file(input + below), nullptr, false);
      if (!provenance.is_object()) continue;
      path = provenance.value("scenario_file", "");
      const auto own = provenance.value("overrides", std::vector<std::string>());
      overrides.insert(overrides.begin(), own.begin(), own.end());
    }
  }
  return {path, overrides};
}

int self_check(const DiagnoseWords& words, std::ostream& out) {
  diagnose::SelfCheckOptions options;
  options.places = parse_count("--places", words.places, 1, 64);
  options.healthy = parse_count("--healthy", words.healthy, 0, 1000);
  options.only = words.only;
  options.workers = own_processors();
  if (!words.only.empty() && !diagnose::cause_named(words.only)) {
    std::vector<std::string> names;
    for (const diagnose::CauseInfo& info : diagnose::cause_infos()) names.emplace_back(info.name);
    const std::string close = closest_name(words.only, names);
    throw std::runtime_error("--only " + words.only + ": not a cause" +
                             (close.empty() ? "; there are " + list_names(names) : " (did you mean " + close + "?)"));
  }
  std::optional<Progress> progress;
  const diagnose::SelfCheck check = diagnose::self_check(options, [&](std::size_t done, std::size_t total) {
    if (!progress) progress.emplace("runs", static_cast<int>(total));
    progress->step();
    if (done == total) progress.reset();
  });
  out << (words.json ? json_text(diagnose::json_of(check), kIndent) + "\n" : diagnose::text_of(check));
  return check.passed() ? kExitOk : kExitBroken;
}

}  // namespace

int diagnose_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  DiagnoseWords words;
  Syntax syntax("diagnose FILE|FOLDER... [options]");
  syntax.options.add_options()                                                                    //
      ("live", po::bool_switch(&words.live), "also this host: RDMA ports, limits, running jobs")  //
      ("prove", po::bool_switch(&words.prove),
       "run the causes in the simulated world, and name those that show the same")  //
      ("scenario", po::value(&words.scenario)->value_name("FILE"),
       "of --prove: the cluster of the job; default: a scenario or results among the files, or a pair")  //
      ("set", po::value(&words.overrides)->value_name("KEY=VALUE"),
       "of --prove: a key of the scenario; may be repeated")                                              //
      ("json", po::bool_switch(&words.json), "print JSON: causes and facts")                              //
      ("table", po::bool_switch(&words.table), "print docs/troubleshooting.md, the table of all causes")  //
      ("self-check", po::bool_switch(&words.self_check),
       "run every reproducible cause on pair, ring and switch, and print what is found of each")  //
      ("places", po::value(&words.places)->value_name("N")->default_value(words.places),
       "of --self-check: so many places of each cause in each scenario")  //
      ("healthy", po::value(&words.healthy)->value_name("N")->default_value(words.healthy),
       "of --self-check: so many runs without a fault of each scenario")  //
      ("only", po::value(&words.only)->value_name("CAUSE"), "of --self-check: this cause alone");
  syntax.operands.add_options()(
      "input", po::value(&words.inputs)->value_name("FILE"),
      "logs of NCCL and of the plugin, nccl-tests, RAS, the flight recorder, Inspector, dmesg, "
      "meshbed state, results, scenarios, or folders of them; archives of meshbed collect, all of one cluster");
  syntax.positions.add("input", -1);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (words.table) {
    out << diagnose::troubleshooting_page();
    return kExitOk;
  }
  if (words.self_check) return self_check(words, out);
  if (words.inputs.empty() && !words.live) {
    throw std::runtime_error("diagnose: expects a log, results, a scenario or --live; --help lists the formats");
  }
  diagnose::Case found;
  std::vector<std::string> machines;  // of one cluster: cables are seen in all of them together
  for (const std::string& input : words.inputs) {
    if (diagnose::is_machine(input)) {
      machines.push_back(input);
    } else {
      diagnose::read_input(input, found);
    }
  }
  if (!machines.empty()) diagnose::read_machines(machines, found);
  if (words.live) diagnose::read_this_host(found);
  diagnose::Diagnosis diagnosis = diagnose::judge(found);
  diagnosis.inputs = words.inputs;
  if (words.live) diagnosis.inputs.emplace_back("this host");
  constexpr std::size_t kProven = 3;
  if (words.prove) {
    const auto [path, overrides] = scenario_for(words);
    diagnose::prove(diagnosis, path, overrides, kProven);
  }
  out << (words.json ? json_text(diagnose::json_of(diagnosis), kIndent) + "\n" : diagnose::text_of(diagnosis));
  return kExitOk;
}

}  // namespace meshbed::testbed
