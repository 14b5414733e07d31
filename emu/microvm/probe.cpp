#include "emu/microvm/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/image/kernel_package.h"
#include "plugin/base/descriptor.h"

namespace meshbed::emu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKvmDevice = "/dev/kvm";
constexpr const char* kPvmModule = "/sys/module/kvm_pvm";
constexpr int kStableKvmApi = 12;
constexpr int kOverheadTcgMib = 110;
constexpr int kOverheadKvmMib = 70;
/// The QEMU without a guest that joins wires with more than two ends.
constexpr int kHubMib = 40;

Part find_program_part(const std::string& program, const std::string& package) {
  const std::string path = find_program(program);
  return {program, !path.empty(), path.empty() ? "not in PATH: install " + package : path};
}

Part find_busybox_part() {
  const std::string path = find_static_busybox();
  return {"busybox, static", !path.empty(), path.empty() ? "install busybox-static" : path};
}

Part find_kernel_part() {
  Part part{"kernel for the guests", false, ""};
  try {
    const std::string cache = cache_folder();
    if (const auto image = find_boot_image(cache)) {
      part.detail =
          fmt::format("{}, boot image in {}", image->kernel_version, fs::path(image->kernel).parent_path().string());
    } else {
      part.detail = fmt::format("{}, not in {} yet: made there by the first run", kernel_version_of_apt(), cache);
    }
    part.present = true;
  } catch (const std::runtime_error& problem) {
    part.detail = problem.what();
  }
  return part;
}

Part find_memory_part() {
  const int available = available_memory_mib();
  const int need = memory_need_mib(
      {.name = "", .nics = {}, .management_address = {}, .environment = {}, .commands = {}, .directory = ""}, false);
  return {"memory", available >= 2 * need, fmt::format("{} MiB left; a node takes {} MiB", available, need)};
}

std::vector<Part> look_at_programs() {
  utsname machine{};
  uname(&machine);
  const bool x86 = std::string(machine.machine) == "x86_64";
  return {{"processor", x86,
           x86 ? "x86_64" : fmt::format("{}: the guests are x86_64, like the programs in them", machine.machine)},
          find_program_part("qemu-system-x86_64", "qemu-system-x86"),
          find_busybox_part(),
          find_program_part("xz", "xz-utils"),
          find_program_part("rdma", "iproute2")};
}

/// "node0, node1", or the first and the last of many.
std::string names_of(const std::vector<EmuNode>& nodes) {
  constexpr std::size_t kNamedMax = 8;
  if (nodes.size() > kNamedMax) {
    return fmt::format("{} to {} ({} nodes)", nodes.front().name, nodes.back().name, nodes.size());
  }
  std::string names;
  for (const EmuNode& node : nodes) names += (names.empty() ? "" : ", ") + node.name;
  return names;
}

}  // namespace

Accelerator probe_accelerator() {
  const auto tcg = [](const std::string& why) { return Accelerator{false, "TCG (QEMU's translator), because " + why}; };
  std::error_code problem;
  if (!fs::exists(kKvmDevice, problem)) return tcg(fmt::format("there is no {}", kKvmDevice));
  if (fs::exists(kPvmModule, problem)) {
    return tcg(fmt::format("the KVM of this machine is a PVM hypervisor's ({}), which interprets Debian's kernel",
                           kPvmModule));
  }
  const Descriptor device(open(kKvmDevice, O_RDWR | O_CLOEXEC));
  if (!device.is_open()) {
    const std::string why = std::generic_category().message(errno);
    return tcg(fmt::format("{} cannot be opened: {} (is the user in the group kvm?)", kKvmDevice, why));
  }
  if (ioctl(device.number(), KVM_GET_API_VERSION, 0) != kStableKvmApi) {
    return tcg(fmt::format("{} does not speak version {} of KVM", kKvmDevice, kStableKvmApi));
  }
  return {true, fmt::format("KVM, because {} works", kKvmDevice)};
}

std::vector<Part> look_at_parts() {
  std::vector<Part> parts = look_at_programs();
  parts.push_back(find_kernel_part());
  parts.push_back(find_memory_part());
  return parts;
}

void require_machine_for(const EmuCluster& cluster, bool kvm) {
  for (const Part& part : look_at_programs()) {
    if (!part.present) {
      throw std::runtime_error(fmt::format("virtual machines cannot run here: {}: {}", part.what, part.detail));
    }
  }
  check_memory(cluster, kvm, available_memory_mib());
}

int available_memory_mib() {
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    long long kibibytes = 0;
    if (key == "MemAvailable:" && info >> kibibytes) return static_cast<int>(kibibytes / 1024);
  }
  return std::numeric_limits<int>::max();
}

int memory_need_mib(const EmuNode& node, bool kvm) {
  return node.memory_mib + (kvm ? kOverheadKvmMib : kOverheadTcgMib);
}

void check_memory(const EmuCluster& cluster, bool kvm, int available_mib) {
  long long need = 0;
  for (const EmuNode& node : cluster.nodes) need += memory_need_mib(node, kvm);
  bool hub = false;
  for (const auto& ends : wire_ends(cluster)) hub = hub || ends.size() > 2;
  for (const EmuNode& node : cluster.nodes) hub = hub || node.management_address.has_value();
  if (hub) need += kHubMib;
  if (need <= available_mib) return;
  throw std::runtime_error(fmt::format(
      "the nodes {} need {} MiB of memory, and this machine has {} MiB left; give them less, take fewer, or end other "
      "programs",
      names_of(cluster.nodes), need, available_mib));
}

}  // namespace meshbed::emu
