// Mutated scenario files: whatever is done to a file, it is read or refused with place and text, and nothing else
// happens. What is read goes through all that looks at a scenario without running it. The sanitizer build runs the same
// test; tests/fuzz/scenario_fuzz.cpp goes on from here with coverage feedback.
//
// Of 10,000 files a seeded sample is ordinarily gone through; MESHBED_TEST_WALKS=full goes through all of them, and
// MESHBED_TEST_MUTATIONS=N through as many as it says, of which the first are the same.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "plugin/base/prng.h"
#include "sim/engine/network.h"
#include "testbed/render/render.h"
#include "testbed/result/bonds.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"
#include "testbed/world/emulate.h"
#include "tests/support/walk.h"

namespace scenario_mutation_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

struct File {
  std::string path;
  std::string text;
};

std::vector<File> scenario_files() {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MESHBED_SOURCE_DIR) + "/scenarios")) {
    if (entry.path().extension() != ".toml") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    files.push_back({entry.path().string(), text.str()});
  }
  // Directory order differs from machine to machine; the mutations must not.
  std::sort(files.begin(), files.end(), [](const File& left, const File& right) { return left.path < right.path; });
  // What the short files do not say: nodes, NICs, GIDs, cables, switches and faults one by one.
  files.push_back({"listed.toml",
                   "[[node]]\nname = \"a\"\ndevice_order = [\"y\"]\nenvironment = { A = 1 }\n"
                   "[[node.nic]]\ndevice = \"x\"\naddresses = [\"10.1.0.1/24\", \"fd00::1/64\"]\n"
                   "gids = [{ index = 0, type = \"v2\", address = \"10.1.0.1\" }]\n"
                   "[[node.nic]]\ndevice = \"y\"\nmtu = 1500\nlink = \"down\"\n"
                   "[[node]]\nname = \"b\"\nmanagement = \"10.0.0.9\"\n"
                   "[[node.nic]]\ndevice = \"x\"\n[[node.nic]]\ndevice = \"y\"\nrate = \"25Gb/s\"\n"
                   "[[cable]]\nname = \"c\"\nends = [\"a/x\", \"b/x\"]\nsubnet = \"10.1.0.0/24\"\nlatency = \"5ns\"\n"
                   "[[switch]]\nports = [\"a/y\", \"b/y\"]\nsubnet = \"10.2.0.0/29\"\n"
                   "[[fault]]\nkind = \"loss\"\ntarget = \"c\"\namount = 0.5\n"
                   "[[fault]]\nkind = \"address_change\"\ntarget = \"a/x\"\naddress = \"10.1.0.9/24\"\n"
                   "[expect]\nunreachable = [[\"a\", \"b\"]]\nerror = \"no path\"\n"});
  // Bonds of both kinds, VLANs, MTUs of switches, PCIe links, routers, and ranks with places.
  files.push_back({"placed.toml",
                   "[topology]\ngpu_model = \"H100\"\ngpus = 2\n"
                   "[[node]]\nname = \"a\"\ngpu_pcie = [\"up\", \"up\"]\ndevice_order = [\"ens1f1\"]\n"
                   "[[node.pcie]]\nname = \"up\"\nlanes = 4\ngeneration = 5\n[[node.pcie]]\nname = \"side\"\nrate = "
                   "\"50Gb/s\"\n"
                   "[[node.nic]]\ndevice = \"ens1f0\"\npcie = \"up\"\ngateway = \"spine\"\n[[node.nic]]\ndevice = "
                   "\"ens1f1\"\npcie = \"side\"\nswitch_mtu = 4200\n"
                   "[[node.nic]]\ndevice = \"mlx5_2\"\nvlan = 100\naddresses = [\"10.3.0.1/24\"]\nnetdev = \"eth2\"\n"
                   "[[node.bond]]\nname = \"bond0\"\nfunctions = [\"ens1f0\", \"ens1f1\"]\nmode = \"802.3ad\"\n"
                   "xmit_hash_policy = \"layer2+3\"\naddresses = [\"10.1.0.7/24\"]\ndevice = \"mlx5_bond_7\"\n"
                   "[[node]]\nname = \"b\"\n[[node.nic]]\ndevice = \"mlx5_0\"\nmtu = 1500\ngateway_table = "
                   "\"policy\"\n[[node.nic]]\ndevice = \"mlx5_2\"\nvlan = 200\naddresses = [\"10.3.0.2/24\"]\n"
                   "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"one\"\n[[node.nic]]\ndevice = \"two\"\nlink = "
                   "\"down\"\n[[node.bond]]\nname = \"bond0\"\nfunctions = [\"one\", \"two\"]\n"
                   "[[switch]]\nname = \"leaf0\"\nports = [\"a/ens1f0\", \"a/ens1f1\"]\nsubnet = "
                   "\"10.1.0.0/24\"\nmtu = 9000\n"
                   "[[switch]]\nname = \"leaf1\"\nports = [\"b/mlx5_0\", \"c/one\", \"c/two\"]\nsubnet = "
                   "\"10.1.1.0/24\"\nmtu = 1500\n"
                   "[[cable]]\nends = [\"a/mlx5_2\", \"b/mlx5_2\"]\n"
                   "[[router]]\nname = \"spine\"\njoins = [\"leaf0\", \"leaf1\"]\nrate = \"40Gb/s\"\ncable_latency = "
                   "\"2us\"\n"
                   "[environment]\nNCCL_MESH_ALLOW_ROUTED = \"1\"\n"
                   "[workload]\nplacement = [\"a\", \"b\", \"c\", \"a\"]\nchannels = 2\n"
                   "[[fault]]\nkind = \"port_down\"\ntarget = \"a/mlx5_bond_7\"\nduration = \"1ms\"\n"
                   "[[fault]]\nkind = \"address_change\"\ntarget = \"c/one\"\naddress = \"10.1.1.9/24\"\n"});
  return files;
}

/// What looks at a scenario that was read, as far as it costs little.
void look_at(const Scenario& scenario) {
  (void)finding_lines(scenario);
  (void)bond_lines(scenario.cluster);
  (void)bond_table(scenario.cluster);
  const std::size_t nodes = scenario.cluster.nodes.size();
  if (nodes > 8) return;
  const FaultBoard board(scenario);
  for (const Fault& fault : scenario.faults) (void)board.steps_from(point_of(fault));
  (void)topology_report(scenario, false);
  (void)text_of(rules_document(scenario));
  if (scenario.cluster.cables.size() + scenario.cluster.switches.size() <= 16) (void)topology_svg(scenario);
  const sim::Network network(scenario.cluster);
  for (std::size_t from = 0; from < nodes; ++from) {
    for (std::size_t to = 0; to < nodes; ++to) {
      if (scenario.cluster.nodes[from].nics.empty() || scenario.cluster.nodes[to].nics.empty()) continue;
      (void)network.path({static_cast<int>(from), 0}, {static_cast<int>(to), 0}, from + to);
    }
  }
  try {
    (void)emulated_cluster(scenario, {});
  } catch (const std::runtime_error& error) {
    CHECK_MESSAGE(std::string(error.what()).find("--world emu") != std::string::npos, error.what());
  }
}

/// "PATH:LINE:COLUMN: TEXT", or "PATH: TEXT" where it is about the file as a whole; of several lines each.
void check_refusal(const std::string& message, const std::string& path) {
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    CHECK_MESSAGE(line.rfind(path + ":", 0) == 0, message);
    CHECK_MESSAGE(line.size() > path.size() + 10, message);
  }
  CHECK_FALSE(message.empty());
}

std::size_t mutations() {
  constexpr std::size_t kWhole = 10'000, kSample = 2'500;
  if (const char* const wanted = std::getenv("MESHBED_TEST_MUTATIONS")) return std::strtoul(wanted, nullptr, 10);
  return test::walks_whole() ? kWhole : kSample;
}

/// The start and size of a random line of `text`.
std::pair<std::size_t, std::size_t> random_line(const std::string& text, Prng& prng) {
  const std::size_t at = prng.below(text.size() + 1);
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  return {begin, end - begin};
}

void mutate_once(std::string& text, const std::vector<File>& files, Prng& prng) {
  const std::size_t at = prng.below(text.size() + 1);
  switch (prng.below(7)) {
    case 0:  // one bit
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << prng.below(8)));
      break;
    case 1:  // one byte
      if (at < text.size()) text[at] = static_cast<char>(prng.below(256));
      break;
    case 2:
      text.resize(at);
      break;
    case 3: {  // splice: another file's tail
      const std::string& other = files[prng.below(files.size())].text;
      text = text.substr(0, at) + other.substr(prng.below(other.size() + 1));
      break;
    }
    case 4: {  // a line twice
      const auto [begin, size] = random_line(text, prng);
      text.insert(begin, text.substr(begin, size) + "\n");
      break;
    }
    case 5: {  // a line from elsewhere
      const std::string& other = files[prng.below(files.size())].text;
      const auto [begin, size] = random_line(other, prng);
      text.insert(random_line(text, prng).first, other.substr(begin, size) + "\n");
      break;
    }
    case 6: {  // a number that is too large, too small or odd
      static const char* const kNumbers[] = {"0", "-1", "999999999", "9223372036854775807", "65536", "nan", "1e308"};
      const std::size_t digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text.replace(digit, 1, kNumbers[prng.below(std::size(kNumbers))]);
      break;
    }
  }
}

}  // namespace

TEST_CASE("mutated scenario files are read or refused, and nothing else happens") {
  constexpr std::uint64_t kSeed = 20'260'101;
  const std::size_t count = mutations();
  MESSAGE("seed ", kSeed, ", ", count, " files (MESHBED_TEST_MUTATIONS)");
  const auto files = scenario_files();
  Prng prng(kSeed);
  std::size_t read = 0;
  std::size_t refused = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const File& file = files[prng.below(files.size())];
    std::string text = file.text;
    for (std::uint64_t step = 0; step <= prng.below(4); ++step) mutate_once(text, files, prng);
    try {
      look_at(parse_scenario(text, file.path, {}));
      ++read;
    } catch (const ScenarioError& error) {
      ++refused;
      check_refusal(error.what(), file.path);
    } catch (const std::exception& error) {
      FAIL_CHECK("mutation ", i, " of ", file.path, ": ", error.what(), "\n", text);
    }
  }
  // Both outcomes must be common, or the mutations test nothing.
  CHECK(read > count / 10);
  CHECK(refused > count / 10);
}

TEST_CASE("the file with bonds, routers and the like is right before it is mutated") {
  const std::vector<File> files = scenario_files();
  const File& placed = files.back();
  REQUIRE(placed.path == "placed.toml");
  CHECK_NOTHROW(look_at(parse_scenario(placed.text, placed.path, {})));
}

TEST_CASE("mutated --set arguments are applied or refused, and nothing else happens") {
  const std::string text = "[topology]\nkind = \"ring\"\nnodes = 4\n[[cable]]\nname = \"node0-node1\"\n";
  const std::vector<File> arguments = {{"", "workload.bytes=64M"},
                                       {"", "cable.0.rate=10Gb/s"},
                                       {"", "node.node1.nic.rocep1s0f0.link=down"},
                                       {"", "cable.node1-node2.ends=[\"node1/rocep1s0f1\", \"node2/rocep1s0f0\"]"},
                                       {"", "environment.NCCL_DEBUG=INFO"},
                                       {"", "fault=[{kind=\"loss\",target=\"node0-node1\",amount=0.1}]"}};
  Prng prng(7);
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string argument = arguments[prng.below(arguments.size())].text;
    mutate_once(argument, arguments, prng);
    try {
      (void)parse_scenario(text, "test.toml", {argument});
    } catch (const ScenarioError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what(), ": ", argument);
    }
  }
  CHECK(refused > 500);
}

}  // namespace scenario_mutation_test
