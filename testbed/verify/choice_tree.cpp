#include "testbed/verify/choice_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "plugin/base/check.h"
#include "sim/trace/digest.h"
#include "testbed/base/child_process.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kLettersMax = 4096;  // of a schedule
constexpr std::size_t kTextMax = 2048;     // of a finding: a line of the pipe is written whole
constexpr char kIdle = '-';                // the letter of a stretch of idle beats
constexpr std::size_t kFindingsMost = 20;  // findings; the others are only counted

bool is_actor(char option) { return std::isdigit(static_cast<unsigned char>(option)) != 0; }

/// States that were reached, and the least that was spent on a path to each.
class StateSet {
 public:
  /// False: the state was reached before, with the same or less spent. States are identified by 56 bits. A state that
  /// does not fit into the table is explored each time.
  bool insert(const std::string& state, unsigned spent) {
    sim::Digest digest;
    digest.add(state);
    const std::uint64_t key = std::max<std::uint64_t>(digest.value() >> kSpentBits, 1);  // 0: a free entry
    spent = std::min(spent, kSpentMax);
    std::size_t at = key % kPlaces;
    while (places_[at] != 0 && places_[at] >> kSpentBits != key) at = (at + 1) % kPlaces;
    if (places_[at] == 0) {
      if (count_ == kPlaces / 2) return true;
      ++count_;
    } else if ((places_[at] & kSpentMax) <= spent) {
      return false;
    }
    places_[at] = key << kSpentBits | spent;
    return true;
  }

 private:
  static constexpr unsigned kSpentBits = 8, kSpentMax = (1U << kSpentBits) - 1;
  static constexpr std::size_t kPlaces = std::size_t{1} << 20U;
  std::size_t count_ = 0;
  std::array<std::uint64_t, kPlaces> places_{};
};

/// Memory shared by the processes of a walk. Only one of them runs at a time, so there is no lock.
struct Board {
  std::uint64_t runs = 0, redundant = 0, choices = 0;
  std::uint64_t longest = 0;
  bool stopped = false;                      // runs_max was reached
  bool reported = false;                     // the process that ended last has reported its end
  std::uint64_t idle_beats = 0;              // counted by the last scout
  std::uint64_t letters = 0;                 // of `schedule`
  std::array<char, kLettersMax> schedule{};  // of the current run
  std::array<ChoiceStep, kLettersMax> steps{};
  StateSet states;

  void take(std::size_t at, char option) {
    MESHBED_CHECK_MSG(at < kLettersMax, "a schedule of more letters than a walk has room for");
    schedule[at] = option;
    letters = at + 1;
    longest = std::max<std::uint64_t>(longest, letters);
  }
};

class SharedBoard {
 public:
  SharedBoard() : memory_(mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("explore: no memory to share between processes");
    new (memory_) Board;
  }
  ~SharedBoard() { munmap(memory_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() const { return *static_cast<Board*>(memory_); }

 private:
  void* memory_;
};

/// Writes a line for the caller of the walk. The write is atomic, because the line is shorter than PIPE_BUF.
void say(int pipe, const std::string& schedule, const RunEnd& end) {
  const nlohmann::json line{
      {"schedule", schedule}, {"finding", end.finding.substr(0, kTextMax)}, {"outcome", end.outcome}};
  const std::string text = json_text(line) + "\n";
  if (write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
}

/// The finding for a child that ended without a report.
std::string ending_of(int status, unsigned limit_s) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return fmt::format("it has not ended within {} s", limit_s);
  if (WIFSIGNALED(status)) return fmt::format("it crashed: {}", strsignal(WTERMSIG(status)));
  return fmt::format("the process ended with status {}", WEXITSTATUS(status));
}

/// Waits for `child`; an end without a report is a finding.
void reap(pid_t child, Board& board, int pipe, unsigned limit_s) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) _exit(1);
  if (std::exchange(board.reported, false)) return;
  ++board.runs;
  say(pipe, {board.schedule.data(), board.letters}, {.finding = ending_of(status, limit_s), .outcome = "crashed"});
}

/// The common part of the choosers of a walk and of a replay.
class BoardChooser : public Chooser {
 public:
  BoardChooser(Board& board, int pipe, unsigned limit_s) : board_(board), pipe_(pipe), limit_s_(limit_s) {
    alarm(limit_s_);
  }

  [[noreturn]] void end(const RunEnd& end) override {
    if (is_scout_) _exit(0);  // its parent reaches this end itself
    ++board_.runs;
    ended();
    say(pipe_, schedule_, end);
    board_.reported = true;
    _exit(0);
  }
  const std::string& schedule() const override { return schedule_; }

 protected:
  virtual void ended() {}

  void write_down(char letter) {
    board_.take(schedule_.size(), letter);
    schedule_.push_back(letter);
  }

  /// 0 in the child.
  pid_t fork_child() {
    const pid_t child = fork();
    if (child < 0) end({.finding = "fork failed: no memory or processes left", .outcome = "no fork"});
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(child == 0 ? limit_s_ : 0);
    return child;
  }

  /// A child (scout) runs ahead and counts the beats without effect, which are then executed here.
  bool skip(const std::function<bool()>& beat) {
    board_.idle_beats = 0;
    const pid_t scout = fork_child();
    if (scout == 0) {
      is_scout_ = true;
      while (beat()) ++board_.idle_beats;
      _exit(0);
    }
    // Its exit status does not matter: the cause of its end comes after the beats that it counted.
    if (waitpid(scout, nullptr, 0) != scout) _exit(1);
    alarm(limit_s_);
    if (board_.idle_beats == 0) return false;
    write_down(kIdle);
    const std::uint64_t beats = board_.idle_beats;
    for (std::uint64_t each = 0; each < beats; ++each) MESHBED_CHECK(beat());
    return true;
  }

  Board& board_;
  int pipe_;
  unsigned limit_s_;
  std::string schedule_;

 private:
  bool is_scout_ = false;
};

class WalkingChooser final : public BoardChooser {
 public:
  WalkingChooser(Board& board, int pipe, const ChoiceTreeOptions& options)
      : BoardChooser(board, pipe, options.run_limit_s), options_(options) {}

  char choose(const std::string& options) override {
    std::string awake;
    for (const char option : options) {
      if (asleep_.find(option) == std::string::npos) awake.push_back(option);
    }
    if (awake.empty() || board_.stopped) leave();
    board_.choices += awake.size() > 1 ? 1 : 0;
    tired_ = asleep_;
    had_actor_ = !asleep_.empty();
    for (std::size_t index = 0; index + 1 < awake.size(); ++index) {
      if (descend(awake[index])) return take(awake[index], true);
      if (board_.stopped) leave();
      const ChoiceStep& step = board_.steps[schedule_.size()];
      if (!is_actor(awake[index]) || !step.changed) continue;
      had_actor_ = true;
      if (step.instant && options_.reduce) tired_.push_back(awake[index]);
    }
    return take(awake.back(), false);
  }

  void is_in(const std::string& state, unsigned spent) override {
    MESHBED_CHECK_MSG(asleep_.empty(), "a state is come to with time");  // else its subtree would be incomplete
    if (options_.reduce && !board_.states.insert(state, spent)) leave();
  }

  void idle(const std::function<bool()>& beat) override {
    if (options_.reduce && skip(beat)) asleep_.clear();
  }

  void took(const ChoiceStep& step) override {
    board_.steps[schedule_.size() - 1] = step;
    asleep_ = is_actor(schedule_.back()) && step.instant ? tired_ : "";
    if (step.leave) leave();
    if (options_.reduce && !step.changed && (is_actor(schedule_.back()) ? more_come_ : had_actor_)) leave();
  }

  bool late() const override { return !is_actor(schedule_.back()) && had_actor_; }

 private:
  void ended() override {
    if (board_.runs >= options_.runs_max) board_.stopped = true;
  }

  /// True in the child, which continues; false in the parent, after the child's whole subtree has been walked.
  bool descend(char option) {
    board_.take(schedule_.size(), option);
    board_.steps[schedule_.size()] = {};
    const pid_t child = fork_child();
    if (child == 0) return true;
    reap(child, board_, pipe_, limit_s_);
    alarm(limit_s_);
    return false;
  }

  char take(char option, bool more_come) {
    write_down(option);
    more_come_ = more_come;
    return option;
  }

  [[noreturn]] void leave() {
    ++board_.redundant;
    board_.reported = true;
    _exit(0);
  }

  const ChoiceTreeOptions& options_;
  std::string asleep_;      // actors whose steps here are part of runs that were walked before
  std::string tired_;       // those that will be asleep if the chosen step is an actor's at this instant
  bool more_come_ = false;  // the chosen step has further siblings
  bool had_actor_ = false;  // an earlier or sleeping sibling was an actor's step that changed something
};

class ReplayingChooser final : public BoardChooser {
 public:
  ReplayingChooser(std::string wanted, Board& board, int pipe, unsigned limit_s)
      : BoardChooser(board, pipe, limit_s), wanted_(std::move(wanted)) {}
  char choose(const std::string& options) override {
    const std::size_t at = schedule_.size();
    const char option = at < wanted_.size() ? wanted_[at] : options.front();
    if (options.find(option) == std::string::npos) {
      end({.finding =
               fmt::format("letter {} of the schedule is '{}', and there the options are \"{}\": it is of another "
                           "program, plugin or bound",
                           at + 1, option, options),
           .outcome = "not this program's"});
    }
    write_down(option);
    return option;
  }
  void is_in(const std::string&, unsigned) override {}
  void idle(const std::function<bool()>& beat) override {
    if (schedule_.size() < wanted_.size() && wanted_[schedule_.size()] == kIdle) skip(beat);
  }
  void took(const ChoiceStep&) override {}
  bool late() const override { return false; }

 private:
  std::string wanted_;
};

/// Runs `body` in a child that writes lines of JSON into its pipe.
void run_child(Board& board, unsigned limit_s, const std::function<void(int pipe)>& body,
               const std::function<void(const nlohmann::json&)>& line) {
  const ChildProcess child = start_child([&](int pipe) {
    body(pipe);
    return 1;  // the program must end by Chooser::end()
  });
  std::string text;
  std::array<char, 65536> block{};
  for (ssize_t count; (count = read(child.output, block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(count));
    std::size_t at = 0;
    for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      line(nlohmann::json::parse(text.substr(at, end - at)));
    }
    text.erase(0, at);
  }
  close(child.output);
  int status = 0;
  waitpid(child.process, &status, 0);
  if (board.reported) return;
  ++board.runs;
  line({{"schedule", std::string(board.schedule.data(), board.letters)},
        {"finding", ending_of(status, limit_s)},
        {"outcome", "crashed"}});
}

}  // namespace

ChoiceTreeReport walk_choices(const ChoiceTreeOptions& options, const ChoiceProgram& program) {
  const SharedBoard shared;
  Board& board = *shared;
  ChoiceTreeReport report;
  run_child(
      board, options.run_limit_s,
      [&](int pipe) {
        WalkingChooser chooser(board, pipe, options);
        program(chooser);
      },
      [&](const nlohmann::json& line) {
        report.outcomes.insert(line.at("outcome").get<std::string>());
        const auto finding = line.at("finding").get<std::string>();
        if (finding.empty()) return;
        ++report.broken;
        if (report.findings.size() < kFindingsMost) report.findings.push_back({line.at("schedule"), finding});
      });
  report.runs = board.runs;
  report.redundant = board.redundant;
  report.choices = board.choices;
  report.longest = board.longest;
  report.whole = !board.stopped;
  return report;
}

ScheduleFinding replay_choices(const std::string& schedule, const ChoiceTreeOptions& options,
                               const ChoiceProgram& program, std::string* outcome) {
  const SharedBoard shared;
  Board& board = *shared;
  ScheduleFinding result;
  run_child(
      board, options.run_limit_s,
      [&](int pipe) {
        ReplayingChooser chooser(schedule, board, pipe, options.run_limit_s);
        program(chooser);
      },
      [&](const nlohmann::json& line) {
        result = {line.at("schedule"), line.at("finding")};
        if (outcome != nullptr) *outcome = line.at("outcome").get<std::string>();
      });
  return result;
}

}  // namespace meshbed::testbed
