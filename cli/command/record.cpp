#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/render/render.h"
#include "testbed/result/expect.h"
#include "testbed/result/verdict.h"
#include "testbed/world/replay/recorded_run.h"
#include "testbed/world/run_workload.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

document::Section record_section(const sim::RecordedSchedule& schedule, const ReplayDifference& difference,
                                 const std::string& file, std::uint64_t file_bytes) {
  using namespace document;
  Section section{.title = "Recording"};
  section.with(
      {text("schedule", "the file"), integer("file_bytes", "B", "its size"),
       integer("messages", "", "of all ranks, connections' own included"),
       integer("streams", "", "queue pairs, each way"), integer("ranks", "", "how many have messages or calls"),
       integer("different_messages", "", "those with another time when the schedule is replayed on the same links"),
       integer("largest_difference_ps", "ps", "of any time of any message"),
       text("first_difference", "the message, and its times in the run and the replay").or_null()});
  section.set("schedule", file);
  section.set("file_bytes", file_bytes);
  section.set("messages", difference.messages);
  section.set("streams", schedule.streams.size());
  section.set("ranks", schedule.ranks);
  section.set("different_messages", difference.different);
  section.set("largest_difference_ps", difference.largest_ps);
  section.set("first_difference", difference.first.empty() ? Value() : Value(difference.first));
  section.line("recorded {} messages of {} streams between {} ranks in {}", difference.messages,
               schedule.streams.size(), schedule.ranks, file);
  if (difference.different == 0) {
    section.line("replayed on the same links: every message has its time, to the picosecond");
  } else {
    section.line("replayed on the same links: {} messages have other times, by {} ps at most; the first: {}",
                 difference.different, difference.largest_ps, difference.first);
  }
  return section;
}

}  // namespace

int record_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RunOptions run;
  std::string file;
  bool file_is_given = false;
  Syntax syntax("record SCENARIO [options]");
  syntax.operands.add_options()  //
      ("scenario", po::value(&run.scenario_path)->required()->value_name("SCENARIO"), "the scenario file to run");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()  //
      ("out", po::value<std::string>()->value_name("FILE")->notifier([&](const std::string& name) {
        file = name;
        file_is_given = true;
      }),
       "where the schedule is written; default: <scenario>.schedule")                                 //
      ("set", po::value(&run.overrides)->value_name("KEY=VALUE"), "override a key; may be repeated")  //
      ("seed", po::value<std::string>()->value_name("N")->notifier([&run](const std::string& text) {
        run.seed = parse_count("--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
      }),
       "the data and every random number descend from it; default: the scenario's")  //
      ("json", po::bool_switch(&run.json), "print JSON");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (file_is_given && file.empty()) throw std::runtime_error("--out: name a file");
  const RunWorld& world = run_world(WorldKind::kSimulated);
  Scenario scenario = scenario_for(run);
  if (!file_is_given) file = scenario.name + ".schedule";
  check_recordable(scenario);
  report_findings(scenario, world, err);
  std::error_code unread;
  if (std::filesystem::equivalent(file, run.scenario_path, unread)) {
    throw std::runtime_error(fmt::format("--out {}: that is the scenario itself; name another file", file));
  }
  ReplacingFile written(file);

  sim::Recorder recorder(scenario.cluster, "");
  sim::ScheduleRecorder messages(scenario.cluster);
  recorder.also_to(messages);
  RunResult result = run_workload(world, scenario, {.recorder = &recorder});
  check_expectations(scenario, result);
  const int status = exit_status(result);
  if (status != kExitOk || !result.simulation.errors.empty() || !result.simulation.ended_well()) {
    const std::string why = status != kExitOk                  ? failure_line(result)
                            : result.simulation.errors.empty() ? "it did not end well"
                                                               : result.simulation.errors.front().text;
    err << "meshbed: record: the run failed, and nothing was written: " << why << "\n";
    return status != kExitOk ? status : kExitBroken;
  }
  // What is compared with the run is what another command will read.
  const std::string text = text_of(schedule_of(scenario, result, messages));
  const sim::RecordedSchedule schedule = schedule_from(file, text);
  const ReplayDifference difference = compare_with_run(scenario, schedule, messages);
  written.stream() << text;
  written.publish();
  document::Document report{.title = "record"};
  report.sections.push_back(record_section(schedule, difference, file, text.size()));
  out << (run.json ? json_text(json_of(report), kIndent) + "\n" : text_of(report));
  return difference.different == 0 ? kExitOk : kExitBroken;
}

}  // namespace meshbed::testbed
