#pragma once
// Ranks in a simulated cluster, each with its own copy of the real libnccl-net-mesh.so, driven through the v11 table as
// NCCL does it. All ranks share the child process of run_world, so plain variables are their management network.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plugin/nccl/net_abi.h"
#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "tests/support/run_world.h"

namespace meshbed::test {

using HandleBytes = std::array<char, nccl::kHandleBytes>;

/// What the ranks of one world know of each other.
struct Shared {
  std::map<std::string, HandleBytes> handles;
  std::map<std::string, int> arrivals;
  std::map<int, std::string> warnings;  // by rank: WARN lines
  std::map<int, std::string> infos;
  int lines_without_flags = 0;
};
inline Shared* g_shared = nullptr;  // of the child; the log function has no other way to it

inline void keep_line(int level, unsigned long flags, const char*, int, const char* format, ...) {
  g_shared->lines_without_flags += flags == 0 ? 1 : 0;
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  auto& lines = level == nccl::kNcclLogWarn ? g_shared->warnings : g_shared->infos;
  lines[sim::World::current_process()->rank] += std::string(text) + "\n";
}

/// A ring without its last cable: the ports that it joined are there, with their addresses, and down.
inline models::Cluster line_cluster(int nodes) {
  models::Cluster cluster = ring_cluster(nodes);
  cluster.cables.pop_back();
  return cluster;
}

/// One direction of data: what the other end's handle becomes.
struct Comms {
  void* send = nullptr;
  void* receive = nullptr;
};

/// Registered bytes with a pattern.
struct Buffer {
  std::vector<std::uint8_t> bytes;
  void* memory = nullptr;
};

class MeshRank {
 public:
  MeshRank(Shared& shared, int rank) : shared_(shared), rank_(rank) {
    const std::string path = std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so";
    handle_ = sim::load_for(*sim::World::current_process(), path);
    net_ = table<nccl::NetV11>("ncclNetPlugin_v11");
  }
  /// init(), as NCCL's main thread does it.
  void start() { CHECK(net().init(&context, 1, nullptr, &keep_line, nullptr) == nccl::kNcclSuccess); }
  void stop() { CHECK(net().finalize(context) == nccl::kNcclSuccess); }

  const nccl::NetV11& net() const { return *net_; }
  template <typename Table>
  const Table* table(const char* name) const {
    return static_cast<const Table*>(sim::symbol_of(handle_, name));
  }
  int rank() const { return rank_; }
  const std::string& warnings() const { return shared_.warnings[rank_]; }
  const std::string& infos() const { return shared_.infos[rank_]; }
  int lines_without_flags() const { return shared_.lines_without_flags; }
  void forget_warnings() { shared_.warnings[rank_].clear(); }

  // --- the management network ---
  void publish(const std::string& key, const HandleBytes& handle) { shared_.handles[key] = handle; }
  HandleBytes look_up(const std::string& key) const {
    wait_until([&] { return shared_.handles.count(key) != 0; });
    return shared_.handles[key];
  }
  /// Returns once `count` ranks have come.
  void meet(const std::string& place, int count) const {
    ++shared_.arrivals[place];
    wait_until([&] { return shared_.arrivals[place] >= count; });
  }
  static void pause() { sim::World::get().sleep(kPicosecondsPerMicrosecond); }
  /// Late by 2 % of the wait at most: looking every microsecond through a deadline of ten seconds is work.
  template <typename Condition>
  static void wait_until(const Condition& holds) {
    sim::World& world = sim::World::get();
    const Picoseconds begun = world.now();
    while (!holds()) world.sleep(std::max(kPicosecondsPerMicrosecond, (world.now() - begun) / 64));
  }

  // --- connections ---
  void* listen(int dev, const std::string& key) {
    void* listener = nullptr;
    HandleBytes handle{};
    CHECK(net().listen(context, dev, handle.data(), &listener) == nccl::kNcclSuccess);
    publish(key, handle);
    return listener;
  }
  /// Both directions to one peer, each polled in turns.
  Comms connect_both(int peer, int dev, const std::string& channel = "") {
    void* listener = listen(dev, name(rank_, peer, channel));
    HandleBytes handle = look_up(name(peer, rank_, channel));
    Comms comms;
    while (comms.send == nullptr || comms.receive == nullptr) {
      if (comms.send == nullptr) {
        last_result_ = net().connect(context, dev, handle.data(), &comms.send, nullptr);
      }
      if (last_result_ == nccl::kNcclSuccess && comms.receive == nullptr) {
        last_result_ = net().accept(listener, &comms.receive, nullptr);
      }
      CHECK(last_result_ == nccl::kNcclSuccess);
      if (last_result_ != nccl::kNcclSuccess) break;
    }
    CHECK(net().closeListen(listener) == nccl::kNcclSuccess);
    return comms;
  }
  void close(const Comms& comms) {
    CHECK(net().closeSend(comms.send) == nccl::kNcclSuccess);
    CHECK(net().closeRecv(comms.receive) == nccl::kNcclSuccess);
  }
  static std::string name(int listener, int connector, const std::string& channel) {
    return std::to_string(listener) + "<-" + std::to_string(connector) + channel;
  }

  // --- data ---
  Buffer buffer(void* comm, std::size_t size, std::uint32_t seed) {
    Buffer result;
    result.bytes.resize(std::max<std::size_t>(size, 1));
    fill(result.bytes, seed);
    CHECK(net().regMr(comm, result.bytes.data(), result.bytes.size(), nccl::kPtrHost, &result.memory) == 0);
    return result;
  }
  void release(void* comm, const Buffer& buffer) { CHECK(net().deregMr(comm, buffer.memory) == 0); }
  static void fill(std::span<std::uint8_t> bytes, std::uint32_t seed) {
    for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = pattern(at, seed);
  }
  static std::uint8_t pattern(std::size_t at, std::uint32_t seed) {
    return static_cast<std::uint8_t>((at * 2654435761U + seed * 97U) >> 13U);
  }

  void* send_once(void* comm, const Buffer& buffer, std::size_t size, int tag = 0) {
    void* request = nullptr;
    last_result_ =
        net().isend(comm, const_cast<std::uint8_t*>(buffer.bytes.data()), size, tag, buffer.memory, nullptr, &request);
    CHECK(last_result_ == nccl::kNcclSuccess);
    return request;
  }
  /// nullptr only after an error.
  void* send(void* comm, const Buffer& buffer, std::size_t size, int tag = 0) {
    void* request = nullptr;
    do {
      request = send_once(comm, buffer, size, tag);
    } while (request == nullptr && last_result_ == nccl::kNcclSuccess);
    return request;
  }
  void* receive_once(void* comm, Buffer& buffer, int tag = 0) {
    void* data = buffer.bytes.data();
    std::size_t size = buffer.bytes.size();
    void* request = nullptr;
    last_result_ = net().irecv(comm, 1, &data, &size, &tag, &buffer.memory, nullptr, &request);
    CHECK(last_result_ == nccl::kNcclSuccess);
    return request;
  }
  /// nullptr only after an error.
  void* receive(void* comm, Buffer& buffer, int tag = 0) {
    void* request = nullptr;
    do {
      request = receive_once(comm, buffer, tag);
    } while (request == nullptr && last_result_ == nccl::kNcclSuccess);
    return request;
  }
  /// Polls until done; the size of the first part, or -1 for an error.
  int finish(void* request, int* sizes = nullptr) {
    std::array<int, 8> all{};
    for (int done = 0; done == 0;) {
      if (net().test(request, &done, all.data()) != nccl::kNcclSuccess) return -1;
    }
    if (sizes != nullptr) std::copy(all.begin(), all.end(), sizes);
    return all[0];
  }

  void* context = nullptr;

 private:
  Shared& shared_;
  int rank_;
  int last_result_ = nccl::kNcclSuccess;
  void* handle_ = nullptr;
  const nccl::NetV11* net_ = nullptr;
};

/// The same cluster with a variable for every rank.
inline models::Cluster with(models::Cluster cluster, const std::string& name, const std::string& value) {
  for (models::Node& node : cluster.nodes) node.environment.emplace_back(name, value);
  return cluster;
}

using RankBody = std::function<void(MeshRank&)>;

/// One rank a node; runs body(rank) in each, with init and finalize around it unless `bare`.
inline WorldResult run_mesh(const models::Cluster& cluster, const RankBody& body, bool bare = false,
                            const sim::HostOptions& host = {}) {
  Shared shared;
  g_shared = &shared;
  return run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, host);
    sim::install_verbs(world, std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1", nullptr);
    for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
      const int rank = static_cast<int>(node);
      auto& process = world.add_process(rank, rank, "rank" + std::to_string(rank));
      for (const auto& [name, value] : cluster.nodes[node].environment) process.environment[name] = value;
      world.spawn(process, "main", [&shared, &body, bare, rank] {
        MeshRank self(shared, rank);
        if (!bare) self.start();
        body(self);
        if (!bare) self.stop();
      });
    }
  });
}

}  // namespace meshbed::test
