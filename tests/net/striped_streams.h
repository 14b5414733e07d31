#pragma once
// Long messages over all cables between two nodes: what the tests of rails have in common.

#include <deque>
#include <vector>

#include "tests/net/failover_streams.h"

namespace meshbed::test {

inline constexpr const char* kStripes = "NCCL_MESH_STRIPE_BYTES";

/// Two nodes on so many cables, and even short messages are striped.
inline models::Cluster striped(int cables) { return with(pair_cluster(cables), kStripes, "4096"); }
inline models::Cluster striped_pair() { return striped(2); }

/// Messages of 1 MiB from rank 0 to rank 1, each posted as soon as there is room.
inline void move(MeshRank& rank, void* comm, std::vector<Buffer>& buffers, int messages) {
  std::deque<void*> under_way;
  for (int message = 0; message < messages || !under_way.empty();) {
    if (message < messages && under_way.size() < buffers.size()) {
      Buffer& buffer = buffers[static_cast<std::size_t>(message++) % buffers.size()];
      under_way.push_back(rank.rank() == 0 ? rank.send(comm, buffer, kMiB) : rank.receive(comm, buffer));
      continue;
    }
    CHECK(rank.finish(under_way.front()) == static_cast<int>(kMiB));
    under_way.pop_front();
  }
}

}  // namespace meshbed::test
