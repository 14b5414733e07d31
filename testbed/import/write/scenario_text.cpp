// The scenario of a mesh: a table for each node, NIC, cable and switch, each value with its source.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/cluster.h"
#include "models/gpu_profile.h"
#include "models/spark.h"
#include "plugin/base/counted.h"
#include "testbed/base/units.h"
#include "testbed/import/infer/fold_uppers.h"
#include "testbed/import/infer/mesh.h"

namespace meshbed::testbed::hosts {
namespace {

/// As TOML's basic string has it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else if (byte >= 0x80) {
      out += '?';  // what is not ASCII may be no UTF-8, either
    } else {
      out += letter;
    }
  }
  return out + '"';
}

/// A comment of one line.
std::string comment(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    out += byte < 0x20 || byte >= 0x7f ? ' ' : letter;
  }
  return out.empty() ? "" : "  # " + out;
}

/// A line of its own.
std::string remark(const std::string& text) {
  const std::string line = comment(text);
  return line.empty() ? "" : line.substr(2) + "\n";
}

/// "100Gb/s": as a scenario writes it.
std::string rate_value(std::uint64_t rate_bps) {
  std::string text = rate_text(rate_bps);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

constexpr std::uint64_t kRateMost = 10'000'000'000'000;
constexpr std::uint32_t kMtuLeast = 576, kMtuMost = 65536;

std::string model_of(const GpuFacts& gpu) {
  std::string found;
  for (const char* name : {"GB10", "H100", "H200", "A100"}) {
    if (gpu.model.value.find(name) != std::string::npos) found = name;
  }
  return found;
}

class Writer {
 public:
  Writer(Mesh& mesh, const Assumptions& assumptions) : mesh_(mesh), assumptions_(assumptions) {}

  std::string write() {
    std::string nodes;
    for (std::size_t host = 0; host < mesh_.machines.hosts.size(); ++host) nodes += node_table(host);
    const std::string cables = cable_tables() + switch_tables(), workload = workload_table();
    return head() + nodes + cables + workload;
  }

 private:
  void line(std::string& text, const std::string& key, const std::string& value, const std::string& source) const {
    text += fmt::format("{} = {}{}\n", key, value, comment(source));
  }

  std::string head() const {
    std::string text =
        "# Made by `meshbed init`. Each value has its source; \"assumed\" marks what no file contains.\n";
    std::size_t nodes = 0;
    std::string paths;
    for (const HostFacts& host : mesh_.machines.hosts) {
      const bool has_nic =
          std::any_of(host.nics.begin(), host.nics.end(), [](const NicFacts& nic) { return nic.no_mesh.empty(); });
      if (!has_nic) continue;
      if (nodes < 4 && paths.find(host.path) == std::string::npos) paths += (paths.empty() ? "" : ", ") + host.path;
      ++nodes;
    }
    if (nodes > 4) paths += ", ...";
    text += fmt::format("description = {}\n", quoted(fmt::format("{}, from {}", counted(nodes, "node"), paths)));
    const std::vector<Assumed> assumed = mesh_.assumed.all();
    if (!assumed.empty()) {
      text += "assumed = [\n";
      for (const Assumed& each : assumed) {
        text += fmt::format("  {},\n", quoted(fmt::format("{}: {}; {}", each.place, each.value, each.question)));
      }
      text += "]\n";
    }
    for (const ImportFinding& finding : mesh_.findings) {
      text += remark(fmt::format("{}: {}: {}; {} [{}]", meshbed::testbed::name_of(finding.severity), finding.place,
                                 finding.cause, finding.fix, finding.code));
    }
    if (!assumptions_.latency.empty()) {
      text += fmt::format("\n[topology]\nlatency = {}  # --assume latency\n", quoted(assumptions_.latency));
    }
    const std::string common = common_environment();
    if (!common.empty()) text += "\n[environment]\n" + common;
    return text;
  }

  static std::string variable_lines(const HostFacts& host, const std::set<std::string>& left_out) {
    std::string text;
    for (const auto& [name, value] : host.environment) {
      if (left_out.count(name) == 0)
        text += fmt::format("{} = {}{}\n", name, quoted(value.value), comment(value.source));
    }
    return text;
  }

  /// Variables that every node has with one value.
  std::set<std::string> common_names() const {
    std::set<std::string> names;
    const auto& hosts = mesh_.machines.hosts;
    if (hosts.empty()) return names;
    for (const auto& [name, value] : hosts.front().environment) {
      const bool everywhere =
          std::all_of(hosts.begin(), hosts.end(), [&, &key = name, &text = value](const auto& host) {
            return std::any_of(host.environment.begin(), host.environment.end(),
                               [&](const auto& each) { return each.first == key && each.second.value == text.value; });
          });
      if (everywhere) names.insert(name);
    }
    return names;
  }

  std::string common_environment() const {
    if (mesh_.machines.hosts.empty()) return "";
    const std::set<std::string> common = common_names();
    std::string text;
    for (const auto& [name, value] : mesh_.machines.hosts.front().environment) {
      if (common.count(name) > 0) text += fmt::format("{} = {}{}\n", name, quoted(value.value), comment(value.source));
    }
    return text;
  }

  std::string node_table(std::size_t index) {
    const HostFacts& host = mesh_.machines.hosts[index];
    std::string nics, links;
    for (std::size_t nic = 0; nic < host.nics.size(); ++nic) {
      if (!host.nics[nic].no_mesh.empty()) continue;
      nics += nic_table({index, nic});
    }
    if (nics.empty()) return "";
    std::string text = "\n[[node]]\n";
    line(text, "name", quoted(host.name.value), host.name.source);
    text += gpu_lines(host);
    for (const NicFacts& nic : host.nics) {
      if (nic.no_mesh.empty()) continue;
      const std::string source = nic.no_source.empty() ? "" : " (" + nic.no_source + ")";
      text += remark(fmt::format("{} {}{}", nic.name(), nic.no_mesh, source));
    }
    for (const LeftOut& each : host.left_out) {
      text += remark(fmt::format("{} {} ({})", each.name, each.reason, each.source));
    }
    const std::string own = variable_lines(host, common_names());
    if (!own.empty()) text += "\n[node.environment]\n" + own;
    return text + pcie_tables(host) + nics + bond_tables(host);
  }

  std::string bond_tables(const HostFacts& host) const {
    std::string text;
    for (std::size_t index = 0; index < host.bonds.size(); ++index) {
      const BondFacts& bond = host.bonds[index];
      const NicFacts* const first = first_member(host, static_cast<int>(index));
      if (first == nullptr || !first->no_mesh.empty()) continue;
      std::string functions;
      for (const std::string& member : bond.members) {
        const NicFacts* const nic = nic_with(host, member);
        functions += (functions.empty() ? "" : ", ") + quoted(nic == nullptr ? member : nic->device.value);
      }
      text += "\n[[node.bond]]\n";
      line(text, "name", quoted(bond.name), bond.source);
      text += fmt::format("functions = [{}]\n", functions);
      line(text, "mode", quoted(bond.mode.value), bond.mode.source);
      if (bond.mode.value != "active-backup") {
        line(text, "xmit_hash_policy", quoted(hash_of(bond)),
             bond.hash.known() ? bond.hash.source : "Linux' default, where no file has it");
      }
      address_line(text, *first);
      if (bond.is_lag && bond.device.known()) line(text, "device", quoted(bond.device.value), bond.device.source);
    }
    return text;
  }

  /// Of tunnels' inner headers RDMA has none; a scenario hashes by queue pair, or by node.
  static std::string hash_of(const BondFacts& bond) {
    if (bond.hash.value == "layer3+4" || bond.hash.value == "encap3+4") return "layer3+4";
    return bond.hash.value == "layer2+3" || bond.hash.value == "encap2+3" ? "layer2+3" : "layer2";
  }

  std::string gpu_lines(const HostFacts& host) {
    std::string text;
    const bool spark = is_spark(host);
    if (!host.gpus.empty()) {
      const GpuFacts& first = host.gpus.front();
      line(text, "gpus", std::to_string(std::min<std::size_t>(host.gpus.size(), 64)),
           first.pci_address.known() ? first.pci_address.source : host.name.source);
      if (const std::string model = model_of(first); !model.empty()) {
        line(text, "gpu_model", quoted(model), first.model.source);
      } else if (first.model.known()) {
        text += remark(fmt::format("GPU {} ({}): there is no model of it", first.model.value, first.model.source));
      }
    }
    const bool is_gb10 = !host.gpus.empty() && model_of(host.gpus.front()) == "GB10";
    if (spark && !is_gb10) {
      line(text, "functions", quoted("spark"), "assumed: the names are those of a DGX Spark's functions");
      mesh_.assumed.add("functions", host.name.value, "those of a DGX Spark, two on each QSFP port",
                        "is it one? `nvidia-smi` prints GB10");
    }
    if (!spark && is_gb10) line(text, "functions", quoted("separate"), "a GB10 with other NICs than a DGX Spark's");
    return text;
  }

  /// "0000:01:00", whose functions share a PCIe link; empty: nothing about it is known, or the layout says it.
  std::string slot_of(const HostFacts& host, const NicFacts& nic) const {
    const auto found = host.pci.find(nic.pci_address.value);
    if (is_spark(host) || found == host.pci.end()) return "";
    if (!found->second.lanes.known() || !found->second.generation.known() || found->second.generation.value > 6) {
      return "";
    }
    return nic.pci_address.value.substr(0, nic.pci_address.value.size() - 2);
  }

  static std::string pcie_name(std::string slot) { return "pcie-" + slot; }

  std::string pcie_tables(const HostFacts& host) const {
    std::set<std::string> written;
    std::string text;
    for (const NicFacts& nic : host.nics) {
      const std::string slot = nic.no_mesh.empty() ? slot_of(host, nic) : "";
      if (slot.empty() || !written.insert(slot).second) continue;
      const PciFacts& pci = host.pci.at(nic.pci_address.value);
      text += fmt::format("\n[[node.pcie]]\nname = {}\n", quoted(pcie_name(slot)));
      line(text, "lanes", std::to_string(pci.lanes.value), with_most(pci.lanes, pci.lanes_most, "x"));
      line(text, "generation", std::to_string(pci.generation.value),
           with_most(pci.generation, pci.generation_most, "generation "));
    }
    return text;
  }

  static std::string with_most(const Fact<int>& now, const Fact<int>& most, const char* unit) {
    if (!most.known() || most.value <= now.value) return now.source;
    return fmt::format("{}; it could be {}{}", now.source, unit, most.value);
  }

  std::string nic_table(Port port) {
    const HostFacts& host = mesh_.host_of(port);
    const NicFacts& nic = mesh_.nic_of(port);
    std::string text = "\n[[node.nic]]\n";
    line(text, "device", quoted(nic.device.value),
         nic.device_assumed_from.empty()
             ? nic.device.source
             : fmt::format("assumed from {} ({})", nic.device_assumed_from, nic.device.source));
    if (nic.netdev.known() && !nic.netdev.value.empty() && nic.netdev.value.size() <= 15 &&
        is_plain(nic.netdev.value)) {
      line(text, "netdev", quoted(nic.netdev.value), nic.netdev.source);
    }
    if (nic.bond < 0) address_line(text, nic);
    rate_line(text, port);
    mtu_line(text, port);
    if (nic.vlan.known() && nic.vlan.value > 0) line(text, "vlan", std::to_string(nic.vlan.value), nic.vlan.source);
    if (nic.link_up.known() && !nic.link_up.value) line(text, "link", quoted("down"), nic.link_up.source);
    if (const std::string slot = slot_of(host, nic); !slot.empty()) {
      line(text, "pcie", quoted(pcie_name(slot)), nic.pci_address.source);
    }
    const std::string connector = mesh_.connector_of(port);
    if (nic.bond < 0 && !is_spark(host) && is_shared(port, connector)) {
      line(text, "qsfp", quoted("qsfp-" + connector.substr(connector.find('/') + 1)),
           fmt::format("one image GUID ({}) and one port number in the name", nic.image_guid.source));
    }
    gid_lines(text, nic);
    return text;
  }

  static bool is_plain(const std::string& name) {
    return name.front() != '.' && name.front() != '-' &&
           name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:+-") ==
               std::string::npos;
  }

  bool is_shared(Port port, const std::string& connector) const {
    const auto& nics = mesh_.host_of(port).nics;
    for (std::size_t other = 0; other < nics.size(); ++other) {
      if (other == port.nic || !nics[other].no_mesh.empty()) continue;
      if (mesh_.connector_of({port.host, other}) == connector) return true;
    }
    return false;
  }

  static void address_line(std::string& text, const NicFacts& nic) {
    std::string list, sources;
    for (const AddressFact& address : nic.addresses) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", quoted(to_text(address.prefix)));
      if (sources.find(address.source) == std::string::npos) sources += (sources.empty() ? "" : ", ") + address.source;
    }
    if (!list.empty()) text += fmt::format("addresses = [{}]{}\n", list, comment(sources));
  }

  void rate_line(std::string& text, Port port) {
    const NicFacts& nic = mesh_.nic_of(port);
    if (nic.rate_bps.known() && nic.rate_bps.value <= kRateMost) {
      line(text, "rate", quoted(rate_value(nic.rate_bps.value)), nic.rate_bps.source);
      return;
    }
    const std::uint64_t rate = assumptions_.rate_bps.value_or(kAssumedRateBps);
    line(text, "rate", quoted(rate_value(rate)), assumptions_.rate_bps ? "assumed: --assume rate" : "assumed");
    mesh_.assumed.add("rate", mesh_.name_of(port), rate_value(rate),
                      "which rate has the port? `ethtool` prints its speed; then --assume rate=RATE");
  }

  void mtu_line(std::string& text, Port port) {
    const NicFacts& nic = mesh_.nic_of(port);
    if (nic.mtu_bytes.known() && nic.mtu_bytes.value >= kMtuLeast && nic.mtu_bytes.value <= kMtuMost) {
      line(text, "mtu", std::to_string(nic.mtu_bytes.value), nic.mtu_bytes.source);
      return;
    }
    const std::uint32_t mtu = assumptions_.mtu_bytes.value_or(kAssumedMtuBytes);
    line(text, "mtu", std::to_string(mtu),
         assumptions_.mtu_bytes ? "assumed: --assume mtu" : "assumed: Ethernet's default");
    mesh_.assumed.add("MTU", mesh_.name_of(port), std::to_string(mtu),
                      "which MTU has the interface? `ip link` prints it; then --assume mtu=BYTES");
  }

  /// The complete table, where a file has it with RoCE's versions.
  static void gid_lines(std::string& text, const NicFacts& nic) {
    if (nic.gids.empty()) return;
    std::string list;
    for (const GidFact& gid : nic.gids) {
      if (gid.type != "v1" && gid.type != "v2") return;
      IpAddress address = from_mapped_bytes(gid.gid);
      list += fmt::format("{}{{index = {}, type = \"{}\", address = \"{}\"}}", list.empty() ? "" : ", ", gid.index,
                          gid.type, to_text(address));
    }
    text += fmt::format("gids = [{}]{}\n", list, comment(nic.gids.front().source));
  }

  std::string cable_tables() const {
    std::string text;
    for (const FoundCable& cable : mesh_.cables) {
      text += "\n[[cable]]\n";
      text += fmt::format("name = {}\n", quoted(cable.name));
      text += fmt::format("ends = [{}, {}]{}\n", quoted(mesh_.name_of(cable.ends[0])),
                          quoted(mesh_.name_of(cable.ends[1])), comment(cable.evidence));
    }
    return text;
  }

  std::string switch_tables() const {
    std::string text;
    for (const FoundSwitch& box : mesh_.switches) {
      text += "\n[[switch]]\n";
      text += fmt::format("name = {}\n", quoted(box.name));
      std::string ports;
      for (const Port port : box.ports)
        ports += fmt::format("{}{}", ports.empty() ? "" : ", ", quoted(mesh_.name_of(port)));
      text += fmt::format("ports = [{}]{}\n", ports, comment(box.evidence));
      std::uint64_t rate = 0;
      for (const Port port : box.ports) rate = std::max(rate, port_rate(port));
      if (rate > 0) text += fmt::format("rate = {}  # of its fastest NIC\n", quoted(rate_value(rate)));
    }
    return text;
  }

  std::uint64_t port_rate(Port port) const {
    const Fact<std::uint64_t>& rate = mesh_.nic_of(port).rate_bps;
    if (rate.known() && rate.value <= kRateMost) return rate.value;
    return assumptions_.rate_bps.value_or(kAssumedRateBps);
  }

  std::string workload_table() const {
    const std::string& said = assumptions_.workload;
    const std::size_t colon = said.find(':');
    std::string text = "\n[workload]  # assumed: the input has none\n";
    text += fmt::format("collective = {}\nbytes = {}\n", quoted(said.substr(0, colon)),
                        quoted(colon == std::string::npos ? "64M" : said.substr(colon + 1)));
    for (const HostFacts& host : mesh_.machines.hosts) {
      const auto channels = host.others.find("nccl-channels");
      if (channels == host.others.end()) continue;
      text += fmt::format("channels = {}{}\n", channels->second.value, comment(channels->second.source));
      break;
    }
    return text + "warmup = 1  # the first call makes the connections\n\n[expect]\nwrong = 0\n";
  }

  Mesh& mesh_;
  const Assumptions& assumptions_;
};

/// Facts of which two files disagree.
void report_contradictions(Mesh& mesh) {
  const auto report = [&](Port port, const char* what, const std::string& value, const auto& fact) {
    if (fact.contradiction.empty()) return;
    mesh.findings.push_back({Severity::kWarning, "contradiction", mesh.name_of(port),
                             fmt::format("{} is {} in {}, but {}", what, value, fact.source, fact.contradiction),
                             "the first one is taken; correct the configuration, or collect the node again"});
  };
  for (const Port port : mesh.ports()) {
    const NicFacts& nic = mesh.nic_of(port);
    report(port, "MTU", std::to_string(nic.mtu_bytes.value), nic.mtu_bytes);
    report(port, "rate", rate_value(nic.rate_bps.value), nic.rate_bps);
    report(port, "MAC address", nic.mac.value, nic.mac);
    report(port, "PCI address", nic.pci_address.value, nic.pci_address);
    report(port, "VLAN", std::to_string(nic.vlan.value), nic.vlan);
  }
}

}  // namespace

Imported scenario_of(const Machines& machines, const Assumptions& assumptions) {
  Mesh mesh;
  mesh.machines = machines;
  choose_nics(mesh);
  find_cables(mesh);
  assign_addresses(mesh);
  report_contradictions(mesh);
  Imported imported;
  imported.toml = Writer(mesh, assumptions).write();
  imported.findings = std::move(mesh.findings);
  imported.assumed = mesh.assumed.all();
  imported.machines = std::move(mesh.machines);
  return imported;
}

}  // namespace meshbed::testbed::hosts
