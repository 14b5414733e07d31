// Relayed connections that have two ways round, and change over to the less loaded one: the real plugin on a ring of
// four. Rank 0 streams to rank 2, across, by rank 1 in its turn; ranks 1 and 3 may stream to rank 2 over their cables.
#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "tests/net/failover_streams.h"
#include "tests/net/state_ranks.h"

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr int kRanks = 4, kReceiver = 2;

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
  std::function<void(MeshRank&, int begun)> each_step{};  // at rank 0
  /// At rank 0, when all has arrived.
  std::function<void(MeshRank&, const Json& connection)> after{};
};

std::uint64_t changes_of(const Json& connection) { return connection.at("changes").get<std::uint64_t>(); }

WorldResult run_traffic(const models::Cluster& cluster, const Traffic& traffic) {
  return run_mesh(cluster, [=](MeshRank& rank) {
    std::map<int, Comms> comms;  // by peer
    for (const auto& [sender, options] : traffic.flows) {
      if (rank.rank() == sender) comms[kReceiver] = rank.connect_both(kReceiver, 0);
      if (rank.rank() == kReceiver) comms[sender] = rank.connect_both(sender, 0);
    }
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
      }
    }
    rank.meet("streamed", kRanks);
    if (rank.rank() == 0 && traffic.after) traffic.after(rank, connection_of(state_of(rank), "send"));
    for (const auto& [peer, comm] : comms) rank.close(comm);
    rank.meet("end", kRanks);
  });
}

/// A neighbour's stream of some MiB in flight, for as long as the others need.
constexpr Flow::Options kLoad{.messages = 1200, .at_once = 4, .bytes = kMiB};
/// Across, of many sizes: about 60 ms of a cable's time.
constexpr Flow::Options kAcross{.messages = 4000, .at_once = 8};

/// Where connections change over.
models::Cluster balanced_ring() { return with(ring_cluster(kRanks), "NCCL_MESH_RING_LOAD_BALANCE", "2"); }

constexpr const char* kByNode1 = "relayed through 192.168.100.2";
constexpr const char* kByNode3 = "relayed through 192.168.103.1";

}  // namespace

TEST_CASE(
    "two ways: a connection changes over to the one that carries less, once, and every byte comes once in order") {
  const auto result = run_traffic(
      balanced_ring(), {.flows = {{0, kAcross}, {1, kLoad}}, .after = [](MeshRank& rank, const Json& send) {
                          CHECK(changes_of(send) == 1);
                          CHECK(send.at("resumed") == 1);
                          CHECK(text_of(send, "way") == kByNode3);
                          CHECK(send.at("done") == kAcross.messages);
                          CHECK(rank.infos().find("a chain that carries less leads to the peer") != std::string::npos);
                          CHECK(rank.warnings().empty());
                        }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "long stream: two ways: no change for less than the threshold, nobody asked for it, nor where the other one "
    "carries "
    "as much") {
  const models::Cluster ring = balanced_ring();
  const auto stays = [](MeshRank& rank, const Json& send) {
    CHECK(changes_of(send) == 0);
    CHECK(text_of(send, "way") == kByNode1);
    CHECK(rank.infos().find("carries less") == std::string::npos);
  };
  const std::map<int, Flow::Options> beside{{0, kAcross}, {1, kLoad}};
  Flow::Options longer = kLoad;  // it has its cable for itself, and must not end first
  longer.messages *= 2;
  run_traffic(with(ring, "NCCL_MESH_RING_BALANCE_THRESHOLD", "67108864"), {.flows = beside, .after = stays});
  run_traffic(ring_cluster(kRanks), {.flows = beside, .after = stays});
  run_traffic(with(ring_cluster(kRanks), "NCCL_MESH_RING_LOAD_BALANCE", "0"), {.flows = beside, .after = stays});
  run_traffic(ring, {.flows = {{0, kAcross}, {1, kLoad}, {3, longer}}, .after = stays});
}

TEST_CASE("two ways: an idle connection stays, and asks for nothing") {
  const auto result =
      run_traffic(balanced_ring(), {.flows = {{0, {.messages = 4, .at_once = 4, .bytes = 4096}}, {1, kLoad}},
                                    .after = [](MeshRank& rank, const Json& send) {
                                      CHECK(changes_of(send) == 0);
                                      CHECK(text_of(send, "way") == kByNode1);
                                      CHECK(rank.infos().find("carries") == std::string::npos);  // nor did it ask
                                    }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: the cable of the new chain is pulled at four moments around the change: each message once") {
  const models::Cluster ring = balanced_ring();
  for (int moment = 0; moment < 4; ++moment) {
    auto pulled = std::make_shared<bool>(false);
    const auto result =
        run_traffic(ring, {.flows = {{0, kAcross}, {1, kLoad}},
                           .each_step =
                               [=](MeshRank& rank, int) {
                                 if (*pulled || rank.infos().find("carries less leads") == std::string::npos) return;
                                 *pulled = true;
                                 static std::deque<models::PortRef> ports;
                                 const auto cut = [](void* port, std::uint64_t up) {
                                   sim::set_link(sim::World::get(), *static_cast<models::PortRef*>(port), up != 0);
                                 };
                                 // Between nodes 3 and 0, so many microseconds after the old chain was left.
                                 for (const models::PortRef& port : {ring.cables[3].a, ring.cables[3].b}) {
                                   ports.push_back(port);
                                   const Picoseconds at = moment * 34 * kPicosecondsPerMicrosecond;
                                   sim::World::get().after(at, 0, cut, &ports.back(), 0);
                                   sim::World::get().after(at + 20 * kMs, 0, cut, &ports.back(), 1);
                                 }
                               },
                           .after =
                               [=](MeshRank&, const Json& send) {
                                 CHECK(*pulled);
                                 CHECK(send.at("state") == "up");
                                 CHECK(send.at("done") == kAcross.messages);
                               }});
    CAPTURE(moment);
    REQUIRE(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("two ways: a connection that is made beside a stream begins on the other one") {
  const auto result = run_mesh(balanced_ring(), [](MeshRank& rank) {
    std::optional<Comms> beside;
    if (rank.rank() == 1) beside = rank.connect_both(kReceiver, 0);
    if (rank.rank() == kReceiver) beside = rank.connect_both(1, 0);
    Buffer large = rank.rank() == 1   ? rank.buffer(beside->send, 64 * kMiB, 1)
                   : rank.rank() == 2 ? rank.buffer(beside->receive, 64 * kMiB, 2)
                                      : Buffer{};
    rank.meet("beside", kRanks);
    void* request = rank.rank() == 1   ? rank.send(beside->send, large, 64 * kMiB)  // 5.5 ms
                    : rank.rank() == 2 ? rank.receive(beside->receive, large)
                                       : nullptr;
    if (rank.rank() == 0 || rank.rank() == kReceiver) {
      const Comms across = rank.connect_both(kReceiver - rank.rank(), 0);
      if (rank.rank() == 0) CHECK(text_of(connection_of(state_of(rank), "send"), "way") == kByNode3);
      rank.meet("seen", 2);
      rank.close(across);
    }
    if (request != nullptr) CHECK(rank.finish(request) == static_cast<int>(64 * kMiB));
    rank.meet("done", kRanks);
    if (beside) {
      rank.release(rank.rank() == 1 ? beside->send : beside->receive, large);
      rank.close(*beside);
    }
    rank.meet("end", kRanks);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}
