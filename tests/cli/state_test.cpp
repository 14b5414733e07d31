// meshbed state: finding sockets, asking, and what people see.
#include "plugin/net/process/state.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "plugin/net/state/state_socket.h"
#include "testbed/result/state_client.h"
#include "testbed/result/state_report.h"
#include "tests/support/command.h"

namespace state_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

net::ConnectionState connection(const char* phase, std::int64_t quiet_ms, const std::string& waits_for) {
  net::ConnectionState state{.sends = true};
  state.ours = {.nic = "nic0", .address = "192.168.100.1/24", .gid = "::ffff:192.168.100.1", .qp = 17};
  state.theirs = {.nic = "nic1", .address = "192.168.100.2/24", .gid = "", .qp = 18};
  state.way = "cable";
  state.phase = phase;
  state.quiet_ms = quiet_ms;
  state.waits_for = waits_for;
  state.posted = 12;
  state.done = 11;
  state.outstanding_count = 1;
  state.outstanding.push_back({.tags = {4}, .size_bytes = 4096, .age_ms = quiet_ms});
  return state;
}

net::ProcessState example() {
  net::ProcessState state;
  state.version = "0.1.0";
  state.pid = 4711;
  state.host = "node0";
  state.service_port = 40'001;
  state.nics.push_back({.name = "nic0",
                        .netdev = "eth0",
                        .port = 1,
                        .link_up = true,
                        .rate_mbps = 100'000,
                        .rail = 2,
                        .addresses = {"192.168.100.1/24"}});
  state.connections = {connection("up", 5, ""), connection("up", 2'000, "clear-to-send of B"),
                       connection("up", 65'000, "clear-to-send of C"), connection("suspended", 1, "a way to D")};
  state.handshakes.push_back({.nic = "nic0", .age_ms = 65'000, .waits_for = "a peer with its handle"});
  state.handshakes.push_back({.connects = true, .nic = "nic1", .peer = "E", .age_ms = 7, .asked_ms = 1});
  state.circuits.push_back({.name = "A -> B", .pieces = 3, .bytes = 150'000, .credits = 16});
  return state;
}

/// A door whose thread serves until the end.
class Served {
 public:
  explicit Served(const std::string& folder, const std::string& document) {
    auto door = net::StateSocket::open(folder, ::getpid());
    REQUIRE_MESSAGE(door, door.error().text);
    door_ = std::move(*door);
    thread_ = std::thread([this, document] {
      while (!stop_.load()) {
        std::vector<pollfd> watched;
        door_->watch(watched);
        ::poll(watched.data(), watched.size(), 1);
        door_->advance([&] { return document; });
      }
    });
  }
  ~Served() {
    stop_.store(true);
    thread_.join();
  }
  const std::string& path() const { return door_->path(); }

 private:
  std::unique_ptr<net::StateSocket> door_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// What a killed process leaves behind, or with `listens` one that stands still.
int left_behind(const std::string& path, bool listens) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  if (listens) REQUIRE(::listen(descriptor, 4) == 0);
  return descriptor;
}

}  // namespace

TEST_CASE("state table: connections that are stuck come first, the longest silence before the others") {
  const std::string table = state_table(parse_state(net::to_json(example())), {.all = true});
  // Behind the verdict, which names one of them.
  const auto at = [&](const char* text) { return table.find(text, table.find('\n')); };
  CHECK(at("  process 4711 on node0: Mesh 0.1.0") == table.find('\n') + 1);
  CHECK(at("NIC nic0:1 eth0 100 Gb/s up 192.168.100.1/24 rail 2\n") != std::string::npos);
  CHECK(at("a way to D") < at("clear-to-send of C"));
  CHECK(at("clear-to-send of C") < at("clear-to-send of B"));
  CHECK(at("clear-to-send of B") < at("5 ms"));
  CHECK(at("accept nic0: begun 65.0 s ago, never asked for since; waits for a peer with its handle\n") <
        at("connect nic1 to E: begun 7 ms ago, last asked for 1 ms ago\n"));
  CHECK(at("connect nic1 to E") < at("relays A -> B"));
  CHECK(at("65.0 s") != std::string::npos);
  CHECK(at("1 open, the oldest: 4096 bytes, tag 4, open for at least 65.0 s") != std::string::npos);
  CHECK(at("relays A -> B: 3 pieces, 150000 bytes, 0 held, 16 credits") != std::string::npos);
  const auto lines = stuck_lines(parse_state(net::to_json(example())));
  REQUIRE(lines.size() == 3);
  CHECK(lines[1] ==
        "send nic0 192.168.100.1 QP 17 -> nic1 192.168.100.2 QP 18: 11 of 12 done, waits for clear-to-send of C");
  CHECK(making_lines(parse_state(net::to_json(example()))) ==
        std::vector<std::string>{
            "accept nic0: begun 65.0 s ago, never asked for since; waits for a peer with its handle"});
}

TEST_CASE("a state begins with one line: what is waited for, since when, in which operation; then what is not idle") {
  net::ProcessState process = example();
  const auto shown = [&] { return parse_state(net::to_json(process)); };
  const auto first_line = [&] {
    const std::string table = state_table(shown(), {});
    CHECK(table.starts_with(state_verdict(shown()) + "\n"));
    return state_verdict(shown());
  };
  // What is not up is the cause, even where others have waited for longer.
  CHECK(first_line() ==
        "process 4711 on node0 waits for a way to D for 1 ms, in a send of 4096 bytes, tag 4 (suspended); 2 more wait");
  process.connections.back().reason = "the cable is down";
  CHECK(first_line() ==
        "process 4711 on node0 waits for a way to D for 1 ms, in a send of 4096 bytes, tag 4 (suspended: the cable is "
        "down); 2 more wait");
  process.connections.pop_back();
  CHECK(first_line() ==
        "process 4711 on node0 waits for clear-to-send of C for 65.0 s, in a send of 4096 bytes, tag 4; 1 more waits");
  std::string table = state_table(shown(), {});
  CHECK(table.find("clear-to-send of B") != std::string::npos);
  CHECK(table.find(" 5 ms") == std::string::npos);  // the idle connection
  CHECK(table.find("1 idle of 3 connections is left out: --all\n") != std::string::npos);
  CHECK(table.find("NIC") == std::string::npos);
  CHECK(table.find("relays") == std::string::npos);
  CHECK(table.find("connect nic1") == std::string::npos);
  process.nics.front().link_up = false;
  CHECK(state_table(shown(), {}).find("  NIC nic0:1 eth0 100 Gb/s down") != std::string::npos);
  process.connections.resize(1);
  CHECK(first_line() == "process 4711 on node0 waits for a peer with its handle for 65.0 s, in accept()");
  process.handshakes.clear();
  CHECK(first_line() == "process 4711 on node0 waits for nothing");
  CHECK(state_table(shown(), {}).find("1 idle of 1 connection is left out: --all\n") != std::string::npos);
  process.circuits.front().waits_for = "credits of B";
  CHECK(first_line() == "process 4711 on node0 waits for credits of B, as the relay of A -> B");
}

TEST_CASE("state table: fields that are missing or of another type are left out; nothing reaches the terminal raw") {
  const auto state = parse_state(
      R"({"format":1,"host":"\u001b[2Jevil","nics":{"a":1},"connections":[{"direction":3,"outstanding":[7]},5,null],
          "circuits":[[]],"communicators":[{"hints":"x"}],"pid":"no"})");
  const std::string table = state_table(state, {.all = true});
  CHECK(table.find('\x1b') == std::string::npos);
  CHECK(table.find("?[2Jevil") != std::string::npos);
  CHECK_NOTHROW(stuck_lines(state));
  CHECK(making_lines(parse_state(R"({"format":1,"handshakes":[3,{"waits_for":7},{"side":[],"waits_for":"A"}]})")) ==
        std::vector<std::string>{" : begun - ago, never asked for since; waits for A"});
}

TEST_CASE("what is no state is refused in words") {
  CHECK_THROWS_WITH(parse_state("hello"), "this is not a state: not a JSON object");
  CHECK_THROWS_WITH(parse_state("[1]"), "this is not a state: not a JSON object");
  CHECK_THROWS_WITH(parse_state("{}"), "this is not a state: it has no format");
  CHECK_THROWS_WITH(parse_state(R"({"format":2})"),
                    "its format is 2, and this meshbed reads 1: take the meshbed of that plugin");
  CHECK_THROWS_WITH(parse_state(R"({"format":1,"error":"there is no such request"})"), "there is no such request");
}

TEST_CASE("sockets are found by folder, process and path") {
  const std::string parent = test::scratch_folder("state_find");
  const std::string folder = parent + "/meshbed-" + std::to_string(::geteuid());
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  ::close(left_behind(folder + "/state.17", false));
  ::close(left_behind(folder + "/state.17.2", false));
  ::close(left_behind(folder + "/state.171", false));
  std::ofstream(folder + "/state.no-socket") << "x";
  CHECK(find_state_sockets(parent).paths.size() == 3);
  CHECK(find_state_sockets(folder).paths.empty());
  CHECK(named_state_sockets({"17"}, parent).paths ==
        std::vector<std::string>{folder + "/state.17", folder + "/state.17.2"});
  CHECK(named_state_sockets({folder}, parent).paths.size() == 3);
  CHECK(named_state_sockets({folder + "/state.171"}, parent).paths.size() == 1);
  CHECK_THROWS_WITH_AS(
      named_state_sockets({"99"}, parent),
      "state: 99: there is no such process with a mesh plugin; meshbed state without an argument shows all that can be "
      "asked",
      std::runtime_error);
}

TEST_CASE("what is named and cannot be asked is refused each in its own words: place, cause, what to do") {
  // Not below the build folder, which others may not enter.
  std::string parent = "/tmp/meshbed-test-" + std::string(6, 'X');
  REQUIRE(::mkdtemp(parent.data()) != nullptr);
  REQUIRE(::chmod(parent.c_str(), 0755) == 0);
  const std::string where =
      "a process with a mesh plugin has its socket, state.PID, in /tmp/meshbed-UID/ or where its "
      "NCCL_MESH_STATE_SOCKET "
      "says";
  const auto refusal = [&](const std::string& word) {
    try {
      (void)named_state_sockets({word}, parent);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was said");
  };
  const std::string file = parent + "/state.17", folder = parent + "/empty", loop = parent + "/loop";
  std::ofstream(file) << "x";
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(::symlink(loop.c_str(), loop.c_str()) == 0);
  CHECK(refusal(file) == "state: " + file + ": this is a regular file, not a socket that can be asked; " + where);
  CHECK(refusal(folder) == "state: " + folder + ": this folder has no state sockets; " + where);
  CHECK(refusal("/nowhere/at/all") == "state: /nowhere/at/all: there is no such socket; " + where);
  CHECK(refusal("/dev/null") == "state: /dev/null: this is a device, not a socket that can be asked; " + where);
  CHECK(refusal(loop) ==
        "state: " + loop +
            ": this cannot be looked at: Too many levels of symbolic links; ask as its owner, or as root");
  CHECK(refusal("") == "state: \"\": name a process, a socket or a folder of sockets");

  // Root reads everything, so the test becomes another user.
  ::chmod(folder.c_str(), 0);
  const bool was_root = ::geteuid() == 0;
  if (was_root) REQUIRE(::seteuid(65'534) == 0);
  const std::string unreadable = refusal(folder);
  if (was_root) REQUIRE(::seteuid(0) == 0);
  ::chmod(folder.c_str(), 0700);
  CHECK(unreadable ==
        "state: " + folder + ": this folder cannot be read: Permission denied; ask as its owner, or as root");
  std::filesystem::remove_all(parent);
}

TEST_CASE("a process is asked; one that is dead leaves nothing behind, one that stands still is named") {
  const std::string folder = test::scratch_folder("state_ask");
  ::chmod(folder.c_str(), 0700);
  const Served served(folder, net::to_json(example()));
  const StateAnswer answer = ask_for_state(served.path());
  CHECK(answer.problem == "");
  CHECK(parse_state(answer.text).at("pid") == 4711);

  const std::string gone = folder + "/state.99999999";  // beyond the largest number that Linux gives
  ::close(left_behind(gone, false));
  const StateAnswer dead = ask_for_state(gone);
  CHECK(dead.stale);
  CHECK(dead.problem == "its process has ended");
  CHECK(::access(gone.c_str(), F_OK) != 0);
  // A process that is there, but does not listen yet, keeps its socket.
  const std::string young = folder + "/state." + std::to_string(::getpid()) + ".7";
  ::close(left_behind(young, false));
  CHECK(ask_for_state(young).stale);
  CHECK(::access(young.c_str(), F_OK) == 0);

  const int stopped = left_behind(folder + "/state.2", true);
  const StateAnswer silent = ask_for_state(folder + "/state.2", 20);
  CHECK_FALSE(silent.stale);
  CHECK(silent.problem == "no answer within 0.02 s: the process or its service thread is stopped");
  ::close(stopped);
  CHECK(ask_for_state(folder + "/state.3").problem == "there is no such socket");

  const auto shown = test::run_command_line(test::meshbed_program() + " state '" + served.path() + "' 2>&1");
  CHECK(shown.status == 0);
  CHECK(shown.output.find("process 4711 on node0") == 0);
  const auto json = test::run_command_line(test::meshbed_program() + " state --json '" + served.path() + "'");
  CHECK(parse_state(json.output).at("service_port") == 40'001);
  const auto none = test::run_command_line(test::meshbed_program() + " state '" + folder + "/state.3' 2>&1");
  CHECK(none.status == 2);
  CHECK(none.output.find("there is no such socket") != std::string::npos);
}

}  // namespace state_test
