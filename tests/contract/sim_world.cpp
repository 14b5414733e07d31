#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <sstream>
#include <stdexcept>

#include "models/gid_table.h"
#include "sim/engine/network.h"
#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "tests/contract/suite/contract.h"
#include "tests/contract/suite/record.h"
#include "tests/contract/worlds.h"
#include "tests/support/run_world.h"

namespace meshbed::test {
namespace {

constexpr int kMeetingPort = 5000;

models::Cluster simulated_pair() {
  models::Cluster cluster = ring_cluster(2);
  for (int node = 0; node < 2; ++node) {
    models::Nic& nic = cluster.nodes[static_cast<std::size_t>(node)].nics[0];
    nic.mtu_bytes = contract::kNetdevMtu;
    nic.addresses = {*models::read_prefix(std::string(contract::kAddresses[node]) + "/24"),
                     *models::read_prefix(std::string(contract::kSixAddresses[node]) + "/64")};
    nic.gids = models::linux_gid_table({node, 0}, nic.addresses);
  }
  return cluster;
}

struct RankHost {
  int rank;
  static void record(void* self, const char* line) {
    report(fmt::format("{}\t{}\n", static_cast<RankHost*>(self)->rank, line));
  }
  static void set_link(void* self, int up) {
    const models::PortRef port{static_cast<RankHost*>(self)->rank, 0};
    sim::World::get().network().set_port_up(port, up != 0);
    sim::port_changed(port);
  }
};

void run_rank(int index, int rank, const std::string& handshake_address) {
  void* library = sim::load_for(*sim::World::current_process(), kContractsPath);
  const auto run = reinterpret_cast<decltype(&contract_run)>(sim::symbol_of(library, "contract_run"));
  RankHost host{rank};
  const ContractPlace place{.rank = rank,
                            .handshake_address = handshake_address.c_str(),
                            .handshake_port = kMeetingPort,
                            .host = &host,
                            .set_link = &RankHost::set_link,
                            .record = &RankHost::record};
  run(index, &place);
}

contract::Run run_one(int index, const std::string& name) {
  const models::Cluster cluster = simulated_pair();
  const std::string handshake_address = to_text(cluster.nodes[0].management->address.address);
  const WorldResult result = run_world(
      {.cluster = cluster},
      [&](sim::World& world) {
        sim::install_host(world, {});
        sim::install_verbs(world, std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1", nullptr);
        for (int rank = 0; rank < 2; ++rank) {
          auto& process = world.add_process(rank, rank, fmt::format("rank{}", rank));
          world.spawn(process, "main", [index, rank, &handshake_address] { run_rank(index, rank, handshake_address); });
        }
      },
      true);
  contract::Run run{.name = name, .source = "", .seen = {}, .broken = {}};
  std::array<std::string, 2> lines;
  std::istringstream stream(result.value);
  for (std::string line; std::getline(stream, line);) lines[line[0] == '0' ? 0 : 1] += line.substr(2) + "\n";
  for (int rank = 0; rank < 2; ++rank) contract::take_lines(run, rank, lines[static_cast<std::size_t>(rank)]);
  if (!result.waiters.empty()) run.broken.push_back("waits for ever: " + result.waiters);
  if (!result.checks_passed) run.broken.push_back("the simulator ended: " + result.output);
  return run;
}

}  // namespace

std::vector<std::string> contract_names() {
  // Only the names are read here. The host's libibverbs that comes with them has to go again: the ranks' copies would
  // take it for the drop-in, which has the same name.
  void* library = dlopen(kContractsPath, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto name_of = reinterpret_cast<decltype(&contract_name)>(dlsym(library, "contract_name"));
  std::vector<std::string> names;
  while (const char* name = name_of(static_cast<int>(names.size()))) names.emplace_back(name);
  dlclose(library);
  if (dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD) != nullptr) {
    throw std::runtime_error("the host's libibverbs.so.1 stays in the process");
  }
  return names;
}

std::vector<contract::Run> run_in_sim(int stride) {
  std::vector<contract::Run> runs;
  const std::vector<std::string> names = contract_names();
  for (std::size_t index = 0; index < names.size(); index += static_cast<std::size_t>(stride)) {
    runs.push_back(run_one(static_cast<int>(index), names[index]));
  }
  return runs;
}

}  // namespace meshbed::test
