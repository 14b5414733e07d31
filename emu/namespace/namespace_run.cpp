#include "emu/namespace/namespace_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "emu/guest_job.h"
#include "emu/process.h"

namespace meshbed::emu {
namespace {

/// With all that it has started: each command leads a group.
void kill_group(pid_t leader) {
  kill(-leader, SIGKILL);
  wait_for_exit(leader);
}

std::vector<std::string> command_line(const EmuNode& node, int index, std::size_t command, NamespaceLayout layout,
                                      const std::string& folder) {
  std::vector<std::string> words = namespace_prefix(layout, index);
  words.insert(words.end(),
               {"/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + folder, "HOSTNAME=" + node.name});
  for (const auto& [name, value] : node.environment) words.push_back(fmt::format("{}={}", name, value));
  words.insert(words.end(), node.commands[command].begin(), node.commands[command].end());
  return words;
}

}  // namespace

NamespaceRun::NamespaceRun(EmuCluster cluster)
    : cluster_(std::move(cluster)), scratch_(std::filesystem::temp_directory_path(), "meshbed-emu") {}

void NamespaceRun::start(const NamespaceRunOptions& options, ClusterOutcome& outcome, std::vector<Process>& processes) {
  for (std::size_t index = 0; index < cluster_.nodes.size(); ++index) {
    const EmuNode& node = cluster_.nodes[index];
    NodeOutcome& result = outcome.nodes.emplace_back();
    result.name = node.name;
    result.folder = scratch_.path() + "/" + node.name;
    make_folder(result.folder);
    for (std::size_t command = 0; command < node.commands.size(); ++command) {
      const int number = static_cast<int>(command);
      result.commands.push_back({.exit_code = std::nullopt,
                                 .stdout_path = command_file(result.folder, number, ".stdout"),
                                 .stderr_path = command_file(result.folder, number, ".stderr")});
      const Descriptor output = create_file(result.commands.back().stdout_path);
      const Descriptor errors = create_file(result.commands.back().stderr_path);
      SpawnOptions process{.argv = command_line(node, static_cast<int>(index), command, options.layout, result.folder),
                           .directory = node.directory.empty() ? result.folder : node.directory,
                           .descriptors = {}};
      process.output = output.number();
      process.errors = errors.number();
      process.own_group = true;
      Process& started = processes.emplace_back();
      started.node = index;
      started.command = number;
      started.id = spawn(process);
      started.descriptor = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, started.id, 0)));
      if (!started.descriptor.is_open()) {
        throw std::runtime_error("a process cannot be watched: " + std::generic_category().message(errno));
      }
    }
  }
}

std::optional<NodeEnd> NamespaceRun::wait(Deadline deadline, ClusterOutcome& outcome, std::vector<Process>& processes) {
  while (true) {
    std::vector<pollfd> wanted{{.fd = stop_.descriptor(), .events = POLLIN, .revents = 0}};
    bool running = false;
    for (const Process& each : processes) {
      running = running || each.id > 0;
      wanted.push_back({.fd = each.id > 0 ? each.descriptor.number() : -1, .events = POLLIN, .revents = 0});
    }
    if (!running) return std::nullopt;
    if (deadline.passed()) return NodeEnd::kTimedOut;
    if (poll(wanted.data(), wanted.size(), deadline.remaining_ms()) <= 0) continue;  // interrupted, or time is over
    if (wanted.front().revents != 0) return NodeEnd::kStopped;
    for (std::size_t at = 0; at < processes.size(); ++at) {
      Process& each = processes[at];
      if (wanted[at + 1].revents == 0) continue;
      outcome.nodes[each.node].commands[static_cast<std::size_t>(each.command)].exit_code = wait_for_exit(each.id);
      each.id = -1;
    }
  }
}

ClusterOutcome NamespaceRun::run(const NamespaceRunOptions& options) {
  ClusterOutcome outcome;
  std::vector<Process> processes;
  const double started_s = now_s();
  std::optional<NodeEnd> gave_up;
  try {
    start(options, outcome, processes);
    gave_up = wait(Deadline::after_s(options.time_limit_s), outcome, processes);
  } catch (const std::runtime_error&) {
    for (const Process& each : processes) {
      if (each.id > 0) kill_group(each.id);
    }
    throw;
  }
  for (const Process& each : processes) {
    if (each.id > 0) kill_group(each.id);
  }
  for (NodeOutcome& node : outcome.nodes) {
    node.end = NodeEnd::kDone;
    int first_failure = 0;
    for (const CommandOutcome& command : node.commands) {
      if (!command.exit_code) node.end = *gave_up;
      if (first_failure == 0) first_failure = command.exit_code.value_or(0);
    }
    if (node.end == NodeEnd::kDone) node.exit_code = first_failure;
    if (node.end == NodeEnd::kTimedOut) {
      outcome.troubles.push_back(fmt::format("node '{}' is not done after {} s", node.name, options.time_limit_s));
    }
  }
  if (gave_up == NodeEnd::kStopped) outcome.troubles.emplace_back("stopped before the end");
  outcome.total_s = now_s() - started_s;
  return outcome;
}

}  // namespace meshbed::emu
