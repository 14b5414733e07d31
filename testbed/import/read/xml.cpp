// XML: NCCL's topology (NCCL_TOPO_DUMP_FILE) and graph (NCCL_GRAPH_DUMP_FILE), nvidia-smi -q -x, and hwloc's.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>
#include <set>

#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {
namespace {

/// Takes the elements below one, in document order, without recursion: files may nest as deep as they like.
class Walker : public pugi::xml_tree_walker {
 public:
  Walker(const Part& part, HostFacts& host) : part_(part), host_(host) {}

 protected:
  std::string source_of(const pugi::xml_node& node) const {
    const auto offset = node.offset_debug();
    return source_at(part_.path, part_.text, offset < 0 ? 0 : static_cast<std::size_t>(offset));
  }

  const Part& part_;
  HostFacts& host_;
};

/// <system><cpu><pci busid class link_speed link_width><nic><net name dev speed port guid/></nic></pci>.
class TopologyWalker : public Walker {
 public:
  using Walker::Walker;

  bool for_each(pugi::xml_node& node) override {
    const std::string name = node.name();
    if (name == "pci") take_pci(node);
    if (name == "net") take_net(node);
    if (name == "gpu") take_gpu(node);
    return true;
  }

  void order_nics() {
    const auto number = [&](const NicFacts& nic) {
      const auto found = devices_.find(nic.name());
      return found == devices_.end() ? -1 : found->second;
    };
    std::stable_sort(host_.nics.begin(), host_.nics.end(),
                     [&](const NicFacts& left, const NicFacts& right) { return number(left) < number(right); });
  }

 private:
  static std::string address_above(const pugi::xml_node& node) {
    for (pugi::xml_node at = node.parent(); at; at = at.parent()) {
      if (std::string(at.name()) == "pci") return pci_address(at.attribute("busid").value());
    }
    return "";
  }

  void take_pci(const pugi::xml_node& node) {
    const std::string address = pci_address(node.attribute("busid").value()), source = source_of(node);
    if (address.empty()) return;
    PciFacts& pci = host_.pci[address];
    if (pci.source.empty()) pci.source = source;
    const int generation = pcie_generation(std::strtod(node.attribute("link_speed").value(), nullptr));
    const int lanes = node.attribute("link_width").as_int();
    if (generation > 0) pci.generation.offer(generation, source);
    if (lanes > 0 && lanes <= 32) pci.lanes.offer(lanes, source);
    // Files that clouds ship for NCCL_TOPO_FILE list functions by their class alone.
    const std::string device_class = node.attribute("class").value();
    if (device_class.rfind("0x0302", 0) == 0) add_gpu(address, source);
    const bool is_nic = device_class.rfind("0x0207", 0) == 0 || device_class.rfind("0x0200", 0) == 0;
    if (is_nic && !node.child("nic")) nic_at(address, source);
  }

  void take_net(const pugi::xml_node& node) {
    const std::string name = node.attribute("name").value(), source = source_of(node), address = address_above(node);
    if (name.empty()) return;
    // NCCL's socket transport writes network interfaces, which its verbs transport never names so.
    const bool is_netdev = name.rfind("en", 0) == 0 || name.rfind("eth", 0) == 0;
    NicFacts& nic = is_netdev ? host_.by_netdev(name, source) : host_.by_device(name, source);
    if (!address.empty()) nic.pci_address.offer(address, source);
    devices_[name] = node.attribute("dev").as_int(-1);
    const long mbps = std::strtol(node.attribute("speed").value(), nullptr, 10);
    if (mbps > 0 && mbps < 10'000'000) nic.rate_bps.offer(static_cast<std::uint64_t>(mbps) * 1'000'000, source);
    const std::string guid = lower(node.attribute("guid").value());
    if (!guid.empty() && guid != "0x0") nic.node_guid.offer(guid, source);
    const int port = node.attribute("port").as_int();
    if (port > 0 && port < 256) nic.rdma_port.offer(port, source);
  }

  void take_gpu(const pugi::xml_node& node) {
    const std::string source = source_of(node), address = address_above(node);
    add_gpu(address, source);
    const int capability = node.attribute("sm").as_int();
    for (GpuFacts& gpu : host_.gpus) {
      if (gpu.pci_address.value != address || capability == 0) continue;
      // NVIDIA's list of compute capabilities: only these are of one model alone.
      if (capability == 121) gpu.model.offer("GB10", source, Origin::kConfigured);
    }
  }

  void add_gpu(const std::string& address, const std::string& source) {
    if (!gpus_.insert(address).second) return;
    for (const GpuFacts& gpu : host_.gpus) {
      if (gpu.pci_address.value == address) return;
    }
    host_.gpus.emplace_back().pci_address.offer(address, source);
  }

  void nic_at(const std::string& address, const std::string& source) {
    for (const NicFacts& nic : host_.nics) {
      if (nic.pci_address.value == address) return;
    }
    host_.nics.emplace_back().pci_address.offer(address, source);
  }

  std::set<std::string> gpus_;
  std::map<std::string, int> devices_;  // NCCL's number of each NIC, which is the order in which the node lists them
};

/// <graphs><graph id pattern nchannels><channel><net dev/><gpu dev/></channel>: the ring's channels.
class GraphWalker : public Walker {
 public:
  using Walker::Walker;

  bool for_each(pugi::xml_node& node) override {
    constexpr int kRingPattern = 4;  // NCCL_TOPO_PATTERN_RING, src/include/graph.h
    if (std::string(node.name()) != "graph" || node.attribute("pattern").as_int() != kRingPattern) return true;
    const int channels = node.attribute("nchannels").as_int();
    if (channels <= 0 || channels > 64) return true;
    host_.others["nccl-channels"].offer(std::to_string(channels), source_of(node));
    std::string devices;
    for (const pugi::xml_node& channel : node.children("channel")) {
      const pugi::xml_node net = channel.child("net");
      if (net) devices += fmt::format("{}{}", devices.empty() ? "" : " ", net.attribute("dev").as_int());
    }
    if (!devices.empty()) host_.others["nccl-channel-devices"].offer(devices, source_of(node));
    return true;
  }
};

class NvidiaWalker : public Walker {
 public:
  using Walker::Walker;

  bool for_each(pugi::xml_node& node) override {
    const std::string name = node.name();
    if (name == "driver_version") host_.others["nvidia"].offer(node.child_value(), source_of(node));
    if (name != "gpu" || !node.attribute("id")) return true;
    const std::string address = pci_address(node.attribute("id").value()), source = source_of(node);
    GpuFacts* found = nullptr;
    for (GpuFacts& gpu : host_.gpus) {
      if (gpu.pci_address.value == address && !address.empty()) found = &gpu;
    }
    if (found == nullptr) found = &host_.gpus.emplace_back();
    if (!address.empty()) found->pci_address.offer(address, source);
    const std::string model = node.child("product_name").child_value();
    if (!model.empty()) found->model.offer(model, source);
    return true;
  }
};

/// hwloc (lstopo --of xml): <object type="PCIDev" pci_busid><object type="OSDev" name osdev_type><info name value/>.
class HwlocWalker : public Walker {
 public:
  using Walker::Walker;

  void set_version(const std::string& version) {
    has_bits_ = parse_digits(version.substr(0, version.find('.')), 99) >= 3;
  }

  bool for_each(pugi::xml_node& node) override {
    if (std::string(node.name()) != "object" || std::string(node.attribute("type").value()) != "OSDev") return true;
    const std::string kind = node.attribute("osdev_type").value(), name = node.attribute("name").value();
    const std::string source = source_of(node), function = pci_address(node.parent().attribute("pci_busid").value());
    if (name.empty()) return true;
    if (is_of(kind, kNetwork)) {
      NicFacts& nic = host_.by_netdev(name, source);
      if (!function.empty()) nic.pci_address.offer(function, source);
      const std::string mac = lower(info(node, "Address"));
      if (mac.size() == 17) nic.mac.offer(mac, source);
      if (mac.size() > 17) nic.link_layer.offer("InfiniBand", source);
    } else if (is_of(kind, kOpenFabrics)) {
      NicFacts& nic = host_.by_device(name, source);
      if (!function.empty()) nic.pci_address.offer(function, source);
      if (const std::string state = info(node, "Port1State"); !state.empty()) nic.link_up.offer(state == "4", source);
      if (const std::string guid = lower(info(node, "NodeGUID")); !guid.empty()) nic.node_guid.offer(guid, source);
      if (const std::string guid = lower(info(node, "SysImageGUID")); !guid.empty()) nic.image_guid.offer(guid, source);
    } else if (name.rfind("nvml", 0) == 0) {
      GpuFacts& gpu = host_.gpus.emplace_back();
      if (!function.empty()) gpu.pci_address.offer(function, source);
      if (const std::string model = info(node, "GPUModel"); !model.empty()) gpu.model.offer(model, source);
    }
    return true;
  }

 private:
  /// hwloc.h, hwloc_obj_osdev_type_t: 2.9 numbers the types; in 3.0 each is a bit, and a device may have several.
  struct DeviceType {
    std::uint64_t number, bit;
  };
  static constexpr DeviceType kNetwork{2, 1U << 4U}, kOpenFabrics{3, 1U << 5U};

  /// An RDMA device of 3.0 is a network, too.
  bool is_of(const std::string& kind, const DeviceType& type) const {
    const std::uint64_t value = parse_digits(kind, 1U << 16U).value_or(0);
    if (!has_bits_) return value == type.number;
    return ((value & kOpenFabrics.bit) != 0 ? kOpenFabrics.bit : value & kNetwork.bit) == type.bit;
  }

  static std::string info(const pugi::xml_node& node, const char* name) {
    for (const pugi::xml_node& each : node.children("info")) {
      if (std::string(each.attribute("name").value()) == name) return each.attribute("value").value();
    }
    return "";
  }

  bool has_bits_ = false;
};

}  // namespace

bool read_xml(const Part& part, Reading& into) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(part.text.data(), part.text.size());
  if (!parsed) {
    const auto offset = parsed.offset < 0 ? std::size_t{0} : static_cast<std::size_t>(parsed.offset);
    refuse(part.path, line_at(part.text, offset), column_at(part.text, offset),
           fmt::format("not XML: {}; save the file again, or leave it out", parsed.description()));
  }
  const std::string root = document.document_element().name();
  if (root == "system") {
    TopologyWalker walker(part, into.host);
    document.traverse(walker);
    walker.order_nics();
    return true;
  }
  if (root == "graphs") {
    GraphWalker walker(part, into.host);
    document.traverse(walker);
    return true;
  }
  if (root == "topology") {
    HwlocWalker walker(part, into.host);
    walker.set_version(document.document_element().attribute("version").value());
    document.traverse(walker);
    return true;
  }
  if (root != "nvidia_smi_log") return false;
  NvidiaWalker walker(part, into.host);
  document.traverse(walker);
  return true;
}

}  // namespace meshbed::testbed::hosts
