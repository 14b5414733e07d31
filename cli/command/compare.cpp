#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/render/render.h"
#include "testbed/result/compare_messages.h"
#include "testbed/result/compare_results.h"
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
      throw std::runtime_error(fmt::format("compare: {} is not a result: {}", path, problem.what()));
    }
  };
  return {name, folder, read("summary.json"), read("provenance.json")};
}

class Comparison {
 public:
  Comparison(Run left, Run right) : left_(std::move(left)), right_(std::move(right)) {}

  /// `needs_messages`: throws std::runtime_error if a run has no messages; otherwise they are left out.
  void run(bool needs_messages) {
    for (const char* field : {"scenario_sha256", "overrides", "seed", "plugin_sha256", "engine_sha256"}) {
      equal(field, left_.provenance, right_.provenance);
    }
    for (const char* field : {"scenario", "ranks", "collective", "bytes", "iterations"}) {
      equal(field, left_.summary, right_.summary);
    }
    compare_errors();
    compare_faults();
    // The progress of a failed run depends on timing.
    if (failed(left_) && failed(right_)) return;
    for (const char* field : {"wrong", "checked"}) equal(field, left_.summary, right_.summary);
    if (left_.summary.contains("cases") && right_.summary.contains("cases")) {
      compare_cases();
    } else {
      equal("data", left_.summary, right_.summary);
    }
    for (const Run* run : {&left_, &right_}) {
      const std::string path = run->folder + "/messages.csv";
      if (!needs_messages && unread_.empty() && !fs::exists(path)) unread_ = path;
    }
    if (!unread_.empty()) return;
    messages_ = compare_messages(traced(left_), traced(right_));
    general_ = differences_.size();
    for (const std::string& each : messages_.differences) differences_.push_back(each);
  }

  const std::vector<std::string>& differences() const { return differences_; }

  const Run& left() const { return left_; }
  const Run& right() const { return right_; }

  /// All differences except times, with the first differing message; with `each_message` all messages.
  std::string short_text(bool each_message) const {
    std::string text;
    const std::size_t general = std::min(general_, differences_.size());
    const std::size_t shown = each_message ? differences_.size() : std::min(general + 1, differences_.size());
    for (std::size_t each = 0; each < shown; ++each) {
      text += (each < general ? "differs: " : "message: ") + differences_[each] + "\n";
    }
    if (shown < differences_.size()) {
      text += fmt::format("... and {} of messages; --messages lists them\n",
                          counted(differences_.size() - shown, "difference"));
    }
    if (!unread_.empty()) text += "messages are not compared: there is no " + unread_ + "\n";
    return text.empty() ? agreement() : text;
  }

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
    // A busier cable gets a smaller part, which depends on timing.
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

  /// The cases of a matrix, by their identity.
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

  /// Compares failures by class: their texts differ between worlds (times, QP numbers), and the first rank to fail
  /// depends on timing.
  void compare_errors() {
    const auto classes = [](const Run& run) {
      std::set<std::string> found;
      for (const json& error : run.summary.value("errors", json::array())) found.insert(error.value("class", ""));
      return found;
    };
    const std::set<std::string> one = classes(left_), other = classes(right_);
    if (one == other) return;
    const auto error_text = [](const Run& run, const std::set<std::string>& found) {
      if (found.empty()) return run.name + " came to its end";
      return fmt::format("{} failed with '{}' ({})", run.name, fmt::join(found, "', '"),
                         run.summary["errors"][0].value("text", ""));
    };
    differences_.push_back(fmt::format("errors: {}; {}", error_text(left_, one), error_text(right_, other)));
  }

  /// Whether it ended with an error, or did not end.
  bool failed(const Run& run) const {
    return !run.summary.value("errors", json::array()).empty() ||
           run.summary.value("outcome", "finished") != "finished";
  }

  /// The beginnings of faults that were carried out. Two that are due at the same time may be swapped.
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
  std::size_t general_ = std::string::npos;  // of `differences_`: those before the messages'
  std::string unread_;                       // the messages.csv that is missing; empty: none
};

bool is_world(const std::string& word) {
  const std::vector<std::string> names = world_names();
  return std::find(names.begin(), names.end(), word) != names.end();
}

/// "5%", "0.05"; as a fraction.
double tolerance_of(const std::string& text) {
  const bool is_percent = !text.empty() && text.back() == '%';
  std::size_t end = 0;
  double value = -1;
  try {
    value = std::stod(text, &end);
  } catch (const std::logic_error&) {  // reported below
  }
  if (end + (is_percent ? 1 : 0) != text.size() || !(value >= 0)) {
    throw std::runtime_error("--tolerance " + text + ": expects a percentage or fraction, as in 5% or 0.05");
  }
  return is_percent ? value / 100 : value;
}

json read_sweep(const std::string& folder) {
  const std::string path = folder + "/sweep.json";
  try {
    return json::parse(read_text_file(path));
  } catch (const json::exception& problem) {
    throw std::runtime_error(
        fmt::format("compare: {} is not a sweep's: {}; remove the folder and sweep again", path, problem.what()));
  }
}

struct Report {
  ResultComparison results;
  std::vector<std::string> differences;
  std::string text;  // behind that of `results`
};

/// Prints it. Returns the exit status: by times within the tolerance, if one is given; otherwise by the differences.
int report(const Report& report, const std::string& left, const std::string& right, const std::string& tolerance,
           bool as_json, std::ostream& out) {
  bool agrees = report.differences.empty();
  std::string verdict;
  if (!tolerance.empty()) {
    const double most = tolerance_of(tolerance), change = report.results.change.value_or(0);
    agrees = report.results.broken.empty() && change <= most;
    verdict = !report.results.broken.empty() ? "not within any tolerance: " + report.results.broken + "\n"
                                             : fmt::format("{} {}: times differ by {:.2f} % at most\n",
                                                           agrees ? "within" : "not within", tolerance, 100 * change);
  }
  if (as_json) {
    nlohmann::ordered_json object{
        {"left", left}, {"right", right}, {"agree", agrees}, {"differences", report.differences}};
    object.update(json_of(report.results.section));
    out << json_text(object, kIndent) << "\n";
  } else {
    for (const std::string& line : text_lines(report.results.section)) out << line << "\n";
    out << report.text << verdict;
  }
  return agrees ? kExitOk : kExitBroken;
}

int compare_sweep_folders(const std::string& left, const std::string& right, const std::string& tolerance, bool as_json,
                          std::ostream& out) {
  try {
    Report both{.results = compare_sweeps(read_sweep(left), read_sweep(right)), .differences = {}, .text = ""};
    for (const document::Row& row : both.results.section.table("points").rows) {
      both.differences.push_back(row.cells.front().get<std::string>());
    }
    if (both.differences.empty()) both.text = "the sweeps agree in every point\n";
    return report(both, left, right, tolerance, as_json, out);
  } catch (const json::exception& problem) {
    throw std::runtime_error(fmt::format("compare: {} or {} has a sweep.json that no sweep of this version wrote: {}",
                                         left, right, problem.what()));
  }
}

}  // namespace

int compare_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  std::string left, right, scenario, results;
  RunOptions settings;
  bool as_json = false, each_message = false;
  std::string tolerance;
  Syntax syntax("compare LEFT RIGHT [--scenario FILE] [options]");
  syntax.operands.add_options()  //
      ("left", po::value(&left)->required()->value_name("LEFT"),
       "sim, emu or metal, with --scenario; or the results folder of a run or a sweep")(
          "right", po::value(&right)->required()->value_name("RIGHT"), "likewise");
  syntax.positions.add("left", 1).add("right", 1);
  syntax.options.add_options()                                                                                 //
      ("scenario", po::value(&scenario)->value_name("FILE"), "the scenario of the runs, if worlds are named")  //
      ("results", po::value(&results)->value_name("DIR"),
       "the --results folder of the runs; default: results")  //
      ("set", po::value(&settings.overrides)->value_name("KEY=VALUE"),
       "the --set of the runs, if they ran without --results")                                            //
      ("fault", po::value(&settings.faults)->value_name("KIND,..."), "likewise the --fault of the runs")  //
      ("messages", po::bool_switch(&each_message),
       "for folders: list every message that differs, not only the first")  //
      ("tolerance", po::value(&tolerance)->value_name("PERCENT"),
       "exit status 0 if no time differs by more, as 5%, and data and proofs are right in both; otherwise 1")  //
      ("json", po::bool_switch(&as_json), "print JSON");
  syntax.only_with({"scenario"}, {"results", "set", "fault"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (!scenario.empty() && !is_world(left) && !is_world(right)) {
    throw std::runtime_error(
        fmt::format("compare: --scenario {} says whose run of a world, and neither {} nor {} is one (sim, emu, metal): "
                    "leave it out",
                    scenario, left, right));
  }

  if (!tolerance.empty()) (void)tolerance_of(tolerance);
  const auto is_sweep = [](const std::string& word) { return !is_world(word) && fs::exists(word + "/sweep.json"); };
  if (is_sweep(left) && is_sweep(right)) return compare_sweep_folders(left, right, tolerance, as_json, out);
  if (is_sweep(left) || is_sweep(right)) {
    throw std::runtime_error(fmt::format("compare: {} has a sweep and {} has none; name two sweeps or two runs",
                                         is_sweep(left) ? left : right, is_sweep(left) ? right : left));
  }

  const auto run_of = [&](const std::string& word) {
    if (!is_world(word)) return read_run(word, word, "");
    if (scenario.empty()) throw std::runtime_error("compare " + word + ": name the scenario with --scenario FILE");
    const std::string name = read_scenario(scenario, {}).name;
    std::string run = fmt::format("meshbed run --world {} {}", word, scenario);
    for (const std::string& each : settings.overrides) run += " --set " + each;
    for (const std::string& each : settings.faults) run += " --fault " + each;
    // A named folder contains one variant; the default folder contains all of them.
    const bool named = !results.empty();
    return read_run(word,
                    fmt::format("{}/{}/{}", named ? results : kResultsFolder,
                                named ? name : variant_name(name, settings_of(settings)), word),
                    run);
  };
  Comparison comparison(run_of(left), run_of(right));
  const bool worlds = is_world(left) || is_world(right);
  Report both;
  try {
    comparison.run(worlds || each_message);
    both.results = compare_runs(comparison.left().summary, comparison.right().summary);
  } catch (const json::exception& problem) {
    throw std::runtime_error(
        fmt::format("compare: {} or {} holds a summary.json or provenance.json that no run wrote: {}", left, right,
                    problem.what()));
  }
  both.differences = comparison.differences();
  both.text = worlds ? comparison.text() : comparison.short_text(each_message);
  if (worlds) both.results.section.blocks.clear();  // times of two worlds are shown but not compared
  return report(both, left, right, tolerance, as_json, out);
}

}  // namespace meshbed::testbed
