#include "testbed/world/emulate_namespaces.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

#include "emu/namespace/namespace_run.h"
#include "plugin/base/deadline.h"
#include "testbed/base/machine_signals.h"
#include "testbed/world/metal_devices.h"

namespace meshbed::testbed {
namespace {

bool is_up(const std::optional<emu::NamespaceState>& state) {
  return state && state->complete && state->owner == emu::kNamespacesByHand;
}

emu::NamespaceLayout layout_of(const emu::NamespaceState& state) {
  return state.layout == to_text(emu::NamespaceLayout::kPolicyRouting) ? emu::NamespaceLayout::kPolicyRouting
                                                                       : emu::NamespaceLayout::kNetworkNamespaces;
}

/// Which of the kernel's devices are whose.
void tell_devices(emu::EmuCluster& cluster) {
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    MetalDevices::Names names;
    const auto& nics = cluster.nodes[node].nics;
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      names.emplace_back(nics[nic].rdma_device, emu::namespace_device(static_cast<int>(node), static_cast<int>(nic)));
    }
    cluster.nodes[node].environment.emplace_back(kDevicesVariable, MetalDevices(names).text());
  }
}

/// Sets up where nothing is up, and then takes down, however it ends.
class Standing {
 public:
  using Say = std::function<void(const std::string& line)>;

  Standing(const Scenario& scenario, const emu::NamespaceRun& run, const Say& say)
      : say_(say), state_(emu::read_namespace_state()) {
    layout_ = is_up(state_) ? layout_of(*state_) : emu::probe_layout();
    const emu::NamespacePlan plan = namespace_plan(scenario, layout_, emu::kNamespacesByRun);
    if (!is_up(state_)) {
      emu::set_up(plan, [&run] { return run.stop_requested(); });
      ours_ = true;
    } else if (state_->digest != plan.digest) {
      throw std::runtime_error(fmt::format(
          "another cluster is up in the namespaces: {}; take it down (meshbed emu down), or put this one in its place "
          "(meshbed emu up {})",
          state_->title, scenario.path));
    } else if (!emu::is_set_up(plan)) {
      throw std::runtime_error("what meshbed emu up has set up is no longer whole; repair it: meshbed emu up " +
                               scenario.path);
    }
  }
  ~Standing() {
    try {
      take_down();
    } catch (const std::exception& problem) {
      say_(problem.what());  // which names the state file: it stays, and meshbed emu down tries again
    }
  }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

  emu::NamespaceLayout layout() const { return layout_; }
  bool is_ours() const { return ours_; }
  void take_down() {
    if (std::exchange(ours_, false)) emu::take_down();
  }

 private:
  const Say& say_;
  std::optional<emu::NamespaceState> state_;
  emu::NamespaceLayout layout_ = emu::NamespaceLayout::kPolicyRouting;
  bool ours_ = false;
};

std::string kernel_release() {
  utsname machine{};
  uname(&machine);
  return machine.release;
}

}  // namespace

emu::NamespacePlan namespace_plan(const Scenario& scenario, emu::NamespaceLayout layout, const std::string& owner) {
  const emu::EmuCluster cluster = emulated_cluster(scenario, {});
  emu::check_cluster(cluster);
  std::string title = fmt::format("scenario {} ({})", scenario.name, scenario.path);
  std::replace(title.begin(), title.end(), '\n', ' ');
  return emu::plan_namespaces(cluster,
                              {.layout = layout, .folder = emu::kNamespaceFolder, .owner = owner, .title = title});
}

bool stands_in_namespaces(const Scenario& scenario) {
  const auto state = emu::read_namespace_state();
  return geteuid() == 0 && is_up(state) && scenario.faults.empty() &&
         namespace_plan(scenario, layout_of(*state), emu::kNamespacesByRun).digest == state->digest;
}

Emulation emulate_in_namespaces(const Scenario& scenario, const EmulateOptions& options) {
  if (!scenario.faults.empty()) {
    throw std::runtime_error(scenario.path +
                             ": [[fault]] is carried out on virtual machines, not in namespaces: --backend microvm");
  }
  emu::require_root();
  emu::EmuCluster cluster = emulated_cluster(scenario, options);
  tell_devices(cluster);
  const emu::NamespaceLock lock;
  emu::NamespaceRun run(cluster);
  const MachineSignals signals(run);
  Emulation result;
  try {
    const double started_s = now_s();
    Standing standing(scenario, run, options.say);
    const double ready_s = now_s() - started_s;
    const std::string kernel = kernel_release();
    options.say(fmt::format(
        "{} nodes in this host's kernel {} ({}), {}", cluster.nodes.size(), kernel, to_text(standing.layout()),
        standing.is_ours() ? fmt::format("set up in {:.1f} s", ready_s) : "as meshbed emu up left them"));
    const emu::ClusterOutcome outcome = run.run({.layout = standing.layout(), .time_limit_s = options.time_limit_s});
    collect(scenario, options, outcome, false, result);
    result.machines = {{"backend", "namespaces"},
                       {"layout", to_text(standing.layout())},
                       {"kernel", kernel},
                       {"ready_s", ready_s},
                       {"total_s", now_s() - started_s}};
    result.machines_text = fmt::format("{} nodes in this host's kernel ({}): ready after {:.1f} s, {:.1f} s in all",
                                       cluster.nodes.size(), to_text(standing.layout()), ready_s, now_s() - started_s);
    standing.take_down();
  } catch (const std::runtime_error& problem) {
    if (!MachineSignals::interrupted()) throw;
    result.troubles.emplace_back(problem.what());
  }
  result.interrupted = MachineSignals::interrupted();
  return result;
}

}  // namespace meshbed::testbed
