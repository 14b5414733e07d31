#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/machine_signals.h"
#include "testbed/workload/result.h"
#include "testbed/world/emulate.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr char kEndOfTransmission = 4;  // Ctrl-D: what a terminal sends for the end of a file
constexpr double kShellTurn_s = 0.02;
constexpr int kTurnsPerEnd = 50;

/// Standard input byte by byte, where it is a terminal: the guest's own terminal echoes, edits and interrupts.
class RawTerminal {
 public:
  RawTerminal() : is_terminal_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!is_terminal_) return;
    termios raw = before_;
    cfmakeraw(&raw);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~RawTerminal() {
    if (is_terminal_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool is_terminal_;
};

bool write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, data, size);
    if (written <= 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

/// Carries bytes both ways until the machines are done.
void serve_terminal(emu::MicroVms& machines, int terminal) {
  const RawTerminal raw;
  bool typing = true;
  bool talking = true;
  // What comes before the guest has opened its serial line is lost, for that empties the line's buffer; the shell's
  // prompt says that it listens.
  bool listening = false;
  int turns = 0;
  std::array<char, 4096> block{};
  // Short turns: the machines are served in between.
  for (bool over = false; !over || talking;) {
    pollfd wait[2] = {{talking ? terminal : -1, POLLIN, 0}, {typing && listening ? STDIN_FILENO : -1, POLLIN, 0}};
    const int ready = poll(wait, 2, 0);
    // Again and again: a Ctrl-D that comes while the shell changes the terminal's mode is lost.
    if (!typing && !over && ++turns % kTurnsPerEnd == 0) {
      static_cast<void>(send(terminal, &kEndOfTransmission, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
    }
    if (ready > 0 && wait[0].revents != 0) {
      const ssize_t size = recv(terminal, block.data(), block.size(), MSG_DONTWAIT);
      listening = true;
      talking = size > 0 && write_all(STDOUT_FILENO, block.data(), static_cast<std::size_t>(size));
    } else if (over) {
      return;
    }
    if (ready > 0 && wait[1].revents != 0) {
      const ssize_t size = read(STDIN_FILENO, block.data(), block.size());
      typing = size > 0 && write_all(terminal, block.data(), static_cast<std::size_t>(size));
    }
    if (!over) over = machines.advance(kShellTurn_s);
  }
}

}  // namespace

int shell_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::string node, file;
  std::vector<std::string> overrides;
  Syntax syntax("shell NODE --scenario FILE [options]");
  syntax.operands.add_options()("node", po::value(&node)->required()->value_name("NODE"), "where the shell runs");
  syntax.positions.add("node", 1);
  syntax.options.add_options()                                                                            //
      ("scenario", po::value(&file)->required()->value_name("FILE"), "the cluster, in virtual machines")  //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of the scenario; may be repeated");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  const auto say = [&err](const std::string& line) { err << "meshbed: " << line << "\n" << std::flush; };
  emu::EmuCluster cluster = emulated_cluster(read_scenario(file, overrides), {});
  std::string names;
  for (emu::EmuNode& each : cluster.nodes) {
    each.commands.clear();
    each.terminal = each.name == node;
    names += (names.empty() ? "" : ", ") + each.name;
  }
  if (std::none_of(cluster.nodes.begin(), cluster.nodes.end(),
                   [](const emu::EmuNode& each) { return each.terminal; })) {
    throw std::runtime_error(fmt::format("shell: there is no node {}; nodes are: {}", node, names));
  }
  const emu::Accelerator accelerator = emu::probe_accelerator();
  emu::require_machine_for(cluster, accelerator.kvm);
  constexpr double kNoLimit_s = 1e7;
  emu::MicroVms machines(cluster, {.image = emu::make_boot_image(emu::cache_folder(), say),
                                   .accelerator = accelerator,
                                   .work_dir = "",
                                   .keep_folder = false,
                                   .time_limit_s = kNoLimit_s,
                                   .on_progress = {}});
  const MachineSignals signals(machines);
  say(fmt::format("booting {}; {}", names, accelerator.reason));
  machines.start();
  while (machines.ready_s() == 0 && !machines.advance(0.1)) continue;
  if (machines.ready_s() > 0) {
    say(fmt::format("ready after {:.1f} s; the shell in {} ends with exit or Ctrl-D", machines.ready_s(), node));
    serve_terminal(machines, machines.terminal(node));
  }
  machines.stop();
  const emu::ClusterOutcome outcome = machines.outcome();
  for (const std::string& trouble : outcome.troubles) say(trouble);
  if (MachineSignals::interrupted()) return kExitInterrupted;
  const auto there = std::find_if(outcome.nodes.begin(), outcome.nodes.end(),
                                  [&](const emu::NodeOutcome& one) { return one.name == node; });
  if (!outcome.troubles.empty() || there == outcome.nodes.end()) return kExitBroken;
  if (there->terminal_exit_code) return *there->terminal_exit_code;
  say(fmt::format("the shell in {} did not end by itself, so it has no exit status", node));
  return kExitBroken;
}

}  // namespace meshbed::testbed
