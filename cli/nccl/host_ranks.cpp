#include "cli/nccl/host_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "cli/nccl/program_run.h"
#include "emu/process.h"
#include "plugin/base/cut_lines.h"
#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"
#include "testbed/base/files.h"
#include "testbed/base/free_address.h"
#include "testbed/base/interruption.h"
#include "testbed/render/render.h"
#include "testbed/result/nccl_decisions.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/nccl/decisions.h"
#include "testbed/world/gpus.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

fs::path folder_of(const HostRanks& ranks, int rank) {
  return fs::absolute(ranks.results) / fmt::format("rank-{}", rank);
}

/// What all ranks have in common.
Variables common_variables(const Scenario& scenario) {
  const std::string master = free_address();
  return {{"WORLD_SIZE", std::to_string(ranks_of(scenario))},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", master.substr(master.rfind(':') + 1)},
          {"NCCL_COMM_ID", free_address()},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_MESH_DISABLE_RDMA", "1"},
          // nccl-tests counts the ranks of a machine by its host name, and would give each another GPU.
          {"NCCL_TESTS_DEVICE", "0"}};
}

Variables variables_of(const Scenario& scenario, const HostRanks& ranks, int rank, const Variables& common) {
  const models::Node& node = scenario.cluster.at(node_of(scenario, rank));
  Variables variables(node.environment.begin(), node.environment.end());
  for (const auto& [name, value] : common) variables[name] = value;
  for (const auto& [name, value] : gpu_environment(node, library_path(ranks.library))) variables[name] = value;
  variables["RANK"] = std::to_string(rank);
  variables["NCCL_HOSTID"] = node.name;
  variables["MESHBED_RESULTS"] = folder_of(ranks, rank).string();
  return variables;
}

struct Rank {
  pid_t process = -1;
  Descriptor output;  // of both streams; closed: it has ended
  CutLines lines{};
};

/// By env(1), which sets the variables.
Rank start(const HostRanks& ranks, const Variables& variables) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("nccl run: pipe: no descriptors left");
  Rank rank;
  rank.output = Descriptor(ends[0]);
  const Descriptor written(ends[1]);
  emu::SpawnOptions options;
  options.argv = {"env"};
  options.output = options.errors = ends[1];
  for (const auto& [name, value] : variables) options.argv.push_back(name + "=" + value);
  options.argv.insert(options.argv.end(), ranks.program.begin(), ranks.program.end());
  rank.process = emu::spawn(options);
  return rank;
}

/// Until all have closed their output, which ends with them.
int follow(std::vector<Rank>& all, std::ostream& err) {
  constexpr std::int64_t kOthersEndMs = 2000;
  Deadline end_others;
  int first_bad = 0;
  std::size_t left = all.size();
  while (left > 0) {
    std::vector<pollfd> polled;
    for (const Rank& rank : all) polled.push_back({rank.output.number(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), end_others.remaining_ms());
    if (end_others.passed()) {
      for (const Rank& rank : all) {
        if (rank.output.is_open()) ::kill(rank.process, SIGKILL);
      }
      end_others = Deadline::never();
    }
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (polled[number].revents == 0) continue;
      Rank& rank = all[number];
      std::array<char, 65536> bytes{};
      const auto print = [&](std::string_view line) { err << fmt::format("rank{}: {}\n", number, line); };
      const ssize_t count = ::read(rank.output.number(), bytes.data(), bytes.size());
      if (count > 0) {
        rank.lines.take({bytes.data(), static_cast<std::size_t>(count)}, print);
        err.flush();
        continue;
      }
      if (count < 0 && errno == EINTR) continue;
      rank.lines.finish(print);
      rank.output.close();
      --left;
      const int status = emu::wait_for_exit(rank.process);
      if (status == 0 || first_bad != 0) continue;
      first_bad = status;
      err << fmt::format("meshbed: rank {} ended with status {}\n", number, status);
      end_others = Deadline::after_ms(kOthersEndMs);
    }
  }
  return first_bad;
}

}  // namespace

int run_on_host(const Scenario& scenario, const HostRanks& ranks, std::ostream& out, std::ostream& err) {
  const Interruption interruption("", "");
  const Variables common = common_variables(scenario);
  std::vector<Rank> all;
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    fs::create_directories(folder_of(ranks, rank));
    std::error_code none;
    fs::remove(folder_of(ranks, rank) / "nccl-decisions.json", none);
    const Variables variables = variables_of(scenario, ranks, rank, common);
    all.push_back(start(ranks, variables));
  }
  const int status = follow(all, err);
  LoadedNccl nccl{.file = ranks.library, .version = ranks.version, .sha256 = sha256_of_file(ranks.library)};
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const fs::path file = folder_of(ranks, rank) / "nccl-decisions.json";
    if (fs::exists(file)) add_decisions(&nccl.decisions, read_decisions(read_text_file(file.string())));
  }
  for (const std::string& line : text_lines(document::nccl_section(nccl))) out << line << "\n";
  out << "results in " << ranks.results << "\n";
  return status;
}

}  // namespace meshbed::testbed
