// What a walk over all choices counts, finds and leaves out, on programs small enough to count by hand.
#include "testbed/verify/choice_tree.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <set>
#include <string>

namespace choice_tree_test {

using namespace meshbed::testbed;

namespace {

std::uint64_t binomial(std::uint64_t n, std::uint64_t k) { return k == 0 ? 1 : binomial(n - 1, k - 1) * n / k; }

/// Two actors with `first` and `second` calls, and `ticks` of time that can go by anywhere. The outcome is what each
/// actor saw: at which tick it made which call.
ChoiceProgram scripts(int first, int second, int ticks) {
  return [=](Chooser& chooser) {
    int left[2] = {first, second};
    std::string saw[2];
    for (int tick = 0; left[0] + left[1] + ticks - tick > 0;) {
      std::string options;
      if (left[0] > 0) options.push_back('0');
      if (left[1] > 0) options.push_back('1');
      if (tick < ticks) options.push_back('t');
      const char option = chooser.choose(options);
      if (option == 't') {
        ++tick;
        chooser.took({});
      } else {
        saw[option - '0'] += std::to_string(--left[option - '0']) + "@" + std::to_string(tick) + " ";
        chooser.took({.instant = true});
      }
    }
    chooser.end({.finding = "", .outcome = saw[0] + "/ " + saw[1]});
  };
}

/// Actor 0 looks whether there is work and then sleeps. Actor 1 brings work and then wakes a sleeper: between the look
/// and the sleep there is no sleeper to wake.
void lost_wake_up(Chooser& chooser) {
  int sleeper = 0, bringer = 0;
  bool work = false, asleep = false, woken = false;
  while (bringer < 2 || (sleeper < 2 && !woken)) {
    std::string options;
    if (sleeper < 2) options.push_back('0');
    if (bringer < 2) options.push_back('1');
    if (chooser.choose(options) == '0') {
      if (sleeper++ == 0 && work) sleeper = 2, woken = true;
      if (sleeper == 2 && !woken) asleep = true;
    } else if (bringer++ == 0) {
      work = true;
    } else if (asleep) {
      woken = true;
    }
    chooser.took({.instant = true});
  }
  chooser.end({.finding = woken ? "" : "it sleeps for ever", .outcome = woken ? "woken" : "asleep"});
}

/// `rounds` times a step of time, 'a' or 'b'. `state` says what is left of the letters taken so far.
ChoiceProgram meetings(int rounds, std::string (*state)(const std::string& taken)) {
  return [=](Chooser& chooser) {
    std::string taken;
    for (int round = 0; round < rounds; ++round) {
      taken.push_back(chooser.choose("ab"));
      chooser.took({});
      chooser.is_in(state(taken), 0);
    }
    chooser.end({.finding = "", .outcome = state(taken)});
  };
}

/// Actor 0 can do nothing but look whether something is there, at every beat; it comes with beat `comes`, and is there
/// at the two after it. Where `fails`, that beat is the end of the program.
ChoiceProgram waits(int comes, bool fails = false) {
  return [=](Chooser& chooser) {
    int at = 0;
    const auto beat = [&] {
      if (++at == comes && fails) chooser.end({.finding = "it fails there", .outcome = "failed"});
      return at < comes;
    };
    for (bool seen = false; !seen;) {
      chooser.idle(beat);
      beat();
      seen = chooser.choose(at < comes + 2 ? "0t" : "0") == '0' && at >= comes;
      chooser.took({.instant = chooser.schedule().back() == '0', .changed = seen || chooser.schedule().back() == 't'});
    }
    chooser.end({.finding = "", .outcome = "seen at " + std::to_string(at)});
  };
}

}  // namespace

TEST_CASE("two scripts of m and n independent calls have C(m + n, n) orders, and one that matters") {
  for (int m = 0; m <= 5; ++m) {
    for (int n = 1; n <= 4; ++n) {
      CAPTURE(m);
      CAPTURE(n);
      const ChoiceTreeReport all = walk_choices({.reduce = false}, scripts(m, n, 0));
      CHECK(all.runs == binomial(static_cast<std::uint64_t>(m + n), static_cast<std::uint64_t>(n)));
      CHECK(all.redundant == 0);
      CHECK(all.outcomes.size() == 1);
      const ChoiceTreeReport reduced = walk_choices({}, scripts(m, n, 0));
      CHECK(reduced.runs == 1);
      CHECK(reduced.outcomes == all.outcomes);
      CHECK(reduced.longest == static_cast<std::size_t>(m + n));
    }
  }
}

TEST_CASE(
    "with t ticks of time there are (m+n+t)! / (m! n! t!) orders, of which C(m+t,t) C(n+t,t) can be distinguished") {
  constexpr std::uint64_t m = 3, n = 2, t = 2;
  const ChoiceTreeReport all = walk_choices({.reduce = false}, scripts(m, n, t));
  CHECK(all.runs == binomial(m + n + t, t) * binomial(m + n, n));  // 210
  const ChoiceTreeReport reduced = walk_choices({}, scripts(m, n, t));
  CHECK(reduced.runs == binomial(m + t, t) * binomial(n + t, t));  // 60
  CHECK(reduced.outcomes.size() == reduced.runs);
  CHECK(reduced.outcomes == all.outcomes);
  CHECK(reduced.whole);
}

TEST_CASE("calls that changed nothing do not multiply the tree") {
  // Actor 0 polls until actor 1 has done its two calls.
  const auto program = [](Chooser& chooser) {
    int done = 0, looked_after = -1;
    bool seen = false;
    while (!seen) {
      std::string options;
      if (looked_after != done) options.push_back('0');
      if (done < 2) options.push_back('1');
      if (chooser.choose(options) == '0') {
        looked_after = done;
        seen = done == 2;
        chooser.took({.instant = true, .changed = seen});
      } else {
        ++done;
        chooser.took({});  // takes time: the actors cannot change places
      }
    }
    chooser.end({.finding = "", .outcome = "seen"});
  };
  CHECK(walk_choices({.reduce = false}, program).runs == 4);  // it looks, or not, before and between the two calls
  const ChoiceTreeReport reduced = walk_choices({}, program);
  CHECK(reduced.runs == 1);
  CHECK(reduced.redundant == 2);
}

TEST_CASE("ways that meet in one state are gone on with once: n + 1 runs of 2^n where only the number of a's is left") {
  constexpr std::uint64_t n = 7;
  const auto everything = [](const std::string& taken) { return taken; };
  const auto count = [](const std::string& taken) {
    return std::to_string(taken.size()) + " " + std::to_string(std::count(taken.begin(), taken.end(), 'a'));
  };
  const auto nothing = [](const std::string& taken) { return std::to_string(taken.size()); };
  CHECK(walk_choices({}, meetings(n, everything)).runs == 1U << n);
  const ChoiceTreeReport all = walk_choices({.reduce = false}, meetings(n, count));
  CHECK(all.runs == 1U << n);
  const ChoiceTreeReport reduced = walk_choices({}, meetings(n, count));
  CHECK(reduced.runs == n + 1);
  CHECK(reduced.redundant == n * (n - 1) / 2);  // two ways from each of the states before the last step, and one tree
  CHECK(reduced.outcomes == all.outcomes);
  CHECK(walk_choices({}, meetings(n, nothing)).runs == 1);
}

TEST_CASE("a state is gone on from again where less was spent on the way to it, and not where more was") {
  for (const std::string ways : {"xy", "yx"}) {  // 'x' spends what 'b' needs
    CAPTURE(ways);
    const auto program = [&](Chooser& chooser) {
      const bool spent = chooser.choose(ways) == 'x';
      chooser.took({});
      chooser.is_in("there", spent ? 1 : 0);
      const char last = chooser.choose(spent ? "a" : "ab");
      chooser.took({});
      chooser.end({.finding = "", .outcome = std::string(1, last)});
    };
    const ChoiceTreeReport report = walk_choices({}, program);
    CHECK(report.outcomes == std::set<std::string>{"a", "b"});
    CHECK(report.runs == (ways == "xy" ? 3 : 2));
    CHECK(report.redundant == (ways == "xy" ? 0 : 1));
  }
}

TEST_CASE("a wait is looked through up to what comes of it, whose orders are all walked") {
  const ChoiceTreeReport all = walk_choices({.reduce = false}, waits(6));
  CHECK(all.runs == 32 * 3);  // it looks, or not, at five beats for nothing
  const ChoiceTreeReport reduced = walk_choices({}, waits(6));
  CHECK(reduced.runs == 3);
  CHECK(reduced.outcomes == all.outcomes);
  const ChoiceTreeReport longer = walk_choices({}, waits(10'000));
  CHECK(longer.runs == 3);
  CHECK(longer.longest == 4);  // "-tt0"
  std::string outcome;
  CHECK(replay_choices("-t0", {}, waits(10'000), &outcome).schedule == "-t0");
  CHECK(outcome == "seen at 10001");
  CHECK(replay_choices("0tt0t0", {}, waits(3), &outcome).schedule == "0tt0");  // of a walk that left nothing out
  CHECK(outcome == "seen at 4");
}

TEST_CASE("what ends a run in the middle of a wait is found once, and its schedule leads there") {
  const ChoiceTreeReport report = walk_choices({}, waits(100, true));
  CHECK(report.runs == 1);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].schedule == "-");
  CHECK(report.findings[0].finding == "it fails there");
  CHECK(replay_choices("-", {}, waits(100, true)).finding == "it fails there");
}

TEST_CASE("a lost wake-up is found, with the one schedule of six that leads to it, and that leads to it again") {
  const ChoiceTreeReport report = walk_choices({.reduce = false}, lost_wake_up);
  CHECK(report.broken == 1);
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].schedule == "0110");
  CHECK(report.findings[0].finding == "it sleeps for ever");
  const ScheduleFinding again = replay_choices(report.findings[0].schedule, {}, lost_wake_up);
  CHECK(again.finding == "it sleeps for ever");
  CHECK(again.schedule == "0110");
  CHECK(replay_choices("0011", {}, lost_wake_up).finding.empty());
}

TEST_CASE("a run that crashes, exits or never ends costs itself, and is named by its schedule") {
  const auto program = [](Chooser& chooser) {
    std::string taken;
    for (int choice = 0; choice < 3; ++choice) {
      taken.push_back(chooser.choose("ab"));
      chooser.took({});
    }
    if (taken == "aab") {
      std::signal(SIGBUS, SIG_DFL);  // a sanitizer has a handler of its own
      std::raise(SIGBUS);
    }
    if (taken == "bab") ::_exit(7);
    for (volatile bool forever = taken == "bbb"; forever;) continue;
    chooser.end({.finding = "", .outcome = taken});
  };
  const ChoiceTreeReport report = walk_choices({.run_limit_s = 1}, program);
  CHECK(report.runs == 8);
  REQUIRE(report.findings.size() == 3);
  CHECK(report.findings[0].schedule == "aab");
  CHECK(report.findings[0].finding == "it crashed: Bus error");
  CHECK(report.findings[1].schedule == "bab");
  CHECK(report.findings[1].finding == "the process ended with status 7");
  CHECK(report.findings[2].schedule == "bbb");
  CHECK(report.findings[2].finding == "it has not ended within 1 s");
  CHECK(replay_choices("aab", {}, program).finding == "it crashed: Bus error");
}

TEST_CASE("a walk that is cut off says so; a schedule of another program names the options") {
  const ChoiceTreeReport report = walk_choices({.reduce = false, .runs_max = 10}, scripts(5, 5, 0));
  CHECK(report.runs == 10);
  CHECK(!report.whole);
  const std::string finding = replay_choices("00t", {}, scripts(2, 2, 0)).finding;
  CHECK(finding.find("letter 3 of the schedule is 't', and there the options are \"1\"") == 0);
}

}  // namespace choice_tree_test
