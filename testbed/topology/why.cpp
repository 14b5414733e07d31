// The reason why a node reaches another one, or does not.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/lan/vlan.h"
#include "models/nccl_environment.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "plugin/base/counted.h"
#include "testbed/result/bonds.h"
#include "testbed/scenario/findings/reach.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/questions.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

using document::Value;
using models::Aim;

constexpr const char* kNcclVersion = "NCCL 2.30.7";

struct Obstacle {
  const char* code;  // "direct": there is none
  std::string text;
};

class WhyAnswer {
 public:
  WhyAnswer(const Scenario& scenario, int from, int to)
      : scenario_(scenario),
        cluster_(scenario.cluster),
        used_(as_plugin_takes_it(scenario.cluster)),
        topology_(models::analyse(used_)),
        all_links_(models::analyse(cluster_)),
        mesh_(cluster_, all_links_, nodes_of(scenario)),
        nccl_(cluster_, {}),
        from_(from),
        to_(to) {}

  document::Document document() {
    document::Section section = shape();
    section.set("from", node(from_).name);
    section.set("to", node(to_).name);
    section.line("{} to {}, in {}", node(from_).name, node(to_).name, scenario_.name);
    section.blank();
    ways(section);
    section.blank();
    mesh(section);
    section.blank();
    nccl(section);
    return {.title = "topo why", .sections = {std::move(section)}};
  }

 private:
  const models::Node& node(int index) const { return cluster_.at(index); }
  std::string name(models::PortRef port) const { return node(port.node).name + "/" + cluster_.nic_of(port).device; }

  static document::Section shape() {
    using document::flag, document::integer, document::text, document::texts;
    document::Section section{.title = "Why"};
    section.with({text("from", "the node that sends"), text("to", "the node that receives"),
                  flag("mesh_reaches", "by the rules of the Mesh plugin, through relays included"),
                  integer("mesh_cables", "", "on the way; 0: there is none"),
                  text("mesh_code",
                       "direct, routed, relayed; or why not: no-device, crossed-cable, relays-off, "
                       "relay-limit, no-path"),
                  text("mesh_reason", "the same in words"), flag("nccl_reaches", "stock NCCL 2.30.7, on every channel"),
                  text("nccl_code", "direct; or why not: filter, crossed-cable, no-cable, subnet"),
                  text("nccl_reason", "the same in words"),
                  texts("commands", "runs that show each no; NCCL's needs its library")});
    section.with(document::Table{
        .key = "ways",
        .meaning = "each NIC of the first node, and what lies in its way to the other one",
        .columns = {text("nic", "of the first node").shown("NIC", 16, "  ").left(),
                    text("address", "the first one").shown("address", 20).left(),
                    text("code",
                         "direct, filtered, link-down, no-cable, no-address, other-node, crossed-cable, "
                         "wrong-prefix, other-vlan, peer-filtered, peer-down, other-subnet")
                        .shown("", 13)
                        .left(),
                    text("obstacle", "in words").shown("what lies in its way", 20).left()}});
    section.with(document::Table{.key = "channels",
                                 .meaning = "stock NCCL, each of its channels",
                                 .columns = {integer("channel", "", "number of the device").shown("channel", 9, "  "),
                                             text("nic", "that NCCL uses").shown("NIC", 16, "  ").left(),
                                             text("outcome", "reached, refused, lost").shown("outcome", 8).left()}});
    return section;
  }

  // --- NICs ---
  std::string setting_of(models::PortRef port) const {
    for (const models::LeftOutNic& one : models::left_out_nics(cluster_)) {
      if (one.port == port) return one.setting;
    }
    return "";
  }

  std::optional<Obstacle> own_obstacle(models::PortRef port) const {
    const models::Nic& nic = cluster_.nic_of(port);
    if (const std::string setting = setting_of(port); !setting.empty()) {
      return Obstacle{"filtered", setting + " leaves it out"};
    }
    if (!nic.link_up) return Obstacle{"link-down", "its link is down"};
    return std::nullopt;
  }

  Obstacle over_cable(models::PortRef port, const models::Cable& cable, std::size_t index) const {
    const models::PortRef other = cable.a == port ? cable.b : cable.a;
    const auto theirs = own_obstacle(other);
    if (other.node != to_ && !theirs) {
      return {"other-node", fmt::format("its cable '{}' leads to {}", cable.name, name(other))};
    }
    if (theirs) {
      const bool down = std::string_view(theirs->code) == "link-down";
      return {down ? "peer-down" : "peer-filtered",
              fmt::format("at the other end of '{}', {}: {}", cable.name, name(other), theirs->text)};
    }
    for (const models::CrossedCable& crossed : topology_.crossed) {
      if (crossed.cable != static_cast<int>(index)) continue;
      if (crossed.is_other_vlan()) {
        return {"other-vlan",
                fmt::format("the ends of '{}' are in VLAN {} and VLAN {}", cable.name, crossed.a_vlan, crossed.b_vlan)};
      }
      if (crossed.is_wrong_prefix()) {
        return {"wrong-prefix", fmt::format("the ends of '{}' have different prefix lengths: {} and {}", cable.name,
                                            crossed.a_overlapping, crossed.b_overlapping)};
      }
      return {"crossed-cable", fmt::format("the ends of '{}' share no subnet: {} and {}", cable.name, crossed.a_subnets,
                                           crossed.b_subnets)};
    }
    return {"other-subnet", fmt::format("the ends of '{}' share no subnet", cable.name)};
  }

  Obstacle obstacle(models::PortRef port) const {
    if (auto own = own_obstacle(port)) return *own;
    for (const models::DirectPath& path : models::direct_paths(topology_, from_, to_)) {
      if (!(path.from == port)) continue;
      const models::Segment& segment = topology_.segments[static_cast<std::size_t>(path.segment)];
      return {"direct", segment.router >= 0 ? fmt::format("none: routed to {}", name(path.to))
                                            : fmt::format("none: {} is in its subnet", name(path.to))};
    }
    for (std::size_t index = 0; index < cluster_.cables.size(); ++index) {
      const models::Cable& cable = cluster_.cables[index];
      if (cable.a == port || cable.b == port) return over_cable(port, cable, index);
    }
    for (const models::Switch& box : cluster_.switches) {
      if (std::find(box.ports.begin(), box.ports.end(), port) == box.ports.end()) continue;
      const bool is_there =
          std::any_of(box.ports.begin(), box.ports.end(), [&](models::PortRef other) { return other.node == to_; });
      return {is_there ? "other-subnet" : "other-node",
              fmt::format("{} {}", box.name,
                          is_there ? "joins them, but no two of their NICs share a subnet and VLAN"
                                   : "does not lead to " + node(to_).name)};
    }
    if (cluster_.nic_of(port).addresses.empty()) return {"no-address", "it has neither cable nor address"};
    return {"no-cable", "it has no cable"};
  }

  void ways(document::Section& section) {
    document::Table& table = section.table("ways");
    const auto nics = static_cast<int>(node(from_).nics.size());
    for (int nic = 0; nic < nics; ++nic) {
      const models::PortRef port{from_, nic};
      const Obstacle found = obstacle(port);
      const auto& addresses = cluster_.nic_of(port).addresses;
      table.add(
          {cluster_.nic_of(port).device, addresses.empty() ? "" : to_text(addresses.front()), found.code, found.text});
      is_direct_ = is_direct_ || std::string_view(found.code) == "direct";
      is_crossed_ = is_crossed_ || std::string_view(found.code) == "crossed-cable" ||
                    std::string_view(found.code) == "wrong-prefix" || std::string_view(found.code) == "other-vlan";
    }
    section.show("ways");
  }

  // --- Mesh ---
  std::string chain_text(const std::vector<int>& path) const {
    std::string text;
    for (std::size_t at = 1; at + 1 < path.size(); ++at) text += (text.empty() ? "" : ", ") + node(path[at]).name;
    return text;
  }

  bool relays_are_off(int of) const { return models::variable_of(node(of), "NCCL_MESH_ENABLE_RELAY") == "0"; }

  Obstacle mesh_reason(const MeshAim& aim) const {
    if (aim.aim == Aim::kReached && aim.cables == 1) {
      return {aim.routed ? "routed" : "direct", fmt::format("by {}", cluster_.nic_of(from_, aim.nic).device)};
    }
    const std::vector<int> path = models::shortest_path(topology_, from_, to_);
    if (aim.aim == Aim::kReached) {
      return {"relayed", fmt::format("through {}: {} cables", chain_text(path), aim.cables)};
    }
    if (mesh_.devices(from_) == 0 || mesh_.devices(to_) == 0) {
      return {"no-device", fmt::format("no NIC of {} can be used", node(mesh_.devices(from_) == 0 ? from_ : to_).name)};
    }
    if (aim.nic >= 0) {
      return {
          "crossed-cable",
          fmt::format("{} has an address in a subnet of {}, and no cable to it: two plugs are swapped, or an address "
                      "is another cable's",
                      cluster_.nic_of(from_, aim.nic).device, node(to_).name)};
    }
    if (path.empty()) {
      return {"no-path", fmt::format("no chain of cables joins the two{}",
                                     is_crossed_ ? "; see the cable above, whose ends must be made to agree" : "")};
    }
    if (relays_are_off(from_)) return {"relays-off", "NCCL_MESH_ENABLE_RELAY=0 on " + node(from_).name};
    const int limit = relay_hop_limit(node(from_)), cables = static_cast<int>(path.size()) - 1;
    if (cables > limit) {
      return {"relay-limit", fmt::format("the shortest chain has {} cables, and {} takes {} at most "
                                         "(NCCL_MESH_MAX_RELAY_HOPS)",
                                         cables, node(from_).name, limit)};
    }
    for (std::size_t at = 1; at + 1 < path.size(); ++at) {
      if (relays_are_off(path[at])) return {"relays-off", "NCCL_MESH_ENABLE_RELAY=0 on " + node(path[at]).name};
    }
    return {"no-path", fmt::format("{} lie on the way, and not all of them run ranks that relay", chain_text(path))};
  }

  void mesh(document::Section& section) {
    const MeshAim aim = mesh_.aim(from_, to_, 0);
    const bool reaches = aim.aim == Aim::kReached;
    const Obstacle reason = mesh_reason(aim);
    section.set("mesh_reaches", reaches);
    section.set("mesh_cables", reaches ? aim.cables : 0);
    section.set("mesh_code", reason.code);
    section.set("mesh_reason", reason.text);
    section.line("Mesh: {}, {}: {}", reaches ? "reached" : "NOT reached", reason.code, reason.text);
    if (reaches) return;
    const bool dials = std::string_view(reason.code) == "crossed-cable";
    const std::string command =
        failing_send_command(scenario_, from_, to_, dials ? "is the cable in these two ports" : "no path");
    commands_.push_back(command);
    section.line("  shown by: {}", command);
  }

  // --- stock NCCL ---
  void nccl(document::Section& section) {
    document::Table& table = section.table("channels");
    const std::vector<int>& nics = nccl_.nics(from_);
    const int channels = std::max(1, static_cast<int>(nics.size()));
    int reached = 0, lost_by = -1;
    for (int channel = 0; channel < channels; ++channel) {
      const models::Aimed aimed = nccl_.aim(from_, to_, channel);
      const bool is_reached = aimed.aim == Aim::kReached;
      reached += is_reached ? 1 : 0;
      if (!is_reached && aimed.nic >= 0) lost_by = aimed.nic;
      table.add({channel, aimed.nic >= 0 ? cluster_.nic_of(from_, aimed.nic).device : "-",
                 is_reached                   ? "reached"
                 : aimed.aim == Aim::kRefused ? "refused"
                                              : "lost"});
    }
    const bool all = reached == channels;
    const Obstacle reason = nccl_reason(all, lost_by);
    section.set("nccl_reaches", all);
    section.set("nccl_code", reason.code);
    section.set("nccl_reason", reason.text);
    section.line("{}: {} ({} of {} channels), {}: {}", kNcclVersion, all ? "reached" : "NOT reached", reached, channels,
                 reason.code, reason.text);
    section.show("channels");
    if (!all) {
      std::vector<std::string> words{"meshbed", "nccl", "run",        "--nccl",      "libnccl.so.2",
                                     "--gpu",   "H100", "--scenario", scenario_.path};
      for (const std::string& each : scenario_.overrides) words.insert(words.end(), {"--set", each});
      words.insert(words.end(), {"--set", "environment.NCCL_NET_PLUGIN=none", "--", "sendrecv_perf"});
      std::string command;
      for (const std::string& word : words) command += (command.empty() ? "" : " ") + word;
      commands_.push_back(command);
      section.line("  shown by, with NVIDIA's NCCL and nccl-tests: {}", command);
    }
    section.set("commands", commands_);
  }

  Obstacle nccl_reason(bool all, int lost_by) const {
    if (all) return {"direct", "each channel's NIC has a cable to one of the peer's"};
    for (const int of : {from_, to_}) {
      if (!nccl_.nics(of).empty()) continue;
      return {"filter", fmt::format("no NIC of {} is left (NCCL_IB_HCA, NCCL_SOCKET_IFNAME, links that are down; "
                                    "src/transport/net_ib/init.cc 355-372 of v2.30.7-1)",
                                    node(of).name)};
    }
    if (!is_direct_ && is_crossed_) {
      return {"crossed-cable",
              "the ends of the cable that leads there do not agree (see above), so that no queue pair "
              "gets over it"};
    }
    if (!is_direct_) {
      return {"no-cable",
              "no NIC leads there, and NCCL does not relay: the net device itself connects a channel's peer "
              "(src/transport/net.cc 874-885, 1061-1071 of v2.30.7-1)"};
    }
    const std::string nic = lost_by >= 0 ? cluster_.nic_of(from_, lost_by).device : "a NIC";
    return {"subnet",
            fmt::format("it aims with {} at a NIC to which that has no cable; `meshbed topo env` has the "
                        "settings (NCCL_IB_SUBNET_AWARE_ROUTING, src/transport/net_ib/connect.cc 524-592 of v2.30.7-1)",
                        nic)};
  }

  const Scenario& scenario_;
  const models::Cluster& cluster_;
  const models::Cluster used_;
  const models::Topology topology_, all_links_;
  const MeshRules mesh_;
  const models::NcclRouting nccl_;
  int from_, to_;
  bool is_direct_ = false, is_crossed_ = false;
  std::vector<std::string> commands_;
};

}  // namespace

document::Document why_document(const Scenario& scenario, int from, int to) {
  return WhyAnswer(scenario, from, to).document();
}

}  // namespace meshbed::testbed
