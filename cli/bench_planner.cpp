#include "cli/bench_planner.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/bench.h"
#include "cli/json_text.h"
#include "cli/perf.h"
#include "cli/workload.h"
#include "models/strength.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

struct Cabling {
  const char* name;
  const char* toml;  // [topology], and what lies over it
  int channels = 1;
};

constexpr std::array<Cabling, 7> kCablings{{
    {"triangle", "[topology]\nkind = \"ring\"\nnodes = 3\n"},
    {"ring4", "[topology]\nkind = \"ring\"\nnodes = 4\n"},
    {"line4", "[topology]\nkind = \"line\"\nnodes = 4\n"},
    {"ring8", "[topology]\nkind = \"ring\"\nnodes = 8\n"},
    // As scenarios/partial5.toml: a line of five, and a shortcut.
    {"partial5",
     "[topology]\nkind = \"line\"\nnodes = 5\n"
     "[[node]]\nname = \"node1\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\naddresses = [\"192.168.110.1/24\"]\n"
     "[[node]]\nname = \"node3\"\n[[node.nic]]\ndevice = \"rocep2s0f0\"\naddresses = [\"192.168.110.2/24\"]\n"
     "[[cable]]\nends = [\"node1/rocep2s0f0\", \"node3/rocep2s0f0\"]\n"},
    {"star5", "[topology]\nkind = \"star\"\nnodes = 5\n"},
    {"dual-rail", "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n", 2},
}};

Scenario scenario_of(const Cabling& cabling, const char* algorithm, std::uint64_t bytes) {
  return parse_scenario(fmt::format("{}[workload]\ncollective = \"all_reduce\"\nbytes = {}\nwarmup = 1\nchannels = {}\n"
                                    "algorithm = \"{}\"\n",
                                    cabling.toml, bytes, cabling.channels, algorithm),
                        cabling.name, {});
}

/// One all-reduce, its connections made before.
double time_us(const Cabling& cabling, const char* algorithm, std::uint64_t bytes) {
  return simulated_us(scenario_of(cabling, algorithm, bytes), fmt::format("{} by {}", cabling.name, algorithm));
}

double bound_us(const Cabling& cabling, std::uint64_t bytes) {
  const Scenario scenario = scenario_of(cabling, "mesh", bytes);
  const std::vector<int> rates_mbps = engine_options(scenario, built_files()).cable_mbps;
  return static_cast<double>(bytes) * 8 /
         models::strength(ranks_of(scenario), rates_mbps);  // bits over bits a microsecond
}

}  // namespace

int bench_planner_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench planner [options]");
  std::string bytes_text = "16M";
  bool json = false;
  syntax.options.add_options()  //
      ("bytes,b", po::value(&bytes_text)->value_name("SIZE")->default_value(bytes_text),
       "of the all-reduce, as in perf; of float32")  //
      ("json", po::bool_switch(&json), "print JSON instead of the table");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::uint64_t bytes = parse_size(bytes_text);
  if (bytes == 0 || bytes % sizeof(float) != 0) {
    throw std::runtime_error(fmt::format("--bytes {}: not a multiple of 4, the bytes of a float", bytes_text));
  }
  nlohmann::json rows = nlohmann::json::array();
  if (!json) {
    out << fmt::format("all-reduce of {} bytes, simulated microseconds\n", bytes)
        << "cabling         ring      tree      auto     bound  auto/bound\n"
        << std::flush;  // a child must not print it again
  }
  for (const Cabling& cabling : kCablings) {
    const double ring = time_us(cabling, "ring", bytes), tree = time_us(cabling, "tree", bytes);
    const double chosen = time_us(cabling, "auto", bytes), bound = bound_us(cabling, bytes);
    rows.push_back(
        {{"cabling", cabling.name}, {"ring_us", ring}, {"tree_us", tree}, {"auto_us", chosen}, {"bound_us", bound}});
    if (json) continue;
    out << fmt::format("{:<10} {:9.1f} {:9.1f} {:9.1f} {:9.1f} {:11.2f}\n", cabling.name, ring, tree, chosen, bound,
                       chosen / bound)
        << std::flush;
  }
  if (json)
    out << json_text(nlohmann::json{{"benchmark", "planner"}, {"bytes", bytes}, {"rows", rows}}, kIndent) << "\n";
  return kExitOk;
}

}  // namespace meshbed::cli
