// meshbed fuzz --explore: every order of two ranks' calls, on Meshbed's own plugin and on one that is faulty on demand.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace explore_test {

using namespace meshbed::test;

namespace {

/// Striping makes handshakes longer, and what is walked without any reduction grows with every step.
const std::string kUnstriped = "--set 'environment.NCCL_MESH_STRIPE_BYTES=\"0\"' ";
const std::string kFaulty = "--plugin " MESHBED_BINARY_DIR "/lib/libfaulty-net.so ";

CommandResult explore(const std::string& options) {
  return run_command_line(meshbed_program() + " fuzz --explore " + options + " 2>&1");
}

/// A program's line of the report.
struct Line {
  int interruptions = 0;
  std::string late;
  long runs = 0, redundant = 0, choices = 0, longest = 0, outcomes = 0;
  std::string digest;
};
Line line_of(const CommandResult& result, const std::string& program) {
  Line line;
  std::istringstream lines(result.output);
  for (std::string text; std::getline(lines, text);) {
    std::istringstream words(text);
    std::string name;
    if (words >> name && name == program) {
      words >> line.interruptions >> line.late >> line.runs >> line.redundant >> line.choices >> line.longest >>
          line.outcomes >> line.digest;
    }
  }
  return line;
}

/// What the report says to run again: everything after "again: meshbed fuzz --explore ".
std::string again(const CommandResult& result) {
  const std::string mark = "again: meshbed fuzz --explore ";
  const std::size_t at = result.output.find(mark);
  if (at == std::string::npos) return "";
  return result.output.substr(at + mark.size(), result.output.find('\n', at) - at - mark.size());
}

}  // namespace

TEST_CASE("what is left out gives nothing new: the same outcomes as all orders, in fewer runs") {
  struct Walk {
    std::string program;
    int interruptions;
  };
  const std::vector<Walk> walks{
      {"connection", 0}, {"listener-closes", 0}, {"listener-closes", 1}, {"hardly-accepted", 0}};
  for (const Walk& one : walk(walks, 2)) {
    const std::string& program = one.program;
    CAPTURE(program);
    CAPTURE(one.interruptions);
    const std::string options =
        kUnstriped + "--late 1 --interruptions " + std::to_string(one.interruptions) + " --only " + program;
    const CommandResult all = explore(options + " --all-orders"), reduced = explore(options);
    CHECK_MESSAGE(all.status == 0, all.output);
    CHECK_MESSAGE(reduced.status == 0, reduced.output);
    const Line many = line_of(all, program), few = line_of(reduced, program);
    CHECK(few.outcomes > 1);
    CHECK(few.outcomes == many.outcomes);
    CHECK(few.digest == many.digest);
    CHECK(few.runs < many.runs);
  }
}

TEST_CASE("every order of every program ends well, and what was walked is the same twice") {
  std::vector<std::string> programs;
  std::istringstream listed(explore("--list").output);
  for (std::string line; std::getline(listed, line);) {
    if (line.rfind("ring-", 0) != 0) programs.push_back(line.substr(0, line.find(' ')));  // those need no plugin
  }
  CHECK(programs.size() == 13);
  std::string only;
  for (const std::string& program : walk(programs, 2)) only += " --only " + program;
  const CommandResult all = explore("--interruptions 0" + only);
  CHECK_MESSAGE(all.status == 0, all.output);
  CHECK(all.output.find("every distinguishable order; 0 broken\n") != std::string::npos);
  const CommandResult once = explore("--interruptions 0 --only connection");
  CHECK(once.output == explore("--interruptions 0 --only connection").output);
}

TEST_CASE("nor does a call break anything that comes while the wire is half-way, or late where both connect at once") {
  if (!walks_whole()) {
    MESSAGE("skipped: explored by ./meshbed test --stage walks");
    return;
  }
  // The programs that are walked in seconds; `fuzz --explore` by itself walks all of them.
  for (const std::string& options :
       {kUnstriped + "--only connection --only message --only hardly-accepted --only listener-closes",
        kUnstriped + "--late 1 --only crossed", std::string("--only connection"),
        std::string("--only receiver-closes --only sender-closes --only striped")}) {
    const CommandResult result = explore(options);
    CHECK_MESSAGE(result.status == 0, result.output);
    CHECK(result.output.find("every distinguishable order; 0 broken\n") != std::string::npos);
  }
}

TEST_CASE(
    "a close breaks nothing that comes while the wire is half-way, and what waits for the end that is gone ends") {
  // A part of what `fuzz --explore` walks by itself: once at most does the wire not wait for a rank.
  const std::string programs =
      walks_whole() ? "--only receiver-closes --only sender-closes --only striped-receiver --only striped-sender"
                    : "--only receiver-closes --only sender-closes";
  const CommandResult result = explore("--interruptions 1 --late 1 " + programs);
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK(result.output.find(walks_whole() ? "4 programs: " : "2 programs: ") != std::string::npos);
  CHECK(result.output.find("every distinguishable order; 0 broken\n") != std::string::npos);
  // A receiver waits ten seconds for a sender that is gone: a thousand looks, in a few letters.
  CHECK(line_of(result, "sender-closes").longest < 100);
}

TEST_CASE("faults that only some orders meet are found, and the schedule that is printed meets them again") {
  struct Fault {
    const char* fault;
    const char* program;
    const char* interruptions;
    const char* finding;
  };
  const std::vector<Fault> faults{
      {"a look too early loses it", "message", "0",
       "deadlock: no rank makes progress for 120 s; rank 0 has ended, rank 1 waits in test of the send"},
      {"sends under way are left behind", "sender-closes", "0", "left behind after finalize: "},
      {"a close half-way is forgotten", "receiver-closes", "1", "left behind after finalize: "},
  };
  // The last one takes as long as all others together.
  for (const Fault& fault : walk(std::vector<Fault>(faults.begin(), faults.end() - (walks_whole() ? 0 : 1)), 1)) {
    CAPTURE(fault.fault);
    const CommandResult result =
        explore(kFaulty + "--interruptions " + fault.interruptions + " --set 'environment.FAULTY_NET=\"" + fault.fault +
                "\"' --only " + fault.program);
    CHECK(result.status == 1);
    CHECK_MESSAGE(result.output.find(std::string("  BROKEN: ") + fault.finding) != std::string::npos, result.output);
    const CommandResult replayed = explore(again(result));
    CHECK(replayed.status == 1);
    CHECK_MESSAGE(replayed.output.find(std::string(": ") + fault.finding) != std::string::npos, replayed.output);
  }
  if (!walks_whole()) return;  // "every order" above has walked them without a fault
  const CommandResult none = explore(kFaulty + "--interruptions 0 --only message --only sender-closes");
  CHECK_MESSAGE(none.status == 0, none.output);
  const CommandResult hidden = explore(
      kFaulty +
      "--interruptions 0 --only receiver-closes --set 'environment.FAULTY_NET=\"a close half-way is forgotten\"'");
  CHECK_MESSAGE(hidden.status == 0, hidden.output);  // without an interruption no order meets it
}

TEST_CASE("rings: every order of every program, without a net plugin; a schedule is printed step by step") {
  const CommandResult all = explore("--rings --plugin /nowhere.so");
  CHECK_MESSAGE(all.status == 0, all.output);
  CHECK(all.output.find("programs of rings: ") != std::string::npos);
  CHECK(all.output.find(", every order; 0 broken") != std::string::npos);
  CHECK(explore("--rings").output == all.output);
  const CommandResult one = explore("--only ring-oversubscribed");
  CHECK(one.output.find("its block 0 has no place on the GPU") != std::string::npos);
  CHECK(one.output.find("rank 0 block 1 gets a place") != std::string::npos);
  CHECK(explore("--only ring-exchange --states-max 100").output.find("not all of them: --states-max") !=
        std::string::npos);
  CHECK(explore("--only ring-exchange --replay 01").output.find("a ring program has no letters") != std::string::npos);
}

TEST_CASE("fuzz --explore says what it wants") {
  CHECK(explore("--only nothing").output.find("--only nothing: there is no such program; accepted: connection, ") !=
        std::string::npos);
  CHECK(explore("--replay 01").output.find("--replay: say of which program, with --only PROGRAM") != std::string::npos);
  CHECK(explore("--plugin /nowhere.so").output.find("/nowhere.so: there is no such file") != std::string::npos);
  const CommandResult other = explore("--only connection --replay 7");
  CHECK(other.status == 1);
  CHECK(other.output.find("letter 1 of the schedule is '7', and there the options are ") != std::string::npos);
  CHECK(explore("--list").output.find("crossed-reversed ") != std::string::npos);
}

}  // namespace explore_test
