// Serving the virtual machines: their consoles, the marks on them, and the end of it all.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "emu/microvm/microvm_state.h"
#include "emu/process.h"

namespace meshbed::emu {
namespace {

/// What emu/guest_init.sh puts before its marks.
constexpr std::string_view kMark = "@@";
/// A console line longer than this is none of ours.
constexpr std::size_t kLineBytesMax = 64 * 1024;
/// The guest waits for it after READY.
constexpr std::string_view kGo = "go\n";

bool begins(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

}  // namespace

bool MicroVms::State::all_over() const {
  return std::all_of(vms.begin(), vms.end(), [](const Vm& vm) { return vm.over; });
}

bool MicroVms::State::advance(double seconds) {
  const Deadline slice = Deadline::after_s(seconds);
  while (!all_over()) {
    const Deadline limit = Deadline::after_s(time_left_s());
    if (limit.passed()) {
      time_out();
      break;
    }
    if (slice.passed()) return false;
    std::vector<pollfd> wanted{{.fd = stop_event.descriptor(), .events = POLLIN, .revents = 0}};
    // poll() ignores negative descriptors, which are those of consoles that are closed.
    for (const Vm& vm : vms) wanted.push_back({.fd = vm.console.number(), .events = POLLIN, .revents = 0});
    if (hub) wanted.push_back({.fd = hub->console.number(), .events = POLLIN, .revents = 0});
    if (poll(wanted.data(), wanted.size(), std::min(slice.remaining_ms(), limit.remaining_ms())) < 0 && errno != EINTR)
      break;
    if (wanted.front().revents != 0) {
      troubles.push_back("stopped before the end");
      break;
    }
    for (std::size_t node = 0; node < vms.size(); ++node) {
      // One that failed may have taken the others with it.
      if (wanted[node + 1].revents != 0 && vms[node].process > 0) read_console(vms[node]);
    }
    if (hub && wanted.back().revents != 0) {
      troubles.push_back("the QEMU that joins wires ended: " + last_line(read_file(hub->folder + "/qemu.log")));
      kill_all(NodeEnd::kFailed);
    }
    if (ready_s == 0 && std::all_of(vms.begin(), vms.end(), [](const Vm& vm) { return vm.ready || vm.over; })) {
      let_commands_begin();
    }
  }
  kill_all(NodeEnd::kStopped);
  return true;
}

void MicroVms::State::read_console(Vm& vm) {
  std::array<char, 16384> block{};
  for (;;) {
    const ssize_t size = recv(vm.console.number(), block.data(), block.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (size <= 0) return console_closed(vm);
    // The log is for people: a disk that is full does not end a run.
    (void)!write(vm.console_log.number(), block.data(), static_cast<std::size_t>(size));
    for (const char one : std::string_view(block.data(), static_cast<std::size_t>(size))) {
      if (one == '\n' || vm.line.size() >= kLineBytesMax) {
        take_line(vm, std::exchange(vm.line, {}));
        if (vm.process < 0) return;
      } else if (one != '\r') {
        vm.line += one;
      }
    }
  }
}

void MicroVms::State::take_line(Vm& vm, std::string line) {
  // The kernel may have begun the line.
  const auto at = line.find(kMark);
  if (at == std::string::npos) return;
  take_mark(vm, line.substr(at + kMark.size()));
}

void MicroVms::State::take_mark(Vm& vm, const std::string& text) {
  vm.marks.push_back({.text = text.substr(0, text.rfind(" up=")), .at_s = since_start_s()});
  const Mark mark = vm.marks.back();
  if (begins(mark.text, "READY")) vm.ready = true;
  if (int number = 0, code = 0; std::sscanf(mark.text.c_str(), "DID %d %d", &number, &code) == 2) {
    vm.did[number] = code;
    return;
  }
  if (begins(mark.text, "DONE")) {
    vm.over = true;  // its machine stays up: others may still speak to it
    vm.end = NodeEnd::kDone;
  }
  if (begins(mark.text, "FAIL")) {
    vm.trouble = mark.text.substr(std::min<std::size_t>(mark.text.size(), 5));
    kill(vm, NodeEnd::kFailed);
    give_up(vm);
  }
  if (options.on_progress) options.on_progress(vm.name, mark);
}

void MicroVms::State::console_closed(Vm& vm) {
  if (vm.over) return kill(vm, vm.end);
  const std::string words = last_line(read_file(vm.folder + "/qemu.log"));
  vm.trouble = words.empty() ? "its virtual machine ended before its commands" : "QEMU ended: " + words;
  kill(vm, NodeEnd::kFailed);
  give_up(vm);
}

void MicroVms::State::let_commands_begin() {
  ready_s = since_start_s();
  for (Vm& vm : vms) {
    if (vm.over) continue;
    if (send(vm.console.number(), kGo.data(), kGo.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kGo.size())) {
      console_closed(vm);
    }
  }
}

/// Has the guest run one of the host's tools.
void MicroVms::State::order(Vm& vm, const std::vector<std::string>& command) {
  constexpr double kPatience_s = 30;
  const int number = ++orders;
  const std::string text = fmt::format("do {} {}\n", number, fmt::join(command, " "));
  if (send(vm.console.number(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size())) {
    return console_closed(vm);
  }
  const Deadline deadline = Deadline::after_s(kPatience_s);
  while (vm.did.count(number) == 0) {
    if (deadline.passed() || advance(0.01) || vm.process < 0) {
      throw std::runtime_error(fmt::format("node '{}' did not answer to: {}", vm.name, fmt::join(command, " ")));
    }
  }
  if (vm.did.at(number) == 0) return;
  throw std::runtime_error(fmt::format("node '{}': {}: {}", vm.name, fmt::join(command, " "),
                                       last_line(read_file(fmt::format("{}/did-{}.stderr", vm.folder, number)))));
}

void MicroVms::State::give_up(const Vm& because) {
  troubles.push_back(fmt::format("node '{}': {}{}", because.name, because.trouble, console_end(because)));
  // Before all are ready the others would wait for it to no end. Later they run on: a node that dies is a case to see.
  if (ready_s == 0) kill_all(NodeEnd::kStopped);
}

double MicroVms::State::time_left_s() const {
  const double all_s = options.time_limit_s - since_start_s();
  if (options.commands_s == 0 || ready_s == 0) return all_s;
  return std::min(all_s, ready_s + options.commands_s - since_start_s());
}

void MicroVms::State::time_out() {
  const double limit_s = since_start_s() >= options.time_limit_s ? options.time_limit_s : options.commands_s;
  for (const Vm& vm : vms) {
    if (vm.over) continue;
    troubles.push_back(fmt::format("node '{}' is not done after {} s; it was at {}{}", vm.name, limit_s,
                                   vm.marks.empty() ? "the start of its kernel" : vm.marks.back().text,
                                   console_end(vm)));
  }
  kill_all(NodeEnd::kTimedOut);
}

}  // namespace meshbed::emu
