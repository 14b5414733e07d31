#include "tests/local/rank_processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "tests/support/free_address.h"

namespace meshbed::test {
namespace {

constexpr unsigned kPatienceSeconds = 120;

void write_all(int pipe, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(pipe, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = read(pipe, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(pipe);
  return text;
}

std::string run_rank(int rank, int ranks, const std::string& address, const AdjustOptions& adjust,
                     const RankProcess& body) {
  const std::size_t colon = address.rfind(':');
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  setenv("MASTER_ADDR", address.substr(0, colon).c_str(), 1);
  setenv("MASTER_PORT", address.substr(colon + 1).c_str(), 1);
  meshcoll_options options{};
  options.struct_bytes = sizeof options;
  char bootstrap[MESHCOLL_ID_BYTES] = {};
  if (meshcoll_read_launcher(&options.rank, &options.world, bootstrap) != MESHCOLL_OK) return error_of(nullptr);
  const std::string plugin = local_plugin();
  options.bootstrap = bootstrap;
  options.net_plugin = plugin.c_str();
  options.connect_timeout_ms = 60000;
  if (adjust) adjust(options);
  meshcoll_comm* comm = nullptr;
  if (meshcoll_init(&options, &comm) != MESHCOLL_OK) return "init: " + error_of(nullptr);
  std::string said = body(comm, rank);
  if (meshcoll_destroy(comm) != MESHCOLL_OK) said += " destroy failed";
  return said;
}

}  // namespace

std::string local_plugin() { return MESHBED_BINARY_DIR "/lib/libnccl-net-local.so"; }

std::vector<ProcessEnd> run_children(const std::vector<std::function<std::string()>>& bodies) {
  struct Child {
    pid_t process;
    int output;
  };
  std::cout << std::flush;  // a child must not print it again
  std::vector<Child> children;
  for (const auto& body : bodies) {
    std::array<int, 2> ends{};
    REQUIRE(pipe(ends.data()) == 0);
    const pid_t process = fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(kPatienceSeconds);
      for (const Child& other : children) close(other.output);
      close(ends[0]);
      write_all(ends[1], body());
      _exit(0);
    }
    close(ends[1]);
    children.push_back({process, ends[0]});
  }
  std::vector<ProcessEnd> found;
  for (const Child& child : children) {
    ProcessEnd end{.said = read_all(child.output)};
    int status = 0;
    REQUIRE(waitpid(child.process, &status, 0) == child.process);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    found.push_back(std::move(end));
  }
  return found;
}

std::vector<ProcessEnd> run_rank_processes(int ranks, const AdjustOptions& adjust, const RankProcess& body) {
  const std::string address = free_address();
  std::vector<std::function<std::string()>> bodies;
  for (int rank = 0; rank < ranks; ++rank) {
    bodies.emplace_back([=] { return run_rank(rank, ranks, address, adjust, body); });
  }
  return run_children(bodies);
}

void require_well(const std::vector<ProcessEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    CHECK_MESSAGE(ends[rank].signal == 0, "rank ", rank);
    CHECK_MESSAGE(ends[rank].said.empty(), "rank ", rank, ": ", ends[rank].said);
  }
}

}  // namespace meshbed::test
