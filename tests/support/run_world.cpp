#include "tests/support/run_world.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace meshbed::test {
namespace {

bool g_check_failed = false;  // in a child: doctest's own counters die with it
int g_report_fd = -1;

struct FailureListener : doctest::IReporter {
  explicit FailureListener(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override { g_check_failed = true; }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& data) override { g_check_failed = g_check_failed || data.m_failed; }
  void log_message(const doctest::MessageData& data) override {
    g_check_failed = g_check_failed || (data.m_severity & doctest::assertType::is_warn) == 0;
  }
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("meshbed_failures", 1, FailureListener);

void write_all(int fd, const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(fd, text.data() + written, text.size() - written);
    if (count <= 0) return;
    written += static_cast<std::size_t>(count);
  }
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t count; (count = ::read(fd, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string read_file(std::FILE* file) {
  std::fflush(file);
  std::rewind(file);
  return read_all(fileno(file));
}

[[noreturn]] void run_child(const sim::WorldOptions& options, const std::function<void(sim::World&)>& set_up) {
  sim::WorldOptions used = options;
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer does not know the stacks that SimGrid switches to by itself; those of threads it does.
  if (used.contexts.empty()) used.contexts = "thread";
  used.stack_bytes = std::max(used.stack_bytes, 1024U * 1024U);
#endif
  sim::World world(used);
  set_up(world);
  const sim::Outcome outcome = world.run();
  std::string waiters;
  for (const auto& line : outcome.waiters) waiters += line + "\n";
  write_all(g_report_fd, "O" + std::to_string(static_cast<int>(outcome.kind)) + "\n");
  write_all(g_report_fd, "W" + std::to_string(waiters.size()) + "\n" + waiters);
  std::fflush(nullptr);
  ::_exit(g_check_failed ? 1 : 0);
}

models::Nic make_nic(const std::string& device, const std::string& netdev, const std::string& prefix,
                     std::uint64_t rate_bps) {
  models::Nic nic;
  nic.device = device;
  nic.netdev = netdev;
  const auto parsed = models::read_prefix(prefix);
  REQUIRE(parsed.has_value());
  nic.addresses = {*parsed};
  nic.rate_bps = rate_bps;
  nic.gids = {{.index = 0, .type = models::GidType::kRoceV1, .gid = models::gid_of(parsed->address)},
              {.index = 1, .type = models::GidType::kRoceV2, .gid = models::gid_of(parsed->address)}};
  nic.pci_path = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00." + device.substr(device.size() - 1);
  return nic;
}

models::Node make_node(int index) {
  models::Node node;
  node.name = "node" + std::to_string(index);
  const auto management =
      models::read_prefix("10.0." + std::to_string(index / 250) + "." + std::to_string(index % 250 + 1) + "/16");
  REQUIRE(management.has_value());
  node.management = models::ManagementPort{.netdev = "mgmt0", .address = *management};
  return node;
}

}  // namespace

void report(const std::string& text) { write_all(g_report_fd, "V" + std::to_string(text.size()) + "\n" + text); }

WorldResult run_world(const sim::WorldOptions& options, const std::function<void(sim::World&)>& set_up,
                      bool expect_failure) {
  std::array<int, 2> pipe_ends{};
  REQUIRE(::pipe(pipe_ends.data()) == 0);
  std::FILE* errors = std::tmpfile();
  REQUIRE(errors != nullptr);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(pipe_ends[0]);
    g_report_fd = pipe_ends[1];
    g_check_failed = false;
    ::dup2(fileno(errors), STDERR_FILENO);
    run_child(options, set_up);
  }
  ::close(pipe_ends[1]);
  std::string text = read_all(pipe_ends[0]);
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);

  WorldResult result;
  result.output = read_file(errors);
  std::fclose(errors);
  bool told_outcome = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t line_end = text.find('\n', at);
    if (line_end == std::string::npos) break;
    const char kind = text[at];
    const auto number = static_cast<std::size_t>(std::atoll(text.c_str() + at + 1));
    at = line_end + 1;
    if (kind == 'O') {
      result.outcome = static_cast<sim::OutcomeKind>(number);
      told_outcome = true;
    } else {
      (kind == 'V' ? result.value : result.waiters) += text.substr(at, number);
      at += number;
    }
  }
  result.checks_passed = told_outcome && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!expect_failure) {
    CHECK_MESSAGE(result.checks_passed, "in the child (status ", status, "): ", result.output);
    CHECK_MESSAGE(result.outcome == sim::OutcomeKind::kFinished, "waiters:\n", result.waiters);
  }
  return result;
}

models::Cluster ring_cluster(int nodes, std::uint64_t rate_bps, Picoseconds propagation_ps, int rails) {
  models::Cluster cluster;
  cluster.management = models::ManagementNetwork{};
  const int cables = rails * (nodes == 2 ? 1 : nodes);
  for (int index = 0; index < nodes; ++index) cluster.nodes.push_back(make_node(index));
  const auto add_nic = [&](int node, int subnet, int host) {
    auto& nics = cluster.nodes[static_cast<std::size_t>(node)].nics;
    const std::string function = std::to_string(nics.size());
    nics.push_back(make_nic("rocep1s0f" + function, "enp1s0f" + function + "np" + function,
                            "192.168." + std::to_string(100 + subnet) + "." + std::to_string(host) + "/24", rate_bps));
    return models::PortRef{node, static_cast<int>(nics.size()) - 1};
  };
  for (int cable = 0; cable < cables; ++cable) {
    const int first = nodes == 2 ? 0 : cable % nodes, next = (first + 1) % nodes;
    cluster.cables.push_back({.name = "cable" + std::to_string(cable),
                              .a = add_nic(first, cable, 1),
                              .b = add_nic(next, cable, 2),
                              .rate_bps = rate_bps,
                              .propagation_ps = propagation_ps});
  }
  return cluster;
}

models::Cluster switch_cluster(int nodes, std::uint64_t rate_bps, Picoseconds propagation_ps) {
  models::Cluster cluster;
  cluster.management = models::ManagementNetwork{};
  models::Switch sw{.name = "switch0", .ports = {}, .rate_bps = rate_bps, .propagation_ps = propagation_ps};
  const std::string length = nodes <= 250 ? "/24" : "/16";
  for (int index = 0; index < nodes; ++index) {
    auto node = make_node(index);
    const int third = nodes <= 250 ? 100 : index / 250;
    node.nics.push_back(make_nic("rocep1s0f0", "enp1s0f0np0",
                                 "192.168." + std::to_string(third) + "." + std::to_string(index % 250 + 1) + length,
                                 rate_bps));
    sw.ports.push_back({index, 0});
    cluster.nodes.push_back(std::move(node));
  }
  cluster.switches.push_back(std::move(sw));
  return cluster;
}

models::Cluster routed_cluster(int nodes, std::uint64_t rate_bps, Picoseconds propagation_ps) {
  models::Cluster cluster = switch_cluster(nodes, rate_bps, propagation_ps);
  cluster.switches.push_back(cluster.switches.front());
  cluster.switches[1].name = "switch1";
  for (models::Switch& one : cluster.switches) one.ports.clear();
  const auto subnet = [](int box) { return "192.168." + std::to_string(100 + box); };
  for (int index = 0; index < nodes; ++index) {
    const int box = index < (nodes + 1) / 2 ? 0 : 1;
    auto& nic = cluster.nodes[static_cast<std::size_t>(index)].nics[0];
    nic = make_nic(nic.device, nic.netdev, subnet(box) + "." + std::to_string(index + 1) + "/24", rate_bps);
    nic.router = 0;
    nic.routes = {{.destination = *models::read_prefix(subnet(1 - box) + ".0/24"),
                   .gateway = *models::parse_ip(subnet(box) + ".254")}};
    cluster.switches[static_cast<std::size_t>(box)].ports.push_back({index, 0});
  }
  cluster.routers.push_back({.name = "router0",
                             .switches = {0, 1},
                             .rate_bps = rate_bps,
                             .latency_ps = kPicosecondsPerMicrosecond / 2,
                             .propagation_ps = propagation_ps});
  return cluster;
}

}  // namespace meshbed::test
