// meshbed validate: what the profiles say of measured files, point by point.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "cli/common/document_output.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/fidelity/nearest_expert.h"
#include "testbed/fidelity/peers.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/fidelity/validated.h"
#include "testbed/fidelity/validated_document.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

struct ValidateOptions {
  std::vector<std::string> paths;
  std::string profile = "auto", topology, ranks, plot;
  bool json = false, uncalibrated = false, unseen = false;
};

/// --topology: "switch", "ring" or "mesh"; "4x8", 4 nodes of 8 ranks; or both: ring,4x8.
struct TopologyOption {
  std::optional<models::Cabling> cabling;
  std::optional<int> nodes, ranks_per_node;
};

TopologyOption parse_topology(const std::string& text) {
  TopologyOption topology;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (const auto cabling = models::parse_cabling(word)) {
      topology.cabling = cabling;
      continue;
    }
    const auto times = word.find('x');
    if (times == std::string::npos) {
      throw std::runtime_error(fmt::format(
          "--topology {}: it is switch, ring or mesh, or NODESxRANKS as 4x8, or both with a comma between", text));
    }
    constexpr std::uint64_t kMost = 65536;
    topology.nodes = static_cast<int>(parse_count("--topology", word.substr(0, times), 1, kMost));
    topology.ranks_per_node = static_cast<int>(parse_count("--topology", word.substr(times + 1), 1, kMost));
  }
  return topology;
}

/// What the program has to judge by, read once for all files and only where it is needed.
class Known {
 public:
  explicit Known(const ValidateOptions& options) {
    if (options.profile == "auto" || options.unseen) profiles_ = shipped_machines();
  }
  const std::vector<models::Machine>& profiles() const { return profiles_; }
  const std::vector<models::Peer>& peers() const {
    if (!peers_) peers_ = peers_among(read_measured_folder(), shipped_machines());
    return *peers_;
  }

 private:
  std::vector<models::Machine> profiles_;
  mutable std::optional<std::vector<models::Peer>> peers_;
};

/// Values without what was fitted, as the options have it.
models::Machine as_asked(models::Machine machine, const ValidateOptions& options, const Known& known) {
  if (!options.uncalibrated && !options.unseen) return machine;
  machine = models::without_fits(std::move(machine));
  return options.unseen ? models::with_pool(std::move(machine), known.peers()) : machine;
}

std::optional<models::Standing> standing_asked(const ValidateOptions& options) {
  if (options.unseen) return models::Standing::kUnseen;
  if (options.uncalibrated) return models::Standing::kBare;
  return std::nullopt;
}

MeasuredOptions measured_options(const ValidateOptions& options, const TopologyOption& topology) {
  MeasuredOptions measured;
  constexpr std::uint64_t kRanksMost = 1'000'000;
  measured.ranks_per_node = topology.ranks_per_node;
  if (topology.nodes) {
    const auto ranks =
        static_cast<std::uint64_t>(*topology.nodes) * static_cast<std::uint64_t>(*topology.ranks_per_node);
    if (ranks > kRanksMost) {
      throw std::runtime_error(fmt::format("--topology {}: {} ranks; at most {}", options.topology, ranks, kRanksMost));
    }
    measured.ranks = static_cast<int>(ranks);
  }
  if (!options.ranks.empty()) measured.ranks = static_cast<int>(parse_count("--ranks", options.ranks, 2, kRanksMost));
  return measured;
}

Validated validate_path(const std::string& path, const ValidateOptions& options, const Known& known,
                        std::ostream& err) {
  const TopologyOption topology = parse_topology(options.topology);
  const MeasuredOptions measured = measured_options(options, topology);
  // What the file says decides the profile; only the profile knows how many ranks a node of the file's has.
  Validated validated;
  if (options.profile == "auto") {
    validated = validate_file(
        read_measured_file(path, measured), known.profiles(),
        [&]() -> const std::vector<models::Peer>& { return known.peers(); }, err);
  } else {
    models::Machine machine = machine_of_profile(find_profile(options.profile));
    MeasuredOptions by_profile = measured;
    if (measured.ranks && !measured.ranks_per_node) by_profile.ranks_per_node = machine.ranks_per_node;
    MeasuredFile file = read_measured_file(path, by_profile);
    if (file.rows.front().point.expert) machine = as_expert(machine, shipped_machines());
    validated = validate_file(std::move(file), std::move(machine));
  }
  std::vector<models::Machine> machines = validated.machines;
  for (models::Machine& machine : machines) {
    if (topology.cabling) machine.cabling = *topology.cabling;
    if (topology.ranks_per_node) machine.ranks_per_node = *topology.ranks_per_node;
    machine = as_asked(std::move(machine), options, known);
  }
  for (std::size_t row = 0; row < validated.file.rows.size(); ++row) {
    MeasuredRow& each = validated.file.rows[row];
    const models::Machine& machine = validated.machine_at(row);
    const bool is_of_experts = machine.transport == models::MachineTransport::kExpert;
    if (is_of_experts != each.point.expert.has_value()) {
      throw std::runtime_error(fmt::format("{}:{}: profile {} is {} dispatch and combine of experts, and has no {}",
                                           path, each.line, machine.name, is_of_experts ? "of" : "not of",
                                           each.collective));
    }
    if (!each.point.is_message && machine.transport == models::MachineTransport::kMessage) {
      throw std::runtime_error(
          fmt::format("{}:{}: profile {} is of single messages, and says nothing of {}; choose "
                      "one of collectives by --profile",
                      path, each.line, machine.name, each.collective));
    }
    if (!each.nodes_are_known && !each.point.is_message)
      each.point.call.nodes = models::nodes_of(machine, each.point.call.ranks);
  }
  return validate_with(validated, machines, standing_asked(options));
}

}  // namespace

int validate_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  ValidateOptions options;
  Syntax syntax("validate FILE... [options]");
  syntax.operands.add_options()  //
      ("file", po::value(&options.paths)->required()->value_name("FILE"), "measured times (docs/models.md)");
  syntax.positions.add("file", -1);
  syntax.options.add_options()  //
      ("profile", po::value(&options.profile)->value_name("NAME|FILE|auto")->default_value(options.profile),
       "whose machine it was; auto: each row by the file's class")                                   //
      ("ranks", po::value(&options.ranks)->value_name("N"), "of every row, whatever the file says")  //
      ("topology", po::value(&options.topology)->value_name("T"),
       "switch, ring or mesh; NODESxRANKS; or both, with a comma")  //
      ("uncalibrated", po::bool_switch(&options.uncalibrated),
       "without what was fitted to collectives: data sheet, perftest and NCCL's constants only")  //
      ("unseen", po::bool_switch(&options.unseen),
       "the same, with what other classes of its transport tell")  //
      ("plot", po::value(&options.plot)->value_name("FILE.svg|png"),
       "draw measured and predicted times; of several files a folder, where each has a plot of its name, in SVG")  //
      ("json", po::bool_switch(&options.json), "one object a file");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const bool one_plot = !options.plot.empty() && options.paths.size() == 1;
  if (one_plot) require_plot_file("--plot", options.plot);
  const Known known(options);
  for (const std::string& path : options.paths) {
    const Validated validated = validate_path(path, options, known, err);
    for (const BadRow& row : validated.file.bad) {
      err << fmt::format("meshbed: {}:{}: {}; row left out\n", path, row.line, row.reason);
    }
    if (!options.plot.empty()) {
      const std::filesystem::path own =
          std::filesystem::path(options.plot) / std::filesystem::path(validated.file.name).replace_extension(".svg");
      write_plot("--plot", one_plot ? options.plot : own.string(), plot_of(validated));
    }
    DocumentOutput output{.json = options.json, .indent = kOneLine};
    output.finish(validated_document(validated), out);
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
