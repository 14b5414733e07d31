#pragma once
// Builder: the steps of build_cluster, in the order in which they are called. Private to scenario_build*.cpp.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/topology_generate.h"
#include "testbed/scenario/build.h"

namespace meshbed::testbed {

inline constexpr std::size_t kNetdevNameMax = 15;  // IFNAMSIZ less its NUL

/// The kind of topology is a switched network of several boxes (build_cables.cpp).
bool is_fabric_kind(const std::string& kind);
/// How many nodes a kind has that need not say it; 0: it must.
int fabric_nodes(const TopologySpec& topology);

class Builder {
 public:
  Builder(const ScenarioSpec& spec, Diagnostics& diagnostics) : spec_(spec), diagnostics_(diagnostics) {}

  void generate();
  /// Names that only a --set holds must be generated ones: a misspelt name makes no hardware.
  void refuse_unknown_names();
  void add_nodes();  // build_nodes.cpp
  /// QSFP ports, and a Spark's PCIe links.
  void join_functions_to_ports();  // build_functions.cpp
  void add_cables();               // build_cables.cpp
  /// The further functions of QSFP ports whose first ones the file cables.
  void add_wires();     // build_functions.cpp
  void add_switches();  // build_cables.cpp
  void add_gpus();      // build_functions.cpp
  void add_pcie();      // build_pcie.cpp
  void add_environment();
  void add_management();
  void order_devices();
  void add_bonds();    // build_bond.cpp
  void add_routers();  // build_routers.cpp
  void derive();
  Built take() { return std::move(built_); }

 private:
  /// What the file says of a cable or a switch.
  struct MediumSubnet {
    bool is_switch = false;
    std::size_t index = 0;  // in the cluster's cables or switches
    models::IpPrefix subnet;
    Place place;
    std::string owner;
  };
  static constexpr int kSeveral = -2;  // in place of a NIC's router, until the file has said which

  /// What there is of the kind that a --set named: generated and listed.
  std::vector<std::string> names_for(const GeneratedName& wanted) const;
  models::Node& node_at(int node) { return built_.cluster.at(node); }
  models::Nic& nic_at(models::PortRef port) { return node_at(port.node).nics[static_cast<std::size_t>(port.nic)]; }

  const NodeSpec* spec_of(const models::Node& node) const;
  /// Reports a name that no model has.
  void check_gpu_model(const Entry& entry, const std::string& name);
  void add_nics(int node, const NodeSpec& spec);
  void overlay_nic(models::Nic& nic, const NicSpec& spec);
  void name_new_nic(models::Nic& nic, const NicSpec& spec, int index);
  /// "node0/rocep1s0f0" to a port; reports what does not exist, with what does.
  std::optional<models::PortRef> resolve(const Located<std::string>& end);
  std::optional<std::pair<models::PortRef, models::PortRef>> resolve_ends(const CableSpec& spec);
  /// Addresses for those of `ports` that have none, from `subnet`; refuses addresses outside it.
  void number_ports(const std::vector<models::PortRef>& ports, const models::IpPrefix& subnet, const Place& place,
                    const std::string& owner);
  /// What only some kinds of topology read; false: reported.
  bool check_fabric_keys();
  void join_generated_boxes();
  /// What the file says of the boxes of a switched network, and of the trunks between them.
  void add_boxes(models::Switch& network, const SwitchSpec& spec);
  std::optional<int> box_named(const models::Switch& network, const Located<std::string>& end);
  /// What only a port of a switch has, on NICs that are on none.
  void check_switch_ports();
  void add_pcie_links(models::Node& node, const NodeSpec& spec);
  void hang_on_pcie(models::Node& node, const NodeSpec& spec);
  /// nullopt: reported.
  std::optional<models::Router> router_of(const RouterSpec& spec, const std::string& name);
  void choose_gateways();
  /// `box`: the switch that the port is on, or -1.
  void set_gateway(models::PortRef port, int box, const NicSpec& said);
  void give_routes(int router, const RouterSpec& spec);
  /// The list, without its places; reports what is not a host address of its prefix.
  std::vector<models::IpPrefix> host_addresses(const std::vector<Located<models::IpPrefix>>& listed);
  /// The bond that `spec` says, with its functions; reports what is wrong with it.
  std::optional<models::Bond> bond_of(int node, const NodeSpec& owner, const BondSpec& spec);
  /// Its functions get one netdev, and where they are a RoCE LAG one RDMA device.
  void join_functions(int node, models::Bond bond, const BondSpec& spec);
  /// Where the functions' cables lead, once all bonds are known.
  void check_bond_cables();
  /// `device` has the bond's addresses.
  void check_bond_subnets(models::PortRef device, const models::Bond& bond);
  std::vector<models::PortRef> ports_of(const MediumSubnet& medium) const;
  void permute_nics(int node, const std::vector<int>& order);

  const ScenarioSpec& spec_;
  Diagnostics& diagnostics_;
  Built built_;
  std::size_t generated_nodes_ = 0;
  std::map<std::string, int> node_index_;
  std::map<std::pair<int, std::string>, Place> bond_places_;  // [node, name]
  std::vector<MediumSubnet> medium_subnets_;
  std::vector<const Place*> cable_rate_places_;  // parallel to the cluster's cables; nullptr: the file gives none
};

}  // namespace meshbed::testbed
