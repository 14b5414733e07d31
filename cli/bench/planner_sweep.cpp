#include "cli/bench/planner_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/bench/bench_measure.h"
#include "cli/scenario/scenario.h"

namespace meshbed::cli {
namespace {

constexpr const char* kCubeMesh = "cube-mesh";
/// scenarios/partial5.toml: a line of five, and a shortcut.
constexpr const char* kPartial5 = "partial5";
constexpr const char* kShortcut =
    "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\naddresses = [\"192.168.110.1/24\"]\n"
    "[[node]]\nname = \"node3\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\naddresses = [\"192.168.110.2/24\"]\n"
    "[[cable]]\nends = [\"node1/rocep2s0f0\", \"node3/rocep2s0f0\"]\n";
/// Of short ones several, on average: ranks that leave the warm-up up to 1 us apart begin the first one so far apart.
constexpr std::uint64_t kSeveralBelowBytes = 1 << 20;

/// Eight nodes as in a DGX-1, whose hybrid cube mesh has half of its cables double; each its own subnet.
std::string cube_mesh_toml() {
  constexpr std::array<std::pair<int, int>, 24> kCables{
      {{0, 1}, {0, 2}, {0, 3}, {0, 3}, {0, 4}, {0, 4}, {1, 2}, {1, 2}, {1, 3}, {1, 5}, {1, 5}, {2, 3},
       {2, 3}, {2, 6}, {3, 7}, {4, 5}, {4, 6}, {4, 7}, {4, 7}, {5, 6}, {5, 6}, {5, 7}, {6, 7}, {6, 7}}};
  std::array<std::string, 8> nics;
  std::array<int, 8> used{};
  std::string cables;
  for (std::size_t cable = 0; cable < kCables.size(); ++cable) {
    std::array<std::string, 2> ends;
    for (std::size_t end = 0; end < 2; ++end) {
      const auto node = static_cast<std::size_t>(end == 0 ? kCables[cable].first : kCables[cable].second);
      const std::string device = fmt::format("mlx5_{}", used[node]++);
      nics[node] +=
          fmt::format("[[node.nic]]\ndevice = \"{}\"\nrate = \"100Gb/s\"\naddresses = [\"192.168.{}.{}/24\"]\n", device,
                      100 + cable, end + 1);
      ends[end] = fmt::format("node{}/{}", node, device);
    }
    cables += fmt::format("[[cable]]\nends = [\"{}\", \"{}\"]\n", ends[0], ends[1]);
  }
  std::string toml;
  for (std::size_t node = 0; node < nics.size(); ++node) {
    toml += fmt::format("[[node]]\nname = \"node{}\"\n{}", node, nics[node]);
  }
  return toml + cables;
}

double time_us(const PlannerCabling& cabling, const PlannerSweep& sweep, std::uint64_t bytes, const char* algorithm) {
  const std::string text = fmt::format(
      "{}[workload]\ncollective = \"{}\"\nbytes = {}\nwarmup = 1\niterations = {}\nchannels = {}\nalgorithm = \"{}\"\n",
      cabling.toml, name_of(sweep.collective), bytes, bytes < kSeveralBelowBytes ? 5 : 1, cabling.channels, algorithm);
  return simulated_us(parse_scenario(text, cabling.name, {}), fmt::format("{} by {}", cabling.name, algorithm));
}

}  // namespace

std::vector<PlannerCabling> sweep_cablings(const std::vector<int>& rails, const std::vector<std::string>& names) {
  const std::vector<std::pair<std::string, std::string>> generated{
      {"triangle", "kind = \"ring\"\nnodes = 3\n"},       {"ring4", "kind = \"ring\"\nnodes = 4\n"},
      {"ring5", "kind = \"ring\"\nnodes = 5\n"},          {"ring6", "kind = \"ring\"\nnodes = 6\n"},
      {"ring7", "kind = \"ring\"\nnodes = 7\n"},          {"ring8", "kind = \"ring\"\nnodes = 8\n"},
      {"line4", "kind = \"line\"\nnodes = 4\n"},          {"star5", "kind = \"star\"\nnodes = 5\n"},
      {"switch8", "kind = \"switch\"\nnodes = 8\n"},      {"torus3x3", "kind = \"torus\"\nshape = [3, 3]\n"},
      {"torus2x8", "kind = \"torus\"\nshape = [2, 8]\n"}, {"torus8x2", "kind = \"torus\"\nshape = [8, 2]\n"},
      {kPartial5, "kind = \"line\"\nnodes = 5\n"},        {kCubeMesh, ""}};
  for (const std::string& name : names) {
    const bool is_there =
        std::any_of(generated.begin(), generated.end(), [&](const auto& each) { return each.first == name; });
    if (is_there) continue;
    std::string known;
    for (const auto& each : generated) known += (known.empty() ? "" : ", ") + each.first;
    throw std::runtime_error(fmt::format("--cablings {}: there are {}", name, known));
  }
  std::vector<PlannerCabling> cablings;
  for (const auto& [name, toml] : generated) {
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    if (name == kCubeMesh) cablings.push_back({name, cube_mesh_toml()});
    if (name == kPartial5) cablings.push_back({name, fmt::format("[topology]\n{}{}", toml, kShortcut)});
    for (const int count : name == kCubeMesh || name == kPartial5 ? std::vector<int>{} : rails) {
      cablings.push_back({fmt::format("{}, {} {}", name, count, count == 1 ? "rail" : "rails"),
                          fmt::format("[topology]\n{}rails = {}\n", toml, count)});
    }
  }
  return cablings;
}

nlohmann::json run_planner_sweep(const PlannerSweep& sweep, std::ostream& table) {
  constexpr std::array<const char*, 5> kAlgorithms{"ring", "tree", "halving-doubling", "direct", "mesh"};
  table << "cabling                bytes      ring      tree  halving-d    direct      mesh      auto  auto/best\n"
        << std::flush;  // a child must not print it again
  nlohmann::json rows = nlohmann::json::array();
  double worst = 0;
  for (const PlannerCabling& cabling : sweep.cablings) {
    for (const std::uint64_t bytes : sweep.sizes_bytes) {
      nlohmann::json row{{"cabling", cabling.name}, {"bytes", bytes}};
      std::string line = fmt::format("{:<18} {:>9}", cabling.name, bytes);
      double best = 0;
      for (const char* algorithm : kAlgorithms) {
        const double us = time_us(cabling, sweep, bytes, algorithm);
        row[fmt::format("{}_us", algorithm)] = us;
        best = best == 0 ? us : std::min(best, us);
        line += fmt::format(" {:9.1f}", us);
      }
      const double chosen = time_us(cabling, sweep, bytes, "auto");
      row["auto_us"] = chosen;
      row["over_best"] = chosen / best;
      worst = std::max(worst, chosen / best);
      table << line << fmt::format(" {:9.1f} {:10.3f}\n", chosen, chosen / best) << std::flush;
      rows.push_back(std::move(row));
    }
  }
  table << fmt::format("auto at its worst: {:.3f} of the fastest\n", worst);
  return rows;
}

}  // namespace meshbed::cli
