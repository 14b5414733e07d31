// What stands in the way of a connection that means to change over to its other way round: it goes on where it was.
#include <cerrno>

#include "sim/host/host_state.h"
#include "sim/host/tcp_socket.h"
#include "tests/net/drivers.h"
#include "tests/net/gpu_buffer.h"
#include "tests/net/two_ways.h"

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// From now on the node's kernel answers for its doors at this address alone, and resets at every other one, as a
/// firewall may.
void open_doors_at(int node, const char* address) {
  const sim::TcpStack& stack = sim::host().tcp;
  for (const std::uint16_t port : stack.listening_ports(node)) {
    for (sim::Socket* socket : stack.ports.at(node, port)) {
      if (socket->listening()) socket->local.address = models::parse_prefix(address)->address;
    }
  }
}

constexpr const char* kBegunByNode3 = "through 1 relays: 192.168.103.1";
constexpr const char* kBegunByNode1 = "through 1 relays: 192.168.100.2";

/// What the drivers of all ranks do from now on before they register so many bytes of the current rank's: 0, or the
/// errno with which they refuse.
using BeforeRegistration = std::function<int(std::uint64_t size_bytes)>;
void watch_registrations(const BeforeRegistration& before) {
  static BeforeRegistration asked;
  asked = before;
  drivers().reg_mr = [](auto domain, auto address, auto length, auto iova, auto access, auto* lkey, auto* rkey) {
    if (const int error = asked(length)) return error;
    return sim::verbs::backend_table().reg_mr(domain, address, length, iova, access, lkey, rkey);
  };
}

int current_rank() { return sim::World::current_process()->rank; }

/// Everything arrives though the connection cannot change over, which it tried; it is where it began.
struct Stays {
  std::string why;  // in rank 0's log
  void operator()(MeshRank& rank, const Json& send) const {
    CHECK(text_of(send, "way") == kByNode1);
    CHECK(send.at("state") == "up");
    CHECK(send.at("done") == kAcross.messages);
    CHECK(changes_of(send) == 0);
    CHECK(count(rank.infos(), why) > 0);
    CHECK(rank.warnings().find("taken up again") == std::string::npos);
  }
};

}  // namespace

TEST_CASE(
    "two ways: the receiver's port refuses on the new chain: that is not its last word, and the old one goes on") {
  const auto result = run_traffic(balanced_ring(),
                                  {.flows = {{0, kAcross}, {1, kLoad}},
                                   .each_step =
                                       [](MeshRank&, int begun) {
                                         if (begun == 1) open_doors_at(kReceiver, "192.168.101.2/24");
                                       },
                                   .after =
                                       [](MeshRank& rank, const Json& send) {
                                         CHECK(text_of(send, "way") == kByNode1);
                                         CHECK(send.at("done") == kAcross.messages);
                                         CHECK(changes_of(send) == 0);
                                         const auto resumed = send.at("resumed").get<std::size_t>();
                                         CHECK(resumed > 0);
                                         // Each time one attempt there, and one back.
                                         CHECK(count(rank.infos(), kBegunByNode3) == resumed);
                                         CHECK(count(rank.infos(), kBegunByNode1) == resumed + 1);
                                         CHECK(count(rank.infos(), "the peer's connection is gone") == 1);  // told once
                                         CHECK(rank.warnings().empty());
                                       }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: what is awaited cannot be registered on the NIC of the new chain: the connection stays") {
  const auto result = run_traffic(balanced_ring(), {.flows = {{0, kAcross}, {1, kLoad}},
                                                    .each_step =
                                                        [](MeshRank&, int begun) {
                                                          if (begun != 1) return;
                                                          watch_registrations([](std::uint64_t size_bytes) {
                                                            const bool of_user = size_bytes >= kMiB;
                                                            return current_rank() == kReceiver && of_user ? ENOMEM : 0;
                                                          });
                                                        },
                                                    .after = Stays{"a receive's memory cannot be registered on"}});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: what is to be sent cannot be registered on the NIC of the new chain: the connection stays") {
  const auto result =
      run_traffic(balanced_ring(), {.flows = {{0, kAcross}, {1, kLoad}},
                                    .each_step =
                                        [](MeshRank&, int begun) {
                                          if (begun != 1) return;
                                          watch_registrations([](std::uint64_t size_bytes) {
                                            return current_rank() == 0 && size_bytes >= kMiB ? ENOMEM : 0;
                                          });
                                        },
                                    .after = Stays{"it stays: a send's memory cannot be registered on"}});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: a flusher cannot be had on the NIC of the new chain: the connection stays") {
  static std::unique_ptr<GpuBuffer> gpu_memory;
  const auto result = run_traffic(with_dma_buf(balanced_ring()),
                                  {.flows = {{0, kAcross}, {1, kLoad}},
                                   .connected =
                                       [](MeshRank& rank, std::map<int, Comms>& comms) {
                                         if (rank.rank() == kReceiver)
                                           gpu_memory = std::make_unique<GpuBuffer>(rank, comms[0].receive, 4096);
                                       },
                                   .each_step =
                                       [](MeshRank&, int begun) {
                                         if (begun != 1) return;
                                         watch_registrations([](std::uint64_t size_bytes) {
                                           const bool of_flusher = size_bytes == 64;  // the word that it reads into
                                           return current_rank() == kReceiver && of_flusher ? ENOMEM : 0;
                                         });
                                       },
                                   .after = Stays{"no queue pair for flushing GPU memory"},
                                   .closing =
                                       [](MeshRank& rank) {
                                         if (rank.rank() == kReceiver) gpu_memory.reset();
                                       }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: memory takes long to pin for the new chain: other connections of the process close meanwhile") {
  static std::map<int, Comms> beside;  // between the receiver and its neighbour
  static bool pins = false;
  const auto result =
      run_traffic(balanced_ring(), {.flows = {{0, kAcross}, {1, kLoad}},
                                    .connected =
                                        [](MeshRank& rank, std::map<int, Comms>&) {
                                          if (rank.rank() >= kReceiver)
                                            beside[rank.rank()] = rank.connect_both(5 - rank.rank(), 0, "beside");
                                        },
                                    .each_step =
                                        [](MeshRank&, int begun) {
                                          if (begun != 1) return;
                                          watch_registrations([](std::uint64_t size_bytes) {
                                            if (current_rank() != kReceiver || size_bytes < kMiB) return 0;
                                            pins = true;
                                            sim::World::get().sleep(20 * kMs);
                                            pins = false;
                                            return 0;
                                          });
                                        },
                                    .each_receiver_step =
                                        [](MeshRank& rank) {
                                          if (!pins || beside.count(kReceiver) == 0) return;
                                          const Picoseconds begun = sim::World::get().now();
                                          rank.close(beside[kReceiver]);
                                          CHECK(sim::World::get().now() - begun < kMs);
                                          beside.erase(kReceiver);
                                        },
                                    .after = [](MeshRank&, const Json& send) { CHECK(changes_of(send) == 1); },
                                    .closing =
                                        [](MeshRank& rank) {
                                          if (rank.rank() == 3) rank.close(beside[3]);
                                          if (rank.rank() == kReceiver) CHECK(beside.count(kReceiver) == 0);
                                        }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}
