#pragma once
// Streams of messages whose cables go and come while they are under way: what the failover tests have in common.

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/fault/inject.h"
#include "tests/net/mesh_ranks.h"

namespace meshbed::test {

inline constexpr Picoseconds kMs = kPicosecondsPerMillisecond;

/// Two nodes on `cables` cables; NIC i of one leads to NIC i of the other.
inline models::Cluster pair_cluster(int cables) {
  return ring_cluster(2, 100'000'000'000, kPicosecondsPerMicrosecond, cables);
}

struct CableStep {
  int nic = 0;
  bool up = false;
};

inline void take_step(void* step, std::uint64_t) {
  const auto* taken = static_cast<const CableStep*>(step);
  for (const int node : {0, 1}) sim::set_link(sim::World::get(), {node, taken->nic}, taken->up);
}

/// The cable between both nodes' NIC `nic` goes or comes back, so long from now. Kept until the process ends.
inline void set_cable(int nic, bool up, Picoseconds after = 0) {
  static std::deque<CableStep> steps;
  steps.push_back({nic, up});
  sim::World::get().after(after, 0, &take_step, &steps.back(), 0);
}

struct Readdressing {
  models::PortRef port;
  models::IpPrefix from, to;
};

inline void readdress(void* what, std::uint64_t) {
  const auto* change = static_cast<const Readdressing*>(what);
  sim::change_address(sim::World::get(), change->port, change->from, change->to);
}

/// The port gets the address .77 of its subnet, so long from now, or another one instead of that. Kept until the
/// process ends.
inline void change_address(const models::Cluster& cluster, models::PortRef port, Picoseconds after = 0,
                           std::uint8_t last = 77) {
  static std::deque<Readdressing> changes;
  const models::Node& node = cluster.nodes[static_cast<std::size_t>(port.node)];
  const models::IpPrefix from = node.nics[static_cast<std::size_t>(port.nic)].addresses.front();
  changes.push_back({.port = port, .from = from, .to = from});
  changes.back().to.address.bytes[3] = last;
  if (last != 77) changes.back().from.address.bytes[3] = 77;
  sim::World::get().after(after, 0, &readdress, &changes.back(), 0);
}

inline std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Messages of many sizes from rank 0 to rank 1, up to 8 under way at a time; the receiver checks each of them.
struct Stream {
  int messages = 400;
  std::function<void(int message)> before{};  // at the sender, before this one is posted

  static std::size_t size_of(int message) {
    static constexpr std::size_t kSizes[] = {0, 1, 4096, 65536, 300'001, 17, 1U << 20U, 128};
    return kSizes[static_cast<std::size_t>(message) % 8];
  }
  static constexpr std::size_t kGuardBytes = 64;  // behind each message, and not to be touched
  static constexpr std::size_t kRoom = (1U << 20U) + kGuardBytes;
  static constexpr int kAtOnce = 8;

  void send(MeshRank& rank, const Comms& comms) const {
    std::deque<std::pair<void*, int>> under_way;
    std::vector<Buffer> buffers;
    for (int slot = 0; slot < kAtOnce; ++slot) buffers.push_back(rank.buffer(comms.send, kRoom, 0));
    for (int message = 0; message < messages || !under_way.empty();) {
      if (message < messages && under_way.size() < kAtOnce) {
        if (before) before(message);
        Buffer& buffer = buffers[static_cast<std::size_t>(message % kAtOnce)];
        MeshRank::fill(std::span(buffer.bytes).first(size_of(message)), static_cast<std::uint32_t>(message));
        under_way.emplace_back(rank.send(comms.send, buffer, size_of(message)), message);
        ++message;
        continue;
      }
      const auto [request, number] = under_way.front();
      under_way.pop_front();
      CHECK(rank.finish(request) == static_cast<int>(size_of(number)));
    }
    for (const Buffer& buffer : buffers) rank.release(comms.send, buffer);
  }

  void receive(MeshRank& rank, const Comms& comms) const {
    std::deque<std::pair<void*, int>> under_way;
    std::vector<Buffer> buffers;
    for (int slot = 0; slot < kAtOnce; ++slot) buffers.push_back(rank.buffer(comms.receive, kRoom, 0));
    for (int message = 0; message < messages || !under_way.empty();) {
      if (message < messages && under_way.size() < kAtOnce) {
        Buffer& buffer = buffers[static_cast<std::size_t>(message % kAtOnce)];
        std::fill_n(buffer.bytes.begin(), size_of(message) + kGuardBytes, 0xcc);
        under_way.emplace_back(rank.receive(comms.receive, buffer), message);
        ++message;
        continue;
      }
      const auto [request, number] = under_way.front();
      under_way.pop_front();
      const std::size_t size = size_of(number);
      CHECK(rank.finish(request) == static_cast<int>(size));
      const Buffer& buffer = buffers[static_cast<std::size_t>(number % kAtOnce)];
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < size + kGuardBytes; ++at) {
        const std::uint8_t wanted = at < size ? MeshRank::pattern(at, static_cast<std::uint32_t>(number)) : 0xcc;
        wrong += buffer.bytes[at] != wanted ? 1 : 0;
      }
      CHECK(wrong == 0);
    }
    for (const Buffer& buffer : buffers) rank.release(comms.receive, buffer);
  }
};

/// Rank 0 streams to rank 1; others are there and do nothing.
inline WorldResult run_stream(const models::Cluster& cluster, const Stream& stream,
                              const std::function<void(MeshRank&)>& after = {}) {
  const int ranks = static_cast<int>(cluster.nodes.size());
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() > 1) {
      rank.meet("closed", ranks);
      return;
    }
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    rank.rank() == 0 ? stream.send(rank, comms) : stream.receive(rank, comms);
    rank.meet("streamed", 2);
    if (after) after(rank);
    rank.close(comms);
    rank.meet("closed", ranks);
  });
}

/// Eight parts of a group from rank 0 to rank 1, each acknowledged before the next; before some of them the cable of
/// both nodes' NIC `nic` goes or comes back, and a while passes. So many messages of one byte come first.
inline WorldResult run_half_a_group(const models::Cluster& cluster,
                                    const std::map<std::size_t, bool>& cable_before = {{4, false}}, int nic = 0,
                                    int messages_before = 0) {
  static constexpr std::size_t kParts = 8;
  const int ranks = static_cast<int>(cluster.nodes.size());
  const auto size_of = [](std::size_t part) { return part == 2 ? std::size_t{0} : 100'000 + part; };
  return run_mesh(cluster, [=](MeshRank& rank) {
    if (rank.rank() > 1) {
      rank.meet("end", ranks);
      return;
    }
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer byte = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 1, 0);
    for (int message = 0; message < messages_before; ++message) {
      void* request = rank.rank() == 0 ? rank.send(comms.send, byte, 1) : rank.receive(comms.receive, byte);
      CHECK(rank.finish(request) == 1);
    }
    rank.release(rank.rank() == 0 ? comms.send : comms.receive, byte);
    if (rank.rank() == 0) {
      std::vector<Buffer> out;
      for (std::size_t part = 0; part < kParts; ++part) {
        out.push_back(rank.buffer(comms.send, 200'000, static_cast<std::uint32_t>(part)));
        if (const auto step = cable_before.find(part); step != cable_before.end()) {
          set_cable(nic, step->second);
          sim::World::get().sleep(kMs);
        }
        void* request = rank.send(comms.send, out.back(), size_of(part), static_cast<int>(part));
        CHECK(rank.finish(request) == static_cast<int>(size_of(part)));
      }
      for (const Buffer& buffer : out) rank.release(comms.send, buffer);
    } else {
      std::array<Buffer, kParts> in;
      void *data[kParts], *memories[kParts];
      std::size_t sizes[kParts];
      int tags[kParts], received[kParts];
      for (std::size_t part = 0; part < kParts; ++part) {
        in[part] = rank.buffer(comms.receive, 200'000, 77);
        data[part] = in[part].bytes.data();
        memories[part] = in[part].memory;
        sizes[part] = in[part].bytes.size();
        tags[part] = static_cast<int>(part);
      }
      void* request = nullptr;
      while (request == nullptr) {
        CHECK(rank.net().irecv(comms.receive, kParts, data, sizes, tags, memories, nullptr, &request) == 0);
      }
      CHECK(rank.finish(request, received) == static_cast<int>(size_of(0)));
      for (std::size_t part = 0; part < kParts; ++part) {
        CHECK(received[part] == static_cast<int>(size_of(part)));
        std::size_t wrong = 0;
        for (std::size_t at = 0; at < size_of(part); ++at) {
          wrong += in[part].bytes[at] != MeshRank::pattern(at, static_cast<std::uint32_t>(part)) ? 1 : 0;
        }
        CHECK(wrong == 0);
        rank.release(comms.receive, in[part]);
      }
    }
    CHECK(count(rank.warnings(), "taken up again after") == cable_before.size());
    rank.close(comms);
    rank.meet("end", ranks);
  });
}

}  // namespace meshbed::test
