#include "cli/scenario/idle_variables.h"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <utility>

#include "cli/common/closest_name.h"
#include "models/lan/vlan.h"
#include "plugin/net/process/config.h"

namespace meshbed::cli {
namespace {

/// NCCL's own, as its documentation of environment variables has them, with what stands in for them here.
constexpr std::array<std::pair<const char*, const char*>, 19> kNotReadHere{{
    {"NCCL_ALGO", "chooses NCCL's algorithms; here [workload] algorithm does"},
    {"NCCL_PROTO", "chooses NCCL's protocols; here [workload] protocol does"},
    {"NCCL_TOPO_FILE", "loads NCCL's picture of the node; here the scenario is that"},
    {"NCCL_TOPO_DUMP_FILE", "writes NCCL's picture of the node"},
    {"NCCL_GRAPH_FILE", "loads NCCL's rings and trees"},
    {"NCCL_MIN_NCHANNELS", "sets NCCL's least number of channels; here [workload] channels is the number"},
    {"NCCL_MAX_NCHANNELS", "sets NCCL's largest number of channels; here [workload] channels is the number"},
    {"NCCL_MIN_CTAS", "sets NCCL's least number of thread blocks"},
    {"NCCL_MAX_CTAS", "sets NCCL's largest number of thread blocks"},
    {"NCCL_NCHANNELS_PER_NET_PEER", "sets NCCL's channels to a peer; here [workload] channels is the number"},
    {"NCCL_CROSS_NIC",
     "lets NCCL's rings leave by one rail and come in by another; here [workload] channel_devices "
     "says which NIC a channel opens"},
    {"NCCL_BUFFSIZE", "sizes NCCL's buffers; here [workload] slice_bytes is the largest message"},
    {"NCCL_P2P_LEVEL", "says how far apart GPUs reach each other directly"},
    {"NCCL_P2P_DISABLE", "keeps GPUs from reaching each other directly"},
    {"NCCL_SHM_DISABLE", "keeps ranks of a node from using shared memory"},
    {"NCCL_NET_GDR_LEVEL", "says how far a NIC may be from a GPU whose memory it reads; here gpu_direct does"},
    {"NCCL_NET_MERGE_LEVEL", "says which NICs NCCL fuses"},
    {"NCCL_NET_FORCE_MERGE", "says which NICs NCCL fuses"},
    {"NCCL_NTHREADS", "sets the threads of NCCL's kernels"},
}};

/// Read by what is started, though not listed as the plugin's.
constexpr std::array kReadElsewhere{"NCCL_COMM_ID",      "NCCL_DEBUG", "NCCL_DEBUG_FILE",
                                    "NCCL_DEBUG_SUBSYS", "NCCL_NET",   "NCCL_NET_PLUGIN"};

/// NCCL's rule: "^": all but those; "=": names, else beginnings of names.
bool fits(const std::string& list, const std::string& interface) {
  const bool excludes = !list.empty() && list.front() == '^';
  const std::size_t marks = excludes || (!list.empty() && list.front() == '=') ? 1 : 0;
  const bool exact = list.compare(0, 2, "^=") == 0 || (marks == 1 && list.front() == '=');
  std::istringstream names(list.substr(list.compare(0, 2, "^=") == 0 ? 2 : marks));
  bool listed = false;
  for (std::string name; std::getline(names, name, ',');) {
    listed = listed || (exact ? interface == name : interface.compare(0, name.size(), name) == 0);
  }
  return listed != excludes;
}

std::string interface_note(const models::Node& node, const std::string& list) {
  std::vector<std::string> interfaces;
  if (node.management) interfaces.push_back(node.management->netdev);
  for (const models::Nic& nic : node.nics) interfaces.push_back(models::address_netdev(nic));
  const bool any = std::any_of(interfaces.begin(), interfaces.end(), [&](const auto& one) { return fits(list, one); });
  if (list.empty() || any) return "";
  return "NCCL_SOCKET_IFNAME=" + list + " fits no interface of " + node.name + ", which has " + list_names(interfaces);
}

}  // namespace

std::string idle_variable_note(const std::string& name) {
  if (name.compare(0, 5, "NCCL_") != 0 || net::is_unknown_mesh_variable(name)) return "";
  const auto is_it = [&](const char* known) { return name == known; };
  const bool is_read = std::any_of(net::kVariables.begin(), net::kVariables.end(),
                                   [&](const net::VariableInfo& info) { return name == info.name; });
  if (is_read || std::any_of(kReadElsewhere.begin(), kReadElsewhere.end(), is_it)) return "";
  std::vector<std::string> known(kReadElsewhere.begin(), kReadElsewhere.end());
  for (const net::VariableInfo& info : net::kVariables) known.emplace_back(info.name);
  for (const auto& [other, meaning] : kNotReadHere) {
    if (name == other) return name + " does nothing here; in NCCL it " + meaning;
    known.emplace_back(other);
  }
  const std::string meant = closest_name(name, known);
  return name + " is read by nobody here" + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

std::vector<std::string> idle_variable_notes(const Scenario& scenario) {
  std::vector<std::string> notes;
  std::set<std::string> said;
  const auto say = [&](const std::string& note) {
    if (!note.empty() && said.insert(note).second) notes.push_back(note);
  };
  std::set<std::string> unfit;  // lists; nodes mostly agree, and the first one speaks for them
  for (const models::Node& node : scenario.cluster.nodes) {
    for (const auto& [name, value] : node.environment) {
      say(idle_variable_note(name));
      const std::string note = name == "NCCL_SOCKET_IFNAME" ? interface_note(node, value) : "";
      if (!note.empty() && unfit.insert(value).second) say(note);
    }
  }
  return notes;
}

}  // namespace meshbed::cli
