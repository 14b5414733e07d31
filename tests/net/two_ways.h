#pragma once
// Streams on a ring of four whose diagonal has two ways round: rank 0 streams to rank 2, across, by rank 1 in its turn;
// ranks 1 and 3 may stream to rank 2 over their cables.

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "sim/host/host_state.h"
#include "tests/net/failover_streams.h"
#include "tests/net/state_ranks.h"

namespace meshbed::test {

inline constexpr int kRanks = 4, kReceiver = 2;

/// One end of a stream of messages, several under way at a time. step() never waits.
class Flow {
 public:
  struct Options {
    int messages = 0;
    int at_once = 4;
    std::size_t bytes = 0;  // 0: of the many sizes of Stream
  };
  Flow(MeshRank& rank, void* comm, bool sends, const Options& options)
      : rank_(rank), comm_(comm), sends_(sends), options_(options) {
    for (int slot = 0; slot < options.at_once; ++slot) buffers_.push_back(rank.buffer(comm, room(), 0));
  }
  ~Flow() {
    for (const Buffer& buffer : buffers_) rank_.release(comm_, buffer);
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  bool done() const { return next_ == options_.messages && under_way_.empty(); }
  int begun() const { return next_; }
  void step() {
    if (next_ < options_.messages && under_way_.size() < buffers_.size()) begin();
    if (!under_way_.empty()) look();
  }

 private:
  std::size_t room() const { return (options_.bytes > 0 ? options_.bytes : kMiB) + Stream::kGuardBytes; }
  std::size_t size_of(int message) const { return options_.bytes > 0 ? options_.bytes : Stream::size_of(message); }
  Buffer& buffer_of(int message) { return buffers_[static_cast<std::size_t>(message) % buffers_.size()]; }
  void begin() {
    Buffer& buffer = buffer_of(next_);
    const std::size_t size = size_of(next_);
    if (sends_ && prepared_ < next_) {
      MeshRank::fill(std::span(buffer.bytes).first(size), static_cast<std::uint32_t>(next_));
    } else if (prepared_ < next_) {
      std::fill_n(buffer.bytes.begin(), size + Stream::kGuardBytes, 0xcc);
    }
    prepared_ = next_;
    void* request = sends_ ? rank_.send_once(comm_, buffer, size) : rank_.receive_once(comm_, buffer);
    if (request != nullptr) under_way_.emplace_back(request, next_++);
  }
  void look() {
    const auto [request, message] = under_way_.front();
    int done = 0;
    std::array<int, 8> sizes{};
    CHECK(rank_.net().test(request, &done, sizes.data()) == nccl::kNcclSuccess);
    if (done == 0) return;
    under_way_.pop_front();
    const std::size_t size = size_of(message);
    CHECK(sizes[0] == static_cast<int>(size));
    if (sends_) return;
    const Buffer& buffer = buffer_of(message);
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < size + Stream::kGuardBytes; ++at) {
      const std::uint8_t wanted = at < size ? MeshRank::pattern(at, static_cast<std::uint32_t>(message)) : 0xcc;
      wrong += buffer.bytes[at] != wanted ? 1 : 0;
    }
    CHECK(wrong == 0);
  }

  MeshRank& rank_;
  void* comm_;
  bool sends_;
  Options options_;
  std::vector<Buffer> buffers_;
  std::deque<std::pair<void*, int>> under_way_;
  int next_ = 0, prepared_ = -1;
};

/// What streams to the receiver, by its sender's rank.
struct Traffic {
  std::map<int, Flow::Options> flows;
  std::function<void(MeshRank&, std::map<int, Comms>&)> connected{};  // at each rank, by peer
  std::function<void(MeshRank&, int begun)> each_step{};              // at rank 0
  std::function<void(MeshRank&)> each_receiver_step{};
  /// At rank 0, when all has arrived.
  std::function<void(MeshRank&, const Json& connection)> after{};
  std::function<void(MeshRank&)> closing{};  // at each rank
};

inline std::uint64_t changes_of(const Json& connection) { return connection.at("changes").get<std::uint64_t>(); }

inline WorldResult run_traffic(const models::Cluster& cluster, const Traffic& traffic) {
  return run_mesh(cluster, [=](MeshRank& rank) {
    std::map<int, Comms> comms;  // by peer
    for (const auto& [sender, options] : traffic.flows) {
      if (rank.rank() == sender) comms[kReceiver] = rank.connect_both(kReceiver, 0);
      if (rank.rank() == kReceiver) comms[sender] = rank.connect_both(sender, 0);
    }
    if (traffic.connected) traffic.connected(rank, comms);
    rank.meet("connected", kRanks);
    {
      std::vector<std::unique_ptr<Flow>> flows;
      for (const auto& [sender, options] : traffic.flows) {
        if (rank.rank() == sender) {
          flows.push_back(std::make_unique<Flow>(rank, comms[kReceiver].send, true, options));
        } else if (rank.rank() == kReceiver) {
          flows.push_back(std::make_unique<Flow>(rank, comms[sender].receive, false, options));
        }
      }
      while (std::any_of(flows.begin(), flows.end(), [](const auto& flow) { return !flow->done(); })) {
        for (const auto& flow : flows) {
          if (!flow->done()) flow->step();
        }
        if (rank.rank() == 0 && traffic.each_step) traffic.each_step(rank, flows.front()->begun());
        if (rank.rank() == kReceiver && traffic.each_receiver_step) traffic.each_receiver_step(rank);
      }
    }
    rank.meet("streamed", kRanks);
    if (rank.rank() == 0 && traffic.after) traffic.after(rank, connection_of(state_of(rank), "send"));
    if (traffic.closing) traffic.closing(rank);
    for (const auto& [peer, comm] : comms) rank.close(comm);
    rank.meet("end", kRanks);
  });
}

/// A neighbour's stream of some MiB in flight, for as long as the others need.
inline constexpr Flow::Options kLoad{.messages = 1200, .at_once = 4, .bytes = kMiB};
/// Across, of many sizes: about 60 ms of a cable's time.
inline constexpr Flow::Options kAcross{.messages = 4000, .at_once = 8};

/// Where connections change over.
inline models::Cluster balanced_ring() { return with(ring_cluster(kRanks), "NCCL_MESH_RING_LOAD_BALANCE", "2"); }

inline constexpr const char* kByNode1 = "relayed through 192.168.100.2";
inline constexpr const char* kByNode3 = "relayed through 192.168.103.1";

}  // namespace meshbed::test
