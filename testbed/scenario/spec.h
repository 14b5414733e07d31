#pragma once
// The scenario as written in the file: one struct per section, before names are resolved and the topology is generated.
// Members hold the values; Entry says which keys were given, and where.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

struct Entry {
  Place place;                         // of the section or table itself
  std::map<std::string, Place> given;  // keys that the file (or a --set) holds

  bool has(const std::string& key) const { return given.count(key) != 0; }
  const Place& at(const std::string& key) const {
    const auto found = given.find(key);
    return found == given.end() ? place : found->second;
  }
};

template <typename T>
struct Located {
  T value{};
  Place place;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

struct TopologySpec : Entry {
  std::string kind;
  int nodes = 0;
  std::vector<int> shape;
  int nics = 0;
  int rails = 0;
  int leaves = 0, spines = 0, arity = 0, groups = 0, boxes = 0, uplinks = 0;
  std::optional<double> oversubscription;
  std::uint64_t uplink_rate_bps = 0;
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;
  Picoseconds switch_latency_ps = 0;
  std::uint32_t mtu_bytes = 0;
  models::IpPrefix first_subnet;
  int gpus = 0;
  std::string gpu_model;
  std::string functions;  // empty: as gpu_model says
  std::string gpu_direct;
};

struct GidSpec : Entry {
  std::uint32_t index = 0;
  std::string type;
  models::IpAddress address;
};

struct NicSpec : Entry {
  std::string device;
  std::string netdev;
  std::vector<Located<models::IpPrefix>> addresses;
  std::uint64_t rate_bps = 0;
  std::uint32_t mtu_bytes = 0;
  int port = 1;
  std::string link;
  std::string pci_path;
  std::string pcie;
  std::string qsfp;
  std::uint16_t vlan = 0;
  std::uint32_t switch_mtu_bytes = 0;
  std::string gateway;
  std::string gateway_table;
  std::vector<GidSpec> gids;
};

struct PcieSpec : Entry {
  std::string name;
  std::uint64_t rate_bps = 0;
  int lanes = 0;
  int generation = 0;
};

struct BondSpec : Entry {
  std::string name;
  std::vector<Located<std::string>> functions;
  std::string mode;
  std::string hash_policy;
  std::vector<Located<models::IpPrefix>> addresses;
  std::string device;
};

struct NodeSpec : Entry {
  std::string name;
  int gpus = 0;
  std::string gpu_model;
  std::string functions;  // empty: as gpu_model says
  std::string gpu_direct;
  models::IpAddress management;
  Environment environment;
  bool device_order_reversed = false;
  std::vector<Located<std::string>> device_order;
  std::vector<NicSpec> nics;
  std::vector<PcieSpec> pcie;
  std::vector<BondSpec> bonds;
  std::vector<Located<std::string>> gpu_pcie;
};

struct CableSpec : Entry {
  std::string name;
  std::vector<Located<std::string>> ends;
  models::IpPrefix subnet;
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;
};

struct BoxSpec : Entry {
  std::string name;
  std::vector<Located<std::string>> ports;
};

struct TrunkSpec : Entry {
  std::vector<Located<std::string>> ends;
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;
};

struct SwitchSpec : Entry {
  std::string name;
  std::vector<Located<std::string>> ports;
  models::IpPrefix subnet;
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;
  Picoseconds cable_latency_ps = 0;
  std::uint32_t mtu_bytes = 0;
  std::vector<BoxSpec> boxes;
  std::vector<TrunkSpec> trunks;
};

struct RouterSpec : Entry {
  std::string name;
  std::vector<Located<std::string>> joins;
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;
  Picoseconds cable_latency_ps = 0;
};

struct ManagementSpec : Entry {
  bool enabled = true;
  std::string netdev;
  models::IpPrefix subnet;
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;
};

struct FabricSpec : Entry {
  std::string kind;
  bool fold = true;
};

struct ReplaySpec : Entry {
  std::string detail;
  std::string schedule;
};

struct ModelsSpec : Entry {
  std::string profile;
};

struct MegakernelSpec : Entry {
  Megakernel value;
  std::vector<Located<std::string>> mix;
  std::uint64_t memory_rate_bps = 0;  // bits
};

/// With what was said in other words than it is kept in, and what its profile gives where the file says nothing: a
/// shipped one's name, or a file relative to the scenario's. Wrong profiles are reported at the key.
Megakernel megakernel_of(const MegakernelSpec& spec, const std::string& scenario_path, Diagnostics& diagnostics);

/// The slot graph of a program that a generator makes, for so many ranks; nothing of other programs. What is wrong is
/// reported at its key.
void make_slot_graph(const MegakernelSpec& spec, int ranks, Diagnostics& diagnostics, Scenario& scenario);

/// What a recording of a ring gives in the place of items that are drawn; `path` is the file's. A wrong one, and fields
/// that go with drawn items, are reported at their keys.
void take_recording(const MegakernelSpec& spec, const std::string& path, Diagnostics& diagnostics, Megakernel& result);

struct WorkloadSpec;
/// A shipped profile of a class of machines, a file relative to the scenario's, or models::kSparkFamily: the class of
/// Sparks that are cabled as `cluster` is. A wrong one is reported at the key.
Software software_of(const ModelsSpec& spec, const WorkloadSpec& workload, const std::string& scenario_path,
                     const models::Cluster& cluster, Diagnostics& diagnostics);

struct WorkloadSpec : Entry {
  Workload value;
  int ranks_each_node = 0;  // ranks_per_node, where it is one number for all; 0: it is not
  bool lists_placement = false;
  std::vector<Located<std::string>> placement;  // [rank] its node's name
  MegakernelSpec megakernel;
};

struct LimitsSpec : Entry {
  Picoseconds time_ps = 0;
};

struct FaultSpec : Entry {
  Fault value;
  bool is_known = false;  // its kind was there, and is one
};

struct ExpectSpec : Entry {
  Expect value;
};

/// Something that a --set changes by its name and that the file does not list, so that it must be generated.
struct GeneratedName {
  std::string list;   // node, nic, pcie, bond, cable, switch or router
  std::string owner;  // of a NIC, PCIe link or bond: its node
  std::string name;
  Place place;
};

struct ScenarioSpec : Entry {
  std::string name;
  std::string description;
  std::vector<Located<std::string>> assumed;
  std::uint64_t seed = 1;
  TopologySpec topology;
  std::vector<NodeSpec> nodes;
  std::vector<CableSpec> cables;
  std::vector<SwitchSpec> switches;
  std::vector<RouterSpec> routers;
  ManagementSpec management;
  FabricSpec fabric;
  ReplaySpec replay;
  ModelsSpec models;
  WorkloadSpec workload;
  Environment environment;
  LimitsSpec limits;
  std::vector<FaultSpec> faults;
  ExpectSpec expect;
  std::vector<GeneratedName> generated_names;
};

}  // namespace meshbed::testbed
