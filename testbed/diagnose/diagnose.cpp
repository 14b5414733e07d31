#include "testbed/diagnose/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "models/nccl_environment.h"
#include "testbed/base/files.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMost = 2000;
constexpr std::size_t kEvidenceMost = 6;

/// What follows from a cause, so that its signs are expected and do not speak for themselves.
struct Consequence {
  CauseCode cause, follows;
};
constexpr std::array kConsequences{
    Consequence{CauseCode::kPortDown, CauseCode::kRetryExceeded},
    Consequence{CauseCode::kPortDown, CauseCode::kNoPath},
    Consequence{CauseCode::kPortDown, CauseCode::kRankLate},
    Consequence{CauseCode::kRankDead, CauseCode::kPortDown},
    Consequence{CauseCode::kRankDead, CauseCode::kRetryExceeded},
    Consequence{CauseCode::kRankDead, CauseCode::kCrossedCable},
    Consequence{CauseCode::kPortDown, CauseCode::kCrossedCable},
    Consequence{CauseCode::kRankDead, CauseCode::kRankLate},
    Consequence{CauseCode::kRankDead, CauseCode::kBootstrapRefused},
    Consequence{CauseCode::kRankDead, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kCrossedCable, CauseCode::kNoPath},
    Consequence{CauseCode::kCrossedCable, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kWrongPrefix, CauseCode::kNoPath},
    Consequence{CauseCode::kWrongPrefix, CauseCode::kCrossedCable},
    Consequence{CauseCode::kPortsInOneSubnet, CauseCode::kNoPath},
    Consequence{CauseCode::kPortsInOneSubnet, CauseCode::kCrossedCable},
    Consequence{CauseCode::kWrongGid, CauseCode::kNoPath},
    Consequence{CauseCode::kWrongGid, CauseCode::kNoRdmaDevice},
    Consequence{CauseCode::kWrongGid, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kWrongGid, CauseCode::kRetryExceeded},
    Consequence{CauseCode::kPluginNotLoaded, CauseCode::kNoRdmaDevice},
    Consequence{CauseCode::kPluginNotLoaded, CauseCode::kManagementNic},
    Consequence{CauseCode::kPluginNotLoaded, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kNoRdmaDevice, CauseCode::kManagementNic},
    Consequence{CauseCode::kNoRdmaDevice, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kCollectiveMismatch, CauseCode::kRankLate},
    Consequence{CauseCode::kCollectiveMismatch, CauseCode::kRankDead},
    Consequence{CauseCode::kMtuMismatch, CauseCode::kRetryExceeded},
    Consequence{CauseCode::kAccessError, CauseCode::kRetryExceeded},
    Consequence{CauseCode::kAccessError, CauseCode::kRankDead},
    Consequence{CauseCode::kRnrExceeded, CauseCode::kRetryExceeded},
    Consequence{CauseCode::kRnrExceeded, CauseCode::kRankDead},
    Consequence{CauseCode::kRetryExceeded, CauseCode::kRankDead},
    Consequence{CauseCode::kRetryExceeded, CauseCode::kRankLate},
    Consequence{CauseCode::kNoPath, CauseCode::kRankDead},
    Consequence{CauseCode::kNoPath, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kMemlock, CauseCode::kRankDead},
    Consequence{CauseCode::kGpuMemory, CauseCode::kRankDead},
    Consequence{CauseCode::kGpuMemory, CauseCode::kRankLate},
    Consequence{CauseCode::kDuplicateGpu, CauseCode::kRankDead},
    Consequence{CauseCode::kSharedMemory, CauseCode::kRankDead},
    Consequence{CauseCode::kMemlock, CauseCode::kGdrMissing},
    Consequence{CauseCode::kAcsIommu, CauseCode::kAccessError},
    Consequence{CauseCode::kGdrMissing, CauseCode::kAcsIommu},
    Consequence{CauseCode::kVersionMismatch, CauseCode::kCollectiveMismatch},
    Consequence{CauseCode::kVersionMismatch, CauseCode::kBootstrapRefused},
    Consequence{CauseCode::kFirewall, CauseCode::kBootstrapTimeout},
    Consequence{CauseCode::kBootstrapRefused, CauseCode::kRankDead},
    Consequence{CauseCode::kBootstrapTimeout, CauseCode::kRankDead},
};

bool is_scenario(const std::string& path, const std::string& text) {
  const fs::path name(path);
  if (name.extension() == ".toml") return true;
  for (const char* section : {"[topology]", "[[node]]", "[workload]"}) {
    if (text.rfind(section, 0) == 0 || text.find(std::string("\n") + section) != std::string::npos) return true;
  }
  return false;
}

/// What a scenario shows, or the reason for which it is none.
void read_scenario_by(const std::function<Scenario()>& read, const std::string& path, Case& found) {
  try {
    const Scenario scenario = read();
    causes_of_scenario(scenario, findings_of(scenario), path, found);
  } catch (const ScenarioError& error) {
    for (const ScenarioProblem& problem : error.problems()) {
      const Line at{.file = path, .number = 0, .text = problem.place + ": " + problem.text};
      found.add_fact("refused", at.text, at);
      found.match(at);
    }
    if (found.signs().empty()) throw;
  }
}

void read_file(const std::string& path, Case& found) {
  const std::string text = read_text_file(path);
  if (is_scenario(path, text)) {
    found.formats.insert("scenario");
    return read_scenario_by([&] { return read_scenario(path, {}); }, path, found);
  }
  read_text(text, path, found);
}

/// A run's results have summary.json; other folders are read file by file, those that are no log left out.
void read_folder(const std::string& path, Case& found) {
  std::vector<std::string> files;
  std::size_t seen = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied)) {
    if (++seen > kFilesMost)
      throw std::runtime_error(fmt::format("{}: more than {} files; name the job's logs or results", path, kFilesMost));
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::size_t taken = 0;
  std::string problem;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).filename();
    if (name == "provenance.json" || name == "trace.json") continue;
    try {
      read_file(file, found);
      ++taken;
    } catch (const std::runtime_error& error) {
      if (problem.empty()) problem = error.what();
    }
  }
  if (taken == 0)
    throw std::runtime_error(problem.empty() ? path + ": an empty folder; name the job's logs or results" : problem);
}

double shown(double likelihood) { return static_cast<double>(static_cast<int>(likelihood * 100 + 0.5)) / 100; }

std::string place_of(const Line& at) { return at.number == 0 ? at.file : fmt::format("{}:{}", at.file, at.number); }

}  // namespace

void read_scenario_text(const std::string& text, const std::string& path, Case& found) {
  read_scenario_by([&] { return parse_scenario(text, path, {}); }, path, found);
}

void read_input(const std::string& path, Case& found) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) return read_folder(path, found);
  read_file(path, found);
}

void sign_of_finding(const std::string& code, const Line& at, Case& found) {
  static const std::map<std::string, std::pair<CauseCode, double>> kSigns{
      {"crossed-cable", {CauseCode::kCrossedCable, 0.85}},
      {"wrong-prefix", {CauseCode::kWrongPrefix, 0.95}},
      {"cable-mtu", {CauseCode::kMtuMismatch, 0.90}},
      {"switch-mtu", {CauseCode::kMtuMismatch, 0.90}},
      {"switch-mtus", {CauseCode::kMtuMismatch, 0.90}},
      {"cable-rate", {CauseCode::kHalfRate, 0.85}},
      {"link-down", {CauseCode::kPortDown, 0.85}},
      {"no-gid", {CauseCode::kWrongGid, 0.70}},
      {"pinned-gid", {CauseCode::kWrongGid, 0.95}},
      {"falls-apart", {CauseCode::kNoPath, 0.30}},
      {"no-path", {CauseCode::kNoPath, 0.55}},
      {"net-plugin", {CauseCode::kPluginNotLoaded, 0.95}},
      {"cable-vlan", {CauseCode::kNoPath, 0.60}},
      {"switch-vlan", {CauseCode::kNoPath, 0.60}},
      {"alone-in-subnet", {CauseCode::kCrossedCable, 0.50}},
      {"no-cable", {CauseCode::kNoPath, 0.40}},
      {"hidden-route", {CauseCode::kNoPath, 0.40}},
  };
  const auto sign = kSigns.find(code);
  if (sign == kSigns.end()) return;
  found.add_sign(sign->second.first, sign->second.second, "finding " + code, "finding " + code, at);
}

namespace {

/// Ports with their addresses and rates, for what they say beside each other.
void ports_of_cluster(const models::Cluster& cluster, const std::string& file, Case& found) {
  constexpr double kGigabit = 1e9;
  for (const models::Node& node : cluster.nodes) {
    for (const models::Nic& nic : node.nics) {
      Adapter adapter{.owner = node.name,
                      .device = nic.device,
                      .netdev = nic.netdev,
                      .rate_Gbps = static_cast<double>(nic.rate_bps) / kGigabit,
                      .addresses = {},
                      .at = {}};
      for (const models::IpPrefix& address : nic.addresses) adapter.addresses.push_back(to_text(address));
      adapter.at = {.file = file,
                    .number = 0,
                    .text = fmt::format("{}/{}: {:.6g} Gb/s, {}", node.name, nic.device, adapter.rate_Gbps,
                                        fmt::join(adapter.addresses, ", "))};
      found.adapters.push_back(std::move(adapter));
    }
  }
}

/// A pinned GID index whose entry is no RoCE v2 entry of an IPv4 address of the port's own.
void pinned_gids(const models::Node& node, const std::string& file, Case& found) {
  const auto pinned = models::number_of(node, "NCCL_IB_GID_INDEX", 0, UINT16_MAX);
  if (!pinned) return;
  for (const models::Nic& nic : node.nics) {
    if (nic.addresses.empty()) continue;
    const auto entry = std::find_if(nic.gids.begin(), nic.gids.end(),
                                    [&](const models::GidEntry& each) { return each.index == *pinned; });
    if (entry == nic.gids.end()) continue;  // a finding: pinned-gid
    const bool is_own = std::any_of(nic.addresses.begin(), nic.addresses.end(), [&](const models::IpPrefix& address) {
      return models::gid_of(address.address) == entry->gid;
    });
    if (is_own) continue;
    found.add_sign(CauseCode::kWrongGid, 0.80, "pinned to another",
                   "NCCL_IB_GID_INDEX pins an entry that is not of the port's own address",
                   {.file = file,
                    .number = 0,
                    .text = fmt::format("{}/{}: NCCL_IB_GID_INDEX={}", node.name, nic.device, *pinned)});
  }
}

/// A port on a switch whose subnet is that of most ports of another switch: its plug is in the wrong switch.
void swapped_switches(const models::Cluster& cluster, const std::string& file, Case& found) {
  const auto subnet_of = [&](models::PortRef port) {
    const auto& addresses = cluster.nic_of(port).addresses;
    return addresses.empty() ? std::string() : subnet_text(addresses.front());
  };
  std::map<std::string, std::string> usual;  // by subnet, the switch where more than half of the ports have it
  for (const models::Switch& box : cluster.switches) {
    std::map<std::string, std::size_t> counts;
    for (const models::PortRef port : box.ports) ++counts[subnet_of(port)];
    for (const auto& [subnet, count] : counts) {
      if (2 * count > box.ports.size() && !subnet.empty()) usual.emplace(subnet, box.name);
    }
  }
  for (const models::Switch& box : cluster.switches) {
    for (const models::PortRef port : box.ports) {
      const auto other = usual.find(subnet_of(port));
      if (other == usual.end() || other->second == box.name) continue;
      found.add_sign(CauseCode::kCrossedCable, 0.80, "wrong switch",
                     "a port is on one switch, and its subnet on another",
                     {.file = file,
                      .number = 0,
                      .text = fmt::format("{}/{} is on {}; {} is the subnet of {}", cluster.at(port.node).name,
                                          cluster.nic_of(port).device, box.name, other->first, other->second)});
    }
  }
}

void switched_off_rdma(const models::Node& node, const std::string& file, Case& found) {
  for (const char* name : {"NCCL_MESH_DISABLE_RDMA", "NCCL_IB_DISABLE"}) {
    if (models::number_of(node, name, 0, 1).value_or(0) == 0) continue;
    found.add_sign(CauseCode::kManagementNic, 0.70, "RDMA off",
                   "the environment switches RDMA off, so that the data go over sockets",
                   {.file = file, .number = 0, .text = fmt::format("{}: {}=1", node.name, name)});
  }
}

}  // namespace

void causes_of_scenario(const Scenario& scenario, const std::vector<Finding>& findings, const std::string& file,
                        Case& found) {
  const Line whole{.file = file, .number = 0, .text = scenario.description};
  found.add_fact("scenario", scenario.name, whole);
  found.add_fact("nodes", scenario.cluster.nodes.size(), whole);
  ports_of_cluster(scenario.cluster, file, found);
  swapped_switches(scenario.cluster, file, found);
  for (const models::Node& node : scenario.cluster.nodes) {
    pinned_gids(node, file, found);
    switched_off_rdma(node, file, found);
  }
  for (const Finding& finding : findings) {
    const Line at{.file = file, .number = 0, .text = line_of(FoldedFinding{finding, {finding.place}})};
    found.add_fact("finding." + std::string(name_of(finding.code)), finding.place, at);
    const bool is_notice = finding.severity == Severity::kNote && finding.code != FindingCode::kNoPath &&
                           finding.code != FindingCode::kNetPlugin;
    if (!is_notice) sign_of_finding(name_of(finding.code), at, found);
  }
}

Diagnosis judge(Case& found) {
  reason(found);
  Diagnosis result;
  result.formats.assign(found.formats.begin(), found.formats.end());
  result.facts = found.facts();
  std::map<CauseCode, double> weights;
  for (const CauseInfo& info : cause_infos()) weights[info.code] = found.weight_of(info.code);
  const std::map<CauseCode, double> alone = weights;
  constexpr double kStrong = 0.55, kKept = 0.45;
  for (const Consequence& each : kConsequences) {
    if (alone.at(each.cause) >= kStrong) weights[each.follows] *= kKept;
  }
  for (const auto& [code, weight] : weights) {
    if (weight < kLeastLikelihood) continue;
    FoundCause cause{.code = code, .likelihood = std::min(shown(weight), 0.99), .evidence = {}, .proof = {}};
    for (const Sign& sign : found.signs()) {
      if (sign.cause == code) cause.evidence.push_back(sign);
    }
    std::stable_sort(cause.evidence.begin(), cause.evidence.end(),
                     [](const Sign& one, const Sign& other) { return one.weight > other.weight; });
    if (cause.evidence.size() > kEvidenceMost) cause.evidence.resize(kEvidenceMost);
    result.causes.push_back(std::move(cause));
  }
  std::stable_sort(result.causes.begin(), result.causes.end(),
                   [](const FoundCause& one, const FoundCause& other) { return one.likelihood > other.likelihood; });
  return result;
}

document::Value json_of(const Diagnosis& diagnosis) {
  document::Value json{{"inputs", diagnosis.inputs},
                       {"formats", diagnosis.formats},
                       {"causes", document::Value::array()},
                       {"facts", document::Value::array()}};
  for (const FoundCause& cause : diagnosis.causes) {
    const CauseInfo& info = info_of(cause.code);
    document::Value evidence = document::Value::array();
    for (const Sign& sign : cause.evidence) {
      evidence.push_back(
          {{"file", sign.at.file}, {"line", sign.at.number}, {"text", sign.at.text}, {"says", sign.says}});
    }
    document::Value entry{{"code", info.name},    {"title", info.title}, {"likelihood", cause.likelihood},
                          {"evidence", evidence}, {"cause", info.cause}, {"check", info.check},
                          {"fix", info.fix}};
    if (cause.proof) {
      entry["proven"] = {{"scenario", cause.proof->scenario},
                         {"changes", cause.proof->changes},
                         {"shown", cause.proof->shown},
                         {"digest", cause.proof->digest}};
    }
    json["causes"].push_back(std::move(entry));
  }
  for (const Fact& fact : diagnosis.facts) {
    json["facts"].push_back(
        {{"name", fact.name}, {"value", fact.value}, {"file", fact.at.file}, {"line", fact.at.number}});
  }
  return json;
}

std::string text_of(const Diagnosis& diagnosis) {
  const std::string formats = diagnosis.formats.empty() ? "no format, lines by their words"
                                                        : fmt::format("{}", fmt::join(diagnosis.formats, ", "));
  std::string text =
      fmt::format("read: {} ({}), {} facts\n", fmt::join(diagnosis.inputs, ", "), formats, diagnosis.facts.size());
  if (diagnosis.causes.empty()) return text + "no cause found\n";
  int number = 0;
  for (const FoundCause& cause : diagnosis.causes) {
    const CauseInfo& info = info_of(cause.code);
    text +=
        fmt::format("\n{}. {} [{}], likelihood {:.0f} %\n", ++number, info.title, info.name, cause.likelihood * 100);
    for (const Sign& sign : cause.evidence) {
      text += fmt::format("   {}: {}\n      {}\n", place_of(sign.at), sign.says, sign.at.text);
    }
    text += fmt::format("   cause: {}\n   check: {}\n   fix:   {}\n", info.cause, info.check, info.fix);
    if (cause.proof) {
      text += fmt::format("   proven: a run of {} with {} shows it: {}\n", cause.proof->scenario,
                          fmt::join(cause.proof->changes, " "), cause.proof->shown);
      if (!cause.proof->digest.empty()) text += fmt::format("           digest {}\n", cause.proof->digest);
    }
  }
  return text;
}

}  // namespace meshbed::testbed::diagnose
