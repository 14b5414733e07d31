// The five tables over one core.
#include <doctest/doctest.h>

#include "tests/net/mesh_ranks.h"

namespace versions_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

struct Message {
  void* data = nullptr;
  int size = 0;
  int tag = 0;
  void* memory = nullptr;
};

// The data calls in each version's terms.
int post_send(const nccl::NetV8& net, void* comm, const Message& message, void** request) {
  return net.isend(comm, message.data, message.size, message.tag, message.memory, request);
}
int post_send(const nccl::NetV9& net, void* comm, const Message& message, void** request) {
  return net.isend(comm, message.data, static_cast<std::size_t>(message.size), message.tag, message.memory, request);
}
template <typename Table>
int post_send(const Table& net, void* comm, const Message& message, void** request) {
  const auto size = static_cast<std::size_t>(message.size);
  return net.isend(comm, message.data, size, message.tag, message.memory, nullptr, request);
}

int post_receive(const nccl::NetV8& net, void* comm, Message message, void** request) {
  return net.irecv(comm, 1, &message.data, &message.size, &message.tag, &message.memory, request);
}
int post_receive(const nccl::NetV9& net, void* comm, Message message, void** request) {
  auto size = static_cast<std::size_t>(message.size);
  return net.irecv(comm, 1, &message.data, &size, &message.tag, &message.memory, request);
}
template <typename Table>
int post_receive(const Table& net, void* comm, Message message, void** request) {
  auto size = static_cast<std::size_t>(message.size);
  return net.irecv(comm, 1, &message.data, &size, &message.tag, &message.memory, nullptr, request);
}

/// Connects both ways through `net`, sends a line each way, closes. `listen` and `connect` fit the version.
template <typename Table, typename Listen, typename Connect>
void exchange(MeshRank& rank, const Table& net, const std::string& version, Listen listen, Connect connect) {
  HandleBytes handle{};
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  CHECK(listen(handle.data(), &listener) == 0);
  rank.publish(MeshRank::name(rank.rank(), 1 - rank.rank(), version), handle);
  handle = rank.look_up(MeshRank::name(1 - rank.rank(), rank.rank(), version));
  while (send == nullptr || receive == nullptr) {
    if (send == nullptr) CHECK(connect(handle.data(), &send) == 0);
    if (receive == nullptr) CHECK(net.accept(listener, &receive, nullptr) == 0);
  }
  CHECK(net.closeListen(listener) == 0);

  char line[16] = "fifteen letters", room[16] = "";
  Message out{.data = line, .size = sizeof line, .tag = 4}, in{.data = room, .size = sizeof room, .tag = 4};
  CHECK(net.regMr(send, line, sizeof line, nccl::kPtrHost, &out.memory) == 0);
  CHECK(net.regMr(receive, room, sizeof room, nccl::kPtrHost, &in.memory) == 0);
  void *sent = nullptr, *received = nullptr;
  while (received == nullptr) CHECK(post_receive(net, receive, in, &received) == 0);
  while (sent == nullptr) CHECK(post_send(net, send, out, &sent) == 0);
  for (void* request : {sent, received}) {
    int size = 0;
    for (int done = 0; done == 0;) CHECK(net.test(request, &done, &size) == 0);
    CHECK(size == sizeof line);
  }
  CHECK(std::string(room) == "fifteen letters");
  CHECK(net.deregMr(send, out.memory) == 0);
  CHECK(net.deregMr(receive, in.memory) == 0);
  CHECK(net.closeSend(send) == 0);
  CHECK(net.closeRecv(receive) == 0);
}

}  // namespace

TEST_CASE("every version's table carries a message") {
  const auto body = [](MeshRank& rank) {
    const auto& v8 = *rank.table<nccl::NetV8>("ncclNetPlugin_v8");
    const auto& v9 = *rank.table<nccl::NetV9>("ncclNetPlugin_v9");
    const auto& v10 = *rank.table<nccl::NetV10>("ncclNetPlugin_v10");
    const auto& v12 = *rank.table<nccl::NetV12>("ncclNetPlugin_v12");
    void* context = nullptr;
    CHECK(v8.init(&keep_line) == 0);
    CHECK(v9.init(&keep_line) == 0);
    CHECK(v10.init(&keep_line, nullptr) == 0);
    CHECK(v12.init(&context, 7, nullptr, &keep_line, nullptr) == 0);
    for (const char* name : {v8.name, v9.name, v10.name, v12.name}) CHECK(std::string(name) == "Mesh");

    const auto listen_on = [](const auto& net) {
      return [&net](void* handle, void** listener) { return net.listen(0, handle, listener); };
    };
    const auto connect_on = [](const auto& net) {
      return [&net](void* handle, void** send) { return net.connect(0, handle, send, nullptr); };
    };
    nccl::CommConfig config{.trafficClass = 3};
    exchange(rank, v8, "v8", listen_on(v8), connect_on(v8));
    exchange(rank, v9, "v9", listen_on(v9), connect_on(v9));
    exchange(rank, v10, "v10", listen_on(v10),
             [&](void* handle, void** send) { return v10.connect(0, &config, handle, send, nullptr); });
    exchange(
        rank, v12, "v12", [&](void* handle, void** listener) { return v12.listen(context, 0, handle, listener); },
        [&](void* handle, void** send) { return v12.connect(context, 0, handle, send, nullptr); });
    CHECK(v12.finalize(context) == 0);
    CHECK(rank.warnings().empty());
  };
  CHECK(run_mesh(ring_cluster(2), body, true).outcome == OutcomeKind::kFinished);
}

TEST_CASE("D1, D3, D11, D20: properties are each device's own, in every version") {
  run_mesh(ring_cluster(3), [](MeshRank& rank) {
    int count = 0;
    CHECK(rank.net().devices(&count) == 0);
    CHECK(count == 2);
    nccl::PropertiesV11 first{}, second{};
    CHECK(rank.net().getProperties(0, &first) == 0);
    CHECK(rank.net().getProperties(1, &second) == 0);
    CHECK(std::string(first.name) == "rocep1s0f0");
    CHECK(std::string(second.name) == "rocep1s0f1");
    CHECK(first.vProps.ndevs == 1);
    CHECK(second.vProps.devs[0] == 1);
    CHECK(first.speed == 100'000);
    CHECK(first.port == 1);
    CHECK(first.maxRecvs == 8);
    CHECK(first.ptrSupport == nccl::kPtrHost);
    CHECK(first.regIsGlobal == 0);
    CHECK(first.maxComms > 1000);
    CHECK(first.maxP2pBytes == std::size_t{1} << 30);  // D11: fits an int
    CHECK(first.maxMultiRequestSize == 1);
    nccl::PropertiesV8 eighth{};
    CHECK(rank.table<nccl::NetV8>("ncclNetPlugin_v8")->getProperties(1, &eighth) == 0);
    CHECK(std::string(eighth.name) == "rocep1s0f1");
    CHECK(eighth.speed == 100'000);
    CHECK(eighth.maxRecvs == 8);
    nccl::PropertiesV12 twelfth{};
    CHECK(rank.table<nccl::NetV12>("ncclNetPlugin_v12")->getProperties(1, &twelfth) == 0);
    CHECK(twelfth.railId == -1);
    CHECK(twelfth.planeId == -1);
    CHECK(rank.net().getProperties(2, &first) == nccl::kNcclInvalidArgument);
    CHECK(rank.infos().find("2 NICs: rocep1s0f0:1") != std::string::npos);
  });
}

TEST_CASE("D31: every line goes to NCCL's logger with a subsystem, or NCCL would filter it out") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    void* nothing = nullptr;
    CHECK(rank.net().regMr(nothing, &nothing, 8, nccl::kPtrHost, &nothing) == nccl::kNcclInvalidArgument);
    CHECK(rank.lines_without_flags() == 0);
    CHECK_FALSE(rank.infos().empty());
    CHECK_FALSE(rank.warnings().empty());
  });
}

TEST_CASE("NCCL_MESH_DEBUG=2 logs each step of a handshake, for every init") {
  auto cluster = ring_cluster(2);
  for (models::Node& node : cluster.nodes) node.environment.emplace_back("NCCL_MESH_DEBUG", "2");
  run_mesh(cluster, [](MeshRank& rank) {
    void* second = nullptr;
    CHECK(rank.net().init(&second, 2, nullptr, &keep_line, nullptr) == 0);
    rank.close(rank.connect_both(1 - rank.rank(), 0));
    CHECK(rank.infos().find("dialling, attempt 1") != std::string::npos);
    CHECK(rank.infos().find("TCP is connected, sending the request") != std::string::npos);
    CHECK(rank.infos().find("came in on 192.168.100.") != std::string::npos);
    CHECK(rank.net().finalize(second) == 0);
  });
}

TEST_CASE("two threads of one process that connect, send and close at the same time do not disturb one another") {
  run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const auto work = [&rank](const std::string& channel) {
      void* context = nullptr;
      CHECK(rank.net().init(&context, 3, nullptr, &keep_line, nullptr) == 0);
      for (int round = 0; round < 5; ++round) {
        const Comms comms = rank.connect_both(1 - rank.rank(), 0, channel + std::to_string(round));
        Buffer in = rank.buffer(comms.receive, 5000, 1);
        const Buffer out = rank.buffer(comms.send, 5000, 2);
        void* receive = rank.receive(comms.receive, in);
        void* send = rank.send(comms.send, out, 5000);
        CHECK(rank.finish(receive) == 5000);
        CHECK(rank.finish(send) == 5000);
        CHECK(in.bytes == out.bytes);
        rank.release(comms.receive, in);
        rank.release(comms.send, out);
        rank.close(comms);
      }
      CHECK(rank.net().finalize(context) == 0);
    };
    auto& world = sim::World::get();
    sim::Thread& other = world.spawn(*sim::World::current_process(), "second", [&work] { work("/second"); });
    work("/first");
    other.join();
    CHECK(rank.warnings().empty());
  });
}

}  // namespace versions_test
