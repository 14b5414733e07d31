#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/machine_signals.h"
#include "testbed/workload/result.h"
#include "testbed/world/emulate_namespaces.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr const char* kUsage = "emu up SCENARIO | emu down | emu status [options]";

struct EmuCommandOptions {
  std::string action, scenario_path, layout = "auto";
  std::vector<std::string> overrides;
  bool dry_run = false;
};

/// What stops a set-up between two of its commands.
class Stop final : public emu::Stoppable {
 public:
  void request_stop() noexcept override { event_.request(); }
  bool is_requested() const { return event_.is_requested(); }

 private:
  emu::StopEvent event_;
};

emu::NamespaceLayout layout_for(const EmuCommandOptions& options) {
  for (const auto layout : {emu::NamespaceLayout::kPolicyRouting, emu::NamespaceLayout::kNetworkNamespaces}) {
    if (options.layout == to_text(layout)) return layout;
  }
  // Trying needs root; the layout that works on every kernel is the one to show.
  return options.dry_run ? emu::NamespaceLayout::kPolicyRouting : emu::probe_layout();
}

int up(const EmuCommandOptions& options, std::ostream& out) {
  const Scenario scenario = read_scenario(options.scenario_path, options.overrides);
  if (options.dry_run) {
    out << emu::set_up_script(namespace_plan(scenario, layout_for(options), emu::kNamespacesByHand));
    return kExitOk;
  }
  emu::require_root();
  const emu::NamespaceLock lock;
  Stop stop;
  const MachineSignals signals(stop);
  const emu::NamespacePlan plan = namespace_plan(scenario, layout_for(options), emu::kNamespacesByHand);
  const auto before = emu::read_namespace_state();
  if (before && before->owner == emu::kNamespacesByHand && emu::is_set_up(plan)) {
    fmt::print(out, "{} is up already ({})\n", plan.options.title, to_text(plan.options.layout));
    return kExitOk;
  }
  try {
    emu::set_up(plan, [&stop] { return stop.is_requested(); });
  } catch (const std::runtime_error&) {
    if (MachineSignals::interrupted()) return kExitInterrupted;
    throw;
  }
  if (before)
    fmt::print(out, "taken down first: {}{}\n", before->title, before->complete ? "" : ", which was half made");
  fmt::print(out, "{} is up ({}); meshbed emu down takes it down\n", plan.options.title, to_text(plan.options.layout));
  return kExitOk;
}

int down(const EmuCommandOptions& options, std::ostream& out) {
  if (options.dry_run) {
    const auto state = emu::read_namespace_state();
    out << (state ? state->text : "# nothing is set up\n");
    return kExitOk;
  }
  const auto state = emu::read_namespace_state();
  if (!state) {
    out << "nothing is set up\n";
    return kExitOk;
  }
  emu::require_root();
  const emu::NamespaceLock lock;
  emu::take_down();
  fmt::print(out, "taken down: {}\n", state->title);
  return kExitOk;
}

int status(std::ostream& out) {
  const auto state = emu::read_namespace_state();
  if (!state) {
    out << "nothing is set up\n";
    return kExitOk;
  }
  fmt::print(out, "{} {} ({}, by {})\n", state->title,
             state->complete ? "is up" : "is half made: meshbed emu down takes it down", state->layout, state->owner);
  std::vector<std::string> links;
  for (const auto& entry : fs::directory_iterator("/sys/class/net")) {
    const std::string name = entry.path().filename();
    if (name.rfind("mb", 0) == 0 && state->text.find(" " + name + "'") != std::string::npos) links.push_back(name);
  }
  std::sort(links.begin(), links.end());
  for (const std::string& link : links) {
    const auto value = [&](const char* what) {
      const std::string text = read_text_file(fmt::format("/sys/class/net/{}/{}", link, what));
      return text.substr(0, text.find('\n'));
    };
    fmt::print(out, "  {:<10} {:<6} received {:>12} B, sent {:>12} B\n", link, value("operstate"),
               value("statistics/rx_bytes"), value("statistics/tx_bytes"));
  }
  return state->complete ? kExitOk : kExitBroken;
}

}  // namespace

int emu_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  EmuCommandOptions options;
  Syntax syntax(kUsage);
  syntax.operands.add_options()  //
      ("action", po::value(&options.action)->value_name("up|down|status"),
       "up: the cluster in this host's own kernel: veth pairs, soft-RoCE (root); down: all put back; status: what is "
       "up")
      //
      ("scenario", po::value(&options.scenario_path)->value_name("SCENARIO"), "up: the scenario file");
  syntax.positions.add("action", 1).add("scenario", 1);
  syntax.options.add_options()  //
      ("dry-run", po::bool_switch(&options.dry_run),
       "print the commands, for sh, and do nothing; needs neither root nor modules")  //
      ("layout", po::value(&options.layout)->value_name("LAYOUT")->default_value("auto"),
       "up: policy-routing (works with every kernel; moves the host's rule for local addresses, sets "
       "net.ipv4.conf.all.rp_filter to 0), network-namespaces (kernels whose soft-RoCE works in them), auto: tried out")
      //
      ("set", po::value(&options.overrides)->value_name("KEY=VALUE"),
       "up: override a key of the scenario; may be repeated");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  require_choice(
      "--layout", "layout", options.layout,
      {"auto", to_text(emu::NamespaceLayout::kPolicyRouting), to_text(emu::NamespaceLayout::kNetworkNamespaces)});
  if (options.action == "up") {
    if (options.scenario_path.empty())
      throw std::runtime_error("emu up: SCENARIO is missing; usage: meshbed emu up SCENARIO");
    return up(options, out);
  }
  if (!options.scenario_path.empty()) {
    throw std::runtime_error(fmt::format("emu {}: takes no scenario; usage: meshbed {}", options.action, kUsage));
  }
  if (!options.action.empty() && (!options.overrides.empty() || options.layout != "auto")) {
    throw std::runtime_error(fmt::format("emu {}: {} says nothing without up: leave it out", options.action,
                                         options.overrides.empty() ? "--layout" : "--set"));
  }
  if (options.action == "down") return down(options, out);
  if (options.action == "status") return status(out);
  throw std::runtime_error(options.action.empty()
                               ? fmt::format("emu: up, down or status? usage: meshbed {}", kUsage)
                               : fmt::format("emu: there is no '{}'; usage: meshbed {}", options.action, kUsage));
}

}  // namespace meshbed::testbed
