// The devices behind a node's NICs: GPUs, and PCIe links and QSFP ports that functions share.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "models/gpu.h"
#include "models/gpu_profile.h"
#include "models/lan/qsfp.h"
#include "models/spark.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {
namespace {

models::NicLayout layout_named(const std::string& functions) {
  if (functions == "spark") return models::NicLayout::kSpark;
  return functions == "spark-merged" ? models::NicLayout::kSparkMerged : models::NicLayout::kSeparate;
}

/// GB10 is a Spark's alone.
models::NicLayout layout_of_model(const std::string& gpu_model) {
  const models::GpuModel* const model = models::find_gpu(gpu_model);
  return model != nullptr && model == models::find_gpu("GB10") ? models::NicLayout::kSpark
                                                               : models::NicLayout::kSeparate;
}

/// "cable0-roceP2p1s0f0", or another one where a cable is called so.
std::string wire_name(const models::Cluster& cluster, const std::string& cable, const std::string& device) {
  std::string name = cable + "-" + device;
  while (find_named(cluster.cables, name) >= 0) name += "-2";
  return name;
}

}  // namespace

models::NicLayout layout_of(const TopologySpec& topology) {
  return topology.has("functions") ? layout_named(topology.functions) : layout_of_model(topology.gpu_model);
}

const NodeSpec* Builder::spec_of(const models::Node& node) const {
  const auto found = std::find_if(spec_.nodes.begin(), spec_.nodes.end(),
                                  [&](const NodeSpec& spec) { return spec.name == node.name; });
  return found != spec_.nodes.end() ? &*found : nullptr;
}

void Builder::check_gpu_model(const Entry& entry, const std::string& name) {
  if (!entry.has("gpu_model")) return;
  if (models::is_gpu_file(name)) {
    if (const auto model = models::read_gpu(name); !model) {
      diagnostics_.add(entry.at("gpu_model"), "gpu_model: " + model.error().text);
    }
    return;
  }
  if (models::find_gpu(name) != nullptr) return;
  const std::vector<std::string> names = models::gpu_names();
  std::string upper = name.substr(0, 64);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char letter) { return std::toupper(letter); });
  const std::string close = closest_name(upper, names);
  diagnostics_.add(entry.at("gpu_model"),
                   fmt::format("gpu_model: there is no model of a GPU '{}'{}; there are {}, and a profile's file, "
                               "NAME.toml (calibrate gpu)",
                               name.substr(0, 64), close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close),
                               fmt::join(names, ", ")));
}

void Builder::add_gpus() {
  const auto reach_by = [](models::Node& node, const std::string& gpu_direct) {
    node.peer_memory = gpu_direct == "peermem" || gpu_direct == "both";
    for (models::Nic& nic : node.nics) nic.dma_buf = gpu_direct == "dma-buf" || gpu_direct == "both";
  };
  check_gpu_model(spec_.topology, spec_.topology.gpu_model);
  for (auto& node : built_.cluster.nodes) {
    node.gpus.assign(static_cast<std::size_t>(spec_.topology.gpus), {spec_.topology.gpu_model});
    reach_by(node, spec_.topology.gpu_direct);
  }
  for (const auto& node_spec : spec_.nodes) {
    check_gpu_model(node_spec, node_spec.gpu_model);
    const auto found = node_index_.find(node_spec.name);
    if (found == node_index_.end()) continue;
    if (node_spec.has("gpu_direct")) reach_by(node_at(found->second), node_spec.gpu_direct);
    auto& gpus = node_at(found->second).gpus;
    if (node_spec.has("gpus")) gpus.resize(static_cast<std::size_t>(node_spec.gpus), {spec_.topology.gpu_model});
    if (!node_spec.has("gpu_model")) continue;
    for (auto& gpu : gpus) gpu.model = node_spec.gpu_model;
  }
}

void Builder::join_functions_to_ports() {
  for (models::Node& node : built_.cluster.nodes) {
    const NodeSpec* const spec = spec_of(node);
    models::NicLayout layout = layout_of(spec_.topology);
    const Place* place = &spec_.topology.at(spec_.topology.has("functions") ? "functions" : "gpu_model");
    if (spec != nullptr && spec->has("functions")) {
      layout = layout_named(spec->functions);
      place = &spec->at("functions");
    } else if (spec != nullptr && spec->has("gpu_model") && !spec_.topology.has("functions")) {
      layout = layout_of_model(spec->gpu_model);
      place = &spec->at("gpu_model");
    }
    node.pcie.clear();
    for (models::Nic& nic : node.nics) {
      nic.pcie = -1;
      nic.qsfp.clear();
    }
    if (layout != models::NicLayout::kSeparate && models::join_spark_functions(node, layout) == 0 &&
        !node.nics.empty()) {
      diagnostics_.add(
          *place,
          fmt::format("{}: {} has {}, and a Spark's NICs are {}; name them so, or set functions = "
                      "\"separate\"",
                      spec_.topology.has("functions") || (spec != nullptr && spec->has("functions")) ? "functions"
                                                                                                     : "gpu_model",
                      node.name, list_names(device_names(node)), list_names(models::spark_devices())));
    }
    if (spec == nullptr) continue;
    for (const NicSpec& said : spec->nics) {
      const int nic = find_nic(node, said.device);
      if (nic < 0 || !said.has("qsfp")) continue;
      node.nic(nic).qsfp = said.qsfp == "none" ? "" : said.qsfp;
    }
  }
}

void Builder::add_wires() {
  models::Cluster& cluster = built_.cluster;
  std::map<models::PortRef, int> cable_of;
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    cable_of[cluster.cables[index].a] = cable_of[cluster.cables[index].b] = static_cast<int>(index);
  }
  /// The port's fellow functions that no cable names.
  const auto left_at = [&](models::PortRef port) {
    std::vector<models::PortRef> left;
    const auto& nics = node_at(port.node).nics;
    for (int nic = 0; nic < static_cast<int>(nics.size()); ++nic) {
      const models::PortRef other{port.node, nic};
      const std::string& own = nic_at(port).qsfp;
      if (!own.empty() && nic_at(other).qsfp == own && cable_of.count(other) == 0) left.push_back(other);
    }
    return left;
  };
  const std::size_t cables = cluster.cables.size();
  for (std::size_t index = 0; index < cables; ++index) {
    const models::Cable cable = cluster.cables[index];
    const std::vector<models::PortRef> left_a = left_at(cable.a), left_b = left_at(cable.b);
    for (std::size_t at = 0; at < std::min(left_a.size(), left_b.size()); ++at) {
      models::Cable further = cable;
      further.name = wire_name(cluster, cable.name, nic_at(left_a[at]).device);
      further.a = left_a[at];
      further.b = left_b[at];
      cable_of[further.a] = cable_of[further.b] = static_cast<int>(cluster.cables.size());
      cluster.cables.push_back(std::move(further));
      built_.cable_places.push_back(built_.cable_places[index]);
      cable_rate_places_.push_back(cable_rate_places_[index]);
    }
  }
}

}  // namespace meshbed::testbed
