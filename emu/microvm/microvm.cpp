#include "emu/microvm/microvm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "emu/config.h"
#include "emu/guest_job.h"
#include "emu/microvm/host_tsc.h"
#include "emu/microvm/microvm_state.h"
#include "emu/microvm/probe.h"
#include "emu/microvm/qemu_plan.h"
#include "emu/process.h"

namespace meshbed::emu {
namespace {

using SocketPair = std::array<Descriptor, 2>;

SocketPair connected_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error(
        fmt::format("cannot connect the virtual machines: {}", std::generic_category().message(errno)));
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The most memory that a process has held, in MiB; 0: not known.
int peak_memory_mib(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string key; status >> key;) {
    long long kibibytes = 0;
    if (key == "VmHWM:" && status >> kibibytes) return static_cast<int>(kibibytes / 1024);
  }
  return 0;
}

void start_vm(Vm& vm, const QemuPlan& plan, std::vector<SocketPair>& lines) {
  SocketPair monitor = connected_sockets();
  SocketPair console = connected_sockets();
  const Descriptor errors = create_file(vm.folder + "/qemu.log");
  vm.console_log = create_file(vm.folder + "/console.log");
  SpawnOptions options{.argv = plan.argv, .directory = "", .descriptors = {}};
  options.errors = errors.number();
  options.own_group = true;  // the caller handles Ctrl-C and ends them in order
  options.descriptors = {monitor[1].number(), console[1].number()};
  for (const LineEnd& end : plan.lines) {
    options.descriptors.push_back(
        lines[static_cast<std::size_t>(end.line)][static_cast<std::size_t>(end.side)].number());
  }
  SocketPair terminal;
  if (plan.terminal) {
    terminal = connected_sockets();
    options.descriptors.push_back(terminal[1].number());
  }
  vm.process = spawn(options);
  vm.terminal = std::move(terminal[0]);
  vm.console = std::move(console[0]);
  fcntl(vm.console.number(), F_SETFL, O_NONBLOCK);
  vm.monitor = std::make_unique<Monitor>(vm.name, std::move(monitor[0]));
}

/// Over the monitor; if that fails, QEMU's last output contains the reason.
void set_going(Vm& vm, const EmuNode* node) {
  try {
    vm.monitor->greet();
    if (node == nullptr) return;  // the hubs run from the start
    for (int nic = 0; nic < static_cast<int>(node->nics.size()); ++nic) {
      if (node->nics[static_cast<std::size_t>(nic)].wire >= 0) continue;
      vm.monitor->execute("set_link", {{"name", line_name(nic)}, {"up", false}});
    }
    vm.monitor->execute("cont");
  } catch (const std::runtime_error& problem) {
    const std::string words = last_line(read_file(vm.folder + "/qemu.log"));
    if (words.empty()) throw;
    throw std::runtime_error(fmt::format("node '{}': QEMU did not start: {}", vm.name, words));
  }
}

int nic_index(const EmuNode& node, const std::string& netdev) {
  for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
    if (node.nics[nic].netdev == netdev) return static_cast<int>(nic);
  }
  throw std::out_of_range(fmt::format("node '{}' has no NIC '{}'", node.name, netdev));
}

std::string folder_for_runs(const std::string& asked) {
  // Absolute: the guest sees the job folder at this path.
  return std::filesystem::absolute(asked.empty() ? std::filesystem::temp_directory_path()
                                                 : std::filesystem::path(asked));
}

}  // namespace

MicroVms::State::State(EmuCluster cluster_in, MicroVmOptions options_in)
    : cluster(std::move(cluster_in)),
      options(std::move(options_in)),
      scratch(folder_for_runs(options.work_dir), "meshbed-emu") {
  if (options.keep_folder) scratch.keep();
}

void MicroVms::State::start() {
  check_memory(cluster, options.accelerator.kvm, available_memory_mib());
  QemuOptions qemu{.kernel = options.image.kernel,
                   .initramfs = options.image.initramfs,
                   .kvm = options.accelerator.kvm,
                   .tsc_khz = options.accelerator.kvm ? 0 : host_tsc_khz(),
                   .job_folders = {}};
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    Vm vm;
    vm.name = cluster.nodes[node].name;
    vm.folder = scratch.path() + "/" + vm.name;
    make_folder(vm.folder);
    write_job(cluster, static_cast<int>(node), vm.folder);
    qemu.job_folders.push_back(vm.folder);
    vms.push_back(std::move(vm));
  }
  const ClusterPlan plan = plan_cluster(cluster, qemu);
  std::vector<SocketPair> lines;
  for (int line = 0; line < plan.lines; ++line) lines.push_back(connected_sockets());
  started_s = now_s();
  try {
    if (plan.hub) {
      hub.emplace();
      hub->name = "(hubs)";
      hub->folder = scratch.path() + "/-hubs";  // no node has such a name
      make_folder(hub->folder);
      start_vm(*hub, *plan.hub, lines);
    }
    for (std::size_t node = 0; node < vms.size(); ++node) start_vm(vms[node], plan.nodes[node], lines);
    lines.clear();  // the QEMUs hold them now: when one ends, the other sees it
    if (hub) set_going(*hub, nullptr);
    for (std::size_t node = 0; node < vms.size(); ++node) {
      if (stop_event.is_requested()) return;  // advance() ends it
      set_going(vms[node], &cluster.nodes[node]);
    }
  } catch (const std::runtime_error&) {
    kill_all(NodeEnd::kFailed);
    throw;
  }
}

void MicroVms::State::kill(Vm& vm, NodeEnd end) {
  if (vm.process > 0) {
    vm.memory_mib = peak_memory_mib(vm.process);
    ::kill(vm.process, SIGKILL);
    wait_for_exit(vm.process);
    vm.process = -1;
  }
  vm.monitor.reset();
  vm.console.close();
  if (!vm.over) vm.end = end;
  vm.over = true;
}

void MicroVms::State::kill_all(NodeEnd end) {
  for (Vm& vm : vms) kill(vm, end);
  if (hub) kill(*hub, end);
  if (total_s == 0) total_s = since_start_s();
}

Vm& MicroVms::State::running(const std::string& node) {
  for (Vm& vm : vms) {
    if (vm.name != node) continue;
    if (vm.process > 0) return vm;
    throw std::runtime_error(fmt::format("node '{}' is not running", node));
  }
  throw std::out_of_range(fmt::format("there is no node '{}'", node));
}

MicroVms::MicroVms(EmuCluster cluster, MicroVmOptions options) {
  check_cluster(cluster);
  state_ = std::make_unique<State>(std::move(cluster), std::move(options));
}

MicroVms::~MicroVms() { stop(); }

void MicroVms::start() { state_->start(); }
bool MicroVms::advance(double seconds) { return state_->advance(seconds); }
ClusterOutcome MicroVms::outcome() const { return state_->outcome(); }
void MicroVms::stop() { state_->kill_all(NodeEnd::kStopped); }
double MicroVms::ready_s() const { return state_->ready_s; }
const std::string& MicroVms::folder() const { return state_->scratch.path(); }

ClusterOutcome MicroVms::wait() {
  while (!state_->advance(state_->options.time_limit_s)) {
  }
  return state_->outcome();
}

void MicroVms::request_stop() noexcept { state_->stop_event.request(); }

void MicroVms::set_link(const std::string& node, const std::string& netdev, bool up) {
  Vm& vm = state_->running(node);
  const auto index = static_cast<std::size_t>(&vm - state_->vms.data());
  const int nic = nic_index(state_->cluster.nodes[index], netdev);
  vm.monitor->execute("set_link", {{"name", line_name(nic)}, {"up", up}});
}

void MicroVms::shape(const std::string& node, const std::string& netdev, const Shaping& shaping) {
  Vm& vm = state_->running(node);
  static_cast<void>(nic_index(state_->cluster.nodes[static_cast<std::size_t>(&vm - state_->vms.data())], netdev));
  if (!vm.over) state_->order(vm, shaping_command(netdev, shaping));
}

void MicroVms::change_address(const std::string& node, const std::string& netdev, const std::string& from,
                              const std::string& to) {
  Vm& vm = state_->running(node);
  static_cast<void>(nic_index(state_->cluster.nodes[static_cast<std::size_t>(&vm - state_->vms.data())], netdev));
  // The old one first: beside it the new one would be secondary, and go with it.
  if (!vm.over) state_->order(vm, {"ip", "address", "del", from, "dev", netdev});
  if (!vm.over) state_->order(vm, {"ip", "address", "add", to, "dev", netdev});
}

int MicroVms::terminal(const std::string& node) const { return state_->running(node).terminal.number(); }

void MicroVms::stop_vm(const std::string& node) { state_->running(node).monitor->execute("stop"); }
void MicroVms::continue_vm(const std::string& node) { state_->running(node).monitor->execute("cont"); }
void MicroVms::kill_vm(const std::string& node) { state_->kill(state_->running(node), NodeEnd::kKilled); }

}  // namespace meshbed::emu
