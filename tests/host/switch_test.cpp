// Ordinary traffic through a switch: what is too large for its MTU is lost, and VLANs do not hear one another.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "tests/host/probe_world.h"

namespace switch_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr int kPort = 4000;
constexpr std::size_t kLargeBytes = 2000;

models::Cluster small_switch(int nodes) {
  models::Cluster cluster = switch_cluster(nodes);
  cluster.switches[0].mtu_bytes = 1500;
  return cluster;
}

/// Rank 0 sends five bytes and then many over TCP; what of the latter rank 1 has after a second.
void send_both(const models::Cluster& cluster, std::int64_t large_arrives) {
  run_probe(cluster, 2, [large_arrives](const ProbeTable& probe, int rank) {
    if (rank == 1) {
      char text[2 * kLargeBytes]{};
      const int peer = probe.accept_one(probe.listen_on("0.0.0.0", kPort, 8));
      CHECK(probe.receive(peer, text, 5, MSG_WAITALL) == 5);
      sim::World::get().sleep(kPicosecondsPerSecond);
      const std::int64_t count = probe.receive(peer, text, sizeof(text), MSG_DONTWAIT);
      CHECK(count == (large_arrives > 0 ? large_arrives : -EAGAIN));
      return;
    }
    sim::World::get().sleep(kPicosecondsPerMicrosecond);
    int socket = -1;
    CHECK(probe.connect_to("192.168.100.2", kPort, &socket).error == 0);
    CHECK(probe.send_all(socket, "hello", 5) == 5);
    sim::World::get().sleep(kPicosecondsPerMillisecond);
    const std::string large(kLargeBytes, 'x');
    CHECK(probe.send_all(socket, large.data(), large.size()) == static_cast<std::int64_t>(kLargeBytes));
    sim::World::get().sleep(2 * kPicosecondsPerSecond);
  });
}

}  // namespace

// Linux tcp_mtu_probing, off by default: a segment that no router complains of is sent again, as large as before.
TEST_CASE("a TCP segment that is larger than a switch's MTU is lost again and again, and a short one is not") {
  send_both(small_switch(2), 0);
  send_both(switch_cluster(2), kLargeBytes);
  models::Cluster small_everywhere = small_switch(2);
  for (models::Node& node : small_everywhere.nodes) node.nics[0].mtu_bytes = 1500;  // segments fit then
  send_both(small_everywhere, kLargeBytes);
}

TEST_CASE("a datagram that is larger than a switch's MTU is lost") {
  run_probe(small_switch(2), 2, [](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("0.0.0.0", kPort);
    if (rank == 0) {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      const std::string large(kLargeBytes, 'x');
      CHECK(probe.send_datagram(socket, large.c_str(), "192.168.100.2", kPort) ==
            static_cast<std::int64_t>(kLargeBytes));
      CHECK(probe.send_datagram(socket, "small", "192.168.100.2", kPort) == 5);
      return;
    }
    char text[64]{}, source[64]{};
    CHECK(probe.receive_datagram(socket, text, sizeof(text), source, sizeof(source)) == 5);
    CHECK(std::string(text) == "small");
  });
}

TEST_CASE("a broadcast stays in its VLAN, and an address of another one does not answer") {
  models::Cluster cluster = switch_cluster(3);
  cluster.nodes[0].nics[0].vlan = cluster.nodes[1].nics[0].vlan = 100;
  cluster.nodes[2].nics[0].vlan = 200;
  run_probe(cluster, 3, [](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("0.0.0.0", kPort);
    if (rank == 0) {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      CHECK(probe.send_datagram(socket, "all", "192.168.100.255", kPort) == 3);
      int stream = -1;
      CHECK(probe.connect_to("192.168.100.3", kPort, &stream).error == EHOSTUNREACH);
      return;
    }
    int revents = 0;
    CHECK(probe.poll_for(socket, POLLIN, 5, &revents).error == 0);
    CHECK(revents == (rank == 1 ? POLLIN : 0));
  });
}

}  // namespace switch_test
