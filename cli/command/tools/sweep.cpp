#include "testbed/sweep/sweep.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "cli/command/commands.h"
#include "emu/shell_quote.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/interruption.h"
#include "testbed/base/json_text.h"
#include "testbed/base/processors.h"
#include "testbed/base/progress.h"
#include "testbed/base/units.h"
#include "testbed/render/render.h"
#include "testbed/result/results_folder.h"
#include "testbed/sweep/table.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct SweepWords {
  std::vector<std::string> vary;
  std::string fail, points_file, results, csv, plot, max_points = "100000", time_limit = "300", workers, slurm;
  bool slurm_task = false;
  bool zip = false, strict = false, json = false;
};

std::string kept_line(std::size_t points, const std::string& folder) {
  return fmt::format("{} are kept in {}; --resume goes on from there", counted(points, "point"), folder);
}

std::string default_folder(const sweep::Options& options) {
  std::vector<std::string> settings = options.overrides;
  for (const std::string& fault : options.faults) settings.push_back("fault=" + fault);
  return fmt::format("{}/{}/sweep", kResultsFolder,
                     variant_name(std::filesystem::path(options.scenario_path).stem().string(), settings));
}

/// This command as one of the tasks of a Slurm job array.
std::string script_of(const Arguments& arguments, const std::string& tasks) {
  Arguments words{std::filesystem::read_symlink("/proc/self/exe").string(), "sweep"};
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    if (arguments[at] == "--slurm") {
      ++at;
    } else if (arguments[at].rfind("--slurm=", 0) != 0) {
      words.push_back(arguments[at]);
    }
  }
  return sweep::slurm_script(emu::shell_command(words), std::filesystem::current_path().string(),
                             static_cast<int>(parse_count("--slurm", tasks, 1, 10'000)));
}

void take_words(const SweepWords& words, sweep::Options& options) {
  options.points_max = parse_count("--max-points", words.max_points, 1, 10'000'000);
  options.workers =
      words.workers.empty() ? own_processors() : static_cast<int>(parse_count("--workers", words.workers, 1, 1024));
  options.part = words.slurm_task ? sweep::slurm_part(from_environment) : sweep::mpi_part(from_environment);
  options.time_limit_s = static_cast<double>(parse_count("--time-limit", words.time_limit, 1, 1'000'000));
  if (!words.fail.empty()) options.fail = sweep::parse_fail(words.fail);
  if (!options.fail_at.empty()) {
    if (words.fail.empty()) throw std::runtime_error("--fail-at has no effect without --fail; add --fail each-cable");
    if (const auto at = parse_time_ps(options.fail_at); !at) {
      throw std::runtime_error("--fail-at " + at.error().text);
    }
  }
  if (!words.points_file.empty()) {
    if (!words.vary.empty()) throw std::runtime_error("--points has no effect with --vary; remove one of them");
    std::tie(options.axes, options.points) = sweep::read_points(read_text_file(words.points_file), words.points_file);
    if (options.points.size() > options.points_max) {
      throw std::runtime_error(fmt::format("{}: {} points are more than --max-points {}", words.points_file,
                                           options.points.size(), options.points_max));
    }
    return;
  }
  for (const std::string& each : words.vary) {
    options.axes.push_back(sweep::parse_axis(each));
    const auto same = [&](const sweep::Axis& axis) { return axis.key == options.axes.back().key; };
    if (std::count_if(options.axes.begin(), options.axes.end(), same) > 1) {
      throw std::runtime_error("--vary " + each + ": the key is varied twice; give all its values at once");
    }
  }
  if (options.axes.empty() && words.fail.empty()) {
    throw std::runtime_error("sweep: nothing is varied; give --vary KEY=VALUE,VALUE or --fail each-cable");
  }
  options.points = sweep::combine(options.axes, words.zip, options.points_max);
}

}  // namespace

int sweep_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  SweepWords words;
  sweep::Options options;
  Syntax syntax("sweep SCENARIO --vary KEY=V1,V2,... [--vary ...] [--fail WHAT] [options]");
  syntax.operands.add_options()  //
      ("scenario", po::value(&options.scenario_path)->required()->value_name("SCENARIO"), "the scenario file");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()  //
      ("vary", po::value(&words.vary)->value_name("KEY=V1,V2,..."),
       "a field and its values; may be repeated: every combination is run. Commas in brackets or quotes do not "
       "separate values; KEY fault adds one: fault=[cable_down,target=node0-node1,at=2ms],none")                  //
      ("zip", po::bool_switch(&words.zip), "the first values of all --vary together, then the second ones, ...")  //
      ("points", po::value(&words.points_file)->value_name("FILE"),
       "instead of --vary: CSV, a line of keys and a line of values for each point")  //
      ("fail", po::value(&words.fail)->value_name("WHAT"),
       "each-cable, each-nic, each-node, pairs (of cables): run each point intact, and once without each of them. A "
       "NIC's link to a switch counts as a cable")                                                                //
      ("fail-at", po::value(&options.fail_at)->value_name("TIME"), "they fail at this time, not from the start")  //
      ("baseline", po::value(&options.baseline)->value_name("KEY=VALUE"),
       "the points that ratio_baseline compares with; default: the intact ones, without --fail the first point")  //
      ("set", po::value(&options.overrides)->value_name("KEY=VALUE"), "override a key in all points")             //
      ("fault", po::value(&options.faults)->value_name("KIND,KEY=VALUE,..."), "add a fault to all points")        //
      ("results", po::value(&words.results)->value_name("DIR"),
       "where sweep.json, sweep.csv and points.jsonl are written; default: results/SCENARIO/sweep")  //
      ("csv", po::value(&words.csv)->value_name("FILE"), "also write the table there")               //
      ("plot", po::value(&words.plot)->value_name("FILE.svg|png"),
       "also draw the times over the first varied key, a line for each combination of the others")     //
      ("json", po::bool_switch(&words.json), "print JSON instead of the table")                        //
      ("resume", po::bool_switch(&options.resume), "take over the points that DIR has of this sweep")  //
      ("strict", po::bool_switch(&words.strict), "exit status 1 if a point failed")                    //
      ("max-points", po::value(&words.max_points)->value_name("N")->default_value(words.max_points),
       "refuse to run more points")  //
      ("time-limit", po::value(&words.time_limit)->value_name("SECONDS")->default_value(words.time_limit),
       "of one point, wall-clock time; one that exceeds it is a row with that status")  //
      ("slurm", po::value(&words.slurm)->value_name("N"),
       "run nothing; print a batch script of Slurm that runs this sweep as a job array of N tasks")         //
      ("slurm-task", po::bool_switch(&words.slurm_task), "this process is a task of the array of --slurm")  //
      ("workers", po::value(&words.workers)->value_name("N"), "points that run at one time; default: all processors");
  syntax.only_with({"vary"}, {"zip"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  take_words(words, options);
  if (!words.plot.empty()) require_plot_file("--plot", words.plot);
  if (!words.slurm.empty()) {
    out << script_of(arguments, words.slurm);
    return kExitOk;
  }

  const std::string folder = words.results.empty() ? default_folder(options) : words.results;
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) {
    throw std::runtime_error(
        fmt::format("--results {}: {}; name a folder that you may write to", folder, problem.message()));
  }
  options.journal = folder + "/points.jsonl";
  const Interruption interruption("", kept_line(0, folder));
  std::optional<Progress> progress;
  const sweep::Outcome outcome = sweep::run(options, [&](std::size_t done, std::size_t total) {
    Interruption::set_kept(kept_line(done, folder));
    if (!progress) progress.emplace("sweep", static_cast<int>(total), static_cast<int>(done - 1));
    progress->step();
  });
  if (!outcome.is_whole) {
    err << fmt::format("meshbed: sweep: part {} of {} is done; the last one to end prints the table\n",
                       options.part.index + 1, options.part.count);
    return words.strict && outcome.failed > 0 ? kExitBroken : kExitOk;
  }
  const document::Table& table = *outcome.table.find_table("points");
  const std::string json = json_text(json_of(outcome.table), kIndent) + "\n";
  write_text_file(folder + "/sweep.json", json);
  write_text_file(folder + "/sweep.csv", csv_of(table));
  if (!words.csv.empty()) write_text_file(words.csv, csv_of(table));
  if (!words.plot.empty()) write_plot("--plot", words.plot, plot_of(options, table));
  if (words.json) {
    out << json;
  } else {
    out << text_of(outcome.table)
        << fmt::format("\n{}, {} ok{}; results in {}\n", counted(outcome.points, "point"),
                       outcome.points - outcome.failed,
                       outcome.resumed > 0 ? fmt::format(", {} of them resumed", outcome.resumed) : "", folder);
  }
  return words.strict && outcome.failed > 0 ? kExitBroken : kExitOk;
}

}  // namespace meshbed::testbed
