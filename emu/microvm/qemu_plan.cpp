#include "emu/microvm/qemu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "emu/guest_job.h"

namespace meshbed::emu {
namespace {

constexpr const char* kManagementLine = "management";
constexpr int kEthernetMtu = 1500;

/// Without a limit QEMU's translated code grows to 1 GiB a guest.
constexpr const char* kTcg = "tcg,tb-size=64";
// rdrand fills the guest's random pool at once; without it the first program that asks may wait.
constexpr const char* kTcgProcessor = "qemu64,+rdrand";
// A second processor that is never plugged in: for a guest that can have only one, QEMU translates memory barriers to
// nothing and locked instructions to plain ones (CF_PARALLEL in its tcg-op.c), although the thread of its devices reads
// the same memory. The guest then sometimes missed that it must notify virtio-net of new packets, and that NIC never
// sent again.
constexpr int kTcgProcessorsMin = 2;

/// no_timer_check: on a busy host the kernel takes a late timer for a broken one. panic=-1 and QEMU's -no-reboot: a
/// crash is an end.
constexpr const char* kKernelArguments = "console=ttyS0 quiet panic=-1 reboot=t mitigations=off nokaslr no_timer_check";
/// tsc=reliable: the translator's rdtsc is the host's. If a second processor is possible, the kernel does not trust it
/// and reads the HPET instead: a device, which costs microseconds for each packet and each reading of the clock.
/// tsc_early_khz (kernel-parameters.txt) gives its rate. Without it the kernel calibrates during boot against timers of
/// QEMU, which on a busy host uses its last resort ("Fast TSC calibration failed", "Unable to calibrate against PIT");
/// and once, on such a host, one of three guests measured 28 s as 300 s.
std::string tcg_kernel_arguments(std::uint64_t tsc_khz) {
  return " tsc=reliable" + (tsc_khz != 0 ? fmt::format(" tsc_early_khz={}", tsc_khz) : "");
}

/// In QEMU's options a comma ends a value, two are one.
std::string value(const std::string& text) {
  std::string escaped;
  for (const char one : text) escaped.append(one == ',' ? 2 : 1, one);
  return escaped;
}

class QemuPlanner {
 public:
  QemuPlanner(const EmuCluster& cluster, const QemuOptions& options)
      : cluster_(cluster), options_(options), ends_(wire_ends(cluster)) {}

  ClusterPlan plan() {
    for (int node = 0; node < static_cast<int>(cluster_.nodes.size()); ++node) {
      plan_.nodes.push_back({.argv = machine(node), .terminal = false, .lines = {}});
    }
    for (int wire = 0; wire < cluster_.wires; ++wire) {
      const auto& ends = ends_[static_cast<std::size_t>(wire)];
      const bool cable = ends.size() == 2;
      const int line = cable ? plan_.lines++ : -1;
      for (std::size_t end = 0; end < ends.size(); ++end) {
        const auto& [node, nic] = ends[end];
        const LineEnd plug = cable ? LineEnd{.line = line, .side = static_cast<int>(end)}
                                   : hub_line(wire, fmt::format("wire{}-{}-{}", wire, node, nic));
        add(node, {"-netdev", stream(line_name(nic), plug, of(node))});
      }
    }
    for (int node = 0; node < static_cast<int>(cluster_.nodes.size()); ++node) {
      add_nics(node);
      if (cluster_.nodes[static_cast<std::size_t>(node)].terminal) add_terminal(node);
    }
    return std::move(plan_);
  }

 private:
  QemuPlan& of(int node) { return plan_.nodes[static_cast<std::size_t>(node)]; }

  void add(int node, const std::vector<std::string>& words) { append(of(node).argv, words); }

  static void append(std::vector<std::string>& argv, const std::vector<std::string>& words) {
    argv.insert(argv.end(), words.begin(), words.end());
  }

  std::vector<std::string> bare_machine(const std::string& type, const std::string& name) const {
    return {options_.program,
            "-name",
            value(name),
            "-M",
            type,
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-chardev",
            fmt::format("socket,id=monitor,fd={}", kMonitorDescriptor),
            "-mon",
            "chardev=monitor,mode=control"};
  }

  std::vector<std::string> machine(int index) const {
    const EmuNode& node = cluster_.nodes[static_cast<std::size_t>(index)];
    // q35, not microvm: that one has too few clocks, and half of its boots hang on a busy host.
    std::vector<std::string> argv = bare_machine("q35", node.name);
    append(argv, {"-S", "-no-reboot", "-accel", options_.kvm ? "kvm" : kTcg, "-cpu",
                  options_.kvm ? "host" : kTcgProcessor, "-smp", processors(node.cpus), "-m",
                  std::to_string(node.memory_mib), "-kernel", options_.kernel, "-initrd", options_.initramfs, "-append",
                  std::string(kKernelArguments) + (options_.kvm ? "" : tcg_kernel_arguments(options_.tsc_khz))});
    append(argv,
           {"-chardev", fmt::format("socket,id=console,fd={}", kConsoleDescriptor), "-serial", "chardev:console"});
    // multidevs=remap: the host's file system is several, whose inode numbers must not collide.
    append(argv, {"-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap", "-device",
                  "virtio-9p-pci,fsdev=host,mount_tag=host"});
    const std::string& folder = options_.job_folders.at(static_cast<std::size_t>(index));
    append(argv, {"-fsdev", fmt::format("local,id=job,path={},security_model=none", value(folder)), "-device",
                  "virtio-9p-pci,fsdev=job,mount_tag=job"});
    return argv;
  }

  std::string processors(int count) const {
    return fmt::format("{},maxcpus={}", count, options_.kvm ? count : std::max(count, kTcgProcessorsMin));
  }

  void add_nics(int index) {
    const EmuNode& node = cluster_.nodes[static_cast<std::size_t>(index)];
    for (int nic = 0; nic < static_cast<int>(node.nics.size()); ++nic) {
      const EmuNic& one = node.nics[static_cast<std::size_t>(nic)];
      // A port without a cable: a hub with nothing else on it, whose link is switched off before the guest runs.
      if (one.wire < 0) add(index, {"-netdev", fmt::format("hubport,id={},hubid={}", line_name(nic), nic)});
      add(index, {"-device", device(line_name(nic), one.mac, one.mtu)});
    }
    if (!node.management_address) return;
    const LineEnd plug = hub_line(cluster_.wires, fmt::format("{}-{}", kManagementLine, index));
    add(index, {"-netdev", stream(kManagementLine, plug, of(index)), "-device",
                device(kManagementLine, management_mac(cluster_, index), kEthernetMtu)});
  }

  void add_terminal(int index) {
    const int descriptor = kFirstLineDescriptor + static_cast<int>(of(index).lines.size());
    add(index, {"-chardev", fmt::format("socket,id=terminal,fd={}", descriptor), "-serial", "chardev:terminal"});
    of(index).terminal = true;
  }

  /// romfile= (empty): the NIC's boot program lies in a package that is only recommended, and is of no use here.
  static std::string device(const std::string& line, const std::string& mac, int mtu) {
    return fmt::format("virtio-net-pci,netdev={},mac={},romfile={}", line, mac,
                       mtu > kEthernetMtu ? fmt::format(",host_mtu={}", mtu) : "");
  }

  static std::string stream(const std::string& id, LineEnd end, QemuPlan& plan) {
    plan.lines.push_back(end);
    return fmt::format("stream,id={},addr.type=fd,addr.str={}", id,
                       kFirstLineDescriptor + static_cast<int>(plan.lines.size()) - 1);
  }

  /// Another end for hub `number`; the node's side of its line.
  LineEnd hub_line(int number, const std::string& id) {
    if (!plan_.hub) plan_.hub = QemuPlan{.argv = bare_machine("none", "meshbed-hubs"), .terminal = false, .lines = {}};
    const int line = plan_.lines++;
    append(plan_.hub->argv, {"-netdev", stream(id, {.line = line, .side = 1}, *plan_.hub), "-netdev",
                             fmt::format("hubport,id=hub-{0},hubid={1},netdev={0}", id, number)});
    return {.line = line, .side = 0};
  }

  const EmuCluster& cluster_;
  const QemuOptions& options_;
  std::vector<std::vector<WireEnd>> ends_;
  ClusterPlan plan_;
};

}  // namespace

ClusterPlan plan_cluster(const EmuCluster& cluster, const QemuOptions& options) {
  return QemuPlanner(cluster, options).plan();
}

std::string line_name(int nic) { return fmt::format("nic{}", nic); }

}  // namespace meshbed::emu
