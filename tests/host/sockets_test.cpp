#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "sim/engine/network.h"
#include "sim/host/file/descriptors.h"
#include "tests/host/probe_world.h"

namespace sockets_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

// ring_cluster: 1 us of cable. One way is the cable and 5 us of stacks; a round trip twice that.
constexpr std::int64_t kRoundTripNs = 12'000;

// In a ring of 3, cable i joins node i and node i+1; node i has .1 and node i+1 has .2 of 192.168.(100+i).0/24.
std::string address_on(int cable, int end) {
  return "192.168." + std::to_string(100 + cable) + "." + std::to_string(end);
}

}  // namespace

TEST_CASE("bytes go there and back over the cable's subnet") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    char text[64]{};
    if (rank == 1) {
      const int listener = probe.listen_on("0.0.0.0", 4000, 8);
      const int peer = probe.accept_one(listener);
      REQUIRE(peer >= sim::kFirstDescriptor);
      CHECK(probe.peer_text(peer, text, sizeof(text)) == 0);
      CHECK(std::string(text) == address_on(0, 1) + ":32768");
      CHECK(probe.receive(peer, text, 5, MSG_WAITALL) == 5);
      CHECK(probe.send_all(peer, text, 5) == 5);
      CHECK(probe.receive(peer, text, sizeof(text), 0) == 0);  // the other end closed
    } else {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      int socket = -1;
      const auto outcome = probe.connect_to(address_on(0, 2).c_str(), 4000, &socket);
      CHECK(outcome.error == 0);
      CHECK(outcome.elapsed_ns == kRoundTripNs);
      CHECK(probe.send_all(socket, "hello", 5) == 5);
      CHECK(probe.receive(socket, text, 2, MSG_PEEK) == 2);
      CHECK(probe.receive(socket, text, sizeof(text), 0) == 5);
      CHECK(std::string(text) == "hello");
      CHECK(probe.close_descriptor(socket) == 0);
    }
  });
}

TEST_CASE("a connection over a router takes its way; without a route back no reply comes, without one there it fails") {
  const auto try_from = [](const models::Cluster& cluster, int error) {
    run_probe(cluster, 2, [error](const ProbeTable& probe, int rank) {
      if (rank == 1) {
        CHECK(probe.listen_on("0.0.0.0", 4000, 8) >= 0);
        sim::World::get().sleep(200 * kPicosecondsPerSecond);
        return;
      }
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      int socket = -1;
      const auto outcome = probe.connect_to("192.168.101.2", 4000, &socket);
      CHECK(outcome.error == error);
      if (error == 0) CHECK(outcome.elapsed_ns == 19'000);  // 4.5 us of way and 5 us of stacks, there and back
    });
  };
  models::Cluster cluster = routed_cluster(2);
  try_from(cluster, 0);
  cluster.nodes[1].nics[0].routes.clear();
  try_from(cluster, ETIMEDOUT);
  cluster = routed_cluster(2);
  cluster.nodes[0].nics[0].routes.clear();
  try_from(cluster, ENETUNREACH);
  // A table of its own counts for who is bound to the interface's address.
  cluster = routed_cluster(2);
  cluster.nodes[0].nics[0].policy_routed = true;
  try_from(cluster, ENETUNREACH);
}

TEST_CASE(
    "a connection over an address that is gone gets no reply; one to the new address works; bytes wait for the old") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    const auto set_address = [](const std::string& text) {
      sim::World::get().change_nic({0, 0}).addresses = {*models::read_prefix(text)};
    };
    char text[64]{};
    int revents = 0;
    const int listener = probe.listen_on("0.0.0.0", 4000, 8);
    sim::World::get().sleep(kPicosecondsPerMicrosecond);
    if (rank == 1) {
      const int peer = probe.accept_one(listener);
      sim::World::get().sleep(kPicosecondsPerSecond);  // the address has changed
      CHECK(probe.send_all(peer, "hello", 5) == 5);
      int socket = -1;
      CHECK(probe.connect_to(address_on(0, 1).c_str(), 4000, &socket).error == EHOSTUNREACH);
      CHECK(probe.connect_to("192.168.100.77", 4000, &socket).error == 0);
      CHECK(probe.send_all(socket, "new", 3) == 3);
      CHECK(probe.receive(peer, text, 5, MSG_WAITALL) == 5);  // once the old one is back
      return;
    }
    int socket = -1;
    CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
    set_address("192.168.100.77/24");
    CHECK(probe.send_all(socket, "hello", 5) == 5);
    CHECK(probe.connect_from("192.168.100.1", address_on(0, 2).c_str(), 4000, &revents).error == EADDRNOTAVAIL);
    const int peer = probe.accept_one(listener);
    CHECK(probe.peer_text(peer, text, sizeof(text)) == 0);
    CHECK(probe.receive(peer, text, 3, MSG_WAITALL) == 3);
    CHECK(probe.poll_for(socket, POLLIN, 5000, &revents).elapsed_ns == 5'000'000'000);
    CHECK(revents == 0);
    set_address("192.168.100.1/24");
    CHECK(probe.receive(socket, text, 5, MSG_WAITALL) == 5);
  });
}

TEST_CASE("a message takes its bits over the rate, the cable and the stacks") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    constexpr std::size_t kBytes = 1'000'000;
    std::vector<char> data(kBytes);
    int socket = -1;
    if (rank == 0) {
      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
      CHECK(probe.send_all(socket, data.data(), kBytes) == kBytes);
    } else {
      socket = probe.accept_one(probe.listen_on("0.0.0.0", 4000, 8));
      CHECK(probe.receive(socket, data.data(), kBytes, MSG_WAITALL) == kBytes);
      // Connected after a round trip; 1 MB at 100 Gb/s is 80 us; 6 us one way.
      CHECK(sim::World::get().now() == (12 + 80 + 6) * kPicosecondsPerMicrosecond);
    }
  });
}

TEST_CASE("no listener: ECONNREFUSED after one round trip") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    if (rank != 0) return;
    int socket = -1;
    for (const auto connect : {probe.connect_to, probe.connect_and_poll}) {
      const auto outcome = connect(address_on(0, 2).c_str(), 4000, &socket);
      CHECK(outcome.error == ECONNREFUSED);
      CHECK(outcome.elapsed_ns == kRoundTripNs);
    }
  });
}

TEST_CASE("no reply on the subnet: EHOSTUNREACH after three seconds") {
  run_probe(ring_cluster(3), 1, [](const ProbeTable& probe, int) {
    int socket = -1;
    const auto outcome = probe.connect_and_poll("192.168.100.77", 4000, &socket);
    CHECK(outcome.error == EHOSTUNREACH);
    CHECK(outcome.elapsed_ns == 3'000'000'000);
  });
}

TEST_CASE("a subnet that the node is not on: ENETUNREACH at once") {
  run_probe(ring_cluster(3), 1, [](const ProbeTable& probe, int) {
    int socket = -1;
    const auto outcome = probe.connect_to(address_on(1, 1).c_str(), 4000, &socket);  // cable 1 joins nodes 1 and 2
    CHECK(outcome.error == ENETUNREACH);
    CHECK(outcome.elapsed_ns == 0);
  });
}

TEST_CASE("the management network reaches every node, at its own latency") {
  run_probe(ring_cluster(3), 3, [](const ProbeTable& probe, int rank) {
    int socket = -1;
    if (rank == 2) {
      CHECK(probe.accept_one(probe.listen_on("0.0.0.0", 4000, 8)) > 0);
    } else if (rank == 0) {
      const auto outcome = probe.connect_to("10.0.0.3", 4000, &socket);
      CHECK(outcome.error == 0);
      CHECK(outcome.elapsed_ns == 2 * (20'000 + 5'000));
    }
  });
}

TEST_CASE("an address of another cable as source gets no answer") {
  run_probe(ring_cluster(3), 2, [](const ProbeTable& probe, int rank) {
    if (rank == 1) {
      probe.listen_on("0.0.0.0", 4000, 8);
      sim::World::get().sleep(200 * kPicosecondsPerSecond);
      return;
    }
    // Node 1 has no way back to node 0's address on the cable between nodes 0 and 2.
    int socket = -1;
    const auto outcome = probe.connect_from(address_on(2, 2).c_str(), address_on(0, 2).c_str(), 4000, &socket);
    CHECK(outcome.error == ETIMEDOUT);
    CHECK(outcome.elapsed_ns >= 127'000'000'000);
    CHECK(probe.connect_from("192.168.99.1", address_on(0, 2).c_str(), 4000, &socket).error == EADDRNOTAVAIL);
  });
}

TEST_CASE("a listener bound to one address accepts on that one only, and a taken port is EADDRINUSE") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    int socket = -1;
    if (rank == 1) {
      CHECK(probe.listen_on(address_on(0, 2).c_str(), 4000, 8) > 0);
      CHECK(probe.listen_on("0.0.0.0", 4000, 8) == -EADDRINUSE);
      const int ephemeral = probe.listen_on("0.0.0.0", 0, 8);
      CHECK(probe.port_of(ephemeral) == 32'768);
      sim::World::get().sleep(kPicosecondsPerSecond);
    } else {
      sim::World::get().sleep(kPicosecondsPerMicrosecond);
      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
      CHECK(probe.connect_to("10.0.0.2", 4000, &socket).error == ECONNREFUSED);
      CHECK(probe.connect_to("127.0.0.1", 4000, &socket).error == ECONNREFUSED);  // node 0's own
    }
  });
}

TEST_CASE("IPv6 sockets take IPv4 connections with mapped addresses") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    int socket = -1;
    char text[64]{};
    if (rank == 1) {
      socket = probe.accept_one(probe.listen_on("::", 4000, 8));
      CHECK(probe.peer_text(socket, text, sizeof(text)) == 0);
      CHECK(std::string(text) == "::ffff:" + address_on(0, 1) + ":32768");
    } else {
      CHECK(probe.connect_to(("::ffff:" + address_on(0, 2)).c_str(), 4000, &socket).error == 0);
    }
  });
}

TEST_CASE("poll times out exactly in virtual time") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    int revents = -1;
    const int listener = probe.listen_on("0.0.0.0", 4000, 8);
    const auto outcome = probe.poll_for(listener, POLLIN, 25, &revents);
    CHECK(outcome.elapsed_ns == 25'000'000);
    CHECK(revents == 0);
    CHECK(probe.poll_for(sim::kFirstDescriptor + 99, POLLIN, 25, &revents).elapsed_ns == 0);
    CHECK(revents == POLLNVAL);
  });
}

TEST_CASE("a full backlog makes the next connection wait for a retransmission") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    if (rank == 1) {
      const int listener = probe.listen_on("0.0.0.0", 4000, 0);  // one may wait
      sim::World::get().sleep(500 * kPicosecondsPerMillisecond);
      CHECK(probe.accept_one(listener) > 0);
      CHECK(probe.accept_one(listener) > 0);
    } else {
      int first = -1, second = -1;
      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &first).error == 0);
      sim::World::get().sleep(kPicosecondsPerMillisecond);
      const auto outcome = probe.connect_to(address_on(0, 2).c_str(), 4000, &second);
      CHECK(outcome.error == 0);
      CHECK(outcome.elapsed_ns == 1'000'000'000 + kRoundTripNs + 6'000);
    }
  });
}

TEST_CASE("a writer waits for a slow reader, and wakes when there is room") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    constexpr std::int64_t kWindow = 4 << 20;
    int socket = -1, revents = 0;
    if (rank == 0) {
      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
      CHECK(probe.fill_until_full(socket) == kWindow);
      CHECK(probe.poll_for(socket, POLLOUT, 1, &revents).error == 0);
      CHECK(revents == 0);
      CHECK(probe.poll_for(socket, POLLOUT, -1, &revents).error == 0);
      CHECK(revents == POLLOUT);
      CHECK(sim::World::get().now() >= kPicosecondsPerSecond);
    } else {
      socket = probe.accept_one(probe.listen_on("0.0.0.0", 4000, 8));
      sim::World::get().sleep(kPicosecondsPerSecond);
      std::vector<char> data(kWindow);
      CHECK(probe.receive(socket, data.data(), data.size(), MSG_WAITALL) == kWindow);
    }
  });
}

TEST_CASE("end of file, reset and broken pipe as tcp(7) has them") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    char text[16]{};
    int socket = -1;
    sim::World& world = sim::World::get();
    if (rank == 0) {
      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
      CHECK(probe.send_all(socket, "abc", 3) == 3);
      CHECK(probe.shut_write(socket) == 0);
      CHECK(probe.send_all(socket, "d", 1) == -EPIPE);
      CHECK(probe.receive(socket, text, 4, MSG_WAITALL) == 4);  // half closed: the other way still works
      CHECK(probe.receive(socket, text, 4, 0) == 0);

      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
      CHECK(probe.send_all(socket, "unread", 6) == 6);
      world.sleep(kPicosecondsPerMillisecond);
      int revents = 0;
      CHECK(probe.poll_for(socket, POLLIN, 0, &revents).error == 0);
      CHECK((revents & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
      CHECK(probe.receive(socket, text, 4, 0) == -ECONNRESET);
      CHECK(probe.receive(socket, text, 4, 0) == 0);
      CHECK(probe.send_all(socket, "d", 1) == -EPIPE);
    } else {
      const int listener = probe.listen_on("0.0.0.0", 4000, 8);
      socket = probe.accept_one(listener);
      CHECK(probe.receive(socket, text, 16, MSG_WAITALL) == 3);
      CHECK(probe.send_all(socket, "wxyz", 4) == 4);
      CHECK(probe.close_descriptor(socket) == 0);

      socket = probe.accept_one(listener);
      world.sleep(100 * kPicosecondsPerMicrosecond);
      CHECK(probe.close_descriptor(socket) == 0);  // with unread bytes: a reset
    }
  });
}

TEST_CASE("a link that goes down stalls the stream, and up again it goes on") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    char text[16]{};
    int socket = -1;
    sim::World& world = sim::World::get();
    if (rank == 0) {
      CHECK(probe.connect_to(address_on(0, 2).c_str(), 4000, &socket).error == 0);
      world.sleep(kPicosecondsPerMillisecond);
      world.network().set_port_up({0, 0}, false);
      CHECK(probe.send_all(socket, "late", 4) == 4);
      world.sleep(300 * kPicosecondsPerMillisecond);
      world.network().set_port_up({0, 0}, true);
    } else {
      socket = probe.accept_one(probe.listen_on("0.0.0.0", 4000, 8));
      CHECK(probe.receive(socket, text, 16, 0) == 4);
      CHECK(world.now() / kPicosecondsPerMillisecond == 601);  // tries 200 ms and 600 ms after the loss
    }
  });
}

TEST_CASE("a connection over a link that is down fails like a silent neighbour") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int rank) {
    if (rank != 0) return;
    sim::World::get().network().set_port_up({1, 0}, false);
    int socket = -1;
    const auto outcome = probe.connect_to(address_on(0, 2).c_str(), 4000, &socket);
    CHECK(outcome.error == EHOSTUNREACH);
    CHECK(outcome.elapsed_ns == 3'000'000'000);
  });
}

TEST_CASE("an accept without a connection is a deadlock that names the socket") {
  const auto result = run_probe(
      ring_cluster(2), 1, [](const ProbeTable& probe, int) { probe.accept_one(probe.listen_on("0.0.0.0", 4000, 8)); },
      true);
  CHECK(result.outcome == sim::OutcomeKind::kDeadlock);
  CHECK(result.waiters.find("waits in accept for a socket that listens on 0.0.0.0:4000") != std::string::npos);
}

TEST_CASE("pipes, event counters, socket pairs, flags and options answer as their man pages say") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.pipes() == 0); });
}

}  // namespace sockets_test
