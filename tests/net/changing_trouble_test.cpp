// What stands in the way of a connection that means to change over to its other way round: it goes on where it was.
#include "sim/host/host_state.h"
#include "sim/host/tcp_socket.h"
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
