// The smallest environment under which stock NCCL works on a cabling. Each claim cites its lines of NCCL v2.30.7-1; the
// sources in stock_nccl.cpp apply here, too.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "models/nccl_environment.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "testbed/scenario/placement.h"
#include "testbed/topology/questions.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kTag = "NCCL v2.30.7-1 ";

struct NcclSource {
  const char* variable;
  const char* effect;
  const char* place;
};
constexpr NcclSource kSources[] = {
    {"NCCL_IB_SUBNET_AWARE_ROUTING", "both ends look for a device in the other's subnet",
     "src/transport/net_ib/connect.cc 61, 524-592, 802, 1462-1476"},
    {"NCCL_IB_MERGE_NICS", "functions of one card are devices of their own",
     "src/transport/net_ib/init.cc 29, 190-262, 503-510"},
    {"NCCL_IB_SUBNET_PREFIX_LEN", "how many bits of two IPv4 addresses make one subnet",
     "src/transport/net_ib/connect.cc 62, 492-508"},
    {"NCCL_IB_ADDR_FAMILY", "which of a NIC's addresses are its GID", "src/transport/net_ib/connect.cc 101, 268-335"},
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Channels between neighbours that are not reached, and the first one.
struct Unreached {
  int channels = 0, count = 0;
  std::string first;
};

Unreached unreached_with(const Scenario& scenario, const models::Cluster& cluster, const models::Topology& topology,
                         const models::NcclSettings& settings) {
  const models::NcclRouting routing(cluster, settings);
  Unreached found;
  const int nodes = nodes_of(scenario);
  for (int from = 0; from < nodes; ++from) {
    const int channels = std::max(1, static_cast<int>(routing.nics(from).size()));
    for (const int to : models::neighbours(topology, from)) {
      for (int channel = 0; to < nodes && channel < channels; ++channel) {
        ++found.channels;
        if (routing.aim(from, to, channel).aim == models::Aim::kReached) continue;
        if (found.count++ == 0) {
          found.first = fmt::format("{} to {} on device {}", cluster.at(from).name, cluster.at(to).name, channel);
        }
      }
    }
  }
  return found;
}

models::NcclSettings without_setting(models::NcclSettings settings, const std::string& variable) {
  const models::NcclSettings stock;
  if (variable == "NCCL_IB_SUBNET_AWARE_ROUTING") settings.subnet_aware = stock.subnet_aware;
  if (variable == "NCCL_IB_MERGE_NICS") settings.merge_nics = stock.merge_nics;
  if (variable == "NCCL_IB_SUBNET_PREFIX_LEN") settings.prefix_bits = stock.prefix_bits;
  if (variable == "NCCL_IB_ADDR_FAMILY") settings.family = stock.family;
  return settings;
}

document::Section advice_shape() {
  using document::flag, document::text, document::texts;
  document::Section section{.title = "Environment"};
  section.with({flag("works", "stock NCCL works on this cabling with that environment"),
                texts("set", "variables to set, NAME=VALUE"),
                texts("remove",
                      "variables that the environment sets and "
                      "that have to go"),
                text("ring", "the order of nodes in which ranks must come; empty: any"),
                text("why_not", "empty where it works"), text("command", "a run of it, with NVIDIA's NCCL")});
  section.with(document::Table{.key = "claims",
                               .meaning = "why each part is needed",
                               .columns = {text("what", "a variable, or what NCCL does").shown("what", 34, "  ").left(),
                                           text("without", "what happens without it").shown("without it", 30).left(),
                                           text("source", "of NCCL, by tag, file and lines")}});
  return section;
}

std::string nccl_command(const Scenario& scenario, const std::vector<std::string>& settings) {
  std::string command = "meshbed nccl run --nccl libnccl.so.2 --gpu H100 --scenario " + scenario.path;
  const auto add = [&](const std::string& setting) { command += " --set " + setting; };
  for (const std::string& each : scenario.overrides) add(each);
  add("environment.NCCL_NET_PLUGIN=none");
  for (const std::string& each : settings) add("environment." + each);
  return command + " -- all_reduce_perf";
}

class Advice {
 public:
  explicit Advice(const Scenario& scenario)
      : scenario_(scenario), topology_(models::analyse(scenario.cluster)), facts_(stock_nccl_facts(scenario)) {}

  document::Document document() {
    document::Section section = advice_shape();
    claims_ = &section.table("claims");
    const std::string why_not = decide();
    const bool works = why_not.empty();
    if (!works) set_.clear();
    section.set("works", works);
    section.set("set", set_);
    section.set("remove", remove_);
    section.set("ring", facts_.ring_order);
    section.set("why_not", why_not);
    section.set("command", nccl_command(scenario_, set_));
    lines(section, works, why_not);
    return {.title = "topo env", .sections = {std::move(section)}};
  }

 private:
  /// Why it does not work; empty: it does.
  std::string decide() {
    if (!facts_.working) {
      const Unreached left = unreached_with(scenario_, scenario_.cluster, topology_, {});
      if (left.channels == 0) return "no two nodes share a cable or switch";
      claims_->add({"NCCL_IB_SUBNET_AWARE_ROUTING, _MERGE_NICS, _SUBNET_PREFIX_LEN, _ADDR_FAMILY",
                    fmt::format("{} of {} channels between neighbours fail with the defaults ({})", left.count,
                                left.channels, left.first),
                    std::string(kTag) + kSources[0].place});
      return "none of NCCL's routing variables makes it reach every neighbour on this cabling";
    }
    remove_ = facts_.working->without;
    for (const std::string& variable : words_of(facts_.working->text)) claim_of(variable);
    return for_ring();
  }

  void claim_of(const std::string& setting) {
    const std::string name = setting.substr(0, setting.find('='));
    const auto source = std::find_if(std::begin(kSources), std::end(kSources),
                                     [&](const NcclSource& one) { return name == one.variable; });
    models::Cluster cluster = scenario_.cluster;
    for (models::Node& node : cluster.nodes) {
      std::erase_if(node.environment, [&](const auto& entry) {
        return std::find(remove_.begin(), remove_.end(), entry.first) != remove_.end();
      });
    }
    const Unreached left =
        unreached_with(scenario_, cluster, topology_, without_setting(facts_.working->settings, name));
    set_.push_back(setting);
    claims_->add({setting,
                  left.count > 0 ? fmt::format("{} of {} channels fail: {}", left.count, left.channels, left.first)
                                 : "ranks with devices of their own do not reach each other",
                  std::string(kTag) + (source != std::end(kSources) ? std::string(source->place) + ": " + source->effect
                                                                    : std::string("src/transport/net_ib"))});
  }

  std::string for_ring() {
    const StockNcclFacts& facts = facts_;
    const bool all_joined = models::pairs_without_direct_path(topology_, 0).count == 0;
    if (all_joined) return "";
    if (facts.ring_order.empty()) {
      claims_->add({"relays", "NCCL has none: the net device itself connects a channel's peer",
                    std::string(kTag) + "src/transport/net.cc 874-885, 1061-1071"});
      return facts.is_ring_known
                 ? "some nodes share no cable, NCCL does not relay, and no ring of cables joins all nodes"
                 : "some nodes share no cable, and NCCL does not relay; with more than 32 nodes no ring is "
                   "looked for";
    }
    set_.emplace_back("NCCL_ALGO=Ring");
    claims_->add({"NCCL_ALGO=Ring", "other algorithms, send, receive and all-to-all join nodes that share no cable",
                  std::string(kTag) + "src/init.cc 1290-1301, src/graph/connect.cc 95-113"});
    claims_->add({"ranks in the order " + facts.ring_order, "the ring joins nodes that share no cable",
                  std::string(kTag) + "src/init.cc 1290-1301"});
    if (!facts.needs_other_joins) return "";
    for (const std::string& one : facts.against) remove_.push_back(one.substr(0, one.find('=')));
    claims_->add({"cuMem and runtime connect on (the default from CUDA driver 12.0 on)",
                  "trees are connected at init, with every NCCL_ALGO, and fail",
                  std::string(kTag) + "src/init.cc 61, 719, 1552-1568, src/misc/cudawrap.cc 16-51"});
    return "";
  }

  void lines(document::Section& section, bool works, const std::string& why_not) const {
    if (works) {
      const bool bare = set_.empty() && remove_.empty();
      section.line("stock NCCL works on {} with{}", scenario_.name, bare ? " its defaults" : "");
      for (const std::string& one : set_) section.line("  export {}", one);
      for (const std::string& one : remove_) section.line("  unset {}", one);
      if (!facts_.ring_order.empty()) section.line("  ranks in the order {}", facts_.ring_order);
    } else {
      section.line("stock NCCL: no environment makes it work on {}: {}", scenario_.name, why_not);
    }
    if (!claims_->rows.empty()) section.blank();
    for (const document::Row& row : claims_->rows) {
      section.line("{}: without it {}", row.cells[0].get<std::string>(), row.cells[1].get<std::string>());
      section.line("    {}", row.cells[2].get<std::string>());
    }
    section.blank();
    section.line("shown by, with NVIDIA's NCCL and nccl-tests: {}", nccl_command(scenario_, set_));
  }

  const Scenario& scenario_;
  const models::Topology topology_;
  const StockNcclFacts facts_;
  document::Table* claims_ = nullptr;
  std::vector<std::string> set_, remove_;
};

}  // namespace

document::Document environment_document(const Scenario& scenario) { return Advice(scenario).document(); }

}  // namespace meshbed::testbed
