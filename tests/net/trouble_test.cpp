// What goes wrong, and what it costs: strangers at the door, closing under traffic, wrong sizes, wrong pointers.
#include <doctest/doctest.h>

#include <algorithm>

#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/ring.h"
#include "plugin/net/wire/wire.h"
#include "sim/engine/world.h"
#include "tests/host/probe/probe.h"
#include "tests/net/mesh_ranks.h"

namespace trouble_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// Raw sockets in the simulated world: a library that is no plugin at all.
const ProbeTable& stranger() {
  void* library = sim::load_for(*sim::World::current_process(), MESHBED_BINARY_DIR "/lib/libhost_probe.so");
  using TableFunction = const ProbeTable*();
  return *reinterpret_cast<TableFunction*>(sim::symbol_of(library, "probe_table"))();
}

int port_of(const HandleBytes& handle) {
  std::array<std::uint8_t, net::kHandleBytes> bytes;
  std::copy(handle.begin(), handle.end(), bytes.begin());
  const auto decoded = net::decode_handle(bytes);
  CHECK(decoded.has_value());
  return decoded ? decoded->tcp_port : 0;
}

models::Cluster pair_with(const std::string& name, const std::string& value) {
  return with(ring_cluster(2), name, value);
}

/// Listens at "door", and accepts the one rank that means it, before `limit` is over; `warning` was said of the others.
void accept_among_strangers(MeshRank& rank, Picoseconds limit, const std::string& warning) {
  void* listener = rank.listen(0, "door");
  rank.meet("strangers came", 2);
  void* receive = nullptr;
  const Picoseconds before = sim::World::get().now();
  while (receive == nullptr) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
  CHECK(sim::World::get().now() - before < limit);
  CHECK(rank.warnings().find(warning) != std::string::npos);
  CHECK(rank.net().closeRecv(receive) == 0);
  CHECK(rank.net().closeListen(listener) == 0);
}

/// The other side of it: the strangers have come, now we do.
void connect_after_strangers(MeshRank& rank, HandleBytes& handle) {
  rank.meet("strangers came", 2);
  void* send = nullptr;
  while (send == nullptr) CHECK(rank.net().connect(rank.context, 0, handle.data(), &send, nullptr) == 0);
  CHECK(rank.net().closeSend(send) == 0);
}

}  // namespace

TEST_CASE("D15: silent, incomplete and talkative strangers delay no peer; each costs at most one warning") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      accept_among_strangers(rank, kPicosecondsPerSecond, "is dropped: the received bytes are not a Mesh handshake");
      CHECK(std::count(rank.warnings().begin(), rank.warnings().end(), '\n') <= 3);
      return;
    }
    HandleBytes handle = rank.look_up("door");
    const ProbeTable& sockets = stranger();
    std::string rubbish(4096, 'x');
    int silent = -1, half = -1, talkative = -1;
    CHECK(sockets.connect_to("192.168.100.2", port_of(handle), &silent).error == 0);
    CHECK(sockets.connect_to("192.168.100.2", port_of(handle), &half).error == 0);
    CHECK(sockets.send_all(half, "MSHW\0\1\0", 7) == 7);
    CHECK(sockets.connect_to("192.168.100.2", port_of(handle), &talkative).error == 0);
    CHECK(sockets.send_all(talkative, rubbish.data(), rubbish.size()) > 0);
    connect_after_strangers(rank, handle);
    for (int descriptor : {silent, half, talkative}) sockets.close_descriptor(descriptor);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D15: strangers whose GID does not resolve are refused at once, and delay no peer") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      // ibv_modify_qp() towards such a GID would block for a second each.
      accept_among_strangers(rank, kPicosecondsPerMillisecond, "is not that of its address 192.168.100.1");
      return;
    }
    HandleBytes handle = rank.look_up("door");
    std::array<std::uint8_t, net::kHandleBytes> bytes;
    std::copy(handle.begin(), handle.end(), bytes.begin());
    net::WireMessage request;
    request.type = net::WireType::kRequest;
    request.cookie = net::decode_handle(bytes)->cookie;
    request.end.qp_number = 0x123;
    request.end.mtu = 3;
    request.end.max_recvs = 1;
    request.end.memory_address = 4096;
    request.end.memory_rkey = 7;
    request.end.gid = net::gid_of({.family = Family::kIpv4, .bytes = {192, 168, 100, 77}});
    request.end.address = {.address = {.family = Family::kIpv4, .bytes = {192, 168, 100, 1}}, .length_bits = 24};
    request.end.memory_entries = net::kRingEntries;
    request.end.nic = "rocep1s0f0";
    std::array<std::uint8_t, net::kWireLargestBytes> message{};
    const std::size_t length = net::encode_message(request, message);
    std::array<int, 5> strangers{};
    for (int& descriptor : strangers) {
      CHECK(stranger().connect_to("192.168.100.2", port_of(handle), &descriptor).error == 0);
      CHECK(stranger().send_all(descriptor, reinterpret_cast<char*>(message.data()), length) ==
            static_cast<long>(length));
    }
    connect_after_strangers(rank, handle);
    for (const int descriptor : strangers) stranger().close_descriptor(descriptor);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D15: a silent client is dropped at its deadline, with one warning") {
  run_mesh(pair_with("NCCL_MESH_ACCEPT_TIMEOUT_SEC", "2"), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "door");
      void* receive = nullptr;
      while (rank.warnings().empty()) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
      CHECK(rank.warnings().find("did not finish its handshake in time") != std::string::npos);
      CHECK(sim::World::get().now() < 3 * kPicosecondsPerSecond);
      rank.meet("dropped", 2);
      CHECK(rank.net().closeListen(listener) == 0);
      return;
    }
    int silent = -1;
    CHECK(stranger().connect_to("192.168.100.2", port_of(rank.look_up("door")), &silent).error == 0);
    rank.meet("dropped", 2);
    char byte = 0;
    CHECK(stranger().receive(silent, &byte, 1, 0) == 0);
  });
}

TEST_CASE("a peer that never accepts: connect gives up at its deadline and says what stands and what does not") {
  run_mesh(pair_with("NCCL_MESH_ACCEPT_TIMEOUT_SEC", "2"), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "deaf");
      rank.meet("given up", 2);
      CHECK(rank.net().closeListen(listener) == 0);
      return;
    }
    HandleBytes handle = rank.look_up("deaf");
    void* send = nullptr;
    int result = 0;
    while (result == 0 && send == nullptr) result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
    CHECK(result == nccl::kNcclRemoteError);
    CHECK(rank.warnings().find("TCP is connected, but the peer has not accepted within 2 s") != std::string::npos);
    CHECK(rank.warnings().find("rocep1s0f0 192.168.100.1/24") != std::string::npos);
    CHECK(sim::World::get().now() < 3 * kPicosecondsPerSecond);
    rank.meet("given up", 2);
  });
}

TEST_CASE("a listener that is gone: connect is refused after its attempts, and names both ends and the subnet") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "gone");
      CHECK(rank.net().closeListen(listener) == 0);
      rank.meet("closed", 2);
      return;
    }
    HandleBytes handle = rank.look_up("gone");
    rank.meet("closed", 2);
    void* send = nullptr;
    int result = 0;
    while (result == 0 && send == nullptr) result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
    CHECK(result == nccl::kNcclRemoteError);
    CHECK(rank.warnings().find("Connection refused (attempt 3)") != std::string::npos);
    CHECK(rank.warnings().find("both are in 192.168.100.0/24") != std::string::npos);
  });
}

TEST_CASE("D18: a stale handle's cookie is not accepted by the listener that has its port now") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    if (rank.rank() == 1) {
      void* listener = rank.listen(0, "door");
      void* receive = nullptr;
      while (rank.warnings().empty()) CHECK(rank.net().accept(listener, &receive, nullptr) == 0);
      CHECK(rank.warnings().find("its cookie is not that of this listener") != std::string::npos);
      rank.meet("dropped", 2);
      CHECK(rank.net().closeListen(listener) == 0);
      return;
    }
    HandleBytes handle = rank.look_up("door");
    std::array<std::uint8_t, net::kHandleBytes> bytes;
    std::copy(handle.begin(), handle.end(), bytes.begin());
    bytes[16] ^= 1;
    net::seal_handle(bytes);
    std::copy(bytes.begin(), bytes.end(), handle.begin());
    void* send = nullptr;
    int result = 0;
    while (result == 0 && send == nullptr) result = rank.net().connect(rank.context, 0, handle.data(), &send, nullptr);
    CHECK(result == nccl::kNcclRemoteError);
    rank.meet("dropped", 2);
  });
}

TEST_CASE("D6: closing with requests in flight is clean on both sides, and the devices close behind it") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const Buffer out = rank.buffer(comms.send, 1 << 20, 1);
    Buffer in = rank.buffer(comms.receive, 1 << 20, 2);
    for (int index = 0; index < 8; ++index) rank.receive(comms.receive, in);
    for (int index = 0; index < 4; ++index) rank.send(comms.send, out, 1 << 20);
    if (rank.rank() == 0) {
      // This side goes at once; the other one meets the ruins.
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
      rank.close(comms);
      CHECK(rank.infos().find("unfinished=8") != std::string::npos);
    } else {
      Buffer more = rank.buffer(comms.send, 64, 3);
      int outcome = 0;
      void* request = nullptr;
      while (outcome == 0) {
        outcome = rank.net().isend(comms.send, more.bytes.data(), 64, 0, more.memory, nullptr, &request);
        MeshRank::pause();
      }
      CHECK(outcome == nccl::kNcclRemoteError);
      CHECK(rank.warnings().find("failure peer=192.168.100.1 (rocep1s0f0) nic=rocep1s0f0 gid=") != std::string::npos);
      CHECK(rank.warnings().find("op=send status=\"") != std::string::npos);
      rank.release(comms.send, more);
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
      rank.close(comms);
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("deregMr under traffic: the memory stays registered until its requests have ended") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const Buffer out = rank.buffer(comms.send, 1 << 20, static_cast<std::uint32_t>(rank.rank()));
    Buffer in = rank.buffer(comms.receive, 1 << 20, 7);
    void* receive = rank.receive(comms.receive, in);
    void* send = rank.send(comms.send, out, 1 << 20);
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
    // Twice is once too often.
    CHECK(rank.net().deregMr(comms.send, out.memory) == nccl::kNcclInvalidArgument);
    rank.forget_warnings();
    CHECK(rank.finish(receive) == 1 << 20);
    CHECK(rank.finish(send) == 1 << 20);
    CHECK(in.bytes[12345] == MeshRank::pattern(12345, static_cast<std::uint32_t>(1 - rank.rank())));
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
}

TEST_CASE("a send that is longer than its receive is an error on both sides, never a cut message") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    if (rank.rank() == 0) {
      const Buffer out = rank.buffer(comms.send, 4096, 1);
      void* request = nullptr;
      int result = 0;
      while (result == 0 && request == nullptr) {
        result = rank.net().isend(comms.send, const_cast<std::uint8_t*>(out.bytes.data()), 4096, 0, out.memory, nullptr,
                                  &request);
      }
      CHECK(result == nccl::kNcclInvalidArgument);
      CHECK(rank.warnings().find("a send of 4096 bytes meets a receive of 1000 bytes") != std::string::npos);
      rank.meet("refused", 2);
      rank.release(comms.send, out);
    } else {
      Buffer in = rank.buffer(comms.receive, 1000, 2);
      CHECK(rank.finish(rank.receive(comms.receive, in)) == -1);
      CHECK(rank.warnings().find("the peer's message is longer than this receive") != std::string::npos);
      rank.meet("refused", 2);
      rank.release(comms.receive, in);
    }
    rank.close(comms);
  });
}

TEST_CASE("D24: a failed connection fails alone: the next one works, and the last failure is not remembered") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms broken = rank.connect_both(1 - rank.rank(), 0, "/first");
    Buffer in = rank.buffer(broken.receive, 100, 2);
    const Buffer out = rank.buffer(broken.send, 200, 2);
    void* receive = rank.receive(broken.receive, in);
    void* request = nullptr;
    int result = 0;
    while (result == 0) {
      result = rank.net().isend(broken.send, const_cast<std::uint8_t*>(out.bytes.data()), 200, 0, out.memory, nullptr,
                                &request);
    }
    CHECK(rank.finish(receive) == -1);
    const Comms fresh = rank.connect_both(1 - rank.rank(), 0, "/second");
    rank.forget_warnings();
    Buffer again = rank.buffer(fresh.receive, 100, 2);
    const Buffer small = rank.buffer(fresh.send, 100, 2);
    void* second = rank.receive(fresh.receive, again);
    rank.finish(rank.send(fresh.send, small, 100));
    CHECK(rank.finish(second) == 100);
    CHECK(rank.warnings().empty());
    rank.release(broken.receive, in);
    rank.release(broken.send, out);
    rank.close(broken);
    rank.release(fresh.receive, again);
    rank.release(fresh.send, small);
    rank.close(fresh);
  });
}

TEST_CASE("foreign pointers, dead pointers and pointers of another kind are refused, not followed") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const nccl::NetV11& net = rank.net();
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    std::array<std::uint64_t, 16> foreign{};
    void* out = nullptr;
    int done = 0;
    constexpr int kRefused = nccl::kNcclInvalidArgument;
    CHECK(net.closeSend(comms.receive) == kRefused);
    CHECK(net.closeRecv(comms.send) == kRefused);
    CHECK(net.closeListen(comms.send) == kRefused);
    CHECK(net.closeSend(nullptr) == nccl::kNcclSuccess);  // as net_ib: what is left of a set-up that failed half-way
    CHECK(net.closeRecv(nullptr) == nccl::kNcclSuccess);
    CHECK(net.closeListen(nullptr) == nccl::kNcclSuccess);
    CHECK(net.test(foreign.data(), &done, nullptr) == kRefused);
    CHECK(net.regMr(foreign.data(), foreign.data(), 8, nccl::kPtrHost, &out) == kRefused);
    CHECK(net.isend(comms.receive, foreign.data(), 8, 0, nullptr, nullptr, &out) == kRefused);
    CHECK(net.isend(comms.send, foreign.data(), 8, 0, foreign.data(), nullptr, &out) == kRefused);
    CHECK(net.iflush(comms.send, 0, nullptr, nullptr, nullptr, &out) == kRefused);
    CHECK(net.accept(rank.context, &out, nullptr) == kRefused);
    CHECK(net.listen(comms.send, 0, foreign.data(), &out) == kRefused);
    CHECK(net.finalize(foreign.data()) == kRefused);
    CHECK(net.regMr(comms.send, foreign.data(), 8, nccl::kPtrCuda, &out) == nccl::kNcclInvalidUsage);
    CHECK(out == nullptr);
    rank.forget_warnings();

    // A request dies with its completion.
    Buffer in = rank.buffer(comms.receive, 16, 2);
    const Buffer data = rank.buffer(comms.send, 16, 2);
    void* receive = rank.receive(comms.receive, in);
    void* send = rank.send(comms.send, data, 16);
    CHECK(rank.finish(send) == 16);
    CHECK(rank.finish(receive) == 16);
    CHECK(net.test(send, &done, nullptr) == kRefused);
    // D10: nothing to flush in host memory, and said so.
    int size = 16;
    void* address = in.bytes.data();
    out = &done;
    CHECK(net.iflush(comms.receive, 1, &address, &size, &in.memory, &out) == 0);
    CHECK(out == nullptr);
    rank.release(comms.receive, in);
    rank.release(comms.send, data);
    rank.close(comms);
  });
}

TEST_CASE("memory: out of range, of another device, and shared registrations of one pointer on many connections") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    std::vector<std::uint8_t> bytes(3 << 20);
    void *whole = nullptr, *part = nullptr, *again = nullptr, *request = nullptr;
    CHECK(rank.net().regMr(comms.send, bytes.data(), bytes.size(), nccl::kPtrHost, &whole) == 0);
    CHECK(rank.net().regMr(comms.receive, bytes.data() + 1000, 5000, nccl::kPtrHost, &part) == 0);
    CHECK(rank.net().regMr(comms.send, bytes.data(), bytes.size(), nccl::kPtrHost, &again) == 0);
    CHECK(rank.net().deregMr(comms.send, whole) == 0);
    // The part outlives the whole that it was cut from.
    std::size_t size = 5000;
    int tag = 0;
    void* data = bytes.data() + 1000;
    while (request == nullptr) {
      CHECK(rank.net().irecv(comms.receive, 1, &data, &size, &tag, &part, nullptr, &request) == 0);
    }
    void* sent = nullptr;
    while (sent == nullptr) {
      CHECK(rank.net().isend(comms.send, bytes.data() + (2 << 20), 5000, 0, again, nullptr, &sent) == 0);
    }
    CHECK(rank.finish(request) == 5000);
    CHECK(rank.finish(sent) == 5000);

    void* late = nullptr;
    size = 1 << 20;
    data = bytes.data() + (3 << 20) - 100;
    CHECK(rank.net().irecv(comms.receive, 1, &data, &size, &tag, &again, nullptr, &late) == nccl::kNcclInvalidArgument);
    CHECK(rank.warnings().find("leaves its registered memory") != std::string::npos);
    CHECK(rank.net().deregMr(comms.receive, part) == 0);
    CHECK(rank.net().deregMr(comms.send, again) == 0);
    rank.close(comms);
  });
}

TEST_CASE("D25: init and finalize in pairs, many times; the last one closes the devices, open connections keep them") {
  run_mesh(
      ring_cluster(2),
      [](MeshRank& rank) {
        const nccl::NetV11& net = rank.net();
        for (int round = 0; round < 5; ++round) {
          void *first = nullptr, *second = nullptr;
          CHECK(net.init(&first, 1, nullptr, &keep_line, nullptr) == 0);
          CHECK(net.init(&second, 2, nullptr, &keep_line, nullptr) == 0);
          CHECK(first != second);
          int count = 0;
          CHECK(net.finalize(first) == 0);
          CHECK(net.devices(&count) == 0);
          CHECK(count == 1);
          CHECK(net.finalize(second) == 0);
          CHECK(net.devices(&count) == nccl::kNcclInvalidArgument);
        }
        rank.forget_warnings();
        rank.start();
        void* listener = rank.listen(0, "kept" + std::to_string(rank.rank()));
        CHECK(net.finalize(rank.context) == 0);
        CHECK(rank.warnings().find("1 connections or listeners are still open") != std::string::npos);
        rank.forget_warnings();
        CHECK(net.closeListen(listener) == 0);
        rank.start();
        rank.stop();
        CHECK(rank.warnings().empty());
      },
      true);
}

TEST_CASE("an operation that takes too long is reported, as an error or as one warning") {
  for (const char* fatal : {"1", "0"}) {
    auto cluster = pair_with("NCCL_MESH_TIMEOUT_SEC", "1");
    for (models::Node& node : cluster.nodes) node.environment.emplace_back("NCCL_MESH_FATAL_ON_TIMEOUT", fatal);
    run_mesh(cluster, [fatal](MeshRank& rank) {
      const Comms comms = rank.connect_both(1 - rank.rank(), 0);
      Buffer in = rank.buffer(comms.receive, 100, 2);
      void* request = rank.receive(comms.receive, in);
      int done = 0, result = 0;
      const Picoseconds end = sim::World::get().now() + 3 * kPicosecondsPerSecond;
      while (result == 0 && sim::World::get().now() < end) {
        result = rank.net().test(request, &done, nullptr);
        sim::World::get().sleep(10 * kPicosecondsPerMillisecond);
      }
      CHECK(result == (fatal[0] == '1' ? nccl::kNcclRemoteError : nccl::kNcclSuccess));
      CHECK(rank.warnings().find("a recv has not completed for 1 s (NCCL_MESH_TIMEOUT_SEC)") != std::string::npos);
      CHECK(std::count(rank.warnings().begin(), rank.warnings().end(), '\n') == 1);
      rank.meet("waited", 2);
      rank.release(comms.receive, in);
      rank.close(comms);
    });
  }
}

}  // namespace trouble_test
