#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <stdexcept>

#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/result/compare_messages.h"
#include "testbed/result/results_folder.h"
#include "testbed/workload/result.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

using json = nlohmann::json;

struct Run {
  std::string name;  // "sim"
  std::string folder;
  json summary, provenance;
};

Run read_run(const std::string& name, const std::string& folder, const std::string& how) {
  const auto read = [&](const char* file) {
    const std::string path = folder + "/" + file;
    if (!fs::exists(path)) {
      throw std::runtime_error(fmt::format("compare: there is no {}{}", path, how.empty() ? "" : "; first: " + how));
    }
    try {
      return json::parse(read_text_file(path));
    } catch (const json::exception& problem) {
      throw std::runtime_error(fmt::format("compare: {} is no result: {}", path, problem.what()));
    }
  };
  return {name, folder, read("summary.json"), read("provenance.json")};
}

class Comparison {
 public:
  Comparison(Run left, Run right) : left_(std::move(left)), right_(std::move(right)) {}

  void run() {
    for (const char* field : {"scenario_sha256", "overrides", "seed", "plugin_sha256", "engine_sha256"}) {
      equal(field, left_.provenance, right_.provenance);
    }
    for (const char* field : {"scenario", "ranks", "collective", "bytes", "iterations"}) {
      equal(field, left_.summary, right_.summary);
    }
    compare_errors();
    compare_faults();
    // How far a run that fails has come is chance.
    if (failed(left_) && failed(right_)) return;
    for (const char* field : {"wrong", "checked"}) equal(field, left_.summary, right_.summary);
    if (left_.summary.contains("cases") && right_.summary.contains("cases")) {
      compare_cases();
    } else {
      equal("data", left_.summary, right_.summary);
    }
    messages_ = compare_messages(traced(left_), traced(right_));
    for (const std::string& each : messages_.differences) differences_.push_back(each);
  }

  const std::vector<std::string>& differences() const { return differences_; }

  std::string text() const {
    std::string text;
    const auto time = [](const Run& run) { return run.summary.value("time_ns", 0.0) / 1e6; };
    text += fmt::format("{:<10} {:>14} {:>10} {:>12}\n", "run", "time (ms)", "messages", "#wrong");
    for (const Run* run : {&left_, &right_}) {
      text += fmt::format("{:<10} {:>14.3f} {:>10} {:>12}\n", run->name, time(*run), run->summary.value("messages", 0),
                          json_text(run->summary.value("wrong", json())));
    }
    text += "times are shown, never compared\n\n";
    for (const std::string& each : messages_.by_arrival) text += "compared by what arrived: " + each + "\n";
    constexpr std::size_t kShown = 20;
    for (std::size_t each = 0; each < std::min(kShown, differences_.size()); ++each) {
      text += "differs: " + differences_[each] + "\n";
    }
    if (differences_.size() > kShown) text += fmt::format("... and {} more\n", differences_.size() - kShown);
    text += differences_.empty() ? agreement()
                                 : fmt::format("{} and {} differ: {}\n", left_.name, right_.name,
                                               counted(differences_.size(), "difference"));
    return text;
  }

 private:
  static TracedRun traced(const Run& run) {
    TracedRun traced{.name = run.name, .messages = read_trace_file(run.folder + "/messages.csv"), .cut_ports = {}};
    for (const json& fault : run.summary.value("faults", json::array())) {
      for (const json& port : fault.value("cuts", json::array())) traced.cut_ports.insert(port.get<std::string>());
    }
    return traced;
  }

  static std::string how_it_failed(const Run& run) {
    const json errors = run.summary.value("errors", json::array());
    return errors.empty() ? run.summary.value("outcome", "") : errors[0].value("class", "");
  }

  std::string agreement() const {
    const std::string faults = faults_ == 0 ? "" : fmt::format(", {} carried out", counted(faults_, "fault"));
    if (failed(left_)) {
      return fmt::format(
          "{} and {} agree: same files{}; both failed with '{}' (how far a run that fails has come is "
          "chance: its messages are not compared)\n",
          left_.name, right_.name, faults, how_it_failed(left_));
    }
    const std::string bytes = cases_ == 0 ? "result bytes" : fmt::format("result bytes of {}", counted(cases_, "case"));
    // Less goes over a cable that has more under way, which is the moment's.
    const std::string cuts = messages_.cut_otherwise == 0
                                 ? ""
                                 : fmt::format(" ({} of striped messages cut elsewhere, the same bytes together)",
                                               counted(messages_.cut_otherwise, "piece"));
    if (messages_.by_arrival.empty()) {
      return fmt::format("{} and {} agree: same files{}, NICs, GIDs, routes, {}, and {} messages in the same order{}\n",
                         left_.name, right_.name, faults, bytes, messages_.in_order, cuts);
    }
    const std::string in_order =
        messages_.in_order == 0 ? "" : fmt::format(" {} messages in the same order,", messages_.in_order);
    return fmt::format(
        "{} and {} agree: same files{}, {},{} and the messages that arrived between {} of ranks that lost "
        "connections "
        "(when, in which order and over which cable is chance there: not compared)\n",
        left_.name, right_.name, faults, bytes, in_order, counted(messages_.by_arrival.size(), "pair"));
  }

  void equal(const char* field, const json& one, const json& other) {
    const json left = one.value(field, json()), right = other.value(field, json());
    if (left == right) return;
    differences_.push_back(
        fmt::format("{}: {} has {}, {} has {}", field, left_.name, json_text(left), right_.name, json_text(right)));
  }

  /// A matrix's, by what each is.
  void compare_cases() {
    const json &one = left_.summary["cases"], &other = right_.summary["cases"];
    for (std::size_t index = 0; index < std::max(one.size(), other.size()); ++index) {
      const auto name_in = [index](const json& cases) {
        return index < cases.size() ? cases[index].at("case").get<std::string>() : std::string("none");
      };
      const std::string name = name_in(one);
      if (name != name_in(other)) {
        differences_.push_back(fmt::format("cases: not the same ones: case {} is {} in {}, and {} in {}", index + 1,
                                           name, left_.name, name_in(other), right_.name));
        return;
      }
      if (one[index].at("data") == other[index].at("data")) continue;
      differences_.push_back(fmt::format("{}: the ranks' result bytes are not the same", name));
    }
    cases_ = one.size();
  }

  /// Failures by class; their words differ between worlds (times, QP numbers), and which rank is the first to fail is
  /// chance.
  void compare_errors() {
    const auto classes = [](const Run& run) {
      std::set<std::string> found;
      for (const json& error : run.summary.value("errors", json::array())) found.insert(error.value("class", ""));
      return found;
    };
    const std::set<std::string> one = classes(left_), other = classes(right_);
    if (one == other) return;
    const auto told = [](const Run& run, const std::set<std::string>& found) {
      if (found.empty()) return run.name + " came to its end";
      return fmt::format("{} failed with '{}' ({})", run.name, fmt::join(found, "', '"),
                         run.summary["errors"][0].value("text", ""));
    };
    differences_.push_back(fmt::format("errors: {}; {}", told(left_, one), told(right_, other)));
  }

  /// It ended with an error, or not at all.
  bool failed(const Run& run) const {
    return !run.summary.value("errors", json::array()).empty() ||
           run.summary.value("outcome", "finished") != "finished";
  }

  /// The beginnings of faults that were carried out. Two that are due at one time may change places.
  void compare_faults() {
    const auto begun = [](const Run& run) {
      std::multiset<std::string> found;
      for (const json& fault : run.summary.value("faults", json::array())) {
        if (fault.value("begins", false))
          found.insert(fault.value("fault", "") + " (" + fault.value("point", "") + ")");
      }
      return found;
    };
    const auto one = begun(left_), other = begun(right_);
    faults_ = one.size();
    const auto missing = [this](const auto& from, const auto& in, const Run& with, const Run& without) {
      std::vector<std::string> only;
      std::set_difference(from.begin(), from.end(), in.begin(), in.end(), std::back_inserter(only));
      for (const std::string& each : only) {
        differences_.push_back(
            fmt::format("faults: {} had {}; {} ended before it, or has no such fault", with.name, each, without.name));
      }
    };
    missing(one, other, left_, right_);
    missing(other, one, right_, left_);
  }

  Run left_, right_;
  MessageComparison messages_;
  std::size_t faults_ = 0, cases_ = 0;
  std::vector<std::string> differences_;
};

bool is_world(const std::string& word) {
  const std::vector<std::string> names = world_names();
  return std::find(names.begin(), names.end(), word) != names.end();
}

}  // namespace

int compare_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  std::string left, right, scenario, results;
  RunOptions settings;
  bool as_json = false;
  Syntax syntax("compare LEFT RIGHT [--scenario FILE] [options]");
  syntax.operands.add_options()  //
      ("left", po::value(&left)->required()->value_name("LEFT"),
       "sim, emu or metal, with --scenario; or a results folder")(
          "right", po::value(&right)->required()->value_name("RIGHT"), "likewise");
  syntax.positions.add("left", 1).add("right", 1);
  syntax.options.add_options()                                                                      //
      ("scenario", po::value(&scenario)->value_name("FILE"), "whose runs, where worlds are named")  //
      ("results", po::value(&results)->value_name("DIR"),
       "where the runs wrote theirs, as their --results; default: results")                                           //
      ("set", po::value(&settings.overrides)->value_name("KEY=VALUE"), "of the runs without --results: their --set")  //
      ("fault", po::value(&settings.faults)->value_name("KIND,..."), "likewise their --fault")                        //
      ("json", po::bool_switch(&as_json), "print JSON");
  syntax.only_with({"scenario"}, {"results", "set", "fault"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (!scenario.empty() && !is_world(left) && !is_world(right)) {
    throw std::runtime_error(
        fmt::format("compare: --scenario {} says whose run of a world, and neither {} nor {} is one (sim, emu, metal): "
                    "leave it out",
                    scenario, left, right));
  }

  const auto run_of = [&](const std::string& word) {
    if (!is_world(word)) return read_run(word, word, "");
    if (scenario.empty()) throw std::runtime_error("compare " + word + ": name the scenario with --scenario FILE");
    const std::string name = read_scenario(scenario, {}).name;
    std::string run = fmt::format("meshbed run --world {} {}", word, scenario);
    for (const std::string& each : settings.overrides) run += " --set " + each;
    for (const std::string& each : settings.faults) run += " --fault " + each;
    // A folder that was named holds one variant, the default one each of them.
    const bool named = !results.empty();
    return read_run(word,
                    fmt::format("{}/{}/{}", named ? results : kResultsFolder,
                                named ? name : variant_name(name, settings_of(settings)), word),
                    run);
  };
  Comparison comparison(run_of(left), run_of(right));
  try {
    comparison.run();
  } catch (const json::exception& problem) {
    throw std::runtime_error(
        fmt::format("compare: {} or {} holds a summary.json or provenance.json that no run wrote: {}", left, right,
                    problem.what()));
  }
  if (as_json) {
    const nlohmann::ordered_json object{{"left", left},
                                        {"right", right},
                                        {"agree", comparison.differences().empty()},
                                        {"differences", comparison.differences()}};
    out << json_text(object, kIndent) << "\n";
  } else {
    out << comparison.text();
  }
  return comparison.differences().empty() ? kExitOk : kExitBroken;
}

}  // namespace meshbed::testbed
