#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "models/cluster.h"
#include "models/gid_table.h"
#include "sim/engine/network.h"
#include "tests/host/probe_world.h"

namespace datagrams_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr int kPort = 4000;

struct Received {
  std::string text, source;
};

Received receive(const ProbeTable& probe, int descriptor) {
  char text[64]{}, source[64]{};
  const std::int64_t count = probe.receive_datagram(descriptor, text, sizeof(text), source, sizeof(source));
  return count < 0 ? Received{std::to_string(count), ""} : Received{text, source};
}

// In a ring of 3, cable i joins node i and node i+1; node i has .1 and node i+1 has .2 of 192.168.(100+i).0/24.
models::IpPrefix ipv6(int cable, int end) {
  return *models::read_prefix("fd00:" + std::to_string(cable) + "::" + std::to_string(end) + "/64");
}

}  // namespace

TEST_CASE("a datagram arrives whole, with its sender's address, one latency later") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("0.0.0.0", kPort);
    REQUIRE(socket >= 0);
    if (rank == 0) {
      CHECK(probe.send_datagram(socket, "first", "192.168.100.2", kPort) == 5);
      CHECK(probe.send_datagram(socket, "second", "192.168.100.2", kPort) == 6);
    } else {
      const Received first = receive(probe, socket);
      CHECK(first.text == "first");
      CHECK(first.source == "192.168.100.1:4000");
      // 1 us of cable, 5 us of stacks, 40 bits at 100 Gb/s.
      CHECK(sim::World::get().now() == 6'000'400);
      CHECK(receive(probe, socket).text == "second");
    }
  });
}

TEST_CASE("a subnet's broadcast reaches the neighbour on that cable, and every socket bound there") {
  run_probe(ring_cluster(3), 3, [](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("0.0.0.0", kPort);
    const int same_port = probe.open_datagrams("0.0.0.0", kPort);
    const int exact = probe.open_datagrams(rank == 1 ? "192.168.100.2" : "0.0.0.0", kPort);
    REQUIRE(same_port >= 0);
    int revents = 0;
    if (rank == 0) {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      CHECK(probe.send_datagram(socket, "all", "192.168.100.255", kPort) == 3);
    } else if (rank == 1) {
      CHECK(receive(probe, socket).source == "192.168.100.1:4000");
      CHECK(receive(probe, same_port).text == "all");
      // Bound to an address of its own: broadcasts are not for it, unicasts are for it alone.
      CHECK(probe.poll_for(exact, 1, 0, &revents).error == 0);
      CHECK(revents == 0);
    } else {
      CHECK(probe.poll_for(socket, 1, 5, &revents).error == 0);
      CHECK(revents == 0);  // another cable
    }
  });
}

TEST_CASE("a neighbour with another prefix does not take a subnet's broadcast") {
  models::Cluster cluster = ring_cluster(2);
  cluster.nodes[1].nics[0].addresses = {*models::read_prefix("192.168.100.2/25")};
  run_probe(cluster, 2, [](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("0.0.0.0", kPort);
    int revents = 0;
    if (rank == 0) {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      CHECK(probe.send_datagram(socket, "all", "192.168.100.255", kPort) == 3);
    } else {
      CHECK(probe.poll_for(socket, 1, 5, &revents).error == 0);
      CHECK(revents == 0);
    }
  });
}

TEST_CASE("the all-nodes group reaches the neighbour behind the chosen interface") {
  models::Cluster cluster = ring_cluster(3);
  for (int cable = 0; cable < 3; ++cable) {
    for (models::Node& node : cluster.nodes) {
      for (models::Nic& nic : node.nics) {
        const std::string subnet = "192.168." + std::to_string(100 + cable) + ".";
        const std::string address = to_text(nic.addresses.front().address);
        if (address.rfind(subnet, 0) == 0) nic.addresses.push_back(ipv6(cable, address.back() - '0'));
      }
    }
  }
  const std::string netdev = cluster.nodes[0].nics[0].netdev;
  const bool to_node1 = to_text(cluster.nodes[0].nics[0].addresses[1]) == "fd00:0::1/64" ||
                        to_text(cluster.nodes[0].nics[0].addresses[1]) == "fd00::1/64";
  run_probe(cluster, 3, [&](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("::", kPort);
    int revents = 0;
    if (rank == 0) {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      CHECK(probe.send_datagram(socket, "all", "ff02::1", kPort) == -ENETUNREACH);  // which link?
      CHECK(probe.multicast_through(socket, netdev.c_str()) == 0);
      // From the link-local address: RFC 6724, rule 2. Without a scope no reply comes from there.
      CHECK(probe.send_datagram(socket, "all", "ff02::1", kPort) == 3);
      const std::string own = to_node1 ? "fd00::1" : "fd00:2::2";
      CHECK(probe.send_datagram_from(socket, "all", "ff02::1", kPort, netdev.c_str(), own.c_str()) == 3);
      CHECK(probe.send_datagram_from(socket, "all", "ff02::1", kPort, netdev.c_str(), "fd00:9::9") == -EINVAL);
      CHECK(probe.send_datagram_from(socket, "all", "ff02::1", kPort, "none", own.c_str()) == 3);  // the one set above
    } else if ((rank == 1) == to_node1) {
      const Received received = receive(probe, socket);
      CHECK(received.text == "all");
      const std::string link_local = to_text(models::link_local_address({.node = 0, .nic = 0}));
      CHECK(received.source == link_local + ":4000");
      CHECK(probe.send_datagram(socket, "answer", link_local.c_str(), kPort) == -ENETUNREACH);
      for (int more = 0; more < 2; ++more) {
        const Received named = receive(probe, socket);
        CHECK(named.text == "all");
        CHECK(named.source == (to_node1 ? "fd00::1:4000" : "fd00:2::2:4000"));
      }
    } else {
      CHECK(probe.poll_for(socket, 1, 5, &revents).error == 0);
      CHECK(revents == 0);
    }
  });
}

TEST_CASE("datagrams are lost where a link is down, no socket is bound or the buffer is full") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    const int socket = probe.open_datagrams("0.0.0.0", kPort);
    sim::World& world = sim::World::get();
    if (rank == 0) {
      CHECK(probe.send_datagram(socket, "stray!", "192.168.100.2", kPort + 1) == 6);
      world.network().set_port_up({1, 0}, false);
      CHECK(probe.send_datagram(socket, "dark", "192.168.100.2", kPort) == 4);
      world.sleep(kPicosecondsPerMillisecond);
      world.network().set_port_up({1, 0}, true);
      const std::string kilobyte(1000, 'x');
      for (int sent = 0; sent < 300; ++sent) {
        CHECK(probe.send_datagram(socket, kilobyte.c_str(), "192.168.100.2", kPort) == 1000);
      }
    } else {
      world.sleep(100 * kPicosecondsPerMillisecond);
      int arrived = 0, revents = 0;
      for (;; ++arrived) {
        CHECK(probe.poll_for(socket, 1, 0, &revents).error == 0);
        if (revents == 0) break;
        CHECK(receive(probe, socket).text.size() == 63);  // cut to the buffer
      }
      CHECK(arrived == 212);  // 212992 bytes: Linux's default
    }
  });
}

TEST_CASE("bad datagram calls answer as udp(7) and ip(7) say") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.datagram_errors() == 0); });
}

}  // namespace datagrams_test
