// The conformance suite in the simulated world.

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "plugin/base/deadline.h"
#include "testbed/base/child_process.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/verify/conformance_cases.h"
#include "testbed/verify/conformance_run.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/result.h"
#include "testbed/world/simulate.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kNoCase = ~std::size_t{0};

struct Simulated {
  const ConformancePlan& plan;
  const Scenario& scenario;
  const std::string& contexts;
  double limit_s;
};

/// In the child: what happens goes into `pipe`, a line of JSON each.
void simulate_version(const Simulated& world, int version, std::size_t first_case, int pipe) {
  const auto say = [pipe](const nlohmann::json& line) {
    const std::string text = json_text(line) + "\n";
    if (write(pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(kExitUsage);
  };
  try {
    sim::Recorder recorder(world.scenario.cluster, "");
    const VersionRun run{.plan = world.plan,
                         .version = version,
                         .first_case = first_case,
                         .begun =
                             [&](std::size_t index) {
                               say({{"begun", index}});
                             },
                         .ended =
                             [&](std::size_t index, const CaseOutcome& outcome) {
                               say({{"ended", index},
                                    {"finding", outcome.finding},
                                    {"not_looked_at", outcome.not_looked_at},
                                    {"time_ns", outcome.time_ns}});
                             },
                         .absent =
                             [&] {
                               say({{"absent", version}});
                             }};
    const Simulation simulation = simulate(world.scenario, {.files = built_files(), .contexts = world.contexts},
                                           recorder, [&run](RankHost& host) { return run_version(host, run); });
    std::string trouble;
    if (!simulation.errors.empty()) trouble = simulation.errors.front().text;
    if (trouble.empty() && simulation.outcome.kind != sim::OutcomeKind::kFinished) {
      trouble = "nothing moves any more";
      for (const std::string& waiter : simulation.outcome.waiters) trouble += "; " + waiter;
    }
    if (!trouble.empty()) say({{"trouble", trouble}});
    say({{"over", true}});
  } catch (const std::exception& error) {
    say({{"trouble", error.what()}});
  }
}

/// What a child said before it ended.
struct ChildReport {
  std::vector<nlohmann::json> lines;
  std::string end;  // empty: of its own
  bool killed = false;
};

ChildReport run_child(const Simulated& world, int version, std::size_t first_case) {
  const ChildProcess child = start_child([&](int pipe) {
    simulate_version(world, version, first_case, pipe);
    return kExitOk;
  });
  ChildReport report;
  std::string text;
  std::array<char, 4096> block{};
  const Deadline give_up = Deadline::after_s(world.limit_s);
  for (;;) {
    pollfd wait{.fd = child.output, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, give_up.remaining_ms()) == 0) {
      report.killed = true;
      kill(child.process, SIGKILL);
    }
    const ssize_t count = read(child.output, block.data(), block.size());
    if (count <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  close(child.output);
  int status = 0;
  waitpid(child.process, &status, 0);
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    report.lines.push_back(nlohmann::json::parse(text.substr(at, end - at)));
  }
  if (report.killed) {
    report.end = fmt::format("it has not ended in {} s (--time-limit), and is given up", world.limit_s);
  } else if (WIFSIGNALED(status)) {
    report.end = fmt::format("the process crashed: {}", strsignal(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != kExitOk) {
    report.end = fmt::format("the process ended with status {}", WEXITSTATUS(status));
  }
  return report;
}

/// How the process ended while no case was under way; `next`: the first that had not begun.
std::string outside_cases(int version, std::size_t next, const std::string& end) {
  const char* const when = next == 0 ? "as it was loaded, or in its init" : "after a case, or in finalize";
  return fmt::format("v{}, {}: {}", version, when, end);
}

/// All cases of a version; a case that takes its process with it costs only itself.
void simulate_all(const Simulated& world, int version, ConformanceFindings& findings) {
  const std::vector<ConformanceCase> cases = conformance_cases();
  std::size_t next = 0;
  while (next < cases.size()) {
    const ChildReport report = run_child(world, version, next);
    std::size_t open = kNoCase;
    std::string trouble;
    bool over = false;
    for (const nlohmann::json& line : report.lines) {
      if (line.contains("absent")) return findings.absent.push_back(version);
      if (line.contains("trouble")) trouble = line.at("trouble").get<std::string>();
      if (line.contains("over")) over = true;
      if (line.contains("begun")) open = line.at("begun").get<std::size_t>();
      if (!line.contains("ended")) continue;
      open = kNoCase;
      const auto index = line.at("ended").get<std::size_t>();
      next = index + 1;
      findings.outcomes.push_back({version, cases[index].name, cases[index].rule, line.at("finding"),
                                   line.at("not_looked_at"), line.at("time_ns")});
    }
    findings.no_progress = findings.no_progress || report.killed;
    const std::string end = report.end.empty() && !over ? "the process ended early" : report.end;
    if (open == kNoCase) {
      if (trouble.empty() && !end.empty()) trouble = outside_cases(version, next, end);
      if (!trouble.empty()) findings.trouble = trouble;
      return;
    }
    if (trouble.empty()) trouble = end;
    findings.outcomes.push_back({version, cases[open].name, cases[open].rule, trouble, "", 0});
    next = open + 1;
  }
}

}  // namespace

ConformanceFindings simulate_conformance(const ConformancePlan& plan, const Scenario& scenario,
                                         const std::string& contexts, double limit_s) {
  ConformanceFindings findings;
  for (const int version : plan.versions) {
    simulate_all({plan, scenario, contexts, limit_s}, version, findings);
    if (!findings.trouble.empty() && findings.outcomes.empty()) break;  // it does not load: one reason will do
  }
  return findings;
}

}  // namespace meshbed::testbed
