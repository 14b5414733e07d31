#include "testbed/fidelity/nearest_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "testbed/fidelity/nearest_expert.h"

namespace meshbed::testbed {
namespace {

constexpr double kGbitsPerGByte = 8;

/// What a class's or a set-up's text says.
struct Told {
  std::set<std::string> words;     // of kCarriers
  std::optional<double> gbits;     // of all adapters of a node
  std::optional<double> adapters;  // how many these are
  std::optional<int> each_node;    // ranks
};

/// Words that say what carries the bytes, under one name each.
std::string carrier_word(const std::string& word) {
  for (const char* name : {"efa", "tcpxo", "tcpx", "roce", "nvlink", "pcie", "ring", "switch", "slingshot"}) {
    if (word == name) return word;
  }
  if (word == "ib" || word == "infiniband") return "ib";
  if (word == "tcp" || word == "socket" || word == "sockets") return "tcp";
  if (word == "mesh" || word == "triangle") return "mesh";
  if (word == "direct" || word == "pair") return "direct";
  if (word == "switchless") return "ring";
  if (word == "staged" || word == "staging") return "staged";
  return "";
}

/// 400 of "400g", "400gb", "400gbe", "400gbps"; nothing of anything else.
std::optional<double> gbits_of(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end == word.data()) return std::nullopt;
  const std::string unit(end, word.data() + word.size());
  for (const char* name : {"g", "gb", "gbe", "gbps", "gbit", "gbits"}) {
    if (unit == name) return value;
  }
  return std::nullopt;
}

/// 8 of "8gpu" and "8gpus".
std::optional<int> gpus_of(const std::string& word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string unit(end, word.data() + word.size());
  constexpr int kMost = 1024;
  if (error != std::errc() || value < 1 || value > kMost || (unit != "gpu" && unit != "gpus")) return std::nullopt;
  return value;
}

void take_word(Told& told, const std::string& word) {
  const std::string carrier = carrier_word(word);
  if (!carrier.empty()) told.words.insert(carrier);
  if (const auto gpus = gpus_of(word); gpus && !told.each_node) told.each_node = *gpus;
  // 8x400g: adapters and the rate of each; 3200g: all of them.
  const auto times = word.find('x');
  const bool many = times != std::string::npos && times > 0 && std::isdigit(static_cast<unsigned char>(word[0])) != 0;
  const auto rate = gbits_of(many ? word.substr(times + 1) : word);
  if (!rate || *rate <= 0 || told.gbits) return;
  double adapters = 1;
  if (many) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + times, adapters);
    if (error != std::errc() || end != word.data() + times || adapters < 1) return;
  }
  const double most = models::info_of(models::MachineParameter::kNics).high;
  const double fastest = kGbitsPerGByte * models::info_of(models::MachineParameter::kNicGBps).high;
  if (adapters > most || *rate > (many ? fastest : fastest * most)) return;
  told.gbits = adapters * *rate;
  if (many) told.adapters = adapters;
}

Told told_by(const std::string& text) {
  Told told;
  std::string word;
  for (const char letter : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || (letter == '.' && !word.empty())) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      continue;
    }
    if (!word.empty()) take_word(told, word);
    word.clear();
  }
  return told;
}

double node_gbits(const models::Machine& machine) {
  return machine[models::MachineParameter::kNics] * machine[models::MachineParameter::kNicGBps] * kGbitsPerGByte;
}

/// How alike; nothing where no word is common.
std::optional<double> likeness(const Told& told, int each_node, const models::Machine& machine,
                               const std::string& its_class) {
  const Told its = told_by(its_class);
  double score = 0;
  bool common = false;
  for (const std::string& word : told.words) {
    const bool has = its.words.count(word) > 0;
    common = common || has;
    score += has ? 1 : -0.5;
  }
  if (!common) return std::nullopt;
  for (const std::string& word : its.words) score -= told.words.count(word) > 0 ? 0 : 0.5;
  if (told.gbits) score -= 0.5 * std::abs(std::log(*told.gbits / node_gbits(machine)));
  return score - std::abs(std::log(static_cast<double>(each_node) / machine.ranks_per_node));
}

/// What the set-up has of the words by which a profile is told from others of its class: 2 each, and 2 less where it
/// has none of them, since that profile is then of other software.
double keywords_in(const std::string& set_up, const models::Machine& machine) {
  constexpr double kEach = 2;
  const std::string told = lower_case(set_up);
  const auto found = std::count_if(machine.keywords.begin(), machine.keywords.end(), [&](const std::string& each) {
    return told.find(lower_case(each)) != std::string::npos;
  });
  return found == 0 && !machine.keywords.empty() ? -kEach : kEach * static_cast<double>(found);
}

int ranks_of_node(const Told& told, const MeasuredFile& file) {
  if (told.each_node) return *told.each_node;
  int most = 1;
  for (const MeasuredRow& row : file.rows) {
    most = std::max(most, (row.point.call.ranks + row.point.call.nodes - 1) / row.point.call.nodes);
  }
  return most;
}

/// As many ranks a node and as fast adapters as the header says.
std::string adapt(models::Machine& machine, const Told& told, int each_node) {
  std::string changed;
  if (each_node != machine.ranks_per_node) {
    const double nics = models::nics_used(machine, each_node);
    changed += fmt::format(", {} ranks a node", each_node);
    if (!told.gbits && nics != machine[models::MachineParameter::kNics]) {
      machine.set(models::MachineParameter::kNics,
                  {nics, models::Basis::kDataSheet, "those that so many GPUs of such a node use"});
      changed += fmt::format(" with {:g} adapters", nics);
    }
    machine.ranks_per_node = each_node;
  }
  if (told.adapters && *told.adapters != machine[models::MachineParameter::kNics]) {
    machine.set(models::MachineParameter::kNics,
                {*told.adapters, models::Basis::kDataSheet, "adapters that the measured file's class states"});
    changed += fmt::format(", {:g} adapters a node", *told.adapters);
  }
  if (told.gbits && std::abs(*told.gbits / node_gbits(machine) - 1) > 0.01) {
    const double each_GBps = *told.gbits / kGbitsPerGByte / machine[models::MachineParameter::kNics];
    const models::ParameterInfo& info = models::info_of(models::MachineParameter::kNicGBps);
    machine.set(models::MachineParameter::kNicGBps,
                {std::clamp(each_GBps, info.low, info.high), models::Basis::kDataSheet,
                 "rate that the measured file's class states"});
    changed += fmt::format(", adapters of {:g} Gb/s a node", *told.gbits);
  }
  return changed;
}

}  // namespace

std::optional<Nearest> nearest_class(const MeasuredFile& file, const std::vector<models::Machine>& profiles) {
  if (auto expert = nearest_expert(file, profiles)) return Nearest{std::move(expert->machine), std::move(expert->why)};
  const Told told = told_by(file.topology_class.empty() ? file.set_up : file.topology_class);
  const int each_node = ranks_of_node(told, file);
  const models::Machine* best = nullptr;
  std::string its_class;
  double most = 0;
  for (const models::Machine& machine : profiles) {
    if (file.rows.empty() || !models::is_of_kind(machine, file.rows.front().point)) continue;
    for (const std::string& each : machine.classes) {
      const auto score = likeness(told, each_node, machine, each);
      const double all = score ? *score + keywords_in(file.set_up, machine) : 0;
      if (!score || (best != nullptr && all <= most)) continue;
      best = &machine;
      its_class = each;
      most = all;
    }
  }
  if (best == nullptr) return std::nullopt;
  Nearest nearest{.machine = *best, .why = {}};
  for (auto& value : nearest.machine.values) {
    if (!value || value->basis != models::Basis::kCalibrated) continue;
    value->basis = models::Basis::kPooled;  // a fit all the same, which goes where fits go
    value->source = "of the nearest class, " + best->name + ": " + value->source;
  }
  const std::string changed = adapt(nearest.machine, told, each_node);
  nearest.why = fmt::format("no profile is of the class \"{}\"; predicted as the nearest, {} (\"{}\"){}",
                            file.topology_class, best->name, its_class, changed);
  return nearest;
}

}  // namespace meshbed::testbed
