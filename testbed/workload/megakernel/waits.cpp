#include "testbed/workload/megakernel/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plugin/base/counted.h"

namespace meshbed::testbed {
namespace {

/// Of a list of connections: the one to that rank on that channel.
template <typename Connections>
ring::Word ring_connection_to(const Connections& connections, int rank, int channel) {
  const auto found = std::find_if(connections.begin(), connections.end(),
                                  [&](const auto& one) { return one.peer == rank && one.channel == channel; });
  return found == connections.end() ? ring::kNoId : static_cast<ring::Word>(found - connections.begin());
}

}  // namespace

std::vector<std::string> RingRegistry::doorbells() const {
  std::vector<std::string> all;
  for (const auto& [key, one] : rings_) {
    if (one.proxy == nullptr) continue;
    std::set<int> peers;
    for (const coll::SlotProgram::Sending& send : one.program->sends) peers.insert(send.peer);
    for (const int peer : peers) {
      const std::uint64_t count = one.proxy->without_doorbell(peer);
      if (count == 0) continue;
      all.push_back(fmt::format("rank {} has written {} for rank {}, and not rung the doorbell", one.rank,
                                counted(count, "WQE"), peer));
    }
  }
  return all;
}

ring::WaitChain RingRegistry::waits() const {
  std::vector<ring::RingWaits> all;
  for (const auto& [key, one] : rings_) {
    ring::RingWaits waits{.rank = one.rank,
                          .ring = one.ring,
                          .kernel = &one.buffers->kernel,
                          .lanes = one.kernel->lanes(),
                          .board = one.program->board(),
                          .sends = {},
                          .receives = {},
                          .completed = {},
                          .resident = {},
                          .stands_still = ""};
    if (const ring::Word resident = one.kernel->resident(); resident < one.kernel->lanes().size()) {
      waits.resident.resize(one.kernel->lanes().size());
      std::fill_n(waits.resident.begin(), resident, true);
    }
    if (one.kernel->stands_still()) {
      waits.stands_still = fmt::format("stopped after {} of its slots", one.kernel->slots_ended());
    }
    for (const coll::SlotProgram::Receiving& receive : one.program->receives) {
      const auto peer = rings_.find({receive.peer, one.ring});
      const ring::Word there = peer == rings_.end()
                                   ? ring::kNoId
                                   : ring_connection_to(peer->second.program->sends, one.rank, receive.channel);
      waits.receives.push_back({.rank = receive.peer, .ring = one.ring, .connection = there});
    }
    for (std::size_t index = 0; index < one.program->sends.size(); ++index) {
      const coll::SlotProgram::Sending& send = one.program->sends[index];
      waits.sends.push_back({.rank = send.peer, .ring = one.ring, .connection = ring::kNoId});
      waits.completed.push_back(one.proxy == nullptr ? 0 : one.proxy->completed(static_cast<ring::Word>(index)));
    }
    all.push_back(std::move(waits));
  }
  return ring::shortest_wait_chain(all);
}

}  // namespace meshbed::testbed
