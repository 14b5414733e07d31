#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "emu/config.h"
#include "emu/image/boot_image.h"
#include "emu/microvm/microvm.h"
#include "emu/microvm/probe.h"
#include "tests/contract/runner_files.h"
#include "tests/contract/suite/contract.h"
#include "tests/contract/worlds.h"
#include "tests/support/command.h"

namespace meshbed::test {
namespace {

constexpr const char* kNetdev = "cable0";
constexpr double kTimeLimit_s = 1200;
constexpr double kServeEvery_s = 0.02;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

emu::EmuCluster emulated_pair(int stride) {
  emu::EmuCluster cluster{.nodes = {}, .wires = 1};
  for (int node = 0; node < 2; ++node) {
    emu::EmuNode one;
    one.name = fmt::format("node{}", node);
    one.nics.push_back({.netdev = kNetdev,
                        .rdma_device = "rocep1s0f0",
                        .mac = fmt::format("02:4d:00:{:02}:00:00", node),
                        .addresses = {std::string(contract::kAddresses[node]) + "/24",
                                      std::string(contract::kSixAddresses[node]) + "/64"},
                        .mtu = contract::kNetdevMtu,
                        .rdma = true,
                        .wire = 0});
    one.management_address = fmt::format("10.0.0.{}/24", node + 1);
    one.commands = {{MESHBED_BINARY_DIR "/bin/contract_runner", kContractsPath, std::to_string(node), "10.0.0.1",
                     std::to_string(stride)}};
    cluster.nodes.push_back(one);
  }
  return cluster;
}

/// Pulls and plugs the cables as the guests ask for it.
class Cables {
 public:
  explicit Cables(emu::MicroVms& machines) : machines_(machines) {}
  void serve() {
    for (int node = 0; node < 2; ++node) {
      const std::string name = fmt::format("node{}", node);
      const std::string folder = machines_.folder() + "/" + name + "/";
      int number = 0, up = 0;
      std::istringstream(text_of(folder + contract::kLinkRequest)) >> number >> up;
      int& served = served_[static_cast<std::size_t>(node)];
      if (number <= served) continue;
      machines_.set_link(name, kNetdev, up != 0);
      served = number;
      std::ofstream(folder + contract::kLinkServed + ".new") << served << "\n";
      std::filesystem::rename(folder + contract::kLinkServed + ".new", folder + contract::kLinkServed);
    }
  }

 private:
  emu::MicroVms& machines_;
  std::array<int, 2> served_{};
};

/// A rank's record of every `stride`th contract: "contract NUMBER" before each contract's own lines.
void take_record(std::vector<contract::Run>& runs, int stride, int rank, const std::string& record) {
  std::istringstream stream(record);
  std::size_t index = runs.size();
  std::size_t ended = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind(contract::kBeginsLine, 0) == 0) {
      index = std::stoul(line.substr(std::string(contract::kBeginsLine).size())) / static_cast<std::size_t>(stride);
    } else if (line == contract::kEndsLine) {
      ++ended;
    } else if (index < runs.size()) {
      contract::take_lines(runs[index], rank, line);
    }
  }
  for (; ended < runs.size(); ++ended) {
    runs[ended].broken.push_back(fmt::format("rank {}: the machine did not come to its end", rank));
  }
}

}  // namespace

std::vector<contract::Run> run_in_emu(int stride) {
  emu::MicroVmOptions options;
  options.image = emu::make_boot_image(emu::cache_folder(), [](const std::string& text) { MESSAGE(text); });
  options.accelerator = emu::probe_accelerator();
  options.work_dir = scratch_folder("contract");
  options.time_limit_s = kTimeLimit_s;
  emu::MicroVms machines(emulated_pair(stride), options);
  Cables cables(machines);
  machines.start();
  while (!machines.advance(kServeEvery_s)) cables.serve();
  const emu::ClusterOutcome outcome = machines.outcome();

  std::vector<contract::Run> runs;
  const std::vector<std::string> names = contract_names();
  for (std::size_t index = 0; index < names.size(); index += static_cast<std::size_t>(stride)) {
    runs.push_back({.name = names[index], .source = "", .seen = {}, .broken = {}});
  }
  for (int rank = 0; rank < 2; ++rank) {
    const emu::NodeOutcome& node = outcome.nodes[static_cast<std::size_t>(rank)];
    take_record(runs, stride, rank, text_of(node.folder + "/" + contract::kRecord));
    const std::string said = text_of(node.commands[0].stderr_path);
    CHECK_MESSAGE(node.exit_code == 0, node.name, ": ", said);
  }
  for (const std::string& trouble : outcome.troubles) FAIL_CHECK(trouble);
  MESSAGE(fmt::format("ready after {:.1f} s, total {:.1f} s", outcome.ready_s, outcome.total_s));
  return runs;
}

}  // namespace meshbed::test
