#pragma once
// NamespacePlan: a cluster inside this very kernel, as the shell commands that set it up and take it down. Pure: runs
// nothing.
//
// Every cable is a veth pair, every switch a bridge, and a soft-RoCE device stands on each NIC. The kernel would carry
// a packet for an address of its own through lo; how it is made to cross the cable is the layout:
//
//   policy routing      All nodes share the initial network namespace, to which rdma_rxe is bound in kernels before
//                       Linux 7.1 or so. What leaves by a NIC is routed by that NIC's own table, before the table of
//                       the local addresses, which moves from preference 0 to 100; what comes in by one is delivered
//                       here. Nodes are apart by convention: each opens its own devices only.
//   network namespaces  One a node, where the kernel's soft-RoCE sends and receives in them. Nothing of the host's own
//                       routing is changed.
//
// One kernel has each name once, so NIC `p` of node `n` is mb<n>p<p>, as network and as verbs device.
// Kernel files: net/ipv4/fib_rules.c, net/ipv4/fib_frontend.c (rp_filter, accept_local), net/ipv4/arp.c (arp_ignore),
// drivers/infiniband/sw/rxe/rxe_net.c (routes with the netdev as output interface).

#include <string>
#include <vector>

#include "emu/cluster.h"

namespace meshbed::emu {

/// The owner of a set-up: `meshbed emu up`, which leaves it, or a run, which takes it down again.
inline constexpr const char* kNamespacesByHand = "emu-up";
inline constexpr const char* kNamespacesByRun = "run";
/// Where the table of local addresses is moved to; a rule of the host's own before it would be asked too early.
inline constexpr int kNamespaceLocalPreference = 100;
/// The first of the routing tables, one a NIC.
inline constexpr int kNamespaceFirstTable = 479'100;

enum class NamespaceLayout { kPolicyRouting, kNetworkNamespaces };
/// "policy-routing", "network-namespaces"
const char* to_text(NamespaceLayout layout);

struct NamespaceOptions {
  NamespaceLayout layout = NamespaceLayout::kPolicyRouting;
  std::string folder =
      "/run/meshbed";  // what is to be put back is kept there; a tmpfs, as all this ends with the kernel
  std::string owner = kNamespacesByHand;  // takes it down
  std::string title;                      // one line on what is set up, for readers of the state file
};

struct NamespaceStep {
  std::string apply;   // commands of a POSIX shell; may be several lines
  std::string undo;    // puts back what `apply` changed, and nothing where there is nothing to put back; may be empty
  bool check = false;  // changes nothing: fails where the cluster is not ready (after 30 s at most)
};

struct NamespacePlan {
  NamespaceOptions options;
  /// In their order. The first writes the state file, the last marks it as complete.
  std::vector<NamespaceStep> steps;
  std::vector<std::string> links;       // interfaces that it makes in the namespace where it runs
  std::vector<std::string> namespaces;  // likewise
  std::vector<std::string> addresses;   // "192.168.100.1/24": that the host gets for itself
  std::string digest;                   // of all steps: equal plans have equal digests
};

/// For a cluster that check_cluster() let pass.
NamespacePlan plan_namespaces(const EmuCluster& cluster, const NamespaceOptions& options);

/// What `sh` runs to set the cluster up; stops at the first command that fails.
std::string set_up_script(const NamespacePlan& plan);
/// The shell script that takes it down again, the last step first, after any outcome of the set-up: goes on if a
/// command fails, prints its name, and then exits with 1. The state file holds this text.
std::string take_down_script(const NamespacePlan& plan);

/// The state file of a folder: there while something is set up, wholly or in part.
std::string state_file(const std::string& folder);
/// Its line that marks a complete set-up, and the beginning of "# plan DIGEST OWNER LAYOUT TITLE".
inline constexpr const char* kCompleteMark = "# complete";
inline constexpr const char* kPlanMark = "# plan ";

/// What a NIC is called there, as network and as verbs device.
std::string namespace_device(int node, int nic);
/// What comes before a command so that it runs in a node; empty: nothing.
std::vector<std::string> namespace_prefix(NamespaceLayout layout, int node);

}  // namespace meshbed::emu
