#include "testbed/diagnose/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "testbed/diagnose/diagnose.h"
#include "testbed/import/import.h"

namespace meshbed::testbed::diagnose {
namespace {

namespace fs = std::filesystem;

Line line_of_fact(const std::string& source, const std::string& text) {
  return {.file = source, .number = 0, .text = text};
}

void slow_slots(const hosts::HostFacts& host, Case& found) {
  for (const hosts::NicFacts& nic : host.nics) {
    const auto pci = host.pci.find(nic.pci_address.value);
    if (!nic.no_mesh.empty() || pci == host.pci.end()) continue;
    const hosts::PciFacts& link = pci->second;
    const bool few_lanes = link.lanes.known() && link.lanes_most.known() && link.lanes.value < link.lanes_most.value;
    const bool old =
        link.generation.known() && link.generation_most.known() && link.generation.value < link.generation_most.value;
    if (!few_lanes && !old) continue;
    found.add_sign(CauseCode::kHalfRate, 0.70, "PCIe link",
                   "a NIC's PCIe link has fewer lanes, or a lower generation, than it could",
                   line_of_fact(link.source, fmt::format("{}/{}: PCIe {}.0 x{} of {}.0 x{}", host.name.value,
                                                         nic.name(), link.generation.value, link.lanes.value,
                                                         link.generation_most.value, link.lanes_most.value)));
  }
}

bool has_devices(const hosts::HostFacts& host) {
  return std::any_of(host.nics.begin(), host.nics.end(), [](const hosts::NicFacts& nic) { return nic.device.known(); });
}

void limits(const hosts::HostFacts& host, Case& found) {
  const auto memlock = host.others.find("memlock");
  if (memlock == host.others.end() || !has_devices(host)) return;
  const hosts::Fact<std::string>& limit = memlock->second;
  found.add_fact("memlock", limit.value, line_of_fact(limit.source, limit.value));
  const bool is_number = !limit.value.empty() && limit.value.find_first_not_of("0123456789") == std::string::npos;
  if (is_number && limit.value.size() < 12 && std::stoull(limit.value) < kEnoughMemlockBytes / 1024) {
    found.add_sign(CauseCode::kMemlock, 0.75, "memlock", "the limit of locked memory (ulimit -l, KiB) is low",
                   line_of_fact(limit.source, host.name.value + ": " + limit.value));
  }
}

void firewall(const hosts::HostFacts& host, Case& found) {
  const auto rules = host.others.find("firewall");
  if (rules == host.others.end()) return;
  for (const char* closed : {":INPUT DROP", "-P INPUT DROP", "hook input priority filter; policy drop",
                             "hook input priority 0; policy drop"}) {
    if (rules->second.value.find(closed) == std::string::npos) continue;
    found.add_sign(CauseCode::kFirewall, 0.60, "firewall", "packets that no rule lets in are dropped",
                   line_of_fact(rules->second.source, host.name.value + ": " + closed));
    return;
  }
}

}  // namespace

bool is_machine(const std::string& path) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) {
    return fs::is_directory(path + "/etc/netplan", problem) || fs::is_regular_file(path + "/missing", problem);
  }
  const std::string extension = fs::path(path).extension();
  return fs::is_regular_file(path, problem) && (extension == ".tgz" || extension == ".tar" || extension == ".gz");
}

void read_machines(const std::vector<std::string>& paths, Case& found) {
  found.formats.insert("machines");
  const hosts::Imported imported = hosts::import_machines(paths, {});
  for (const hosts::HostFacts& host : imported.machines.hosts) {
    slow_slots(host, found);
    limits(host, found);
    firewall(host, found);
  }
  for (const hosts::ImportFinding& finding : imported.findings) {
    found.add_fact("import." + finding.code, finding.place, line_of_fact(finding.place, finding.cause));
  }
  read_scenario_text(imported.toml, paths.front(), found);
}

}  // namespace meshbed::testbed::diagnose
