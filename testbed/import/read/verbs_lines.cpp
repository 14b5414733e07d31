// Lines of ibv_devinfo -v, show_gids, ibdev2netdev and rdma link.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

std::string without_colon(std::string word) {
  if (!word.empty() && word.back() == ':') word.pop_back();
  return word;
}

/// "v1", "v2", "IB", of "RoCE v2", "v2", "IB/RoCE v1"; empty: it is none of them.
std::string gid_type(const std::string& text) {
  const std::string small = lower(text);
  if (small.find("v2") != std::string::npos) return "v2";
  if (small.find("v1") != std::string::npos) return "v1";
  return small == "ib" ? "IB" : "";
}

void take_gid(NicFacts& nic, std::uint32_t index, const std::string& type, const std::string& text,
              const std::string& source) {
  const auto gid = parse_gid(text);
  if (!gid || *gid == models::RawGid{}) return;  // an empty place of the table
  nic.add_gid({index, type, *gid, source});
}

/// Megabits a second of a lane, of "25.0 Gbps (32)" and "14.0 Gbps (16)"; 0: not known.
double lane_mbps(const std::vector<std::string>& words) {
  if (words.size() < 3 || words[2] != "Gbps") return 0;
  char* end = nullptr;
  const double rate = std::strtod(words[1].c_str(), &end);
  return rate > 0 && rate < 1000 ? rate * 1000 : 0;
}

/// The ports of the RDMA device whose lines are read. A scenario's NIC has one port: the first one that is up, and port
/// 1 where none is. The others are listed as left out.
class DevicePorts {
 public:
  explicit DevicePorts(HostFacts& host) : host_(host) {}

  const std::string& device() const { return device_; }
  NicFacts& nic(const std::string& source) { return host_.by_device(device_, source); }
  /// What is known of the port whose lines are read.
  NicFacts& port(const std::string& source) {
    Port& current = ports_[number_];
    if (current.source.empty()) current.source = source;
    return current.facts;
  }

  void begin(const std::string& device, const std::string& source) {
    if (device != device_) end();
    device_ = device;
    number_ = 1;
    if (!device_.empty()) nic(source);
  }
  void begin_port(int number, const std::string& source) {
    number_ = number;
    port(source).rdma_port.offer(number, source);
  }

  void end() {
    if (!device_.empty() && !ports_.empty()) take_ports();
    device_.clear();
    ports_.clear();
  }

 private:
  struct Port {
    NicFacts facts;
    std::string source;
  };

  void take_ports() {
    auto chosen = std::find_if(ports_.begin(), ports_.end(),
                               [](const auto& each) { return each.second.facts.link_up.value_or(false); });
    if (chosen == ports_.end()) chosen = ports_.begin();
    host_.by_device(device_, chosen->second.source).merge(chosen->second.facts);
    for (const auto& [number, other] : ports_) {
      if (number == chosen->first) continue;
      host_.leave_out({fmt::format("{} port {}", device_, number),
                       fmt::format("is beside port {}, and a NIC has one port", chosen->first), other.source});
    }
  }

  HostFacts& host_;
  std::string device_;
  int number_ = 1;
  std::map<int, Port> ports_;
};

/// hca_id: mlx5_0, and behind it indented lines "node_guid: b83f:d203:0012:3456".
class DeviceLines : public LineReader {
 public:
  explicit DeviceLines(HostFacts& host) : ports_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (words[0] == "hca_id:" && words.size() > 1) {
      ports_.begin(words[1], source);
      lanes_ = 0;
      return true;
    }
    if (ports_.device().empty()) return false;
    if (line[0] != ' ' && line[0] != '\t') {
      ports_.end();
      return false;
    }
    const std::string key = without_colon(words[0]);
    if (key == "port" && words.size() > 1) {
      ports_.begin_port(static_cast<int>(parse_digits(words[1], 255).value_or(1)), source);
      lanes_ = 0;
    }
    return take_key(key, words, source);
  }

  void end_block() override { ports_.end(); }

 private:
  bool take_key(const std::string& key, const std::vector<std::string>& words, const std::string& source) {
    if (key.rfind("GID[", 0) == 0) return take_gid_line(ports_.port(source), words, source);
    if (words.size() < 2) return true;
    const std::string& value = words[1];
    if (key == "node_guid") ports_.nic(source).node_guid.offer(lower(value), source);
    if (key == "sys_image_guid") ports_.nic(source).image_guid.offer(lower(value), source);
    NicFacts& port = ports_.port(source);
    if (key == "state") port.link_up.offer(value == "PORT_ACTIVE", source);
    if (key == "link_layer" && value != "Unspecified") port.link_layer.offer(value, source);
    if (key == "active_mtu") {
      if (const auto mtu = parse_digits(value, 65536)) {
        port.active_mtu_bytes.offer(static_cast<std::uint32_t>(*mtu), source);
      }
    }
    if (key == "active_width" && value.back() == 'X') {
      lanes_ = static_cast<int>(parse_digits(value.substr(0, value.size() - 1), 12).value_or(0));
    }
    const double mbps = key == "active_speed" ? lane_mbps(words) : 0;
    if (mbps > 0 && lanes_ > 0) port.rate_bps.offer(static_cast<std::uint64_t>(mbps * lanes_) * 1'000'000, source);
    return true;
  }

  /// GID[  3]: 0000:...:ffff:c0a8:6401, RoCE v2 (the number may stand apart).
  static bool take_gid_line(NicFacts& nic, const std::vector<std::string>& words, const std::string& source) {
    std::string all;
    for (const std::string& word : words) all += word + " ";
    const std::size_t close = all.find(']'), comma = all.find(',');
    if (close == std::string::npos || close < 4) return true;
    std::string number = all.substr(4, close - 4);
    number.erase(std::remove(number.begin(), number.end(), ' '), number.end());
    const auto index = parse_digits(number, 1U << 16U);
    const std::size_t colon = all[close + 1] == ':' ? close + 2 : close + 1;  // "]:", and no colon of "::ffff:..."
    const std::size_t start = all.find_first_not_of(' ', colon);
    if (!index || start == std::string::npos) return true;
    const std::string gid = all.substr(start, all.find_first_of(", ", start) - start);
    take_gid(nic, static_cast<std::uint32_t>(*index), comma == std::string::npos ? "" : gid_type(all.substr(comma)),
             gid, source);
    return true;
  }

  DevicePorts ports_;
  int lanes_ = 0;  // of the port
};

/// Infiniband device 'mlx5_0' port 1 status: and behind it indented lines "rate: 100 Gb/sec (4X EDR)" (ibstatus).
class IbstatusLines : public LineReader {
 public:
  explicit IbstatusLines(HostFacts& host) : ports_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (words.size() == 6 && words[0] == "Infiniband" && words[1] == "device" && words[3] == "port") {
      if (words[2].size() > 2) ports_.begin(words[2].substr(1, words[2].size() - 2), source);
      ports_.begin_port(static_cast<int>(parse_digits(words[4], 255).value_or(1)), source);
      return true;
    }
    if (ports_.device().empty() || (line[0] != ' ' && line[0] != '\t')) return false;
    NicFacts& port = ports_.port(source);
    if (words[0] == "state:" && words.size() > 2) port.link_up.offer(words[2] == "ACTIVE", source);  // 4: ACTIVE
    if (words[0] == "link_layer:" && words.size() > 1) port.link_layer.offer(words[1], source);
    if (words[0] == "rate:" && words.size() > 1) {
      const double gigabits = std::strtod(words[1].c_str(), nullptr);
      if (gigabits > 0 && gigabits < 1e4) {
        port.rate_bps.offer(static_cast<std::uint64_t>(gigabits * 1000) * 1'000'000, source);
      }
    }
    return true;
  }

  void end_block() override { ports_.end(); }

 private:
  DevicePorts ports_;
};

/// CA 'mlx5_0', and behind it indented lines "Port 1:", "Rate: 100", "Node GUID: 0x248a070300b1bc04" (ibstat).
class IbstatLines : public LineReader {
 public:
  explicit IbstatLines(HostFacts& host) : ports_(host) {}

  bool take(const std::string& line, const std::vector<std::string>& words, const std::string& source) override {
    if (words[0] == "CA" && words.size() == 2 && words[1].size() > 2 && words[1].front() == '\'') {
      ports_.begin(words[1].substr(1, words[1].size() - 2), source);
      return true;
    }
    if (ports_.device().empty() || (line[0] != ' ' && line[0] != '\t')) {
      ports_.end();
      return false;
    }
    const std::string& value = words.back();
    if (words[0] == "Port" && words.size() == 2) {
      ports_.begin_port(static_cast<int>(parse_digits(without_colon(value), 255).value_or(1)), source);
      return true;
    }
    NicFacts& port = ports_.port(source);
    if (words[0] == "State:") port.link_up.offer(value == "Active", source);
    if (words[0] == "Rate:") {
      if (const auto gigabits = parse_digits(value, 10'000); gigabits && *gigabits > 0) {
        port.rate_bps.offer(*gigabits * 1'000'000'000, source);
      }
    }
    if (words.size() != 3 && words.size() != 4) return true;
    if (words[1] == "GUID:" && words[0] == "Node") ports_.nic(source).node_guid.offer(lower(value), source);
    if (words[1] == "image") ports_.nic(source).image_guid.offer(lower(value), source);
    if (words[1] == "layer:") port.link_layer.offer(value, source);
    return true;
  }

  void end_block() override { ports_.end(); }

 private:
  DevicePorts ports_;
};

/// show_gids: DEV PORT INDEX GID [IPv4] VER [NETDEV].
class GidLines : public LineReader {
 public:
  explicit GidLines(HostFacts& host) : host_(host) {}

  bool take(const std::string&, const std::vector<std::string>& words, const std::string& source) override {
    if (words[0] == "DEV" && words.size() > 3 && words[2] == "INDEX") return true;
    if (words.size() < 4 || words.size() > 8) return false;
    const auto port = parse_digits(words[1], 255), index = parse_digits(words[2], 1U << 16U);
    if (!port || !index || words[3].size() < 6 || !parse_gid(words[3])) return false;
    std::size_t at = 4;
    if (at < words.size() && parse_ip_address(words[at])) ++at;
    std::string type = at < words.size() ? gid_type(words[at]) : "";
    if (type.empty() && at + 1 < words.size() && words[at] == "RoCE") type = gid_type(words[++at]);
    if (!type.empty()) ++at;
    const std::string netdev = at < words.size() ? words[at] : "";
    // A VLAN interface's entries name it, and it has no device of its own.
    const bool is_own = !netdev.empty() && netdev.find('.') == std::string::npos;
    if (*port != 1) return true;
    NicFacts& nic = is_own ? host_.join(words[0], netdev, source) : host_.by_device(words[0], source);
    take_gid(nic, static_cast<std::uint32_t>(*index), type, words[3], source);
    return true;
  }

 private:
  HostFacts& host_;
};

/// ibdev2netdev [-v]: [PCI] mlx5_0 ... port 1 ==> ens1f0np0 (Up). rdma link: link mlx5_0/1 state ACTIVE ... netdev
/// NAME.
class NameLines : public LineReader {
 public:
  explicit NameLines(HostFacts& host) : host_(host) {}

  bool take(const std::string&, const std::vector<std::string>& words, const std::string& source) override {
    const auto arrow = std::find(words.begin(), words.end(), "==>");
    if (arrow != words.end() && arrow + 1 != words.end()) return take_pair(words, arrow, source);
    const std::size_t at = words[0] == "link" ? 1 : words.size() > 1 && words[0].back() == ':' ? 1 : 0;
    if (at == 0 || words.size() < 4 || words[at].find('/') == std::string::npos || words[2] != "state") return false;
    const std::string device = words[at].substr(0, words[at].find('/'));
    const auto netdev = std::find(words.begin(), words.end(), "netdev");
    const bool has_netdev = netdev != words.end() && netdev + 1 != words.end();
    NicFacts& nic = has_netdev ? host_.join(device, *(netdev + 1), source) : host_.by_device(device, source);
    nic.link_up.offer(words[3] == "ACTIVE", source);
    return true;
  }

 private:
  bool take_pair(const std::vector<std::string>& words, std::vector<std::string>::const_iterator arrow,
                 const std::string& source) {
    const std::string pci = pci_address(words[0]);
    const std::string& device = pci.empty() ? words[0] : words[1];
    NicFacts& nic = host_.join(device, *(arrow + 1), source);
    if (!pci.empty()) nic.pci_address.offer(pci, source);
    const std::string state = arrow + 2 != words.end() ? lower(*(arrow + 2)) : "";
    if (state == "(up)" || state == "(down)") nic.link_up.offer(state == "(up)", source);
    return true;
  }

  HostFacts& host_;
};

}  // namespace

std::vector<std::unique_ptr<LineReader>> verbs_readers(HostFacts& host) {
  std::vector<std::unique_ptr<LineReader>> readers;
  readers.push_back(std::make_unique<GidLines>(host));
  readers.push_back(std::make_unique<NameLines>(host));
  readers.push_back(std::make_unique<DeviceLines>(host));
  readers.push_back(std::make_unique<IbstatusLines>(host));
  readers.push_back(std::make_unique<IbstatLines>(host));
  return readers;
}

}  // namespace meshbed::testbed::hosts
