#include "emu/namespace/namespace_host.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "emu/config.h"
#include "emu/namespace/host_networks.h"
#include "emu/process.h"
#include "emu/scratch.h"

namespace meshbed::emu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "meshbed-emu-namespaces";

/// In a group of its own: Ctrl-C is ours to answer, between two commands.
ProgramResult run_shell(const std::vector<std::string>& words) {
  SpawnOptions options{.argv = {"/bin/sh"}, .directory = "/", .descriptors = {}};
  options.argv.insert(options.argv.end(), words.begin(), words.end());
  options.own_group = true;
  return run_program(std::move(options));
}

/// A text of several lines as one.
std::string in_one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) text.replace(at, 1, "; ");
  return text;
}

void run_step(const NamespaceStep& step) {
  const ProgramResult result = run_shell({"-ec", step.apply});
  if (result.status == 0) return;
  throw std::runtime_error(
      fmt::format("`{}` failed: {}", step.apply.substr(0, step.apply.find('\n')),
                  result.errors.empty() ? fmt::format("exit status {}", result.status) : in_one_line(result.errors)));
}

/// Throws where the plan would meet or shadow what is the host's own.
void require_free(const NamespacePlan& plan) {
  for (const std::string& link : plan.links) {
    std::error_code problem;
    if (!fs::exists("/sys/class/net/" + link, problem)) continue;
    throw std::runtime_error(fmt::format(
        "the host has an interface {0} that meshbed emu up did not make; remove it: ip link del {0}", link));
  }
  for (const std::string& name : plan.namespaces) {
    std::error_code problem;
    if (!fs::exists("/run/netns/" + name, problem)) continue;
    throw std::runtime_error(fmt::format(
        "the host has a network namespace {0} that meshbed emu up did not make; remove it: ip netns del {0}", name));
  }
  if (plan.options.layout != NamespaceLayout::kPolicyRouting) return;
  require_free_networks(plan.addresses);
  for (const std::string of : {"-4", "-6"}) {
    const ProgramResult rules = run_program({"ip", of, "rule", "show"});
    if (rules.status != 0) {
      if (of == "-6") continue;  // a kernel without IPv6
      throw std::runtime_error("the host's routing rules cannot be read: " + in_one_line(rules.errors));
    }
    require_plain_rules(rules.output, "ip " + of + " rule");
  }
}

/// A kernel that has it has veth, bridges and policy routing too, as distributions build them.
Part find_soft_roce_part() {
  const std::string what = "soft-RoCE (module rdma_rxe)";
  std::error_code problem;
  if (fs::exists("/sys/module/rdma_rxe", problem)) return {what, true, "loaded"};
  utsname machine{};
  uname(&machine);
  for (const char* list : {"modules.dep", "modules.builtin"}) {
    std::ifstream file(fmt::format("/lib/modules/{}/{}", machine.release, list));
    for (std::string line; std::getline(file, line);) {
      const std::string path = line.substr(0, line.find(':'));
      if (path.find("/rdma_rxe.ko") != std::string::npos) return {what, true, path};
    }
  }
  return {what, false,
          fmt::format("kernel {} has none (Debian's linux-image-amd64 has it; cloud kernels and containers' do not)",
                      machine.release)};
}

Part find_tool_part(const std::string& program) {
  const std::string path = find_program(program);
  return {program, !path.empty(), path.empty() ? "not in PATH: install iproute2" : path};
}

}  // namespace

std::optional<NamespaceState> read_namespace_state(const std::string& folder) {
  std::error_code problem;
  if (!fs::exists(state_file(folder), problem)) return std::nullopt;
  NamespaceState state;
  state.text = read_file(state_file(folder));
  std::istringstream lines(state.text);
  for (std::string line; std::getline(lines, line);) {
    if (line == kCompleteMark) state.complete = true;
    if (line.rfind(kPlanMark, 0) != 0) continue;
    std::istringstream words(line.substr(std::strlen(kPlanMark)));
    words >> state.digest >> state.owner >> state.layout >> std::ws;
    std::getline(words, state.title);
  }
  return state;
}

NamespaceLock::NamespaceLock() : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::strncpy(name.sun_path + 1, kLockName, sizeof name.sun_path - 2);  // a zero first: abstract
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(kLockName));
  if (bind(socket_.number(), reinterpret_cast<const sockaddr*>(&name), size) == 0) return;
  if (errno == EADDRINUSE) {
    throw std::runtime_error("another meshbed sets up, takes down or uses the namespaces; wait until it has ended");
  }
  throw std::runtime_error("the namespaces cannot be locked: " + std::generic_category().message(errno));
}

void require_root() {
  if (geteuid() == 0) return;
  throw std::runtime_error("namespaces need root; use sudo, or virtual machines, which do not: --backend microvm");
}

NamespaceLayout probe_layout() {
  // 12B7 is 4791, RoCE v2's port (Annex A17.9.1). The namespace has no name, and ends with the shell.
  const ProgramResult result = run_shell(
      {"-c",
       "exec unshare --net sh -ec 'ip link add mbprobe0 type veth peer name mbprobe1; ip link set mbprobe0 up; "
       "rdma link add mbprobe0 type rxe netdev mbprobe0; found=1; grep -q :12B7 /proc/net/udp || found=0; "
       "rdma link del mbprobe0; [ $found = 1 ]'"});
  return result.status == 0 ? NamespaceLayout::kNetworkNamespaces : NamespaceLayout::kPolicyRouting;
}

bool is_set_up(const NamespacePlan& plan) {
  const auto state = read_namespace_state(plan.options.folder);
  if (!state || !state->complete || state->digest != plan.digest) return false;
  return std::all_of(plan.steps.begin(), plan.steps.end(), [](const NamespaceStep& step) {
    return !step.check || run_shell({"-ec", step.apply}).status == 0;
  });
}

void set_up(const NamespacePlan& plan, const std::function<bool()>& stop) {
  for (const Part& part : look_at_namespace_parts()) {
    if (!part.present) {
      throw std::runtime_error(
          fmt::format("namespaces cannot be set up here: {}: {}; virtual machines need none of "
                      "this: --backend microvm",
                      part.what, part.detail));
    }
  }
  take_down(plan.options.folder);
  require_free(plan);
  try {
    for (const NamespaceStep& step : plan.steps) {
      if (stop && stop()) throw std::runtime_error("interrupted during the set-up; all is put back");
      run_step(step);
    }
  } catch (const std::runtime_error& problem) {
    try {
      take_down(plan.options.folder);
    } catch (const std::runtime_error& more) {
      throw std::runtime_error(fmt::format("{}; then {}", problem.what(), more.what()));
    }
    throw;
  }
}

bool take_down(const std::string& folder) {
  std::error_code problem;
  if (!fs::exists(state_file(folder), problem)) return false;
  require_root();
  const ProgramResult result = run_shell({state_file(folder)});
  if (result.status == 0) return true;
  throw std::runtime_error(
      fmt::format("not all could be taken down: {}; {} contains the commands, and meshbed emu down tries again",
                  in_one_line(result.errors), state_file(folder)));
}

std::vector<Part> look_at_namespace_parts() {
  const bool root = geteuid() == 0;
  return {{"root", root, root ? "yes" : "no: use sudo"},
          find_tool_part("ip"),
          find_tool_part("rdma"),
          find_soft_roce_part()};
}

}  // namespace meshbed::emu
