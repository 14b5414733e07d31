// `meshbed serve` as a user starts and ends it; what Prometheus says of its metrics; the dashboard.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/result/zernel/metrics.h"
#include "testbed/serve/content.h"
#include "tests/serve/serve_client.h"
#include "tests/support/command.h"

namespace serve_command_test {

using namespace meshbed::testbed;
using namespace meshbed::test;
using nlohmann::json;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// `meshbed serve WORDS --listen 127.0.0.1:0` in a process of its own.
class ServeProcess {
 public:
  explicit ServeProcess(const std::string& words) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      const std::string command = "exec " + meshbed_program() + " serve " + words + " --listen 127.0.0.1:0 2>&1";
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    for (char letter = 0; letter != '\n' && ::read(ends[0], &letter, 1) == 1;) first_line_ += letter;
    output_ = ends[0];
  }
  ~ServeProcess() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(output_);
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  const std::string& first_line() const { return first_line_; }
  std::uint16_t port() const {
    std::smatch found;
    const bool is_there = std::regex_search(first_line_, found, std::regex("http://127\\.0\\.0\\.1:([0-9]+)/"));
    return is_there ? static_cast<std::uint16_t>(std::stoi(found[1])) : std::uint16_t{0};
  }
  /// Its exit status after the signal.
  int end_by(int signal) {
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string first_line_;
};

std::string run_with_records(const std::string& name) {
  const std::string folder = scratch_folder(name);
  const std::string sim = folder + "/pair/sim";
  std::filesystem::create_directories(sim);
  const CommandResult run = run_command_line(
      fmt::format("{0} run {1} --results '{2}' --zernel-out '{3}/zernel' --no-expect --set workload.bytes=64K "
                  ">/dev/null",
                  meshbed_program(), scenario_file("pair"), folder, sim));
  REQUIRE(run.status == 0);
  return sim;
}

/// "zernel_x_count{...} 1" -> "zernel_x_count", of every sample and TYPE line.
std::set<std::string> names_in(const std::string& metrics) {
  std::set<std::string> names;
  std::istringstream in(metrics);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("# TYPE ", 0) == 0) {
      names.insert(line.substr(7, line.find(' ', 7) - 7));
    } else if (!line.empty() && line.front() != '#') {
      names.insert(line.substr(0, line.find_first_of("{ ")));
    }
  }
  return names;
}

std::string live_metrics() {
  serve::LiveContent content({});
  return content.reply("/metrics").body;
}

}  // namespace

TEST_CASE("serve command: it prints where it listens, serves a real run's records, and Ctrl-C ends it with 130") {
  const std::string folder = run_with_records("serve-command");
  ServeProcess server("'" + folder + "'");
  REQUIRE_MESSAGE(server.port() != 0, server.first_line());
  CHECK(has(server.first_line(), fmt::format("ws://127.0.0.1:{}/", server.port() + 1)));
  const std::string metrics = body_of(get(server.port(), "/metrics"));
  CHECK(metrics == run_command_line(meshbed_program() + " zernel '" + folder + "/zernel'").output);
  CHECK(has(metrics, "zernel_nccl_collective_duration_seconds{op=\"all_reduce\",quantile=\"0.5\"} 0.000"));
  CHECK(body_of(get(server.port(), "/nccl.zev")) == read_text_file(folder + "/zernel/nccl.zev"));
  CHECK(has(body_of(get(server.port(), "/")), "<h1>pair (sim)</h1>"));
  CHECK(server.end_by(SIGINT) == kExitInterrupted);
  ServeProcess again("'" + folder + "'");
  REQUIRE(again.port() != 0);
  CHECK(again.end_by(SIGTERM) == kExitTerminated);
}

TEST_CASE("serve command: what cannot be served is refused in one line") {
  const auto refused = [](const std::string& words) {
    const CommandResult result = run_command_line(meshbed_program() + " serve " + words + " 2>&1");
    CHECK_MESSAGE(result.status == 2, words, ": ", result.output);
    return result.output;
  };
  CHECK(has(refused(""), "RESULTS is missing: name a folder of results, or give --live"));
  CHECK(has(refused("/nowhere/at/all"), "/nowhere/at/all: is not a folder"));
  CHECK(has(refused("a b"), "one folder of results at a time"));
  CHECK(has(refused("--live --listen nowhere:1"), "not a numeric address"));
}

TEST_CASE("serve command: --live has zernel's metrics without samples, its own, and a page") {
  ServeProcess server("--live");
  REQUIRE(server.port() != 0);
  const std::string metrics = body_of(get(server.port(), "/metrics"));
  CHECK(has(metrics, "# TYPE zernel_gpu_memory_used_bytes gauge\n"));
  CHECK(has(metrics, "# TYPE meshbed_processes gauge\nmeshbed_processes "));
  CHECK(json::parse(body_of(get(server.port(), "/state"))).is_array());
  CHECK(has(body_of(get(server.port(), "/")), "<h1>Running processes</h1>"));
  CHECK(status_of(get(server.port(), "/nccl.zev")) == 404);
  CHECK(server.end_by(SIGINT) == kExitInterrupted);
}

TEST_CASE("serve command: promtool finds nothing wrong with the metrics") {
  if (run_command_line("command -v promtool >/dev/null").status != 0) {
    MESSAGE("skipped: there is no promtool; Debian's package prometheus has it");
    return;
  }
  const std::string folder = run_with_records("serve-promtool");
  zernel::Streams streams;
  zernel::read_streams(streams, folder + "/zernel", std::nullopt);
  streams.gpu_memory.push_back({1000, 0, 4096, 0, 4096, 2'000'000'000});
  streams.cuda.push_back({.pid = 1000, .kernel_hash = 1, .launch_ns = 1, .return_ns = 2, .latency_ns = 1});
  streams.dataload.push_back({.pid = 1000, .tid = 1, .read_bytes = 8192, .latency_ns = 8, .io_type = 0});
  for (const std::string& text : {zernel::Metrics(streams).prometheus(), live_metrics()}) {
    const std::string file = folder + "/metrics.prom";
    write_text_file(file, text);
    const CommandResult result = run_command_line("promtool check metrics <'" + file + "' 2>&1");
    CHECK_MESSAGE(result.status == 0, result.output);
    CHECK(result.output.empty());
  }
}

TEST_CASE("the dashboard is JSON, and each metric that it names is one that the server has") {
  const json dashboard = json::parse(read_text_file(MESHBED_SOURCE_DIR "/docs/grafana-meshbed.json"));
  CHECK(dashboard.at("panels").size() >= 6);
  CHECK(dashboard.at("schemaVersion").is_number_integer());
  std::set<std::string> served = names_in(live_metrics());
  served.insert("zernel_cuda_launch_latency_seconds_count");
  std::set<std::string> named;
  for (const json& panel : dashboard.at("panels")) {
    for (const json& target : panel.at("targets")) {
      const std::string query = target.at("expr");
      const std::regex name("(zernel|meshbed)_[a-z_]+");
      for (std::sregex_iterator each(query.begin(), query.end(), name), end; each != end; ++each) {
        named.insert(each->str());
        CHECK_MESSAGE(served.contains(each->str()), query);
      }
    }
  }
  CHECK(named.size() >= 8);
  CHECK(named.contains("zernel_nccl_collective_duration_seconds"));
}

}  // namespace serve_command_test
