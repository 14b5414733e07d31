#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "cli/command/commands.h"
#include "plugin/base/counted.h"
#include "testbed/base/child_process.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/interruption.h"
#include "testbed/base/json_text.h"
#include "testbed/base/processors.h"
#include "testbed/base/progress.h"
#include "testbed/result/expect.h"
#include "testbed/result/verdict.h"
#include "testbed/verify/explore_run.h"
#include "testbed/verify/fault_schedule.h"
#include "testbed/workload/workload.h"
#include "testbed/world/run_workload.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr unsigned kLimit_s = 60;             // of one run, CPU time
constexpr unsigned kWaitingLimit_s = 1'800;   // wall-clock time: only a run that waits for ever takes that long
constexpr std::uint64_t kSchedulesMost = 20;  // broken ones; the others are only counted

/// How a run ended, from the outside.
struct Ending {
  std::string finding;      // empty: no fault
  std::uint64_t steps = 0;  // executed steps of faults
  std::uint64_t lost = 0;   // nodes
};

/// The run, in a child.
nlohmann::json run_schedule(const std::string& schedule) {
  const Scenario scenario = parse_scenario(schedule, "schedule", {});
  sim::Recorder recorder(scenario.cluster, "");
  RunResult result = run_workload(run_world(WorldKind::kSimulated), scenario, {.recorder = &recorder});
  recorder.close();
  check_expectations(scenario, result);
  nlohmann::json said{{"steps", result.simulation.faults.size()}, {"lost", result.expected_error_seen ? 1 : 0}};
  for (const auto* proofs : {&result.proofs, &result.expectations}) {
    for (const sim::Proof& proof : *proofs) {
      if (!proof.ok) said["broken"] = proof.name + ": " + proof.detail;
    }
  }
  if (result.wrong > 0) said["broken"] = result.first_wrong;
  if (result.simulation.outcome.kind != sim::OutcomeKind::kFinished) said["broken"] = failure_line(result);
  // If a node was to be lost, the failed expectation names the wrong error.
  if (!result.simulation.errors.empty() && !scenario.expect.lost) {
    said["broken"] = result.simulation.errors.front().text;
  }
  return said;
}

struct Child {
  std::uint64_t seed = 0;
  pid_t process = -1;
  int end = -1;
  std::string text;
};

Child start(std::uint64_t seed, Schedules which) {
  const std::string schedule = fault_schedule(seed, which);
  const ChildProcess child = start_child([&](int pipe) {
    // The machine may be busy with others: only the run's own time counts.
    const rlimit limit{.rlim_cur = kLimit_s, .rlim_max = kLimit_s + 1};
    setrlimit(RLIMIT_CPU, &limit);
    alarm(kWaitingLimit_s);
    // The plugin's messages about faults are not printed; `meshbed run` prints them for one schedule.
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    std::string text;
    try {
      text = json_text(run_schedule(schedule));
    } catch (const std::exception& error) {
      text = json_text(nlohmann::json{{"broken", error.what()}});
    }
    const bool written = write(pipe, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    return written ? kExitOk : kExitBroken;
  });
  return {.seed = seed, .process = child.process, .end = child.output, .text = ""};
}

Ending ending_of(const Child& child, int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
    return {fmt::format("it has not ended within {} CPU s", kLimit_s)};
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    return {fmt::format("it has not ended within {} s", kWaitingLimit_s)};
  }
  if (WIFSIGNALED(status)) return {fmt::format("it crashed: {}", strsignal(WTERMSIG(status)))};
  const auto said = nlohmann::json::parse(child.text, nullptr, false);
  if (said.is_discarded()) return {fmt::format("it ended with status {}", WEXITSTATUS(status))};
  if (said.contains("broken")) return {said["broken"].get<std::string>()};
  return {"", said["steps"].get<std::uint64_t>(), said["lost"].get<std::uint64_t>()};
}

/// Runs the schedules `first`, `first` + 1, ...; `jobs` at a time.
class Fuzz {
 public:
  Fuzz(Schedules which, std::uint64_t first, std::uint64_t count, std::size_t jobs, std::ostream& out)
      : which_(which),
        next_(first),
        end_(first + count),
        total_(static_cast<int>(std::min<std::uint64_t>(count, std::numeric_limits<int>::max()))),
        jobs_(jobs),
        out_(out) {}

  int run() {
    const Interruption interruption("schedules", "0 right, 0 broken");
    progress_.emplace("schedules", total_);
    while (next_ < end_ || !children_.empty()) {
      while (next_ < end_ && children_.size() < jobs_) children_.push_back(start(next_++, which_));
      look();
    }
    progress_.reset();
    out_ << fmt::format("{}: {} right, {} broken; {} of faults, {} lost\n", counted(right_ + broken_, "schedule"),
                        right_, broken_, counted(steps_, "step"), counted(lost_, "node"));
    return broken_ == 0 ? kExitOk : kExitBroken;
  }

 private:
  void look() {
    std::vector<pollfd> watched;
    for (const Child& child : children_) watched.push_back({.fd = child.end, .events = POLLIN, .revents = 0});
    if (poll(watched.data(), watched.size(), -1) < 0) return;
    for (std::size_t index = children_.size(); index-- > 0;) {
      if (watched[index].revents != 0) read_from(index);
    }
  }

  void read_from(std::size_t index) {
    Child& child = children_[index];
    std::array<char, 4096> block;
    const ssize_t count = read(child.end, block.data(), block.size());
    if (count > 0) {
      child.text.append(block.data(), static_cast<std::size_t>(count));
      return;
    }
    close(child.end);
    int status = 0;
    waitpid(child.process, &status, 0);
    count_in(child, ending_of(child, status));
    children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(index));
    Interruption::set_kept(fmt::format("{} right, {} broken", right_, broken_));
    if (right_ + broken_ <= static_cast<std::uint64_t>(total_)) progress_->step();
  }

  void count_in(const Child& child, const Ending& ending) {
    steps_ += ending.steps;
    lost_ += ending.lost;
    if (ending.finding.empty()) {
      ++right_;
      return;
    }
    if (++broken_ > kSchedulesMost) return;
    progress_->hide();
    out_ << fmt::format(
                "schedule {}: {}\n  again: meshbed fuzz --faults{} --print {} > schedule.toml && meshbed run "
                "schedule.toml\n",
                child.seed, ending.finding, which_ == Schedules::kGpuRails ? " --gpu" : "", child.seed)
         << std::flush;
  }

  Schedules which_;
  std::uint64_t next_, end_;
  int total_;  // schedules; limited to an int
  std::size_t jobs_;
  std::ostream& out_;
  std::optional<Progress> progress_;  // while it runs
  std::vector<Child> children_;
  std::uint64_t right_ = 0, broken_ = 0, steps_ = 0, lost_ = 0;
};

}  // namespace

int fuzz_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const auto is_asked = [&arguments](const char* option) {
    return std::find(arguments.begin(), arguments.end(), option) != arguments.end();
  };
  if (is_asked("--explore") && (is_asked("--faults") || is_asked("--gpu"))) {
    throw std::runtime_error(
        "fuzz: --faults draws random faults, --explore walks through every order of calls without any; give one of "
        "the two, and run the other afterwards");
  }
  if (is_asked("--explore")) {
    return explore_command(arguments, out, err);
  }
  bool faults = false, explore = false, gpu = false;
  std::string first = "1", count = "1000", print;
  std::string jobs = std::to_string(own_processors());
  Syntax syntax("fuzz --faults [options], or fuzz --explore [options]");
  syntax.options.add_options()("faults", po::bool_switch(&faults), "random fault schedules, in the simulated world")(
      "gpu", po::bool_switch(&gpu), "schedules of another kind: GPU memory, striped over several cables")(
      "explore", po::bool_switch(&explore),
      "every order of the calls of two ranks; its options: fuzz --explore --help")(
      "first", po::value(&first)->value_name("N")->default_value(first), "number of the first schedule")(
      "count", po::value(&count)->value_name("N")->default_value(count), "so many, one after the other")(
      "jobs", po::value(&jobs)->value_name("N")->default_value(jobs), "so many at a time")(
      "print", po::value(&print)->value_name("N"), "print this schedule as a scenario file, and run nothing");
  syntax.only_without({"print"}, {"first", "count", "jobs"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (!faults) throw std::runtime_error("fuzz: what shall be fuzzed? There are --faults and --explore");
  constexpr std::uint64_t kMost = 1'000'000'000'000;
  const Schedules which = gpu ? Schedules::kGpuRails : Schedules::kAny;
  if (!print.empty()) {
    out << fault_schedule(parse_count("--print", print, 0, kMost), which);
    return kExitOk;
  }
  return Fuzz(which, parse_count("--first", first, 0, kMost), parse_count("--count", count, 1, kMost),
              parse_count("--jobs", jobs, 1, 1024), out)
      .run();
}

}  // namespace meshbed::testbed
