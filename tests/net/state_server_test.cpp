// The door to a process's state: real Unix sockets, of this test's own process.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "plugin/base/json_text.h"
#include "plugin/net/process/state.h"
#include "plugin/net/state/state_socket.h"
#include "tests/support/command.h"

namespace state_server_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

constexpr std::int64_t kPid = 4711;

class Client {
 public:
  explicit Client(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    const bool abstract = path.front() == '@';
    if (abstract) address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (abstract ? 0 : 1));
    connected = ::connect(socket_.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
  }
  void say(const std::string& text) const {
    CHECK(::send(socket_.descriptor(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  void say_no_more() const { ::shutdown(socket_.descriptor(), SHUT_WR); }
  /// All that is there; `ended` becomes true at the end of file.
  std::string hear() {
    std::string text;
    char bytes[4096];
    ssize_t count = 0;
    while ((count = ::recv(socket_.descriptor(), bytes, sizeof bytes, 0)) > 0) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    ended = count == 0;
    return text;
  }

  bool connected = false, ended = false;

 private:
  Socket socket_;
};

std::string folder(const char* name) { return test::scratch_folder(name) + "/f"; }

std::unique_ptr<StateSocket> open_door(const std::string& setting) {
  auto door = StateSocket::open(setting, kPid);
  REQUIRE_MESSAGE(door, door.error().text);
  return std::move(*door);
}

const std::function<std::string()> kDocument = [] { return std::string("{\"format\":1}"); };

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

TEST_CASE("door: a client says state and gets one line, then the end") {
  const auto door = open_door(folder("door"));
  CHECK(door->path().find("/f/state.4711") != std::string::npos);
  for (const char* request : {"state\n", "state\r\n", "\n"}) {
    Client client(door->path());
    CHECK(client.connected);
    client.say(request);
    door->advance(kDocument);
    CHECK(client.hear() == "{\"format\":1}\n");
    CHECK(client.ended);
    CHECK_FALSE(door->busy());
  }
}

TEST_CASE("door: a request in pieces, one that only ends, and what is no request") {
  const auto door = open_door(folder("door_requests"));
  Client slow(door->path()), silent(door->path()), odd(door->path()), endless(door->path());
  slow.say("sta");
  silent.say_no_more();
  odd.say("GET / HTTP/1.1\r\n\r\n");
  endless.say(std::string(500, 'x'));
  door->advance(kDocument);
  CHECK(slow.hear().empty());
  CHECK_FALSE(slow.ended);
  CHECK(silent.hear() == "{\"format\":1}\n");
  CHECK(odd.hear().find("\"error\":\"there is no such request") != std::string::npos);
  CHECK(endless.hear().find("\"error\":\"a request has 63 bytes") != std::string::npos);
  CHECK(door->busy());
  slow.say("te\n");
  door->advance(kDocument);
  CHECK(slow.hear() == "{\"format\":1}\n");
  CHECK_FALSE(door->busy());
}

TEST_CASE("door: a client that does not read delays no other, and gets its answer as it reads") {
  const auto door = open_door(folder("door_slow"));
  int made = 0;
  const std::string large(4 << 20, 'x');
  const auto document = [&] {
    ++made;
    return large;
  };
  Client slow(door->path()), other(door->path());
  slow.say("state\n");
  other.say("state\n");
  door->advance(document);
  CHECK(made == 1);  // once for all who ask at this moment
  CHECK(door->busy());
  std::string heard;
  for (int turn = 0; turn < 10'000 && !other.ended; ++turn) {
    heard += other.hear();
    door->advance(document);
  }
  CHECK(heard == large + "\n");
  CHECK_FALSE(slow.ended);
  heard.clear();
  for (int turn = 0; turn < 10'000 && !slow.ended; ++turn) {
    heard += slow.hear();
    door->advance(document);
  }
  CHECK(heard == large + "\n");
}

TEST_CASE("door: a request is answered at once beside any number of silent clients; the longest silent ones go") {
  const auto door = open_door(folder("door_many"));
  std::vector<std::unique_ptr<Client>> silent;
  const auto come = [&] {
    silent.push_back(std::make_unique<Client>(door->path()));
    CHECK(silent.back()->connected);
  };
  // Before the door is looked at, and one by one; each time the last one asks.
  for (int number = 0; number < 64; ++number) come();
  Client after(door->path());
  CHECK(after.connected);
  after.say("state\n");
  door->advance(kDocument);
  CHECK(after.hear() == "{\"format\":1}\n");
  // Those who were last to come may still speak.
  silent.back()->say("state\n");
  door->advance(kDocument);
  CHECK(silent.back()->hear() == "{\"format\":1}\n");
  silent.front()->hear();
  CHECK(silent.front()->ended);
  for (int number = 0; number < 64; ++number) {
    come();
    door->advance(kDocument);
  }
  std::vector<pollfd> watched;
  door->watch(watched);
  CHECK(watched.size() == 1 + StateSocket::kMostClients);
}

TEST_CASE(
    "door: a client that has asked is not removed for another; if all read slowly the next ones wait in the queue") {
  const auto door = open_door(folder("door_readers"));
  const std::string large(512 << 10, 'x');  // more than a socket takes in; 32 of them are served in time
  const auto document = [&] { return large; };
  std::vector<std::unique_ptr<Client>> readers;
  for (std::size_t number = 0; number < StateSocket::kMostClients; ++number) {
    readers.push_back(std::make_unique<Client>(door->path()));
    readers.back()->say("state\n");
  }
  Client next(door->path());
  next.say("state\n");
  door->advance(document);
  std::vector<pollfd> watched;
  door->watch(watched);
  CHECK(watched.size() == StateSocket::kMostClients);  // not the door itself: it would never rest
  std::string heard;
  for (int turn = 0; turn < 10'000 && !readers.front()->ended; ++turn) {
    heard += readers.front()->hear();
    door->advance(document);
  }
  CHECK(heard == large + "\n");
  heard.clear();
  for (int turn = 0; turn < 10'000 && !next.ended; ++turn) {
    heard += next.hear();
    door->advance(document);
  }
  CHECK(heard == large + "\n");
}

TEST_CASE("door: the name goes with the door; one that a dead process left is replaced, a living one's is not") {
  const std::string place = folder("door_names");
  std::string path;
  {
    const auto first = open_door(place);
    const auto second = open_door(place);
    path = first->path();
    CHECK(second->path() == path + ".2");
    CHECK(exists(path + ".2"));
  }
  CHECK_FALSE(exists(path));
  CHECK_FALSE(exists(path + ".2"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  {
    Socket dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    REQUIRE(::bind(dead.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  CHECK(exists(path));
  const auto third = open_door(place);
  CHECK(third->path() == path);
  CHECK(Client(path).connected);
}

TEST_CASE("door: a folder that others may write into, or that is none, is refused with its name") {
  const std::string parent = test::scratch_folder("door_refused");
  const std::string open_to_all = parent + "/open";
  REQUIRE(::mkdir(open_to_all.c_str(), 0700) == 0);
  REQUIRE(::chmod(open_to_all.c_str(), 0777) == 0);
  const auto refused = StateSocket::open(open_to_all, kPid);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text == open_to_all + "/: is open to others: chmod 700 it");
  REQUIRE(::symlink("/tmp", (parent + "/link").c_str()) == 0);
  const auto link = StateSocket::open(parent + "/link", kPid);
  REQUIRE_FALSE(link);
  CHECK(link.error().text.find("is no folder") != std::string::npos);
  CHECK_FALSE(StateSocket::open(parent + "/missing/folder", kPid));
  const std::string long_folder = parent + "/" + std::string(200, 'x');
  const auto too_long = StateSocket::open(long_folder, kPid);
  REQUIRE_FALSE(too_long);
  CHECK(too_long.error().text == long_folder + "/state.4711: a socket's path has 107 bytes at most");
  CHECK_FALSE(exists(long_folder));  // nothing is made for nothing
  const auto fresh = open_door(parent + "/fresh");
  struct stat status {};
  REQUIRE(::stat((parent + "/fresh").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("door: where the place that was asked for cannot be it is at the usual one, with the reason") {
  const std::string parent = test::scratch_folder("door_elsewhere");
  std::string problem;
  const auto missing = StateSocket::open_somewhere(parent + "/missing/folder", ::getpid(), problem);
  REQUIRE_MESSAGE(missing, missing.error().text);
  CHECK(problem == parent + "/missing/folder/: cannot be made: No such file or directory");
  CHECK((*missing)->path().find("/tmp/meshbed-" + std::to_string(::geteuid()) + "/state.") == 0);
  const auto there = StateSocket::open_somewhere(parent + "/there", ::getpid(), problem);
  REQUIRE_MESSAGE(there, there.error().text);
  CHECK(problem.empty());
  CHECK((*there)->path().find(parent + "/there/state.") == 0);
}

TEST_CASE("door: an abstract name needs no file system") {
  auto door = StateSocket::open("@", ::getpid());
  REQUIRE_MESSAGE(door, door.error().text);
  CHECK((*door)->path() == "@meshbed-" + std::to_string(::geteuid()) + "/state." + std::to_string(::getpid()));
  Client client((*door)->path());
  CHECK(client.connected);
  client.say("state\n");
  (*door)->advance(kDocument);
  CHECK(client.hear() == "{\"format\":1}\n");
}

TEST_CASE("state as JSON: whatever names hold, it is one line that a parser takes, with all values") {
  ProcessState state;
  state.version = "0.1.0";
  state.pid = 17;
  state.host = "no\"de\\\n\xff";
  state.node = 0xfedcba9876543210;
  state.nics.push_back({.name = "rocep1s0f0", .rate_mbps = 100'000, .rail = 3, .addresses = {"192.168.100.1/24"}});
  state.connections.push_back({.sends = true, .posted = 5, .done = 3, .bytes = 1ULL << 60U, .waits_for = "a credit"});
  state.connections.push_back({.busy = true, .name = "a -> b"});
  state.handshakes.push_back({.nic = "nic0", .age_ms = 5, .accepted = 2, .waits_for = "READY of A"});
  state.handshakes.push_back({.connects = true, .nic = "nic1", .peer = "B"});
  state.circuits.push_back({.name = "x -> y", .pieces = 7});
  const std::string text = to_json(state);
  CHECK(text.find('\n') == std::string::npos);
  const auto json = nlohmann::json::parse(text);
  CHECK(json.at("format") == kStateFormat);
  CHECK(json.at("host") == "no\"de\\\n\xc3\xbf");
  CHECK(json.at("node") == "0xfedcba9876543210");
  CHECK(json.at("listeners").is_null());
  CHECK(json.at("nics")[0].at("rail") == 3);
  CHECK(json.at("connections")[0].at("bytes") == 1ULL << 60U);
  CHECK(json.at("connections")[0].at("quiet_ms").is_null());
  CHECK(json.at("connections")[1].at("busy") == true);
  CHECK(json.at("circuits")[0].at("pieces") == 7);
  CHECK(json.at("handshakes")[0].at("side") == "accept");
  CHECK(json.at("handshakes")[0].at("asked_ms").is_null());
}

}  // namespace state_server_test
