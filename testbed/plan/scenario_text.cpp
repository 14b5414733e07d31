// The scenario of a cabling.

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "models/cluster.h"
#include "models/topology_generate.h"
#include "testbed/plan/plan.h"

namespace meshbed::testbed::plan {
namespace {

std::string line_if(const char* key, const std::string& value) {
  return value.empty() ? "" : fmt::format("{} = \"{}\"\n", key, value);
}

/// What [topology] generates of this cabling: its kind, with the parallel cables or switches as `rails`. Empty:
/// nothing.
std::string generated_kind(const Cabling& cabling) {
  if (cabling.switches > 0) return "switch";
  const std::string name = name_of(cabling);
  const std::string shape = name.substr(0, name.find(" x "));
  static const std::map<std::string, std::string> kKinds{
      {"pair", "line"}, {"line", "line"}, {"ring", "ring"}, {"star", "star"}, {"full mesh", "full-mesh"}};
  const auto found = kKinds.find(shape);
  return found == kKinds.end() ? "" : found->second;
}

std::string device_name(int index) {
  models::Nic nic;
  models::name_nic(nic, index);
  return nic.device;
}

/// Nodes one by one, for cablings that [topology] does not generate.
std::string node_tables(const Request& request) {
  std::string text;
  for (int node = 0; node < request.nodes; ++node) {
    text += fmt::format("[[node]]\nname = \"node{}\"\n{}", node, line_if("functions", request.functions));
    for (int nic = 0; nic < request.nics; ++nic) {
      text += fmt::format("[[node.nic]]\ndevice = \"{}\"\n{}", device_name(nic), line_if("rate", request.rate));
    }
    text += "\n";
  }
  return text;
}

/// A subnet each; the first free NIC of each end. `used`: NICs that hang on switches.
std::string cable_tables(const Request& request, const Cabling& cabling, int used) {
  std::vector<int> next(static_cast<std::size_t>(cabling.nodes), used);
  std::map<std::pair<int, int>, int> parallel;
  std::string text;
  int subnet = used;  // a generated switch has one each, too
  for (const auto& [one, other] : cabling.cables) {
    const int number = parallel[{one, other}]++;
    text += fmt::format("[[cable]]\nname = \"node{}-node{}{}\"\n", one, other,
                        number == 0 ? "" : fmt::format("-{}", number));
    text += fmt::format("ends = [\"node{}/{}\", \"node{}/{}\"]\nsubnet = \"192.168.{}.0/24\"\n{}\n", one,
                        device_name(next[static_cast<std::size_t>(one)]++), other,
                        device_name(next[static_cast<std::size_t>(other)]++), 100 + subnet++,
                        line_if("latency", request.latency));
  }
  return text;
}

}  // namespace

std::string scenario_of(const Request& request, const Cabling& cabling, const std::string& algorithm,
                        const std::string& protocol) {
  std::string text =
      fmt::format("# {} nodes, {}: one of the cablings of `meshbed plan`\n\n", cabling.nodes, name_of(cabling));
  const std::string kind = generated_kind(cabling);
  if (kind.empty()) {
    text += node_tables(request) + cable_tables(request, cabling, 0);
  } else {
    const std::string name = name_of(cabling);
    const std::size_t times = name.rfind(" x ");
    const std::string rails = cabling.switches > 0         ? std::to_string(cabling.switches)
                              : times == std::string::npos ? "1"
                                                           : name.substr(times + 3);
    text += fmt::format("[topology]\nkind = \"{}\"\nnodes = {}\nnics = {}\nrails = {}\n", kind, cabling.nodes,
                        request.nics, rails);
    text += line_if("rate", request.rate) + line_if("latency", request.latency) +
            line_if("functions", request.functions) + "\n";
    if (cabling.switches > 0) text += cable_tables(request, cabling, cabling.switches);
  }
  const std::string settings = line_if("algorithm", algorithm) + line_if("protocol", protocol);
  constexpr std::string_view kHeading = "[workload]\n";
  const std::size_t heading = request.workload.find(kHeading);
  if (settings.empty() || heading == std::string::npos) return text + request.workload;
  const std::size_t begin = heading + kHeading.size();
  return text + request.workload.substr(0, begin) + settings + request.workload.substr(begin);
}

}  // namespace meshbed::testbed::plan
