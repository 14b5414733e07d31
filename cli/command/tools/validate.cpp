// meshbed validate: what the profiles say of measured files, point by point.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/fidelity/nearest_expert.h"
#include "testbed/fidelity/peers.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/fidelity/validated.h"

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

nlohmann::ordered_json basis_json(const models::Interval& interval, const std::string& choice) {
  const bool has_class = interval.distance != models::Distance::kNoClass;
  return {{"class", has_class ? nlohmann::ordered_json(interval.profile) : nlohmann::ordered_json(nullptr)},
          {"choice", choice},
          {"gate", interval.gate},
          {"distance", name_of(interval.distance)},
          {"outside", interval.outside},
          {"left_out_points", interval.left_out},
          {"left_out_files", interval.left_from},
          {"text", basis_text(interval)}};
}

nlohmann::ordered_json to_json(const Validated& validated) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (std::size_t index = 0; index < validated.file.rows.size(); ++index) {
    const MeasuredRow& row = validated.file.rows[index];
    points.push_back(
        {{"collective", row.collective},
         {"ranks", row.point.call.ranks},
         {"nodes", row.point.call.nodes},
         {"bytes", row.point.call.bytes},
         {"placement", row.placement},
         {"variant", row.variant},
         {"measured_us", row.point.time_us},
         {"predicted_us", validated.predicted_us[index]},
         {"error", validated.predicted_us[index] / row.point.time_us - 1},
         {"low_us", validated.intervals[index].low_us},
         {"high_us", validated.intervals[index].high_us},
         {"basis", basis_json(validated.intervals[index], validated.choices.at(validated.machine_of_row[index]))}});
  }
  nlohmann::ordered_json bad = nlohmann::ordered_json::array();
  for (const BadRow& row : validated.file.bad) bad.push_back({{"line", row.line}, {"reason", row.reason}});
  const Coverage coverage = coverage_of(validated);
  return {{"file", validated.file.name},
          {"profile", validated.profile_names()},
          {"points", validated.file.rows.size()},
          {"median", validated.errors.median},
          {"p90", validated.errors.p90},
          {"max", validated.errors.max},
          {"inside", coverage.inside},
          {"median_relative_width", coverage.width},
          {"naive_own_line_median", validated.own_line.median},
          {"naive_carried_line_median", validated.carried_line.median},
          {"naive_two_regime_median", validated.two_regime.median},
          {"rows", points},
          {"bad_rows", bad}};
}

void print_table(const Validated& validated, std::ostream& out) {
  const MeasuredFile& file = validated.file;
  out << fmt::format("# {}  class {}  quality {}\n", file.name, file.topology_class.empty() ? "-" : file.topology_class,
                     file.quality.empty() ? "-" : file.quality);
  for (std::size_t index = 0; index < validated.machines.size(); ++index) {
    const models::Machine& machine = validated.machines[index];
    out << fmt::format("# profile {}: {}\n# choice: {}\n", machine.name, machine.description, validated.choices[index]);
  }
  out << fmt::format("# {:<14} {:>5} {:>5} {:>13} {:>3} {:<16} {:>13} {:>13} {:>8}  {:<27}  {}\n", "collective",
                     "ranks", "nodes", "bytes", "", "variant", "measured us", "predicted us", "error",
                     "9 of 10 lie in, us", "by");
  for (std::size_t index = 0; index < file.rows.size(); ++index) {
    const MeasuredRow& row = file.rows[index];
    std::string way = row.point.expert ? name_of(row.point.expert->mode) : "message";
    if (!row.point.is_message) {
      const models::CollectiveTime time = models::collective_time(validated.machine_at(index), row.point.call);
      way = fmt::format("{} {}", name_of(time.algorithm), name_of(time.protocol));
    }
    const double predicted = validated.predicted_us[index];
    const models::Interval& interval = validated.intervals[index];
    const bool is_inside = interval.low_us <= row.point.time_us && row.point.time_us <= interval.high_us;
    out << fmt::format(
        "  {:<14} {:>5} {:>5} {:>13} {:>3} {:<16} {:>13.3f} {:>13.3f} {:>+7.1f}%  {:>12.3f} {:>12.3f} {}  {}\n",
        row.collective, row.point.call.ranks, row.point.call.nodes, row.point.call.bytes, row.placement, row.variant,
        row.point.time_us, predicted, 100 * (predicted / row.point.time_us - 1), interval.low_us, interval.high_us,
        is_inside ? " " : "*", way);
  }
}

void print_summary(const Validated& validated, std::ostream& out) {
  const auto percent = [](double part) { return fmt::format("{:.1f} %", 100 * part); };
  out << fmt::format(
      "  {} points: median {}, p90 {}, max {}; naive medians: own line {}, carried line {}, two regimes {}\n",
      validated.file.rows.size(), percent(validated.errors.median), percent(validated.errors.p90),
      percent(validated.errors.max), percent(validated.own_line.median), percent(validated.carried_line.median),
      percent(validated.two_regime.median));
  const Coverage coverage = coverage_of(validated);
  out << fmt::format(
      "  intervals: {} of the points inside (* is outside; 90 % is intended), median width {} of the "
      "prediction\n",
      percent(coverage.inside), percent(coverage.width));
  std::map<std::string, std::size_t> bases;
  for (const models::Interval& interval : validated.intervals) {
    ++bases[fmt::format("{} (from {} points of {} files)", basis_text(interval), interval.left_out,
                        interval.left_from)];
  }
  for (const auto& [text, points] : bases) out << fmt::format("  {} points: {}\n", points, text);
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
    if (options.json) {
      out << json_text(to_json(validated)) << "\n";
      continue;
    }
    print_table(validated, out);
    print_summary(validated, out);
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
