// What stands in the way of a connection that means to change over to its other way round: it goes on where it was.
#include <cerrno>

#include "sim/host/host_state.h"
#include "sim/host/socket/tcp_socket.h"
#include "tests/net/drivers.h"
#include "tests/net/gpu_buffer.h"
#include "tests/net/two_ways.h"

namespace changing_trouble_test {

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

constexpr const char* kBegunByNode3 = "through 1 relay: 192.168.103.1";
constexpr const char* kBegunByNode1 = "through 1 relay: 192.168.100.2";

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

TEST_CASE(
    "two ways: memory that is first sent from on the new chain's NIC, which does not take it: back to the old one") {
  static int registered = 0;  // on the other NIC, by rank 0
  const auto result = run_traffic(
      balanced_ring(),
      {.flows = {{0, kAcross}, {1, kLoad}},
       .each_step =
           [](MeshRank&, int begun) {
             if (begun != 1) return;
             watch_registrations([](std::uint64_t size_bytes) {
               const bool of_user = current_rank() == 0 && size_bytes >= kMiB;
               return of_user && registered++ > 0 ? ENOMEM : 0;
             });
           },
       .after =
           [](MeshRank& rank, const Json& send) {
             CHECK(registered == 3);  // one was taken; one was not, nor without relaxed ordering; then no more
             CHECK(text_of(send, "way") == kByNode1);
             CHECK(send.at("state") == "up");
             CHECK(send.at("done") == kAcross.messages);
             CHECK(changes_of(send) == 2);
             CHECK(count(rank.infos(), "it goes back to the way before: the memory of 1048640 bytes") == 1);
           }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "memory that the NIC of the cable that is left does not take: the error names both, the cause and what helps") {
  const auto result = run_mesh(with(pair_cluster(2), "NCCL_MESH_STRIPE_BYTES", "0"), [](MeshRank& rank) {
    const bool sends = rank.rank() == 0;
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    void* comm = sends ? comms.send : comms.receive;
    Buffer first = rank.buffer(comm, kMiB, 3), second = rank.buffer(comm, kMiB, 4);
    rank.meet("connected", 2);
    if (sends) set_cable(0, false);
    const auto pass = [&](Buffer& buffer) {
      return sends ? rank.send(comm, buffer, kMiB) : rank.receive(comm, buffer);
    };
    CHECK(rank.finish(pass(first)) == static_cast<int>(kMiB));
    rank.meet("passed", 2);
    rank.forget_warnings();
    void* request = nullptr;
    if (sends) {
      watch_registrations(
          [](std::uint64_t size_bytes) { return current_rank() == 0 && size_bytes >= kMiB ? ENOMEM : 0; });
      int outcome = 0;
      while (outcome == 0 && request == nullptr) {
        outcome = rank.net().isend(comm, second.bytes.data(), kMiB, 0, second.memory, nullptr, &request);
      }
      CHECK(outcome == nccl::kNcclSystemError);
      INFO(rank.warnings());
      CHECK(count(rank.warnings(), ": a send of 1048576 bytes cannot be registered on the device") == 1);
      CHECK(count(rank.warnings(), "the memory of 1048576 bytes at 0x") == 1);
      CHECK(count(rank.warnings(), "cannot be used by rocep1s0f1: cannot register") == 1);
      CHECK(count(rank.warnings(), "Cannot allocate memory; look at the locked-memory limit (ulimit -l)") == 2);
    } else {
      request = rank.receive(comm, second);
    }
    CHECK((request == nullptr) == sends);
    rank.meet("refused", 2);
    rank.release(comm, first);
    rank.release(comm, second);
    rank.close(comms);
    rank.meet("end", 2);
  });
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

}  // namespace changing_trouble_test
