// The field tables, first half: the keys of a scenario file that describe the cluster. They drive reading, refusal of
// unknown keys, defaults and the dictionary in scenarios/README.md; a new field is one line here.

#include "models/lan/vlan.h"
#include "models/topology_generate.h"
#include "testbed/scenario/section.h"

namespace meshbed::testbed {
namespace {

constexpr IntegerRange kNodes{0, 1'000'000'000};  // the generator says how many its topology can have
constexpr IntegerRange kMtu{352, 65535};          // 256 bytes of RDMA payload and its headers, see rdma_mtu_bytes
constexpr IntegerRange kGpus{0, 64};
constexpr IntegerRange kBoxes{1, 65536};
const std::vector<std::string> kGpuDirect{"off", "dma-buf", "peermem", "both"};
const std::vector<std::string> kFunctions{"separate", "spark", "spark-merged"};

const Section<TopologySpec> kTopology{
    "[topology]",
    "Generates nodes, NICs, cables and switches. Nodes are node0, node1, ...; NICs are named as systemd names cards "
    "of\n"
    "two ports (rocep1s0f0, rocep1s0f1, rocep2s0f0, ...), a Spark's as on a Spark (rocep1s0f0, roceP2p1s0f0, ...).",
    {
        {"kind", "text", "'none'",
         "ring, line, full-mesh, star, torus; switch, or of several boxes leaf-spine, rail-optimised (a leaf-spine a "
         "rail), fat-tree, dragonfly; or none: only what the file lists",
         [](const Value& v, TopologySpec& s) {
           v.choice(s.kind, {"none", "ring", "line", "full-mesh", "star", "switch", "torus", "leaf-spine",
                             "rail-optimised", "fat-tree", "dragonfly"});
         }},
        {"nodes", "integer", "", "number of nodes; a torus may leave it to `shape`",
         [](const Value& v, TopologySpec& s) { v.integer(s.nodes, kNodes); }},
        {"shape", "list of integers", "", "torus: length of each dimension, as in [4, 4]",
         [](const Value& v, TopologySpec& s) {
           v.integers(s.shape, {1, models::kNodesMax});
         }},
        {"nics", "integer", "(as many as are cabled)",
         "NICs a node; those that the topology does not cable stay without cable and address",
         [](const Value& v, TopologySpec& s) {
           v.integer(s.nics, {1, models::kNicsPerNodeMax});
         }},
        {"rails", "integer", "(as many as `nics` allows, or 1)",
         "parallel cables to each neighbour; with a switch, one switch a rail",
         [](const Value& v, TopologySpec& s) {
           v.integer(s.rails, {1, 64});
         }},
        {"leaves", "integer", "", "leaf-spine, rail-optimised: leaf switches (of a rail), over which nodes are spread",
         [](const Value& v, TopologySpec& s) { v.integer(s.leaves, kBoxes); }},
        {"spines", "integer", "(by `oversubscription`)", "likewise: spine switches; each leaf has `uplinks` to each",
         [](const Value& v, TopologySpec& s) { v.integer(s.spines, kBoxes); }},
        {"oversubscription", "number", "(1 of a fat tree)",
         "rate of the nodes of a leaf over the rate of its uplinks; of a fat tree of its lowest switches",
         [](const Value& v, TopologySpec& s) {
           v.number(s.oversubscription, {1, 64});
         }},
        {"arity", "integer", "", "fat-tree: ports of each switch, even; k of them hold k^3/4 nodes",
         [](const Value& v, TopologySpec& s) {
           v.integer(s.arity, {2, 128});
         }},
        {"groups", "integer", "", "dragonfly: groups, of which every two are joined by `uplinks` cables",
         [](const Value& v, TopologySpec& s) { v.integer(s.groups, kBoxes); }},
        {"boxes", "integer", "", "dragonfly: switches of a group, all joined with each other",
         [](const Value& v, TopologySpec& s) { v.integer(s.boxes, kBoxes); }},
        {"uplinks", "integer", "1", "leaf-spine, rail-optimised: from each leaf to each spine; dragonfly: see `groups`",
         [](const Value& v, TopologySpec& s) {
           v.integer(s.uplinks, {1, 64});
         }},
        {"uplink_rate", "rate", "(`rate`)", "of each cable between two switches",
         [](const Value& v, TopologySpec& s) { v.rate(s.uplink_rate_bps); }},
        {"rate", "rate", "(200Gb/s of Sparks, else 100Gb/s)", "of every port and cable",
         [](const Value& v, TopologySpec& s) { v.rate(s.rate_bps); }},
        {"latency", "time", "'1us'", "propagation over one cable, one way",
         [](const Value& v, TopologySpec& s) { v.time(s.latency_ps); }},
        {"switch_latency", "time", "'300ns'", "forwarding delay of a generated switch",
         [](const Value& v, TopologySpec& s) { v.time(s.switch_latency_ps); }},
        {"mtu", "integer", "9000", "bytes, of every netdev; also the default of a [[node.nic]]",
         [](const Value& v, TopologySpec& s) { v.integer(s.mtu_bytes, kMtu); }},
        {"first_subnet", "prefix", "'192.168.100.0/24'",
         "subnet of the first cable; each further cable takes the next one. Switches widen it as needed",
         [](const Value& v, TopologySpec& s) { v.prefix(s.first_subnet); }},
        {"gpus", "integer", "1", "GPUs a node", [](const Value& v, TopologySpec& s) { v.integer(s.gpus, kGpus); }},
        {"gpu_model", "text", "",
         "of every GPU: GB10, H100, A100, H200, or the file of one that was measured (calibrate gpu); needed by GPU "
         "memory and CUDA alone",
         [](const Value& v, TopologySpec& s) { v.text(s.gpu_model); }},
        {"functions", "text", "(spark where gpu_model is GB10, else separate)",
         "how NICs share PCIe lanes and ports. separate: not at all; spark: they are the functions of a Spark's two "
         "QSFP ports, two a port, each on one of two PCIe links (x4, generation 5); spark-merged: each is both "
         "functions of a port",
         [](const Value& v, TopologySpec& s) { v.choice(s.functions, kFunctions); }},
        {"gpu_direct", "text", "'off'",
         "how simulated adapters reach GPU memory: off, dma-buf, peermem (nvidia_peermem) or both",
         [](const Value& v, TopologySpec& s) { v.choice(s.gpu_direct, kGpuDirect); }},
    }};

const Section<GidSpec> kGid{"gids = [{...}]",
                            "One entry of a NIC's GID table. A NIC that lists none gets the table that Linux would "
                            "fill: link-local v1, v2 (with a VLAN twice: the netdev's, the VLAN interface's), then "
                            "v1, v2 of each address.",
                            {
                                {"index", "integer", "", "place in the table",
                                 [](const Value& v, GidSpec& s) {
                                   v.integer(s.index, {0, 255});
                                 }},
                                {"type", "text", "'v2'", "v1 or v2: RoCE version",
                                 [](const Value& v, GidSpec& s) {
                                   v.choice(s.type, {"v1", "v2"});
                                 }},
                                {"address", "address", "", "IPv4 (mapped into the GID) or IPv6",
                                 [](const Value& v, GidSpec& s) { v.address(s.address); }},
                            }};

const Section<NicSpec> kNic{
    "[[node.nic]]",
    "A NIC of the [[node]] above. One with the `device` of a generated NIC changes only what it says.",
    {
        {"device", "name", "", "RDMA device, as in rocep1s0f0; required",
         [](const Value& v, NicSpec& s) { v.name(s.device); }},
        {"netdev", "name", "(from `device`)", "kernel network interface, at most 15 characters",
         [](const Value& v, NicSpec& s) { v.name(s.netdev); }},
        {"addresses", "list of prefixes", "(none)", "of the netdev, as in [\"192.168.100.1/24\"]",
         [](const Value& v, NicSpec& s) { v.addresses(s.addresses); }},
        {"rate", "rate", "(topology.rate)", "of the port", [](const Value& v, NicSpec& s) { v.rate(s.rate_bps); }},
        {"mtu", "integer", "(topology.mtu)", "of the netdev, bytes; the RDMA MTU follows from it",
         [](const Value& v, NicSpec& s) { v.integer(s.mtu_bytes, kMtu); }},
        {"port", "integer", "(1)", "RDMA port number",
         [](const Value& v, NicSpec& s) {
           v.integer(s.port, {1, 254});
         }},
        {"link", "text", "(up)", "up or down: state at the start",
         [](const Value& v, NicSpec& s) {
           v.choice(s.link, {"up", "down"});
         }},
        {"pci_path", "text", "(by position)", "sysfs path of the PCI function",
         [](const Value& v, NicSpec& s) { v.text(s.pci_path); }},
        {"pcie", "name", "(none; on a Spark by its name)",
         "the [[node.pcie]] of its node that it shares with other functions, or \"none\"",
         [](const Value& v, NicSpec& s) { v.name(s.pcie); }},
        {"qsfp", "name", "(its own; on a Spark by its name)",
         "the port that it shares with other functions of its node which name the same: one cable, one layer-2 "
         "network, one rate; or \"none\"",
         [](const Value& v, NicSpec& s) { v.name(s.qsfp); }},
        {"vlan", "integer", "(none)",
         "1 to 4094: its addresses are those of a VLAN interface on the netdev, as enp1s0f0np0.100; 0: none",
         [](const Value& v, NicSpec& s) {
           v.integer(s.vlan, {0, models::kVlanMax});
         }},
        {"switch_mtu", "integer", "(the switch's)", "of the switch's port that it is plugged into, bytes",
         [](const Value& v, NicSpec& s) { v.integer(s.switch_mtu_bytes, kMtu); }},
        {"gateway", "name", "(the [[router]] that joins its switch)",
         "the [[router]] by way of which it has routes to the router's other subnets, or \"none\"",
         [](const Value& v, NicSpec& s) { v.name(s.gateway); }},
        {"gateway_table", "text", "(main)",
         "main, or policy: the routes stand in a table of their own, which a rule takes for the NIC's addresses, and "
         "the plugin takes them with NCCL_MESH_ALLOW_ROUTED=1 alone",
         [](const Value& v, NicSpec& s) {
           v.choice(s.gateway_table, {"main", "policy"});
         }},
        {"gids", "list of tables", "(as Linux fills it)", "complete GID table: [{index, type, address}]",
         [](const Value& v, NicSpec& s) { v.tables(s.gids); }},
    }};

const Section<PcieSpec> kPcie{
    "[[node.pcie]]",
    "What several PCI functions share on their way to the memory of the [[node]] above: a PCIe link, or a switch. "
    "Full\n"
    "duplex. A node with functions = \"spark\" has pcie0 and pcie1, each x4 of generation 5, by the names of its\n"
    "devices; with \"spark-merged\" it has pcie, which is both. One with the name of such a link changes only what it\n"
    "says.",
    {
        {"name", "name", "", "as NICs, GPUs and reports name it; required",
         [](const Value& v, PcieSpec& s) { v.name(s.name); }},
        {"rate", "rate", "(from `lanes`, or no limit)", "what its NICs carry together, each direction, with headers",
         [](const Value& v, PcieSpec& s) { v.rate(s.rate_bps); }},
        {"lanes", "integer", "", "in the place of `rate`: 1 to 32, with `generation`; x4 of generation 5 is 100Gb/s",
         [](const Value& v, PcieSpec& s) {
           v.integer(s.lanes, {1, 32});
         }},
        {"generation", "integer", "", "1 to 6, with `lanes`",
         [](const Value& v, PcieSpec& s) {
           v.integer(s.generation, {1, 6});
         }},
    }};

const Section<BondSpec> kBond{
    "[[node.bond]]",
    "One netdev over several NICs of the [[node]] above, its functions: Linux bonding. All functions of a card, whose\n"
    "names differ in the function's number alone (rocep1s0f0, rocep1s0f1), become one RDMA device with one port (RoCE\n"
    "LAG). Functions of several cards keep theirs, and RDMA uses the active one's. Simulated world only.",
    {
        {"name", "name", "", "its netdev, as in bond0; required", [](const Value& v, BondSpec& s) { v.name(s.name); }},
        {"functions", "list of names", "",
         "NICs of its node, two or more; of active-backup the first is active; required",
         [](const Value& v, BondSpec& s) { v.texts(s.functions); }},
        {"mode", "text", "'active-backup'", "active-backup, balance-xor or 802.3ad; over several cards active-backup",
         [](const Value& v, BondSpec& s) { v.text(s.mode); }},
        {"xmit_hash_policy", "text", "'layer3+4'",
         "of the other two modes: by queue pair (layer3+4), or by node (layer2, which is Linux' default, layer2+3)",
         [](const Value& v, BondSpec& s) {
           v.choice(s.hash_policy, {"layer2", "layer2+3", "layer3+4"});
         }},
        {"addresses", "list of prefixes", "(what the first function would get)", "of its netdev",
         [](const Value& v, BondSpec& s) { v.addresses(s.addresses); }},
        {"device", "name", "(mlx5_bond_N)", "the RDMA device that functions of one card become",
         [](const Value& v, BondSpec& s) { v.name(s.device); }},
    }};

const Section<NodeSpec> kNode{
    "[[node]]",
    "A node. One with the name of a generated node changes only what it says.",
    {
        {"name", "name", "", "as cables and reports name it; required",
         [](const Value& v, NodeSpec& s) { v.name(s.name); }},
        {"gpus", "integer", "(topology.gpus)", "number of GPUs",
         [](const Value& v, NodeSpec& s) { v.integer(s.gpus, kGpus); }},
        {"gpu_model", "text", "(topology.gpu_model)", "of its GPUs",
         [](const Value& v, NodeSpec& s) { v.text(s.gpu_model); }},
        {"functions", "text", "(topology.functions, or by gpu_model)", "how its NICs share PCIe lanes and ports",
         [](const Value& v, NodeSpec& s) { v.choice(s.functions, kFunctions); }},
        {"gpu_direct", "text", "(topology.gpu_direct)", "how its adapters reach GPU memory",
         [](const Value& v, NodeSpec& s) { v.choice(s.gpu_direct, kGpuDirect); }},
        {"management", "address", "(the next in management.subnet)", "on the management network",
         [](const Value& v, NodeSpec& s) { v.address(s.management); }},
        {"environment", "table", "", "variables for every rank on this node; they win over [environment]",
         [](const Value& v, NodeSpec& s) { v.environment(s.environment); }},
        {"device_order", "list of names, or \"reversed\"", "(as listed)", "in which order the node enumerates its NICs",
         [](const Value& v, NodeSpec& s) { v.device_order(s); }},
        {"gpu_pcie", "list of names", "(not said)",
         "the [[node.pcie]] of each GPU: its NICs are those on the same; GPUs that say nothing share the NICs evenly",
         [](const Value& v, NodeSpec& s) { v.texts(s.gpu_pcie); }},
        {"nic", "[[node.nic]]", "", "its NICs", [](const Value& v, NodeSpec& s) { v.tables(s.nics); }},
        {"pcie", "[[node.pcie]]", "", "its PCIe links", [](const Value& v, NodeSpec& s) { v.tables(s.pcie); }},
        {"bond", "[[node.bond]]", "", "its bonds", [](const Value& v, NodeSpec& s) { v.tables(s.bonds); }},
    }};

const Section<CableSpec> kCable{
    "[[cable]]",
    "A full-duplex cable between two NICs. One with the name of a generated cable (node0-node1) changes only what it "
    "says.",
    {
        {"name", "name", "(cableN)", "for faults and reports", [](const Value& v, CableSpec& s) { v.name(s.name); }},
        {"ends", "list of two", "", "NODE/DEVICE twice, as in [\"node0/rocep1s0f0\", \"node1/rocep1s0f1\"]; required",
         [](const Value& v, CableSpec& s) { v.texts(s.ends); }},
        {"subnet", "prefix", "", "gives ends without addresses the first two; addresses outside it are refused",
         [](const Value& v, CableSpec& s) { v.prefix(s.subnet); }},
        {"rate", "rate", "(the slower port's)", "of each direction; not above the slower port's",
         [](const Value& v, CableSpec& s) { v.rate(s.rate_bps); }},
        {"latency", "time", "(topology.latency)", "propagation, one way",
         [](const Value& v, CableSpec& s) { v.time(s.latency_ps); }},
    }};

const Section<BoxSpec> kBox{
    "[[switch.box]]",
    "One of the boxes that the [[switch]] above consists of, where trunks join several to one network of layer 2.",
    {
        {"name", "name", "", "as trunks and the links of reports name it; required",
         [](const Value& v, BoxSpec& s) { v.name(s.name); }},
        {"ports", "list of texts", "[]", "NODE/DEVICE of every NIC on it",
         [](const Value& v, BoxSpec& s) { v.texts(s.ports); }},
    }};

const Section<TrunkSpec> kTrunk{
    "[[switch.trunk]]",
    "A full-duplex cable between two boxes of the [[switch]] above. Frames go over a shortest way, in boxes; of equal\n"
    "ones a hash of the flow selects one.",
    {
        {"ends", "list of two", "", "names of boxes, as in [\"leaf0\", \"spine0\"]; required",
         [](const Value& v, TrunkSpec& s) { v.texts(s.ends); }},
        {"rate", "rate", "(topology.rate)", "of each direction",
         [](const Value& v, TrunkSpec& s) { v.rate(s.rate_bps); }},
        {"latency", "time", "(topology.latency)", "propagation, one way",
         [](const Value& v, TrunkSpec& s) { v.time(s.latency_ps); }},
    }};

const Section<SwitchSpec> kSwitch{
    "[[switch]]",
    "A non-blocking switch, every port full duplex at the switch's rate; or several that trunks join.",
    {
        {"name", "name", "(switchN)", "for faults and reports", [](const Value& v, SwitchSpec& s) { v.name(s.name); }},
        {"ports", "list of texts", "", "NODE/DEVICE of every NIC on it",
         [](const Value& v, SwitchSpec& s) { v.texts(s.ports); }},
        {"subnet", "prefix", "", "gives ports without addresses the next free one; addresses outside it are refused",
         [](const Value& v, SwitchSpec& s) { v.prefix(s.subnet); }},
        {"rate", "rate", "(topology.rate)", "of each port", [](const Value& v, SwitchSpec& s) { v.rate(s.rate_bps); }},
        {"latency", "time", "(topology.switch_latency)", "forwarding delay",
         [](const Value& v, SwitchSpec& s) { v.time(s.latency_ps); }},
        {"cable_latency", "time", "(topology.latency)", "propagation from NIC to switch, one way",
         [](const Value& v, SwitchSpec& s) { v.time(s.cable_latency_ps); }},
        {"mtu", "integer", "(any frame passes)",
         "of its ports, bytes of a frame's payload, as ip link counts: larger ones are dropped without a word",
         [](const Value& v, SwitchSpec& s) { v.integer(s.mtu_bytes, kMtu); }},
        {"box", "[[switch.box]]", "", "in the place of `ports`: its boxes",
         [](const Value& v, SwitchSpec& s) { v.tables(s.boxes); }},
        {"trunk", "[[switch.trunk]]", "", "cables between its boxes",
         [](const Value& v, SwitchSpec& s) { v.tables(s.trunks); }},
    }};

const Section<RouterSpec> kRouter{
    "[[router]]",
    "What forwards between the subnets of switches: a router, or the routing half of a leaf-spine fabric. It has one\n"
    "full-duplex port to each switch, and there the last address that no NIC has. RoCE v2 crosses it, RoCE v1 does "
    "not.",
    {
        {"name", "name", "(routerN)", "for gateways and reports",
         [](const Value& v, RouterSpec& s) { v.name(s.name); }},
        {"joins", "list of names", "", "two or more switches, each of one subnet; required",
         [](const Value& v, RouterSpec& s) { v.texts(s.joins); }},
        {"rate", "rate", "(topology.rate)", "of each port", [](const Value& v, RouterSpec& s) { v.rate(s.rate_bps); }},
        {"latency", "time", "(topology.switch_latency)", "forwarding delay",
         [](const Value& v, RouterSpec& s) { v.time(s.latency_ps); }},
        {"cable_latency", "time", "(topology.latency)", "propagation from a switch to it, one way",
         [](const Value& v, RouterSpec& s) { v.time(s.cable_latency_ps); }},
    }};

const Section<ManagementSpec> kManagement{
    "[management]",
    "The management network: ordinary TCP between all nodes, never RDMA. Its default subnet is one that no network in\n"
    "use has (RFC 2544: for benchmarks), so that cables may have any other.",
    {
        {"enabled", "boolean", "true", "false: there is none; only where workload.kind is nccl-calls or idle",
         [](const Value& v, ManagementSpec& s) { v.boolean(s.enabled); }},
        {"netdev", "name", "'mgmt0'", "of its interface on every node; in the emulated world mgmt0 alone",
         [](const Value& v, ManagementSpec& s) { v.name(s.netdev); }},
        {"subnet", "prefix", "'198.18.0.0/16'", "node i is host i + 1",
         [](const Value& v, ManagementSpec& s) { v.prefix(s.subnet); }},
        {"rate", "rate", "'10Gb/s'", "of each node's port",
         [](const Value& v, ManagementSpec& s) { v.rate(s.rate_bps); }},
        {"latency", "time", "'20us'", "one way", [](const Value& v, ManagementSpec& s) { v.time(s.latency_ps); }},
    }};

}  // namespace

template <>
const Section<TopologySpec>& section_of<TopologySpec>() {
  return kTopology;
}
template <>
const Section<GidSpec>& section_of<GidSpec>() {
  return kGid;
}
template <>
const Section<NicSpec>& section_of<NicSpec>() {
  return kNic;
}
template <>
const Section<PcieSpec>& section_of<PcieSpec>() {
  return kPcie;
}
template <>
const Section<NodeSpec>& section_of<NodeSpec>() {
  return kNode;
}
template <>
const Section<BondSpec>& section_of<BondSpec>() {
  return kBond;
}
template <>
const Section<CableSpec>& section_of<CableSpec>() {
  return kCable;
}
template <>
const Section<BoxSpec>& section_of<BoxSpec>() {
  return kBox;
}
template <>
const Section<TrunkSpec>& section_of<TrunkSpec>() {
  return kTrunk;
}
template <>
const Section<SwitchSpec>& section_of<SwitchSpec>() {
  return kSwitch;
}
template <>
const Section<RouterSpec>& section_of<RouterSpec>() {
  return kRouter;
}
template <>
const Section<ManagementSpec>& section_of<ManagementSpec>() {
  return kManagement;
}

}  // namespace meshbed::testbed
