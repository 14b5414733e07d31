#include "testbed/scenario/idle_variables.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "models/lan/vlan.h"
#include "models/nccl_environment.h"
#include "models/topology.h"
#include "plugin/base/interface_list.h"
#include "plugin/base/name_list.h"
#include "plugin/net/process/config.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/nccl/library.h"

namespace meshbed::testbed {
namespace {

constexpr std::pair<const char*, const char*> kNcclVariables[] = {
#define MESHBED_NCCL_VARIABLE(name, meaning) {name, meaning},
#include "testbed/scenario/nccl_variables.def"
#undef MESHBED_NCCL_VARIABLE
};

/// They have a reader in what is started, though not in the plugin.
constexpr std::array kReadElsewhere{"NCCL_COMM_ID", "NCCL_DEBUG",      "NCCL_DEBUG_FILE",     "NCCL_DEBUG_SUBSYS",
                                    "NCCL_NET",     "NCCL_NET_PLUGIN", "NCCL_PROFILER_PLUGIN"};

/// The plugin's, as NCCL_NET names it: in any case of letters (src/plugin/net.cc 331 of NCCL v2.30.7-1).
constexpr std::string_view kPluginName = "mesh";

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

/// All begin with NCCL_, which is left out, so that only the rest has to be alike.
std::string closest_variable(const std::string& name) {
  constexpr std::string_view kPrefix = "NCCL_";
  std::vector<std::string> known;
  const auto add = [&](std::string_view one) {
    if (one.substr(0, kPrefix.size()) == kPrefix) known.emplace_back(one.substr(kPrefix.size()));
  };
  for (const net::VariableInfo& info : net::kVariables) add(info.name);
  for (const auto& [one, meaning] : kNcclVariables) add(one);
  const std::string close = closest_name(name.substr(kPrefix.size()), known);
  return close.empty() ? "" : std::string(kPrefix) + close;
}

std::vector<std::string> cable_interfaces(const models::Node& node) {
  std::vector<std::string> interfaces;
  for (const models::Nic& nic : node.nics) {
    if (!nic.addresses.empty()) interfaces.push_back(models::address_netdev(nic));
  }
  return interfaces;
}

/// `joined`: a cable, switch or router joins each two nodes.
std::string interface_note(const models::Node& node, bool joined) {
  const std::string list = models::variable_of(node, "NCCL_SOCKET_IFNAME").value_or("");
  if (list.empty()) return "";
  const std::vector<std::string> cables = cable_interfaces(node);
  if (!models::has_socket_interface(node)) {
    std::vector<std::string> all = cables;
    if (node.management) all.insert(all.begin(), node.management->netdev);
    return "NCCL_SOCKET_IFNAME=" + list + " fits no interface of " + node.name + ", which has " + list_names(all) +
           ": ranks there find no address to start with";
  }
  // Data over TCP takes a cable's interface only where it is named.
  if (!node.management || interface_place(list, node.management->netdev)) return "";
  if (joined && names_interfaces(list)) return "";
  return "NCCL_SOCKET_IFNAME=" + list + " leaves out " + node.management->netdev + " of " + node.name +
         ", and only cables' interfaces are left (" + list_names(models::socket_interfaces(node)) +
         "): name a network that joins all nodes";
}

bool each_two_joined(const models::Cluster& cluster) {
  return models::pairs_without_direct_path(models::analyse(cluster), 0).count == 0;
}

}  // namespace

std::string idle_variable_note(const std::string& name, bool own_nccl) {
  if (name.compare(0, 5, "NCCL_") != 0 || net::is_unknown_mesh_variable(name)) return "";
  const auto is_it = [&](const char* known) { return name == known; };
  const bool is_read = std::any_of(net::kVariables.begin(), net::kVariables.end(),
                                   [&](const net::VariableInfo& info) { return name == info.name; });
  if (is_read || std::any_of(kReadElsewhere.begin(), kReadElsewhere.end(), is_it)) return "";
  for (const auto& [known, meaning] : kNcclVariables) {
    if (name != known) continue;
    if (own_nccl) return "";
    return name + " does nothing here; " + (*meaning == '\0' ? "it is NCCL's own" : "in NCCL it ") + meaning;
  }
  const std::string meant = closest_variable(name);
  return name + " is not a variable of NCCL 2.30.7 or the plugin" +
         (meant.empty() ? "" : "; did you mean " + meant + "?");
}

std::string bypass_note(const std::string& name, const std::string& value) {
  if (value.empty()) return "";
  if (name == "NCCL_NET" && lower(value) != kPluginName) {
    return "NCCL_NET=" + value +
           " makes NCCL use the transport of that name and not the plugin, which is called Mesh; " +
           "unset it, or set NCCL_NET=Mesh";
  }
  if (name != "NCCL_NET_PLUGIN") return "";
  const NameList list = read_name_list(value);
  const bool ours = std::any_of(list.entries.begin(), list.entries.end(), [](std::string_view entry) {
    const std::string_view file = entry.substr(entry.rfind('/') + 1);  // npos + 1 is 0
    return file == kPluginName || file.substr(0, 19) == "libnccl-net-mesh.so";
  });
  return ours ? ""
              : "NCCL_NET_PLUGIN=" + value + " makes NCCL load " +
                    (lower(value) == "none" ? "no plugin" : "another plugin") + "; set NCCL_NET_PLUGIN=mesh";
}

std::vector<std::string> idle_variable_notes(const Scenario& scenario) {
  std::vector<std::string> notes;
  std::set<std::string> said;
  const bool own_nccl = runs_own_nccl(scenario);
  const auto say = [&](const std::string& note) {
    if (!note.empty() && said.insert(note).second) notes.push_back(note);
  };
  std::set<std::string> unfit;  // lists already reported; nodes mostly agree
  for (const models::Node& node : scenario.cluster.nodes) {
    for (const auto& [name, value] : node.environment) {
      say(idle_variable_note(name, own_nccl));
      say(bypass_note(name, value));
      if (name != "NCCL_SOCKET_IFNAME" || unfit.count(value) != 0) continue;
      const std::string note = interface_note(node, each_two_joined(scenario.cluster));
      if (!note.empty() && unfit.insert(value).second) say(note);
    }
  }
  return notes;
}

}  // namespace meshbed::testbed
