#include "cli/nccl/host_ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "cli/common/child_process.h"
#include "cli/common/environment.h"
#include "cli/common/files.h"
#include "cli/common/interruption.h"
#include "cli/report/nccl/decisions.h"
#include "cli/scenario/placement.h"
#include "cli/workload/nccl/decisions.h"
#include "cli/world/emulated_gpus.h"
#include "plugin/base/deadline.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::cli {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

/// Of the loopback, where nothing listens just now.
int free_port() {
  auto socket = coll::Socket::listen(coll::at_any_port(*coll::parse_address("127.0.0.1:1")));
  if (!socket) throw std::runtime_error(socket.error().text);
  const auto address = socket->own_address();
  if (!address) throw std::runtime_error(address.error().text);
  return address->port;
}

fs::path folder_of(const HostRanks& ranks, int rank) {
  return fs::absolute(ranks.results) / fmt::format("rank-{}", rank);
}

/// Where the ranks' loader looks: the user's NCCL, Meshbed's plugins and MPI, then where it would look anyway.
std::string library_path(const HostRanks& ranks) {
  const BuiltFiles files = built_files();
  std::string folders = fs::path(ranks.library).parent_path().string();
  for (const std::string& file : {files.net_plugin, files.mpi}) folders += ":" + fs::path(file).parent_path().string();
  if (const auto own = from_environment("LD_LIBRARY_PATH")) folders += ":" + *own;
  return folders;
}

/// What all ranks have in common.
Variables common_variables(const Scenario& scenario) {
  return {{"WORLD_SIZE", std::to_string(ranks_of(scenario))},
          {"LOCAL_RANK", "0"},
          {"LOCAL_WORLD_SIZE", "1"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(free_port())},
          {"NCCL_COMM_ID", fmt::format("127.0.0.1:{}", free_port())},
          {"NCCL_SOCKET_IFNAME", "lo"},
          {"NCCL_MESH_DISABLE_RDMA", "1"},
          // nccl-tests counts the ranks of a machine by its host name, and would give each another GPU.
          {"NCCL_TESTS_DEVICE", "0"}};
}

Variables variables_of(const Scenario& scenario, const HostRanks& ranks, int rank, const Variables& common) {
  const models::Node& node = scenario.cluster.nodes[static_cast<std::size_t>(node_of(scenario, rank))];
  Variables variables(node.environment.begin(), node.environment.end());
  for (const auto& [name, value] : common) variables[name] = value;
  for (const auto& [name, value] : gpu_environment(node, library_path(ranks))) variables[name] = value;
  variables["RANK"] = std::to_string(rank);
  variables["NCCL_HOSTID"] = node.name;
  variables["MESHBED_RESULTS"] = folder_of(ranks, rank).string();
  return variables;
}

/// In the child.
int become(const HostRanks& ranks, const Variables& variables, int pipe) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::dup2(pipe, STDOUT_FILENO);
  ::dup2(pipe, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : ranks.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(words.front(), words.data());
  constexpr int kCannotStart = 127;
  return kCannotStart;
}

struct Rank {
  ChildProcess child;
  std::string unfinished_line{};
  bool open = true;
};

void print_lines(Rank& rank, int number, std::string_view bytes, std::ostream& err) {
  rank.unfinished_line += bytes;
  for (std::size_t end = rank.unfinished_line.find('\n'); end != std::string::npos;
       end = rank.unfinished_line.find('\n')) {
    err << fmt::format("rank{}: {}\n", number, std::string_view(rank.unfinished_line).substr(0, end));
    rank.unfinished_line.erase(0, end + 1);
  }
  err.flush();
}

/// Its status as a shell has it.
int status_of(const Rank& rank) {
  int status = 0;
  while (::waitpid(rank.child.process, &status, 0) < 0 && errno == EINTR) {
  }
  constexpr int kOfSignals = 128;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kOfSignals + WTERMSIG(status);
}

/// Until all have closed their output, which ends with them.
int follow(std::vector<Rank>& all, std::ostream& err) {
  constexpr std::int64_t kOthersEndMs = 2000;
  Deadline end_others;
  int first_bad = 0;
  std::size_t left = all.size();
  while (left > 0) {
    std::vector<pollfd> polled;
    for (const Rank& rank : all) polled.push_back({rank.open ? rank.child.output : -1, POLLIN, 0});
    ::poll(polled.data(), polled.size(), end_others.remaining_ms());
    if (end_others.passed()) {
      for (const Rank& rank : all) {
        if (rank.open) ::kill(rank.child.process, SIGKILL);
      }
      end_others = Deadline::never();
    }
    for (std::size_t number = 0; number < all.size(); ++number) {
      if (polled[number].revents == 0) continue;
      Rank& rank = all[number];
      std::array<char, 65536> bytes{};
      const ssize_t count = ::read(rank.child.output, bytes.data(), bytes.size());
      if (count > 0) {
        print_lines(rank, static_cast<int>(number), {bytes.data(), static_cast<std::size_t>(count)}, err);
        continue;
      }
      if (count < 0 && errno == EINTR) continue;
      if (!rank.unfinished_line.empty()) print_lines(rank, static_cast<int>(number), "\n", err);
      ::close(rank.child.output);
      rank.open = false;
      --left;
      const int status = status_of(rank);
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
    all.push_back({start_child([&](int pipe) { return become(ranks, variables, pipe); })});
  }
  const int status = follow(all, err);
  LoadedNccl nccl{.file = ranks.library, .version = ranks.version, .sha256 = sha256_of_file(ranks.library)};
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const fs::path file = folder_of(ranks, rank) / "nccl-decisions.json";
    if (fs::exists(file)) add_decisions(&nccl.decisions, read_decisions(read_text_file(file.string())));
  }
  for (const std::string& line : nccl_lines(nccl)) out << line << "\n";
  out << "results in " << ranks.results << "\n";
  return status;
}

}  // namespace meshbed::cli
