// Lines of `ip addr`, `ip link`, `ip route` and `ip neigh`, also with -o, of `ifconfig`, and of scripts that call `ip`.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

/// The word behind this one; empty: there is none.
std::string behind(const std::vector<std::string>& words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  return found == words.end() || found + 1 == words.end() ? "" : *(found + 1);
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// "2:" and the like.
bool is_index(const std::string& word) {
  return word.size() > 1 && word.back() == ':' && parse_digits(word.substr(0, word.size() - 1), 1U << 30U).has_value();
}

void take_address(NicFacts& nic, const std::vector<std::string>& words, std::size_t at, const std::string& source) {
  if (at + 1 >= words.size()) return;
  std::string address = words[at + 1];
  if (address.find('/') == std::string::npos) address += words[at] == "inet" ? "/32" : "/128";
  add_address(nic, address, source, has(words, "dynamic"));
}

/// 2: enp1s0f0np0: <BROADCAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000
///     link/ether 4c:bb:47:2b:01:02 brd ff:ff:ff:ff:ff:ff
///     inet 192.168.100.1/24 brd 192.168.100.255 scope global enp1s0f0np0
class AddressLines : public LineReader {
 public:
  explicit AddressLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (is_index(words[0])) return take_head(words, source);
    const bool is_indented = line[0] == ' ' || line[0] == '\t';
    if (!is_indented) netdev_.clear();
    if (netdev_.empty() || !is_indented) return false;
    NicFacts& nic = host_.by_netdev(netdev_, source);
    if (words[0] == "inet" || words[0] == "inet6") {
      take_address(nic, words, 0, source);
      return true;
    }
    if (words[0].rfind("link/", 0) == 0) {
      take_hardware(nic, words, 0, source);
      return true;
    }
    if (words[0] == "vlan") {
      nic.kind = "vlan";
      if (const auto id = parse_digits(behind(words, "id"), 4094)) nic.vlan.offer(static_cast<int>(*id), source);
      return true;
    }
    if (words[0] == "bond") {
      for (std::size_t at = 1; at + 1 < words.size(); ++at) take_bond_option(nic, words[at], words[at + 1], source);
    }
    for (const char* kind : {"bridge", "bond", "veth", "tun", "vxlan", "dummy", "macvlan", "ipvlan", "wireguard"}) {
      if (words[0] == kind) nic.kind = kind;
    }
    return true;
  }

  void end_block() override { netdev_.clear(); }

 private:
  bool take_head(const std::vector<std::string>& words, const std::string& source) {
    netdev_.clear();
    if (words.size() < 3) return false;
    const bool is_one_line = words[2] == "inet" || words[2] == "inet6";  // ip -o addr
    std::string name = words[1];
    if (!is_one_line) {
      if (name.back() != ':' || words[2].front() != '<') return false;
      name.pop_back();
    }
    if (name.empty()) return false;
    const std::size_t mark = name.find('@');
    const std::string below = mark == std::string::npos ? "" : name.substr(mark + 1);
    name.resize(std::min(mark, name.size()));
    NicFacts& nic = host_.by_netdev(name, source);
    if (is_one_line) {
      take_address(nic, words, 2, source);
      return true;
    }
    netdev_ = name;
    if (!below.empty()) {
      nic.parent = below;
      if (nic.kind.empty()) nic.kind = below.rfind("if", 0) == 0 ? "veth" : "vlan";
      const std::size_t dot = name.rfind('.');
      const auto id = parse_digits(dot == std::string::npos ? "" : name.substr(dot + 1), 4094);
      if (nic.kind == "vlan" && id) nic.vlan.offer(static_cast<int>(*id), source);
    }
    if (words[2].find("LOOPBACK") != std::string::npos) nic.kind = "loopback";
    if (words[2].find("MASTER") != std::string::npos) nic.kind = "bond";
    if (const auto mtu = parse_digits(behind(words, "mtu"), 1U << 20U)) {
      nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
    }
    const std::string state = behind(words, "state"), master = behind(words, "master");
    if (state == "UP" || state == "DOWN") {
      nic.link_up.offer(state == "UP", source);
    } else if (words[2].find("NO-CARRIER") != std::string::npos) {
      nic.link_up.offer(false, source);
    }
    if (!master.empty()) nic.master = master;
    const auto hardware =
        std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.rfind("link/", 0) == 0; });
    if (hardware != words.end()) take_hardware(nic, words, static_cast<std::size_t>(hardware - words.begin()), source);
    return true;
  }

  static void take_hardware(NicFacts& nic, const std::vector<std::string>& words, std::size_t at,
                            const std::string& source) {
    if (words[at] == "link/loopback") nic.kind = "loopback";
    if (words[at] == "link/infiniband") nic.link_layer.offer("InfiniBand", source);
    if (words[at] == "link/none") nic.kind = "tun";
    if (at + 1 < words.size()) nic.mac.offer(lower(words[at + 1]), source);
  }

  HostFacts& host_;
  std::string netdev_;  // that the indented lines belong to
};

/// enp1s0f0np0  UP  192.168.100.1/24 fe80::1/64 (ip -br addr), or with its MAC address and flags (ip -br link).
class BriefLines : public LineReader {
 public:
  explicit BriefLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    const bool has_state = words.size() > 1 && (words[1] == "UP" || words[1] == "DOWN" || words[1] == "UNKNOWN");
    if (!has_state || line[0] == ' ' || line[0] == '\t') return false;
    const bool has_address = words.size() > 2 && parse_prefix(words[2]).has_value();
    const bool has_mac = words.size() > 3 && words[2].size() == 17 && words[3].front() == '<';
    if (words.size() > 2 && !has_address && !has_mac) return false;
    const std::string name = words[0].substr(0, words[0].find('@'));
    if (name.empty()) return false;
    NicFacts& nic = host_.by_netdev(name, source);
    if (words[1] != "UNKNOWN") nic.link_up.offer(words[1] == "UP", source);
    if (has_mac) nic.mac.offer(lower(words[2]), source);
    for (std::size_t at = 2; has_address && at < words.size(); ++at) add_address(nic, words[at], source);
    return true;
  }

 private:
  HostFacts& host_;
};

/// eth2: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 9000 (ifconfig of net-tools 2), and behind it indented
/// "inet 192.168.100.1  netmask 255.255.255.0" and "ether 0c:c4:7a:73:1a:b8". Of net-tools 1: "eth2  Link
/// encap:Ethernet HWaddr 0C:C4:7A:73:1A:B8", and behind it "inet addr:192.168.100.1  Bcast:...  Mask:255.255.255.0" and
/// "UP BROADCAST RUNNING  MTU:9000".
class IfconfigLines : public LineReader {
 public:
  explicit IfconfigLines(HostFacts& host) : host_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    const bool is_indented = line[0] == ' ' || line[0] == '\t';
    if (!is_indented) {
      netdev_.clear();
      const bool is_head = words.size() > 3 && words[0].size() > 1 && words[0].back() == ':' &&
                           words[1].rfind("flags=", 0) == 0 && words[2] == "mtu";
      return is_head ? take_head(words, source) : take_old_head(words, source);
    }
    if (netdev_.empty() || words.size() < 2) return false;
    NicFacts& nic = host_.by_netdev(netdev_, source);
    if (is_old_) return take_old(nic, words, source);
    if (words[0] == "ether") nic.mac.offer(lower(words[1]), source);
    const std::string prefix = behind(words, "prefixlen");
    if (words[0] == "inet6" && !prefix.empty()) add_address(nic, words[1] + "/" + prefix, source);
    const auto length = prefix_length(behind(words, "netmask"));
    if (words[0] == "inet" && length) add_address(nic, fmt::format("{}/{}", words[1], *length), source);
    return true;
  }

  void end_block() override { netdev_.clear(); }

 private:
  bool take_old_head(const std::vector<std::string>& words, const std::string& source) {
    if (words.size() < 3 || words[1] != "Link" || words[2].rfind("encap:", 0) != 0) return false;
    is_old_ = true;
    netdev_ = words[0].substr(0, words[0].find(':'));
    if (netdev_.empty()) return false;
    NicFacts& nic = host_.by_netdev(netdev_, source);
    if (const std::string mac = lower(behind(words, "HWaddr")); mac.size() == 17) nic.mac.offer(mac, source);
    if (words[2] == "encap:Local") nic.kind = "loopback";
    return true;
  }

  static bool take_old(NicFacts& nic, const std::vector<std::string>& words, const std::string& source) {
    const auto value_of = [&](const std::string& key) {
      for (const std::string& word : words) {
        if (word.rfind(key, 0) == 0) return word.substr(key.size());
      }
      return std::string();
    };
    const auto length = prefix_length(value_of("Mask:"));
    if (words[0] == "inet" && length) add_address(nic, fmt::format("{}/{}", value_of("addr:"), *length), source);
    if (words[0] == "inet6" && words.size() > 2 && words[1] == "addr:") add_address(nic, words[2], source);
    if (const auto mtu = parse_digits(value_of("MTU:"), 1U << 20U)) {
      nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
      nic.link_up.offer(has(words, "RUNNING"), source);
    }
    return true;
  }

  bool take_head(const std::vector<std::string>& words, const std::string& source) {
    is_old_ = false;
    netdev_ = words[0].substr(0, words[0].size() - 1);
    const std::size_t alias = netdev_.find(':');  // eth0:1, a second address
    netdev_.resize(std::min(alias, netdev_.size()));
    if (netdev_.empty()) return false;
    NicFacts& nic = host_.by_netdev(netdev_, source);
    if (const auto mtu = parse_digits(words[3], 1U << 20U)) {
      nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
    }
    const std::string& flags = words[1];
    if (alias == std::string::npos) nic.link_up.offer(flags.find("RUNNING") != std::string::npos, source);
    if (flags.find("LOOPBACK") != std::string::npos) nic.kind = "loopback";
    if (flags.find("MASTER") != std::string::npos) nic.kind = "bond";
    return true;
  }

  /// 255.255.252.0 is 22; nullopt: it is no mask.
  static std::optional<int> prefix_length(const std::string& mask) {
    const auto address = parse_ip_address(mask);
    if (!address || address->family != Family::kIpv4) return std::nullopt;
    int length = 0;
    for (std::size_t bit = 0; bit < 32; ++bit) {
      const bool is_set = (address->bytes[bit / 8] >> (7 - bit % 8) & 1U) != 0;
      if (is_set && length != static_cast<int>(bit)) return std::nullopt;
      if (is_set) ++length;
    }
    return length;
  }

  HostFacts& host_;
  std::string netdev_;
  bool is_old_ = false;  // net-tools 1
};

/// default via 10.0.0.1 dev enP7s7 proto dhcp metric 100
/// 192.168.100.2 dev enp1s0f0np0 lladdr 4c:bb:47:2b:01:03 REACHABLE
class RouteLines : public LineReader {
 public:
  explicit RouteLines(HostFacts& host) : host_(host) {}

  bool take(const std::string&, const std::vector<std::string>& words, const std::string& source) override {
    const std::string dev = behind(words, "dev");
    if (dev.empty()) return false;
    if (words[0] == "default") {
      host_.take_route(dev, "default", behind(words, "via"), source, Origin::kObserved);
      if (has(words, "dhcp")) host_.by_netdev(dev, source).dhcp = source;
      return true;
    }
    const std::string mac = behind(words, "lladdr");
    const auto address = parse_ip_address(words[0]);
    if (mac.empty() || !address) return parse_prefix(words[0]).has_value();  // a route to a subnet
    if (!has(words, "FAILED")) host_.by_netdev(dev, source).neighbours.push_back({*address, lower(mac), source});
    return true;
  }

 private:
  HostFacts& host_;
};

/// ip address add 192.168.100.1/24 dev enp1s0f0np0
/// ip link set dev enp1s0f0np0 mtu 9000 up
class CommandLines : public LineReader {
 public:
  explicit CommandLines(HostFacts& host) : host_(host) {}

  bool take(const std::string&, const std::vector<std::string>& said, const std::string& source) override {
    std::vector<std::string> words = said;
    if (words[0] == "sudo") words.erase(words.begin());
    if (words.size() < 4 || (words[0] != "ip" && words[0] != "/sbin/ip")) return false;
    words.erase(std::remove_if(words.begin(), words.end(), [](const std::string& word) { return word[0] == '-'; }),
                words.end());
    if (words.size() < 4) return false;
    const std::string object = words[1], action = words[2], dev = behind(words, "dev");
    const std::string_view all[] = {"address", "addr", "a"};
    if (std::find(std::begin(all), std::end(all), object) != std::end(all)) return take_address_of(words, source);
    if (object == "route" && (action == "add" || action == "replace") && !dev.empty()) {
      host_.take_route(dev, words[3], behind(words, "via"), source, Origin::kConfigured);
      return true;
    }
    if (object != "link" && object != "l") return false;
    if (action == "add") return behind(words, "type") == "vlan" ? take_vlan(words, source) : take_upper(words, source);
    if (action != "set") return false;
    NicFacts& nic = host_.by_netdev(dev.empty() ? words[3] : dev, source, Origin::kConfigured);
    if (const auto mtu = parse_digits(behind(words, "mtu"), 1U << 20U)) {
      nic.mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source, Origin::kConfigured);
    }
    if (const std::string above = behind(words, "master"); !above.empty()) {
      nic.master = above;  // bonding takes only what is down, and sets it up itself
      nic.link_up = {};
    } else if (has(words, "down")) {
      nic.link_up.offer(false, source, Origin::kConfigured);
    }
    if (behind(words, "type") == "bond") take_options(nic, words, source);
    return true;
  }

 private:
  static void take_options(NicFacts& bond, const std::vector<std::string>& words, const std::string& source) {
    for (std::size_t at = 0; at + 1 < words.size(); ++at) {
      if (words[at] != "type") take_bond_option(bond, words[at], words[at + 1], source, Origin::kConfigured);
    }
  }

  /// ip link add bond0 type bond mode 802.3ad miimon 100
  bool take_upper(const std::vector<std::string>& words, const std::string& source) {
    const std::string kind = behind(words, "type"), named = behind(words, "name");
    const std::string name = named.empty() ? words[3] : named;
    if (kind != "bond" && kind != "bridge") return false;
    NicFacts& nic = host_.by_netdev(name == "dev" && words.size() > 4 ? words[4] : name, source, Origin::kConfigured);
    nic.kind = kind;
    if (kind != "bond") return true;
    take_options(nic, words, source);
    take_bond_default(nic, source);
    return true;
  }

  bool take_address_of(const std::vector<std::string>& words, const std::string& source) {
    const std::string dev = behind(words, "dev");
    if ((words[2] != "add" && words[2] != "replace") || dev.empty()) return false;
    add_address(host_.by_netdev(dev, source, Origin::kConfigured), words[3], source);
    return true;
  }

  /// ip link add link enp1s0f0np0 name enp1s0f0np0.100 type vlan id 100
  bool take_vlan(const std::vector<std::string>& words, const std::string& source) {
    const std::string name = behind(words, "name");
    if (behind(words, "type") != "vlan" || name.empty()) return false;
    NicFacts& nic = host_.by_netdev(name, source, Origin::kConfigured);
    nic.kind = "vlan";
    nic.parent = parent_in(words);
    if (const auto id = parse_digits(behind(words, "id"), 4094)) {
      nic.vlan.offer(static_cast<int>(*id), source, Origin::kConfigured);
    }
    return true;
  }

  /// "link" stands twice: ip link add link PARENT.
  static std::string parent_in(const std::vector<std::string>& words) {
    for (std::size_t at = 3; at + 1 < words.size(); ++at) {
      if (words[at] == "link") return words[at + 1];
    }
    return "";
  }

  HostFacts& host_;
};

}  // namespace

std::vector<std::unique_ptr<LineReader>> ip_readers(HostFacts& host) {
  std::vector<std::unique_ptr<LineReader>> readers;
  readers.push_back(std::make_unique<CommandLines>(host));
  readers.push_back(std::make_unique<AddressLines>(host));
  readers.push_back(std::make_unique<BriefLines>(host));
  readers.push_back(std::make_unique<IfconfigLines>(host));
  readers.push_back(std::make_unique<RouteLines>(host));
  return readers;
}

}  // namespace meshbed::testbed::hosts
