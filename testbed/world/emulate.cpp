#include "testbed/world/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "models/topology.h"
#include "plugin/coll/store/job_key.h"
#include "sim/host/identity.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/machine_signals.h"
#include "testbed/scenario/build.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/outcome.h"
#include "testbed/world/emulate_namespaces.h"
#include "testbed/world/emulated_faults.h"
#include "testbed/world/fault_folder.h"
#include "testbed/world/gpus.h"
#include "testbed/world/kept_results.h"
#include "testbed/world/line_follower.h"
#include "testbed/world/metal.h"
#include "testbed/world/metal_place.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

constexpr int kSystemMib = 192;           // Debian's kernel, the tools and the page cache of what they load
constexpr double kLookTurn_s = 0.2;       // between two reads of rank 0's output
constexpr double kFaultsTurn_s = 0.01;    // between two checks of faults, while some are pending
constexpr double kLastWord_s = 10;        // so that the ranks' own watchdogs report first
constexpr double kBootAllowance_s = 120;  // on top of the run's own limit: TCG boots slowly on a busy machine

/// By port; -1: no cable.
int wire_of(const models::Cluster& cluster, models::PortRef port) {
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    if (cluster.cables[index].a == port || cluster.cables[index].b == port) return static_cast<int>(index);
  }
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    const auto& ports = cluster.switches[index].ports;
    if (std::find(ports.begin(), ports.end(), port) != ports.end()) {
      return static_cast<int>(cluster.cables.size() + index);
    }
  }
  return -1;
}

/// Memory of the ranks' buffers and the engine's staging buffers. Simulated GPUs keep theirs in the node's memory, and
/// a call on them uses pinned memory.
int memory_mib(const Scenario& scenario, std::uint64_t rank_bytes) {
  const std::uint64_t copies = scenario.workload.gpu_memory ? 3 : 1;
  const std::uint64_t bytes =
      (copies * rank_bytes + 64 * kMiB) * static_cast<std::uint64_t>(ranks_per_node_most(scenario));
  return kSystemMib + static_cast<int>((bytes + kMiB - 1) / kMiB);
}

std::vector<std::string> rank_command(const Scenario& scenario, const EmulateOptions& options, int rank,
                                      const std::string& job_key) {
  const models::Node& first = scenario.cluster.at(node_of(scenario, 0));  // rank 0's
  const std::string address = to_text(first.management->address.address);
  std::vector<std::string> command{"/usr/bin/env",
                                   fmt::format("RANK={}", rank),
                                   fmt::format("WORLD_SIZE={}", ranks_of(scenario)),
                                   fmt::format("MASTER_ADDR={}", address),
                                   fmt::format("MASTER_PORT={}", MetalPlace().port),
                                   fmt::format("{}={}", coll::kJobKeyVariable, job_key),
                                   fmt::format("{}={}", kWorldNameVariable, name_of(WorldKind::kEmulated)),
                                   fmt::format("{}=.", kFaultFolderVariable),
                                   fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), options.command.begin(), options.command.end());
  // The node starts elsewhere. A name without a slash is looked up by the loader, there as here.
  if (const std::string& plugin = scenario.workload.net_plugin; plugin.find('/') != std::string::npos) {
    command.insert(command.end(), {"--set", "workload.net_plugin=" + fs::absolute(plugin).string()});
  }
  return command;
}

std::string text_if_there(const std::string& path) {
  std::error_code problem;
  return fs::exists(path, problem) ? read_text_file(path) : "";
}

/// The end of a rank's output, which may be any bytes; empty if there is none.
std::string last_words(const std::string& path) {
  constexpr std::streamoff kBytesMax = 64 * 1024;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  const std::streamoff left_out = std::max<std::streamoff>(0, size - kBytesMax);
  std::string text(static_cast<std::size_t>(size - left_out), '\0');
  if (size > 0) file.seekg(left_out).read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(size > 0 ? static_cast<std::size_t>(file.gcount()) : 0);
  return left_out > 0 ? fmt::format("... {} bytes before are left out ...\n{}", left_out, text) : text;
}

/// Waits for the end, and copies rank 0's standard error to the progress output, line by line.
emu::ClusterOutcome wait_and_follow(const Scenario& scenario, emu::MicroVms& machines, const EmulateOptions& options,
                                    EmulatedFaults& faults, std::vector<std::string>& waiters) {
  const emu::NodeOutcome first = machines.outcome().nodes[static_cast<std::size_t>(node_of(scenario, 0))];
  LineFollower follower(first.commands.front().stderr_path,
                        [&](std::string_view line) { options.say(fmt::format("{}: {}", first.name, line)); });
  while (!machines.advance(faults.pending() ? kFaultsTurn_s : kLookTurn_s)) {
    for (const std::string& line : faults.serve()) options.say("fault: " + line);
    follower.follow();
    if (faults.waits_for_the_stopped()) {
      options.say("only stopped nodes are left and nothing will continue them: the run ends here");
      waiters = faults.stopped();
      machines.stop();
    }
  }
  follower.finish(&MachineSignals::interrupted);
  return machines.wait();
}

/// Emulated wires carry frames of any size, and guests have no VLAN interfaces.
void refuse_switch_mtus_and_vlans(const Scenario& scenario) {
  const auto refuse = [&](const std::string& what, const std::string& why, const std::string& key) {
    throw std::runtime_error(
        fmt::format("--world emu: {}, and {} says {}; leave out {}, or run it in the simulated "
                    "world",
                    why, scenario.name, what, key));
  };
  for (const models::Switch& box : scenario.cluster.switches) {
    if (!box.boxes.empty()) {
      refuse(fmt::format("{} of {} boxes", box.name, box.boxes.size()), "a switch is one box there", "switch.box");
    }
    if (box.mtu_bytes == 0) continue;
    refuse(fmt::format("{} mtu = {}", box.name, box.mtu_bytes), "a switch lets frames of any size pass there",
           "switch.mtu");
  }
  for (const models::Node& node : scenario.cluster.nodes) {
    for (const models::Nic& nic : node.nics) {
      const std::string name = node.name + "/" + nic.device;
      if (nic.switch_mtu_bytes != 0) {
        refuse(fmt::format("{} switch_mtu = {}", name, nic.switch_mtu_bytes),
               "a switch lets frames of any size pass there", "node.nic.switch_mtu");
      }
      if (nic.vlan == 0) continue;
      refuse(fmt::format("{} vlan = {}", name, nic.vlan), "nodes have no VLAN interfaces there", "node.nic.vlan");
    }
  }
}

nlohmann::ordered_json describe_machines(const emu::Accelerator& accelerator, const emu::BootImage& image,
                                         const emu::ClusterOutcome& outcome) {
  auto nodes = nlohmann::ordered_json::array();
  for (const emu::NodeOutcome& node : outcome.nodes) {
    nodes.push_back({{"name", node.name}, {"memory_mib", node.memory_mib}});
  }
  return {{"backend", "microvm"},
          {"accelerator", accelerator.kvm ? "kvm" : "tcg"},
          {"why", accelerator.reason},
          {"kernel", image.kernel_version},
          {"ready_s", outcome.ready_s},
          {"total_s", outcome.total_s},
          {"nodes", nodes}};
}

}  // namespace

void collect(const Scenario& scenario, const EmulateOptions& options, const emu::ClusterOutcome& outcome, bool followed,
             Emulation& result) {
  const emu::NodeOutcome& first = outcome.nodes[static_cast<std::size_t>(node_of(scenario, 0))];
  if (options.collect) options.collect(first.folder);
  if (!options.reports.empty()) keep_job_reports(options.reports, outcome);
  result.report = text_if_there(first.commands.front().stdout_path);
  if (const auto code = first.commands.front().exit_code) result.exit_code = *code;
  result.troubles = outcome.troubles;
  for (const emu::NodeOutcome& node : outcome.nodes) {
    for (const emu::CommandOutcome& command : node.commands) {
      const bool heard = followed && &command == &first.commands.front();
      const std::string said = last_words(command.stderr_path);
      if (!said.empty() && !heard)
        result.troubles.push_back(node.name + ": " + said.substr(0, said.find_last_not_of('\n') + 1));
      if (result.exit_code == kExitOk && command.exit_code != kExitOk) result.exit_code = kExitBroken;
      // The first node to time out stops answering, so the others may end with an error of their own.
      if (command.exit_code == kExitNoProgress) result.exit_code = kExitNoProgress;
    }
    if (node.end == emu::NodeEnd::kTimedOut) result.exit_code = kExitNoProgress;
    const std::vector<RankError> left = errors_left(node.folder);
    result.errors.insert(result.errors.end(), left.begin(), left.end());
  }
}

/// Linux would use the first of two interfaces in one subnet alone, and a wire joins no two functions there but those
/// of one cable.
void refuse_shared_subnets(const Scenario& scenario) {
  for (const models::Segment& segment : models::analyse(scenario.cluster).segments) {
    if (segment.cable < 0 || segment.ports.size() == 2) continue;
    throw std::runtime_error(
        fmt::format("--world emu: functions of one QSFP port have a subnet each there, and several of {} are in {}; "
                    "give each cable "
                    "its own subnet",
                    scenario.cluster.at(segment.ports.front().node).name, subnet_text(segment.subnet)));
  }
}

emu::EmuCluster emulated_cluster(const Scenario& scenario, const EmulateOptions& options) {
  const models::Cluster& cluster = scenario.cluster;
  refuse_switch_mtus_and_vlans(scenario);
  refuse_shared_subnets(scenario);
  if (cluster.nodes.empty() || !cluster.nodes.front().management) {
    throw std::runtime_error("--world emu: the ranks meet on the management network, and " + scenario.name +
                             " has none; leave out management.enabled = false");
  }
  if (const std::string& netdev = cluster.nodes.front().management->netdev; netdev != emu::kManagementNetdev) {
    throw std::runtime_error("--world emu: the management network's interface is " +
                             std::string(emu::kManagementNetdev) + " there, and " + scenario.name + " calls it " +
                             netdev + "; leave out management.netdev");
  }
  if (!cluster.routers.empty()) {
    throw std::runtime_error("--world emu: nothing there forwards between subnets, and " + scenario.name +
                             " has the [[router]] " + cluster.routers.front().name + "; run it with --world sim");
  }
  for (const models::Node& node : cluster.nodes) {
    if (node.bonds.empty()) continue;
    throw std::runtime_error(
        fmt::format("--world emu: {} of {} in {} is a bond, and the virtual machines' soft-RoCE "
                    "devices stand on single interfaces and know no RoCE LAG; --world sim has bonds",
                    node.bonds.front().name, node.name, scenario.name));
  }
  emu::EmuCluster result;
  result.wires = static_cast<int>(cluster.cables.size() + cluster.switches.size());
  const std::string job_key = new_job_key();
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    const models::Node& node = cluster.nodes[index];
    emu::EmuNode one;
    one.name = node.name;
    one.memory_mib = memory_mib(scenario, options.rank_bytes);
    one.management_address = to_text(node.management->address);
    if (scenario.workload.gpu_memory && !options.command.empty()) {
      one.environment = gpu_environment(node, from_environment("LD_LIBRARY_PATH").value_or(""));
      if (one.environment.empty()) {
        throw std::runtime_error("--world emu: GPU memory needs the simulated CUDA: ./meshbed cuda run builds it");
      }
    }
    for (std::size_t nic = 0; nic < node.nics.size(); ++nic) {
      const models::Nic& from = node.nics[nic];
      const models::PortRef port{static_cast<int>(index), static_cast<int>(nic)};
      emu::EmuNic to{.netdev = from.netdev,
                     .rdma_device = from.device,
                     .mac = sim::mac_text(sim::mac_of(port)),
                     .addresses = {},
                     .mtu = static_cast<int>(from.mtu_bytes),
                     .rdma = true,
                     .wire = from.link_up ? wire_of(cluster, port) : -1};
      for (const models::IpPrefix& prefix : from.addresses) to.addresses.push_back(to_text(prefix));
      one.nics.push_back(std::move(to));
    }
    for (int rank = 0; rank < ranks_of(scenario); ++rank) {
      if (node_of(scenario, rank) == static_cast<int>(index)) {
        one.commands.push_back(rank_command(scenario, options, rank, job_key));
      }
    }
    result.nodes.push_back(std::move(one));
  }
  return result;
}

std::function<void(const std::string& line)> say_on(std::ostream& err) {
  return [&err](const std::string& line) { err << "meshbed: " << line << "\n" << std::flush; };
}

bool tell_troubles(const Emulation& emulation, const std::string& not_taken, std::ostream& err) {
  for (const std::string& trouble : emulation.troubles) err << "meshbed: " << trouble << "\n";
  err << not_taken;
  if (emulation.interrupted) err << "meshbed: interrupted; nothing is left running\n";
  return !emulation.interrupted;
}

Emulation emulate(const Scenario& scenario, const EmulateOptions& options) {
  if (options.backend == "namespaces" || (options.backend == "auto" && stands_in_namespaces(scenario))) {
    return emulate_in_namespaces(scenario, options);
  }
  refuse_what_machines_cannot(scenario);
  const emu::EmuCluster cluster = emulated_cluster(scenario, options);
  const emu::Accelerator accelerator = emu::probe_accelerator();
  emu::require_machine_for(cluster, accelerator.kvm);
  const emu::BootImage image = emu::make_boot_image(emu::cache_folder(), options.say);
  options.say(fmt::format("{} virtual machines, kernel {}; {}", cluster.nodes.size(), image.kernel_version,
                          accelerator.reason));
  emu::MicroVms machines(cluster, {.image = image,
                                   .accelerator = accelerator,
                                   .work_dir = "",
                                   .keep_folder = false,
                                   .time_limit_s = options.time_limit_s + kBootAllowance_s + kLastWord_s,
                                   .commands_s = options.time_limit_s + kLastWord_s,
                                   .on_progress = [&](const std::string& node, const emu::Mark& mark) {
                                     options.say(fmt::format("{:6.1f} s  {}: {}", mark.at_s, node, mark.text));
                                   }});
  const MachineSignals signals(machines);
  machines.start();
  std::vector<std::string> folders;
  for (const emu::NodeOutcome& node : machines.outcome().nodes) folders.push_back(node.folder);
  EmulatedFaults faults(scenario, machines, folders);
  Emulation result;
  const emu::ClusterOutcome outcome = wait_and_follow(scenario, machines, options, faults, result.waiters);
  result.faults = faults.taken();
  result.interrupted = MachineSignals::interrupted();
  collect(scenario, options, outcome, true, result);
  for (const FaultEvent& event : result.faults) {
    const Fault& fault = scenario.faults[event.step.fault];
    if (fault.kind != FaultKind::kNodeKill) continue;
    for (RankError& error : without_power(scenario, find_node(scenario.cluster, fault.target), event.at_ps)) {
      result.errors.push_back(std::move(error));
    }
  }
  result.machines = describe_machines(accelerator, image, outcome);
  result.machines_text =
      fmt::format("{} virtual machines ({}): ready after {:.1f} s, {:.1f} s in all", cluster.nodes.size(),
                  accelerator.kvm ? "kvm" : "tcg", outcome.ready_s, outcome.total_s);
  return result;
}

}  // namespace meshbed::testbed
