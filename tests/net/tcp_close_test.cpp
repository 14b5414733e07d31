// Over TCP: how a connection ends, with either end closing first and any data in flight.
#include <doctest/doctest.h>

#include "sim/engine/world.h"
#include "tests/net/mesh_ranks.h"

namespace tcp_close_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr int kBytes = 1 << 18;

/// Two nodes whose data go over their management network.
models::Cluster tcp_pair() {
  return with(with(ring_cluster(2), "NCCL_MESH_DISABLE_RDMA", "1"), "NCCL_SOCKET_IFNAME", "=mgmt0");
}

}  // namespace

TEST_CASE("over TCP: a receiver closes with bytes unread, the sender serves what was announced, and fails beyond it") {
  for (const bool ends : {false, true}) {
    const auto result = run_mesh(tcp_pair(), [ends](MeshRank& rank) {
      const Comms comms = rank.connect_both(1 - rank.rank(), 0);
      const Buffer out = rank.buffer(comms.send, kBytes, 1);
      Buffer in = rank.buffer(comms.receive, kBytes, 2);
      if (rank.rank() == 1) {
        for (int index = 0; index < 8; ++index) rank.receive(comms.receive, in, index == 7 ? 3 : 0);
        rank.meet("posted", 2);
        rank.meet("sent", 2);
        rank.release(comms.send, out);
        rank.release(comms.receive, in);
        rank.close(comms);
        if (ends) rank.stop();  // and the process, but for those who still send to it
        rank.meet("closed", 2);
        if (ends) rank.start();
        return;
      }
      rank.meet("posted", 2);
      std::vector<void*> requests;
      const auto send = [&](int tag) { requests.push_back(rank.send(comms.send, out, kBytes, tag)); };
      for (int index = 0; index < 2; ++index) send(0);
      rank.meet("sent", 2);
      if (!ends) rank.meet("closed", 2);
      for (int index = 2; index < 7; ++index) send(0);
      send(3);
      for (void* request : requests) CHECK(rank.finish(request) == kBytes);
      CHECK(rank.warnings().empty());
      if (ends) {
        // Its finalize waits for us, a little.
        rank.release(comms.send, out);
        rank.release(comms.receive, in);
        rank.close(comms);
        rank.meet("closed", 2);
        CHECK(rank.warnings().empty());
        return;
      }
      void* request = nullptr;
      int outcome = 0;
      for (int look = 0; look < 100 && outcome == 0; ++look) {
        outcome = rank.net().isend(comms.send, const_cast<std::uint8_t*>(out.bytes.data()), 64, 0, out.memory, nullptr,
                                   &request);
      }
      CHECK(outcome == nccl::kNcclRemoteError);
      CHECK(rank.warnings().find("status=\"end of the stream\"") != std::string::npos);
      rank.release(comms.send, out);
      rank.release(comms.receive, in);
      rank.close(comms);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

}  // namespace tcp_close_test
