// The whole way of a question: a client's Unix socket, the service's thread, turns on connections that are at work. In
// simulated ranks, with abstract names.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "sim/host/load/redirection.h"
#include "tests/net/failover_streams.h"
#include "tests/net/state_ranks.h"

namespace state_socket_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// A libc function as the ranks' own files get it.
template <typename Function>
Function* simulated(const char* name) {
  return reinterpret_cast<Function*>(sim::redirection_of(name));
}

/// Asks this rank's plugin as `meshbed state` would, from a thread of its own; "": no answer.
std::string ask(const MeshRank& rank, const std::string& request) {
  const std::string& infos = rank.infos();
  const std::size_t at = infos.find("state at @");
  CHECK(at != std::string::npos);
  const std::string name = infos.substr(at + 10, infos.find(':', at) - at - 10);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int descriptor = simulated<int(int, int, int)>("socket")(AF_UNIX, SOCK_STREAM, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int connected = simulated<int(int, const sockaddr*, socklen_t)>("connect")(
      descriptor, reinterpret_cast<const sockaddr*>(&address), length);
  CHECK(connected == 0);
  std::string answer;
  if (connected == 0) {
    simulated<ssize_t(int, const void*, std::size_t, int)>("send")(descriptor, request.data(), request.size(), 0);
    char bytes[4096];
    for (ssize_t count = 1; count > 0;) {
      count = simulated<ssize_t(int, void*, std::size_t, int)>("recv")(descriptor, bytes, sizeof bytes, 0);
      if (count > 0) answer.append(bytes, static_cast<std::size_t>(count));
    }
  }
  simulated<int(int)>("close")(descriptor);
  return answer;
}

/// Runs `questions` on a second thread of the rank while its first one does `work`.
void with_questions(const std::function<void()>& work, const std::function<void()>& questions) {
  auto& world = sim::World::get();
  sim::Thread& other = world.spawn(*sim::World::current_process(), "asks", questions);
  work();
  other.join();
}

models::Cluster asked(models::Cluster cluster) { return with(std::move(cluster), "NCCL_MESH_STATE_SOCKET", "@"); }

}  // namespace

TEST_CASE("state socket: questions in the middle of a stream are answered, and the stream does not notice") {
  const auto result = run_mesh(asked(pair_cluster(1)), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const Stream stream{.messages = 200};
    const bool sends = rank.rank() == 0;
    const auto work = [&] { sends ? stream.send(rank, comms) : stream.receive(rank, comms); };
    with_questions(work, [&] {
      std::int64_t done_before = 0;
      for (int question = 0; question < 5; ++question) {
        const Json state = Json::parse(ask(rank, "state\n"), nullptr, false);
        CHECK_FALSE(state.is_discarded());
        if (state.is_discarded()) return;
        const Json connection = connection_of(state, sends ? "send" : "recv");
        CHECK(connection.at("busy") == false);
        CHECK(connection.at("state") == "up");
        CHECK(connection.at("done") >= done_before);
        CHECK(connection.at("posted") <= 200);
        CHECK(connection.at("posted").get<std::int64_t>() - connection.at("done").get<std::int64_t>() <= 8);
        done_before = connection.at("done");
        sim::World::get().sleep(kMs);
      }
      CHECK(done_before > 0);
    });
    CHECK(connection_of(state_of(rank), sends ? "send" : "recv").at("done") == 200);
    rank.meet("end", 2);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

TEST_CASE("state socket: a silent client does not keep the next one waiting, nor the end") {
  const auto result = run_mesh(asked(ring_cluster(2)), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const auto odd = ask(rank, "what\n");
    CHECK(odd.find("there is no such request") != std::string::npos);
    with_questions(
        [&] {
          const Picoseconds before = sim::World::get().now();
          CHECK(ask(rank, "state\n").find("\"connections\":[{") != std::string::npos);
          CHECK(sim::World::get().now() - before < 500 * kMs);
        },
        // Says nothing: the door hangs up after two seconds.
        [&] { CHECK(ask(rank, "").empty()); });
    CHECK(sim::World::get().now() >= 2000 * kMs);
    rank.close(comms);
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

TEST_CASE("state socket: without an abstract name a simulated rank has none, and leaves no folder behind") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    CHECK(rank.infos().find("no state socket: /tmp/meshbed-") != std::string::npos);
    CHECK(rank.warnings().empty());
  });
  run_mesh(with(ring_cluster(2), "NCCL_MESH_STATE_SOCKET", "0"),
           [](MeshRank& rank) { CHECK(rank.infos().find("state") == std::string::npos); });
}

TEST_CASE("state socket: a place that was asked for and cannot be is one warning that says where it is instead") {
  run_mesh(with(ring_cluster(2), "NCCL_MESH_STATE_SOCKET", "/nowhere/at/all"), [](MeshRank& rank) {
    // In the simulated world no folder will do, that of the default neither.
    const std::string& said = rank.warnings();
    CHECK_MESSAGE(said.find("NCCL_MESH_STATE_SOCKET=/nowhere/at/all: ") != std::string::npos, said);
    CHECK_MESSAGE(said.find(": using none") != std::string::npos, said);
  });
}

}  // namespace state_socket_test
