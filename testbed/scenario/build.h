#pragma once
// From the parsed file to a cluster: generates the topology, applies the listed nodes, cables and switches to it,
// resolves names, numbers addresses and derives values that the file leaves open.

#include <cstddef>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/spark.h"
#include "testbed/base/diagnostics.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {

/// A cluster, and where each of its parts was written (a generated part: the [topology] section). The vectors run
/// parallel to those in the cluster.
struct Built {
  models::Cluster cluster;
  std::vector<Place> node_places;
  std::vector<std::vector<Place>> nic_places;  // [node][nic]
  std::vector<Place> cable_places;
  std::vector<Place> switch_places;
};

/// Reports what cannot be resolved. What it returns then is incomplete, but its indices are valid.
Built build_cluster(const ScenarioSpec& spec, Diagnostics& diagnostics);

/// How generated NICs share PCIe links and ports: as `functions` says, or as the named model's machines have it.
models::NicLayout layout_of(const TopologySpec& topology);

/// Place of the thing of that name, or -1.
template <typename Thing>
int find_named(const std::vector<Thing>& things, const std::string& name) {
  for (std::size_t i = 0; i < things.size(); ++i) {
    if (things[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

/// Node of that name, or -1.
int find_node(const models::Cluster& cluster, const std::string& name);
/// NIC of that device name, or of that function of a bond (models::Nic::function), or -1.
int find_nic(const models::Node& node, const std::string& device);
std::vector<std::string> node_names(const models::Cluster& cluster);
std::vector<std::string> device_names(const models::Node& node);

}  // namespace meshbed::testbed
