// What became of the virtual machines, from their marks and from what lies in the job folders.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "emu/guest_job.h"
#include "emu/microvm/microvm_state.h"

namespace meshbed::emu {
namespace {

constexpr std::size_t kConsoleLines = 3;

std::optional<int> number_in(const std::string& path) {
  std::ifstream file(path);
  int number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

}  // namespace

ClusterOutcome MicroVms::State::outcome() const {
  ClusterOutcome outcome;
  for (std::size_t node = 0; node < vms.size(); ++node) outcome.nodes.push_back(outcome_of(node));
  outcome.troubles = troubles;
  outcome.ready_s = ready_s;
  outcome.total_s = total_s == 0 ? since_start_s() : total_s;
  return outcome;
}

NodeOutcome MicroVms::State::outcome_of(std::size_t index) const {
  const Vm& vm = vms[index];
  NodeOutcome outcome;
  outcome.name = vm.name;
  outcome.end = vm.end;
  outcome.marks = vm.marks;
  outcome.folder = vm.folder;
  outcome.console_path = vm.folder + "/console.log";
  outcome.dmesg_path = vm.folder + "/dmesg";
  outcome.memory_mib = vm.memory_mib;
  const int commands = static_cast<int>(cluster.nodes[index].commands.size());
  bool all_ended = true;
  int first_failure = 0;
  for (int command = 0; command < commands; ++command) {
    const auto code = number_in(command_file(vm.folder, command, ".exit"));
    outcome.commands.push_back({.exit_code = code,
                                .stdout_path = command_file(vm.folder, command, ".stdout"),
                                .stderr_path = command_file(vm.folder, command, ".stderr")});
    all_ended = all_ended && code.has_value();
    if (first_failure == 0) first_failure = code.value_or(0);
  }
  outcome.terminal_exit_code = number_in(vm.folder + "/terminal.exit");
  if (all_ended && vm.end == NodeEnd::kDone) outcome.exit_code = first_failure;
  return outcome;
}

std::string MicroVms::State::console_end(const Vm& vm) const {
  std::ifstream console(vm.folder + "/console.log");
  std::vector<std::string> lines;
  for (std::string line; std::getline(console, line);) {
    line.resize(std::min(line.size(), line.find_last_not_of("\r ") + 1));
    if (!line.empty()) lines.push_back(line);
  }
  if (!vm.line.empty()) lines.push_back(vm.line);
  if (lines.empty()) return "; its console is empty";
  const std::size_t from = lines.size() - std::min(lines.size(), kConsoleLines);
  std::string text;
  for (std::size_t at = from; at < lines.size(); ++at) text += (text.empty() ? "" : " | ") + lines[at];
  return "; its console ends: " + text;
}

}  // namespace meshbed::emu
