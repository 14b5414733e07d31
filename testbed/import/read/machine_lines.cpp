// Lines of ethtool, lspci -vvv, lldpctl and of collect's own listings of /sys; and assignments of NCCL's variables.

#include <algorithm>
#include <array>
#include <cstdlib>

#include "testbed/base/units.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

std::string behind_colon(const std::string& line) {
  const std::size_t colon = line.find(':');
  const std::size_t start = line.find_first_not_of(" \t", colon == std::string::npos ? line.size() : colon + 1);
  return start == std::string::npos ? "" : line.substr(start);
}

double number_of(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  return value > 0 && value < 1e7 ? value : 0;
}

/// Megabits a second, or nothing where no number is given ("Unknown!", "-1").
void offer_mbps(NicFacts& nic, const std::string& text, const std::string& source) {
  const auto mbps = parse_digits(text.substr(0, text.find_first_not_of("0123456789")), 10'000'000);
  if (mbps && *mbps > 0) nic.rate_bps.offer(*mbps * 1'000'000, source);
}

/// Settings for enp1s0f0np0: with "Speed: 200000Mb/s", "Link detected: yes".
class EthtoolLines : public LineReader {
 public:
  explicit EthtoolLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (words[0] == "Settings" && words.size() == 3 && words[1] == "for" && words[2].back() == ':') {
      netdev_ = words[2].substr(0, words[2].size() - 1);
      host_.by_netdev(netdev_, source);
      return true;
    }
    if (netdev_.empty() || (line[0] != ' ' && line[0] != '\t')) return false;
    NicFacts& nic = host_.by_netdev(netdev_, source);
    if (words[0] == "Speed:" && words.size() > 1) offer_mbps(nic, words[1], source);
    if (words[0] == "Link" && words.size() == 3 && words[1] == "detected:")
      nic.link_up.offer(words[2] == "yes", source);
    return true;
  }

  void end_block() override { netdev_.clear(); }

 private:
  HostFacts& host_;
  std::string netdev_;
};

/// /proc/net/bonding/bond0, whose name is the file's: "Bonding Mode: IEEE 802.3ad ...", "Slave Interface: enp1s0f0np0".
class BondLines : public LineReader {
 public:
  explicit BondLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (line.rfind("Ethernet Channel Bonding Driver:", 0) == 0) {
      const std::string path = source.substr(0, source.rfind(':')), file = path.substr(path.rfind('/') + 1);
      const bool is_named = path.find("bonding/") != std::string::npos || file.rfind("bond", 0) == 0;
      bond_ = is_named ? file.substr(0, file.find(".txt")) : "bond" + std::to_string(number_++);
      member_.clear();
      host_.by_netdev(bond_, source).kind = "bond";
      return true;
    }
    const std::size_t colon = line.find(": ");
    if (bond_.empty() || words.size() < 2 || colon == std::string::npos) return false;
    const std::string key = line.substr(0, colon), value = behind_colon(line);
    NicFacts& bond = host_.by_netdev(bond_, source);
    if (key == "Bonding Mode") take_bond_option(bond, "mode", mode_of(value), source);
    if (key == "Transmit Hash Policy") {
      take_bond_option(bond, "xmit_hash_policy", value.substr(0, value.find(' ')), source);
    }
    if (key == "Currently Active Slave") take_bond_option(bond, "active_slave", value, source);
    if (key == "Primary Slave") take_bond_option(bond, "primary", value.substr(0, value.find(' ')), source);
    if (key == "Slave Interface") {
      member_ = value;
      host_.by_netdev(member_, source).master = bond_;
    }
    if (member_.empty()) return true;
    NicFacts& member = host_.by_netdev(member_, source);
    if (key == "MII Status") member.link_up.offer(value == "up", source);
    if (key == "Speed") offer_mbps(member, value, source);
    if (key == "Permanent HW addr") permanent_mac(member, lower(value), source);
    return true;
  }

 private:
  /// The words of bond_mode_name(), drivers/net/bonding/bond_main.c.
  static std::string mode_of(const std::string& text) {
    for (const auto& [words, mode] :
         {std::pair{"IEEE 802.3ad", "802.3ad"}, std::pair{"fault-tolerance (active-backup)", "active-backup"},
          std::pair{"load balancing (xor)", "balance-xor"}, std::pair{"load balancing (round-robin)", "balance-rr"},
          std::pair{"fault-tolerance (broadcast)", "broadcast"}, std::pair{"transmit load", "balance-tlb"},
          std::pair{"adaptive load", "balance-alb"}}) {
      if (text.rfind(words, 0) == 0) return mode;
    }
    return "";
  }

  /// The members of a bond all report one address, the bond's; LLDP and labels have their own.
  static void permanent_mac(NicFacts& member, const std::string& mac, const std::string& source) {
    if (!member.mac.known()) member.mac.offer(mac, source, Origin::kConfigured);
  }

  HostFacts& host_;
  std::string bond_, member_;
  int number_ = 0;
};

/// 0000:01:00.0 Ethernet controller: Mellanox ...; behind it indented "LnkSta: Speed 32GT/s, Width x4 (downgraded)".
class PciLines : public LineReader {
 public:
  explicit PciLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    const bool is_indented = line[0] == ' ' || line[0] == '\t';
    if (!is_indented) {
      const std::string pci = pci_address(words[0]);
      at_.clear();
      if (pci.empty() || words.size() < 2) return false;
      return take_head(pci, line, source);
    }
    if (at_.empty()) return false;
    if (words[0] == "LnkCap:" || words[0] == "LnkSta:") take_link(words, words[0] == "LnkCap:", source);
    if (words[0] == "ACSCtl:" && line.find("SrcValid+") != std::string::npos) {
      Fact<std::string>& acs = host_.others["acs"];
      acs.value += (acs.value.empty() ? "" : " ") + at_;
      if (acs.source.empty()) acs.source = source;
    }
    return true;
  }

  void end_block() override { at_.clear(); }

 private:
  bool take_head(const std::string& pci, const std::string& line, const std::string& source) {
    const bool is_nic = line.find("Ethernet controller") != std::string::npos ||
                        line.find("Infiniband controller") != std::string::npos ||
                        line.find("InfiniBand controller") != std::string::npos;
    const bool is_gpu = (line.find("3D controller") != std::string::npos ||
                         line.find("VGA compatible controller") != std::string::npos) &&
                        line.find("NVIDIA") != std::string::npos;
    const bool is_bridge = line.find("PCI bridge") != std::string::npos;
    if (!is_nic && !is_gpu && !is_bridge) return false;
    at_ = pci;
    if (is_nic) host_.pci[pci].source = source;
    if (!is_gpu) return true;
    const auto known = std::find_if(host_.gpus.begin(), host_.gpus.end(),
                                    [&](const GpuFacts& gpu) { return gpu.pci_address.value == pci; });
    if (known != host_.gpus.end()) return true;
    const std::size_t open = line.rfind('['), close = line.rfind(']');
    GpuFacts gpu;
    gpu.pci_address.offer(pci, source);
    if (open != std::string::npos && close != std::string::npos && close > open) {
      gpu.model.offer(line.substr(open + 1, close - open - 1), source, Origin::kConfigured);
    }
    host_.gpus.push_back(gpu);
    return true;
  }

  void take_link(const std::vector<std::string>& words, bool is_most, const std::string& source) {
    PciFacts& pci = host_.pci[at_];
    for (std::size_t word = 1; word + 1 < words.size(); ++word) {
      if (words[word] == "Speed") {
        const int generation = pcie_generation(number_of(words[word + 1]));
        if (generation > 0) (is_most ? pci.generation_most : pci.generation).offer(generation, source);
      }
      if (words[word] == "Width" && words[word + 1].size() > 1) {
        const std::string digits = words[word + 1].substr(1);
        const auto lanes = parse_digits(digits.substr(0, digits.find_first_not_of("0123456789")), 32);
        if (lanes && *lanes > 0) (is_most ? pci.lanes_most : pci.lanes).offer(static_cast<int>(*lanes), source);
      }
    }
  }

  HostFacts& host_;
  std::string at_;
};

/// Interface:    eth0, via: LLDP, ...; behind it "SysName:      leaf1", "PortID:       ifname Ethernet1".
class LldpLines : public LineReader {
 public:
  explicit LldpLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (words[0] == "Interface:" && words.size() > 3 && words[2] == "via:") {
      netdev_ = words[1].substr(0, words[1].find(','));
      host_.by_netdev(netdev_, source).lldp.push_back({"", "", "", source});
      return true;
    }
    if (netdev_.empty()) return false;
    if (line[0] == '-') {
      netdev_.clear();
      return true;
    }
    if (line[0] != ' ' && line[0] != '\t') return false;
    LldpFact& fact = host_.by_netdev(netdev_, source).lldp.back();
    if (words[0] == "SysName:") fact.system = behind_colon(line);
    if (words[0] == "PortID:" && words.size() > 2) {
      if (words[1] == "mac") fact.mac = lower(words[2]);
      if (fact.port.empty()) fact.port = words[2];
    }
    if (words[0] == "PortDescr:" && !fact.mac.empty()) fact.port = behind_colon(line);
    return true;
  }

  void end_block() override { netdev_.clear(); }

 private:
  HostFacts& host_;
  std::string netdev_;
};

/// collect's listings: "net NETDEV KEY VALUE", "rdma DEVICE KEY VALUE", "pci ADDRESS KEY VALUE", "module NAME VERSION".
class SysLines : public LineReader {
 public:
  explicit SysLines(HostFacts& host) : host_(host) {}

  bool take(const std::string&, const std::vector<std::string>& words, const std::string& source) override {
    if (words[0] == "module" && words.size() == 3) {
      host_.others[words[1]].offer(words[2], source);
      return true;
    }
    if (words.size() < 4) return false;
    if (words[0] == "net") return take_net(words, source);
    if (words[0] == "rdma") return take_rdma(words, source);
    if (words[0] != "pci") return false;
    const std::string address = pci_address(words[1]);
    if (address.empty()) return false;
    PciFacts& pci = host_.pci[address];
    if (pci.source.empty()) pci.source = source;
    const bool is_most = words[2].rfind("max_", 0) == 0;
    if (words[2].find("link_speed") != std::string::npos) {
      const int generation = pcie_generation(number_of(words[3]));
      if (generation > 0) (is_most ? pci.generation_most : pci.generation).offer(generation, source);
    }
    const auto lanes = parse_digits(words[3], 32);
    if (words[2].find("link_width") != std::string::npos && lanes && *lanes > 0) {
      (is_most ? pci.lanes_most : pci.lanes).offer(static_cast<int>(*lanes), source);
    }
    return true;
  }

 private:
  bool take_net(const std::vector<std::string>& words, const std::string& source) {
    const std::string &key = words[2], &value = words[3];
    NicFacts& nic = host_.by_netdev(words[1], source);
    if (key == "address") nic.mac.offer(lower(value), source);
    if (key == "operstate" && (value == "up" || value == "down")) nic.link_up.offer(value == "up", source);
    if (key == "speed") offer_mbps(nic, value, source);
    if (key == "pci" && !pci_address(value).empty()) nic.pci_address.offer(pci_address(value), source);
    if (key == "kind" && nic.kind.empty()) nic.kind = value;
    if (key == "master" && nic.master.empty()) nic.master = value;
    if (key.rfind("bond_", 0) == 0) take_bond_option(nic, key, value, source);
    if (key == "mtu") {
      if (const auto mtu = parse_digits(value, 1U << 20U)) {
        nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
      }
    }
    return true;
  }

  bool take_rdma(const std::vector<std::string>& words, const std::string& source) {
    const std::string &device = words[1], &key = words[2], &value = words[3];
    if (key == "netdev") {
      host_.join(device, value, source);
      return true;
    }
    NicFacts& nic = host_.by_device(device, source);
    if (key == "pci" && !pci_address(value).empty()) nic.pci_address.offer(pci_address(value), source);
    if (key == "node_guid") nic.node_guid.offer(lower(value), source);
    if (key == "sys_image_guid") nic.image_guid.offer(lower(value), source);
    if (key == "link_layer") nic.link_layer.offer(value, source);
    if (key == "state" && words.size() > 4) nic.link_up.offer(words[4] == "ACTIVE", source);  // 4: ACTIVE
    if (key == "rate") {                                                                      // 200 Gb/sec (4X HDR)
      const double gigabits = number_of(value);
      if (gigabits > 0) nic.rate_bps.offer(static_cast<std::uint64_t>(gigabits * 1000) * 1'000'000, source);
    }
    return true;
  }

  HostFacts& host_;
};

/// NCCL_IB_HCA=mlx5_0,mlx5_1, of env, /etc/nccl.conf or a script's export.
class VariableLines : public LineReader {
 public:
  explicit VariableLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    const std::string& first = words[0] == "export" && words.size() > 1 ? words[1] : words[0];
    const std::size_t sign = first.find('=');
    if (first.rfind("NCCL_", 0) != 0 || sign == std::string::npos || sign > 64) return false;
    const std::string name = first.substr(0, sign);
    if (name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != std::string::npos) return false;
    std::string value = line.substr(line.find(first) + sign + 1);
    if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    const auto known = std::find_if(host_.environment.begin(), host_.environment.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (known == host_.environment.end()) {
      host_.environment.emplace_back(name, Fact<std::string>{});
      host_.environment.back().second.offer(value, source);
    } else {
      known->second.offer(value, source);
    }
    return true;
  }

 private:
  HostFacts& host_;
};

}  // namespace

std::vector<std::unique_ptr<LineReader>> machine_readers(HostFacts& host) {
  std::vector<std::unique_ptr<LineReader>> readers;
  readers.push_back(std::make_unique<VariableLines>(host));
  readers.push_back(std::make_unique<SysLines>(host));
  readers.push_back(std::make_unique<EthtoolLines>(host));
  readers.push_back(std::make_unique<BondLines>(host));
  readers.push_back(std::make_unique<LldpLines>(host));
  readers.push_back(std::make_unique<PciLines>(host));
  return readers;
}

}  // namespace meshbed::testbed::hosts
