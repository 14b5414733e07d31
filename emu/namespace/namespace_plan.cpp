#include "emu/namespace/namespace_plan.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "emu/shell_quote.h"

namespace meshbed::emu {
namespace {

constexpr int kInPreference = 5, kOutPreference = 10, kLocalPreference = kNamespaceLocalPreference;
constexpr const char* kLooseFilter = "/proc/sys/net/ipv4/conf/all/rp_filter";
constexpr const char* kManagementBridge = "mbm";

std::string node_namespace(int node) { return fmt::format("mb{}", node); }
std::string host_end(const std::string& device) { return device + "s"; }  // a switch's port, a loose cable's far end

std::string family(const std::string& address) { return is_ipv6(address) ? "-6" : "-4"; }
std::string host_prefix(const std::string& address) {
  return address.substr(0, address.find('/')) + (is_ipv6(address) ? "/128" : "/32");
}
std::string remove_link(const std::string& device) {
  return fmt::format("[ ! -e /sys/class/net/{0} ] || ip link del {0}", device);
}

class NamespacePlanner {
 public:
  NamespacePlanner(const EmuCluster& cluster, const NamespaceOptions& options)
      : cluster_(cluster), options_(options), routed_(options.layout == NamespaceLayout::kPolicyRouting) {
    for (const EmuNode& node : cluster.nodes) {
      for (const EmuNic& nic : node.nics) {
        for (const std::string& address : nic.addresses) families_.insert(family(address));
      }
    }
  }

  NamespacePlan plan() {
    if (routed_) {
      allow_own_senders();
      for (const std::string& each : families_) move_local_table(each);
    } else {
      for (int node = 0; node < nodes(); ++node) add_namespace(node);
    }
    add_wires();
    for_each_nic([this](int node, int nic) { set_up_nic(node, nic); });
    if (routed_) {
      for (const std::string& each : families_) leave_local_table(each);
    }
    for_each_nic([this](int node, int nic) { add_rdma_device(node, nic); });
    add_management();
    for_each_nic([this](int node, int nic) { wait_for_nic(node, nic); });
    finish();
    return std::move(plan_);
  }

 private:
  int nodes() const { return static_cast<int>(cluster_.nodes.size()); }
  const EmuNic& nic_at(int node, int nic) const {
    return cluster_.nodes[static_cast<std::size_t>(node)].nics[static_cast<std::size_t>(nic)];
  }
  template <typename Visit>
  void for_each_nic(Visit visit) const {
    for (int node = 0; node < nodes(); ++node) {
      const int count = static_cast<int>(cluster_.nodes[static_cast<std::size_t>(node)].nics.size());
      for (int nic = 0; nic < count; ++nic) visit(node, nic);
    }
  }

  void add(const std::string& apply, const std::string& undo = "") { plan_.steps.push_back({apply, undo, false}); }
  void check(const std::string& text) { plan_.steps.push_back({text, "", true}); }
  /// `ip` where the node's devices are, and any other program there.
  std::string ip(int node) const { return routed_ ? "ip" : "ip -n " + node_namespace(node); }
  std::string in_node(int node) const { return routed_ ? "" : fmt::format("ip netns exec {} ", node_namespace(node)); }

  /// A sender with an address of ours would be taken for a forger. The strictest of "all" and a device's own value
  /// counts (Documentation/networking/ip-sysctl.rst), so "all" must give way; nothing else of the host's is loosened.
  void allow_own_senders() {
    const std::string saved = options_.folder + "/emu-rp_filter";
    add(fmt::format("cat {} >{}", kLooseFilter, saved),
        fmt::format("[ ! -e {0} ] || {{ cat {0} >{1} && rm {0}; }}", saved, kLooseFilter));
    add(fmt::format("echo 0 >{}", kLooseFilter));
  }

  void move_local_table(const std::string& of) {
    // Never without one of the two: the host would not know its own addresses.
    add(fmt::format("ip {} rule add pref {} lookup local", of, kLocalPreference),
        fmt::format("[ -z \"$(ip {0} rule show pref {1})\" ] || "
                    "{{ [ -n \"$(ip {0} rule show pref 0)\" ] && ip {0} rule del pref {1} lookup local; }}",
                    of, kLocalPreference));
  }

  void leave_local_table(const std::string& of) {
    add(fmt::format("ip {} rule del pref 0 lookup local", of),
        fmt::format("[ -n \"$(ip {0} rule show pref 0)\" ] || ip {0} rule add pref 0 protocol kernel lookup local",
                    of));
  }

  void add_namespace(int node) {
    const std::string name = node_namespace(node);
    plan_.namespaces.push_back(name);
    add("ip netns add " + name, fmt::format("[ ! -e /run/netns/{0} ] || ip netns del {0}", name));
    add(fmt::format("ip -n {} link set lo up", name));
  }

  std::string end_of_pair(int node, int nic) const {
    const EmuNic& one = nic_at(node, nic);
    return fmt::format("{} address {} mtu {}", namespace_device(node, nic), one.mac, one.mtu);
  }

  /// A pair whose other end stays with the host; down, or in a bridge.
  void add_pair_to_host(int node, int nic) {
    const std::string device = namespace_device(node, nic);
    plan_.links.insert(plan_.links.end(), {device, host_end(device)});
    add(fmt::format("ip link add {} type veth peer name {} mtu {}", end_of_pair(node, nic), host_end(device),
                    nic_at(node, nic).mtu),
        remove_link(host_end(device)));
  }

  void add_wires() {
    const auto ends = wire_ends(cluster_);
    for (std::size_t wire = 0; wire < ends.size(); ++wire) {
      if (ends[wire].size() == 2) {
        const WireEnd &one = ends[wire][0], &other = ends[wire][1];
        for (const WireEnd& end : ends[wire]) plan_.links.push_back(namespace_device(end.node, end.nic));
        add(fmt::format("ip link add {} type veth peer name {}", end_of_pair(one.node, one.nic),
                        end_of_pair(other.node, other.nic)),
            remove_link(namespace_device(one.node, one.nic)));
        continue;
      }
      int mtu = 0;
      for (const WireEnd& end : ends[wire]) mtu = std::max(mtu, nic_at(end.node, end.nic).mtu);
      const std::string bridge = fmt::format("mbw{}", wire);
      plan_.links.push_back(bridge);
      add(fmt::format("ip link add {} mtu {} type bridge", bridge, mtu), remove_link(bridge));
      for (const WireEnd& end : ends[wire]) {
        add_pair_to_host(end.node, end.nic);
        const std::string port = host_end(namespace_device(end.node, end.nic));
        // A bridge with an address of its own would answer for it: this one carries frames only.
        add(fmt::format("ip link set {} mtu {} master {} addrgenmode none up", port, mtu, bridge));
      }
      add(fmt::format("ip link set {} addrgenmode none up", bridge));
    }
    for_each_nic([this](int node, int nic) {
      if (nic_at(node, nic).wire < 0) add_pair_to_host(node, nic);
    });
    if (routed_) return;
    for_each_nic([this](int node, int nic) {
      add(fmt::format("ip link set {} netns {}", namespace_device(node, nic), node_namespace(node)));
    });
  }

  void set_up_nic(int node, int nic) {
    const EmuNic& one = nic_at(node, nic);
    const std::string device = namespace_device(node, nic);
    if (routed_) {
      for (const char* setting : {"0 rp_filter", "1 accept_local", "1 arp_ignore"}) {
        const std::string text(setting);
        add(fmt::format("echo {} >/proc/sys/net/ipv4/conf/{}/{}", text.front(), device, text.substr(2)));
      }
    }
    // Duplicate address detection would keep IPv6 addresses unusable for a second or more.
    const std::string detection = fmt::format("/proc/sys/net/ipv6/conf/{}/accept_dad", device);
    const std::string off = fmt::format("[ ! -e {0} ] || echo 0 >{0}", detection);
    add(routed_ ? off : fmt::format("{}sh -c {}", in_node(node), shell_quote(off)));
    add(fmt::format("{} link set {} up", ip(node), device));
    for (const std::string& address : one.addresses) {
      if (routed_) plan_.addresses.push_back(address);
      add(fmt::format("{} addr add {} dev {}{}{}", ip(node), address, device, routed_ ? " noprefixroute" : "",
                      is_ipv6(address) ? " nodad" : ""));
    }
    if (routed_) route_nic(one, device);
  }

  void route_nic(const EmuNic& nic, const std::string& device) {
    const int table = kNamespaceFirstTable + next_table_++;
    std::set<std::string> ruled, networks;
    for (const std::string& address : nic.addresses) {
      const std::string of = family(address);
      if (ruled.insert(of).second) {
        for (const std::string& selector : {fmt::format("pref {} iif {}", kInPreference, device),
                                            fmt::format("pref {} oif {}", kOutPreference, device)}) {
          const std::string target = selector.find("iif") != std::string::npos ? "local" : std::to_string(table);
          add(fmt::format("ip {} rule add {} lookup {}", of, selector, target),
              fmt::format("[ -z \"$(ip {0} rule show {1})\" ] || ip {0} rule del {1}", of, selector));
        }
      }
      const std::string network = network_text(address);
      if (!networks.insert(network).second) continue;
      add(fmt::format("ip {} route add {} dev {} src {} table {}", of, network, device,
                      address.substr(0, address.find('/')), table));
    }
  }

  void add_rdma_device(int node, int nic) {
    if (!nic_at(node, nic).rdma) return;
    const std::string device = namespace_device(node, nic);
    add(fmt::format("{0}rdma link add {1} type rxe netdev {1}", in_node(node), device),
        fmt::format("[ ! -e /sys/class/infiniband/{1} ] || {0}rdma link del {1}", in_node(node), device));
  }

  void add_management() {
    bool bridge = false;
    for (int node = 0; node < nodes(); ++node) {
      const auto& address = cluster_.nodes[static_cast<std::size_t>(node)].management_address;
      if (!address) continue;
      if (routed_) {  // as one host: the network itself stays the host's
        const std::string host = host_prefix(*address);
        plan_.addresses.push_back(host);
        add(fmt::format("ip addr add {} dev lo", host),
            fmt::format("[ -z \"$(ip -o addr show dev lo to {0})\" ] || ip addr del {0} dev lo", host));
        continue;
      }
      if (!bridge) {
        plan_.links.emplace_back(kManagementBridge);
        add(fmt::format("ip link add {} type bridge", kManagementBridge), remove_link(kManagementBridge));
        add(fmt::format("ip link set {} addrgenmode none up", kManagementBridge));
        bridge = true;
      }
      const std::string port = fmt::format("mb{}ms", node);
      plan_.links.push_back(port);
      add(fmt::format("ip link add {} netns {} type veth peer name {}", kManagementNetdev, node_namespace(node), port),
          remove_link(port));
      add(fmt::format("ip link set {} master {} addrgenmode none up", port, kManagementBridge));
      add(fmt::format("{} link set {} up", ip(node), kManagementNetdev));
      add(fmt::format("{} addr add {} dev {}{}", ip(node), *address, kManagementNetdev,
                      is_ipv6(*address) ? " nodad" : ""));
    }
  }

  void wait_for_nic(int node, int nic) {
    const EmuNic& one = nic_at(node, nic);
    if (!one.rdma || one.wire < 0) return;
    const std::string device = namespace_device(node, nic);
    const std::string port = fmt::format("/sys/class/infiniband/{}/ports/1", device);
    std::string wanted = fmt::format("grep -q ACTIVE {}/state", port);
    // The table has 1024 entries; ours are among the first.
    for (const std::string& address : one.addresses) {
      wanted += fmt::format(" && cat {0}/gids/? {0}/gids/[1-5]? 2>/dev/null | grep -q {1}", port, gid_text(address));
    }
    check(
        fmt::format("tries=0; until {}; do tries=$((tries + 1)); [ $tries -lt 150 ] || {{ echo '{} is not active with "
                    "its GIDs after 30 s' >&2; exit 1; }}; sleep 0.2; done",
                    wanted, device));
  }

  /// The state file is written first, so that every interrupted set-up leaves the way back.
  void finish() {
    const std::string file = state_file(options_.folder);
    add(fmt::format("echo '{}' >>{}", kCompleteMark, file));
    std::string all = options_.folder + "\n";
    for (const NamespaceStep& step : plan_.steps) all += step.apply + "\n" + step.undo + "\n";
    plan_.options = options_;
    plan_.digest = fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
    const std::string first = fmt::format(
        "mkdir -p {0}\n"
        "[ ! -e {1} ] || {{ echo 'something is set up already; to take it down: sh {1}' >&2; exit 1; }}\n"
        "cat >{1}.new <<'END_OF_STATE'\n{2}END_OF_STATE\nmv {1}.new {1}",
        options_.folder, file, take_down_script(plan_));
    plan_.steps.insert(plan_.steps.begin(), {first, "", false});
  }

  const EmuCluster& cluster_;
  const NamespaceOptions& options_;
  const bool routed_;
  std::set<std::string> families_;  // "-4", "-6"
  int next_table_ = 0;
  NamespacePlan plan_;
};

}  // namespace

const char* to_text(NamespaceLayout layout) {
  return layout == NamespaceLayout::kPolicyRouting ? "policy-routing" : "network-namespaces";
}

NamespacePlan plan_namespaces(const EmuCluster& cluster, const NamespaceOptions& options) {
  return NamespacePlanner(cluster, options).plan();
}

std::string namespace_device(int node, int nic) { return fmt::format("mb{}p{}", node, nic); }

std::vector<std::string> namespace_prefix(NamespaceLayout layout, int node) {
  if (layout == NamespaceLayout::kPolicyRouting) return {};
  return {"ip", "netns", "exec", node_namespace(node)};
}

}  // namespace meshbed::emu
