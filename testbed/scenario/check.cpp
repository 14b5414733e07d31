#include "testbed/scenario/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>

#include "models/gpu.h"
#include "models/lan/bond.h"
#include "models/lan/qsfp.h"
#include "models/lan/trunks.h"
#include "models/lan/vlan.h"
#include "models/topology_generate.h"
#include "plugin/coll/plan/tuning.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/nccl/library.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kCudaNames[] = {"libcuda.so", "libcudart.so"};

std::string port_name(const models::Cluster& cluster, models::PortRef port) {
  const auto& node = cluster.at(port.node);
  return fmt::format("{}/{}", node.name, node.nic(port.nic).device);
}

void check_netdevs(const models::Node& node, const std::vector<Place>& places, Diagnostics& diagnostics) {
  std::set<std::string> netdevs;
  if (node.management) netdevs.insert(node.management->netdev);
  for (std::size_t i = 0; i < node.nics.size(); ++i) {
    if (node.nics[i].netdev == "lo") {
      diagnostics.add(places[i], fmt::format("netdev: 'lo' on {} is the loopback interface", node.name));
    }
    const std::string& pci = node.nics[i].pci_path;
    if (pci.rfind("/sys/devices/", 0) != 0 || pci.find("/..") != std::string::npos) {
      diagnostics.add(places[i], fmt::format("pci_path: '{}' does not lie in /sys/devices/", pci));
    }
    const std::set<std::string> own{node.nics[i].netdev, models::address_netdev(node.nics[i])};
    for (const std::string& netdev : own) {
      if (netdevs.insert(netdev).second) continue;
      diagnostics.add(places[i], fmt::format("netdev: '{}' is there twice on {}", netdev, node.name));
    }
  }
}

/// Ports that are taken, and by what.
class PortUse {
 public:
  PortUse(const Built& built, Diagnostics& diagnostics) : built_(built), diagnostics_(diagnostics) {}

  void take(models::PortRef port, const std::string& owner, const Place& place) {
    const auto [entry, is_new] = owner_.emplace(port, owner);
    if (is_new) return;
    diagnostics_.add(place, fmt::format("{} is on two cables: '{}' and '{}'; a NIC has one",
                                        port_name(built_.cluster, port), entry->second, owner));
  }

 private:
  const Built& built_;
  Diagnostics& diagnostics_;
  std::map<models::PortRef, std::string> owner_;
};

/// A QSFP port has one cable.
void check_wires(const Built& built, Diagnostics& diagnostics) {
  const auto split = models::split_port(built.cluster);
  if (!split) return;
  const auto& places = built.nic_places[static_cast<std::size_t>(split->other.node)];
  diagnostics.add(places[static_cast<std::size_t>(split->other.nic)],
                  fmt::format("qsfp: {} and {} are functions of one port, and its one cable cannot lead to two places; "
                              "cable both to the functions of one port, or set functions = \"separate\"",
                              port_name(built.cluster, split->one), port_name(built.cluster, split->other)));
}

/// A size that would be rounded to another one, or to nothing, is not what was asked for.
void check_bytes(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const Workload& workload = scenario.workload;
  const auto op = models::parse_collective(workload.collective);
  const int ranks = ranks_of(scenario);
  if (workload.kind != WorkloadKind::kCollective || !op || ranks == 0) return;
  const coll::DataType type = parse_data_type("dtype", workload.dtype);
  const std::uint64_t element_bytes = size_of(type);
  if (models::reduces(*op) && !is_reducible(type)) {
    return diagnostics.add(spec.workload.at("dtype"), fmt::format("dtype: {} is moved, never reduced, and {} reduces",
                                                                  workload.dtype, workload.collective));
  }
  const std::uint64_t least = smallest_bytes(*op, ranks, type);
  if (workload.bytes < least) {
    return diagnostics.add(spec.workload.at("bytes"),
                           fmt::format("bytes: {} is too few: the smallest {} on {} is {}", workload.bytes,
                                       workload.collective, counted(static_cast<std::uint64_t>(ranks), "rank"), least));
  }
  if (const std::uint64_t rest = workload.bytes % element_bytes; rest != 0) {
    const std::uint64_t below = workload.bytes - rest;
    diagnostics.add(spec.workload.at("bytes"),
                    fmt::format("bytes: {} is not a multiple of {}, the bytes of a {}; the nearest are {} and {}",
                                workload.bytes, element_bytes, workload.dtype, below, below + element_bytes));
  }
  if (workload.slice_bytes % element_bytes != 0) {
    diagnostics.add(spec.workload.at("slice_bytes"),
                    fmt::format("slice_bytes: {} is not a multiple of {}, the bytes of a {}", workload.slice_bytes,
                                element_bytes, workload.dtype));
  }
}

/// Each of its GPUs has a model. `key`: what needs one.
bool check_gpu_models(const models::Node& node, const char* key, const Place& place, Diagnostics& diagnostics) {
  const bool all_named =
      std::none_of(node.gpus.begin(), node.gpus.end(), [](const models::Gpu& gpu) { return gpu.model.empty(); });
  if (all_named) return true;
  diagnostics.add(place,
                  fmt::format("{}: {}'s GPUs have no model; set gpu_model of [topology] or of the node to one of "
                              "{}, or to a profile's file",
                              key, node.name, fmt::join(models::gpu_names(), ", ")));
  return false;
}

/// Every rank's node has GPUs, and there are models of them.
void check_gpus(const Scenario& scenario, const Place& place, Diagnostics& diagnostics) {
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const models::Node& node = scenario.cluster.at(node_of(scenario, rank));
    if (node.gpus.empty()) {
      return diagnostics.add(place, fmt::format("memory: {} has no GPU: set gpus to 1 or more", node.name));
    }
    if (!check_gpu_models(node, "memory", place, diagnostics)) return;
  }
}

void check_memory(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  if (!scenario.workload.gpu_memory) return;
  const Place& place = spec.workload.at("memory");
  const WorkloadInfo& kind = info_of(scenario.workload.kind);
  if (!kind.gpu_memory) {
    return diagnostics.add(place,
                           fmt::format("memory: gpu is for {}; other workloads have their messages in host memory",
                                       list_names(names_of(&WorkloadInfo::gpu_memory))));
  }
  if (kind.runs_engine) return check_gpus(scenario, place, diagnostics);
  for (const auto& node : scenario.cluster.nodes) {
    if (std::all_of(node.nics.begin(), node.nics.end(), [](const models::Nic& nic) { return nic.dma_buf; })) continue;
    return diagnostics.add(place,
                           fmt::format("memory: the adapters of {} take no dma-buf of GPU memory: set gpu_direct "
                                       "to dma-buf or both",
                                       node.name));
  }
}

void check_data(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const Workload& workload = scenario.workload;
  if (!workload.shared_data) return;
  const Place& place = spec.workload.at("data");
  if (workload.kind != WorkloadKind::kCollective) {
    return diagnostics.add(place, "data: shared is for a collective; leave it out");
  }
  if (workload.gpu_memory) {
    return diagnostics.add(place, "data: GPUs have memory of their own: set memory = host, or leave data out");
  }
  const auto collective = models::parse_collective(workload.collective);
  if (collective && models::reduces(*collective) && workload.op != "max" && workload.op != "min") {
    diagnostics.add(
        place, fmt::format("data: ranks that share their buffers cannot reduce them by {}: set op = max", workload.op));
  }
}

void check_workload(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const Workload& workload = scenario.workload;
  const WorkloadSpec& said = spec.workload;
  const auto nodes = static_cast<std::int64_t>(scenario.cluster.nodes.size());
  if (workload.nodes > nodes) {
    diagnostics.add(said.at("nodes"),
                    fmt::format("nodes: {} are to run ranks, but there are {}", workload.nodes, nodes));
    return;
  }
  const std::int64_t ranks = ranks_of(scenario);
  check_bytes(scenario, spec, diagnostics);
  check_memory(scenario, spec, diagnostics);
  check_data(scenario, spec, diagnostics);
  if (workload.root >= ranks && nodes > 0) {
    diagnostics.add(said.at("root"), fmt::format("root: {} is not a rank; there are {} ranks", workload.root, ranks));
  }
  if (workload.late_by_ps > 0 && workload.late_rank >= ranks && nodes > 0) {
    diagnostics.add(said.at("late_rank"),
                    fmt::format("late_rank: {} is not a rank; there are {} ranks", workload.late_rank, ranks));
  }
  if (workload.late_by_ps > 0 && workload.late_iteration >= workload.iterations) {
    diagnostics.add(said.at("late_iteration"), fmt::format("late_iteration: {} never comes; there are {} iterations",
                                                           workload.late_iteration, workload.iterations));
  }
  if (workload.differing_rank >= ranks && nodes > 0) {
    diagnostics.add(said.at("differing_rank"), fmt::format("differing_rank: {} is not a rank; there are {} ranks",
                                                           workload.differing_rank, ranks));
  }
  if (workload.collective == "sendrecv" && ranks > 1 && workload.shift % ranks == 0) {
    diagnostics.add(said.at("shift"),
                    fmt::format("shift: with {} ranks a shift of {} sends to oneself", ranks, workload.shift));
  }
  if (!workload.senders.empty() && workload.collective != "sendrecv") {
    diagnostics.add(said.at("senders"), "senders: only sendrecv has some; in other collectives all ranks take part");
  }
  for (const int sender : workload.senders) {
    if (sender < ranks || nodes == 0) continue;
    diagnostics.add(said.at("senders"), fmt::format("senders: {} is not a rank; there are {} ranks", sender, ranks));
  }
  if (workload.net_version != 0 && workload.net_version < 8) {
    diagnostics.add(said.at("net_version"),
                    fmt::format("net_version: {} is not supported; accepted: 0, 8 to 12", workload.net_version));
  }
  const auto& devices = workload.channel_devices;
  if (!devices.empty() && devices.size() != static_cast<std::size_t>(workload.channels)) {
    diagnostics.add(said.at("channel_devices"),
                    fmt::format("channel_devices: {} devices for {} channels", devices.size(), workload.channels));
  }
  for (const auto& node : scenario.cluster.nodes) {
    for (const int device : devices) {
      if (static_cast<std::size_t>(device) < models::rdma_devices(node)) continue;
      return diagnostics.add(said.at("channel_devices"),
                             fmt::format("channel_devices: there is no device {} on {}, which has {}", device,
                                         node.name, models::rdma_devices(node)));
    }
  }
}

/// The engine's ranks, and a program's, find each other by TCP on the management network; recordings bring their own
/// handles.
void check_management(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const bool is_program = scenario.workload.kind == WorkloadKind::kProgram;
  if (spec.management.enabled || (!is_program && !runs_engine(scenario.workload.kind))) return;
  diagnostics.add(spec.management.at("enabled"),
                  fmt::format("enabled: the ranks of a {} meet over the management network; leave it on, or say "
                              "[workload] kind = \"nccl-calls\" or \"idle\"",
                              is_program ? "program" : "collective"));
}

bool is_file(const std::string& path) {
  std::error_code error;
  return path.find('\0') == std::string::npos && std::filesystem::is_regular_file(path, error);
}

void check_recording(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const bool replays = scenario.workload.kind == WorkloadKind::kNcclCalls;
  if (replays && scenario.workload.recording.empty()) {
    return diagnostics.add(spec.workload.at("kind"), "kind = \"nccl-calls\" needs recording");
  }
  if (!replays) return;
  const std::string path = path_beside(scenario, scenario.workload.recording);
  if (!is_file(path)) {
    diagnostics.add(spec.workload.at("recording"), fmt::format("recording: there is no file '{}'", path));
  }
}

/// It names CUDA's driver or runtime as a library that it needs or opens.
bool uses_cuda(const std::string& path) {
  const std::string bytes = read_text_file(path);
  return std::any_of(std::begin(kCudaNames), std::end(kCudaNames),
                     [&](const char* name) { return bytes.find(name) != std::string::npos; });
}

void check_program(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  if (scenario.workload.kind != WorkloadKind::kProgram) return;
  if (scenario.workload.program.empty()) {
    return diagnostics.add(spec.workload.at("kind"), "kind = \"program\" needs program, the file that every rank runs");
  }
  const std::string path = path_beside(scenario, scenario.workload.program);
  if (!is_file(path)) {
    return diagnostics.add(spec.workload.at("program"), fmt::format("program: there is no file '{}'", path));
  }
  if (nccl_library_of(scenario, kNcclDropin).empty()) {
    const bool searched = scenario.workload.nccl == kNcclSystem;
    diagnostics.add(spec.workload.at("nccl"),
                    searched
                        ? "nccl: no libnccl.so.2 is in the program's run path, LD_LIBRARY_PATH or the system's "
                          "folders; name its file, or leave nccl out for the drop-in"
                        : fmt::format("nccl: there is no file '{}'; name a libnccl.so, or \"drop-in\" or \"system\"",
                                      path_beside(scenario, scenario.workload.nccl)));
  }
  if (!uses_cuda(path)) return;
  for (const models::Node& node : scenario.cluster.nodes) {
    if (!check_gpu_models(node, "program", spec.workload.at("program"), diagnostics)) return;
  }
}

void check_tuning(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  const Workload& workload = scenario.workload;
  if (workload.tuning.empty()) return;
  const auto add = [&](const std::string& what) { diagnostics.add(spec.workload.at("tuning"), "tuning: " + what); };
  if (workload.algorithm != "auto" && workload.protocol != "auto") {
    return add("a table is for what is chosen: set algorithm or protocol to \"auto\"");
  }
  const std::string path = path_beside(scenario, workload.tuning);
  if (!is_file(path)) return add(fmt::format("there is no file '{}'", path));
  if (const auto table = coll::parse_tuning(read_text_file(path)); !table) {
    add(fmt::format("{}: {}", path, table.error().text));
  }
}

bool kills(const Scenario& scenario, const std::string& node) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(),
                     [&](const Fault& fault) { return fault.kind == FaultKind::kNodeKill && fault.target == node; });
}

}  // namespace

void check_cluster(const Built& built, Diagnostics& diagnostics) {
  const auto& cluster = built.cluster;
  if (cluster.nodes.empty()) {
    diagnostics.add("the scenario has no nodes; say [topology] kind = \"ring\", nodes = 3, or list [[node]]");
  }
  std::int64_t nics = 0;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    nics += static_cast<std::int64_t>(cluster.nodes[i].nics.size());
    check_netdevs(cluster.nodes[i], built.nic_places[i], diagnostics);
  }
  if (static_cast<std::int64_t>(cluster.nodes.size()) > models::kNodesMax || nics > models::kNicsMax) {
    diagnostics.add(fmt::format("{} nodes and {} NICs; the most are {} and {}", cluster.nodes.size(), nics,
                                models::kNodesMax, models::kNicsMax));
  }
  PortUse use(built, diagnostics);
  for (std::size_t i = 0; i < cluster.cables.size(); ++i) {
    use.take(cluster.cables[i].a, cluster.cables[i].name, built.cable_places[i]);
    use.take(cluster.cables[i].b, cluster.cables[i].name, built.cable_places[i]);
  }
  check_wires(built, diagnostics);
  for (std::size_t i = 0; i < cluster.switches.size(); ++i) {
    for (const auto& port : cluster.switches[i].ports) use.take(port, cluster.switches[i].name, built.switch_places[i]);
  }
}

void check_run(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  if (scenario.fabric == "fluid" && models::has_boxes(scenario.cluster)) {
    diagnostics.add(
        spec.fabric.at("kind"),
        "kind: fluid has one way between two ports, and a switch of several boxes has one for each flow; say "
        "chunk");
  }
  check_megakernel(scenario, spec, diagnostics);
  check_workload(scenario, spec, diagnostics);
  check_recording(scenario, spec, diagnostics);
  check_program(scenario, spec, diagnostics);
  check_tuning(scenario, spec, diagnostics);
  check_management(scenario, spec, diagnostics);
  for (const auto& fault : spec.faults) check_fault(scenario, fault, diagnostics);
  for (const auto& [left, right] : scenario.expect.unreachable) {
    for (const auto& name : {left, right}) {
      if (find_node(scenario.cluster, name) >= 0) continue;
      diagnostics.add(spec.expect.at("unreachable"),
                      fmt::format("unreachable: there is no node '{}'; nodes are: {}", name.substr(0, 64),
                                  list_names(node_names(scenario.cluster))));
    }
    if (left == right) {
      diagnostics.add(spec.expect.at("unreachable"),
                      fmt::format("unreachable: '{}' is paired with itself", left.substr(0, 64)));
    }
  }
  if (scenario.expect.lost && !kills(scenario, *scenario.expect.lost)) {
    diagnostics.add(spec.expect.at("lost"),
                    fmt::format("lost: there is no [[fault]] node_kill of '{}'", scenario.expect.lost->substr(0, 64)));
  }
  if (spec.limits.time_ps <= 0)
    diagnostics.add(spec.limits.at("time"), "time: a limit of 0 ends every run; leave it out");
}

}  // namespace meshbed::testbed
