#pragma once
// Transfer list: a round's transfers, as schedule.h has them, one behind another. Internal to plan.

#include "plugin/coll/plan/schedule.h"

namespace meshbed::coll {

inline bool has_blocks(const PlanRequest& request) {
  return request.collective == Collective::kAllGather || request.collective == Collective::kReduceScatter;
}

class TransferList {
 protected:
  explicit TransferList(Schedule& schedule) : schedule_(schedule), request_(schedule.request) {}

  void send(int peer, int way, const Range& range, BufferRole from) {
    schedule_.transfers.push_back(
        {.peer = peer, .way = way, .range = range, .place = from, .partial = from == BufferRole::kWork});
  }
  void store(int peer, int way, const Range& range) {
    schedule_.transfers.push_back({.peer = peer, .way = way, .receives = true, .range = range});
  }
  void reduce(int peer, int way, const Range& range, bool partial, BufferRole own, BufferRole to) {
    schedule_.transfers.push_back({.peer = peer,
                                   .way = way,
                                   .receives = true,
                                   .range = range,
                                   .place = to,
                                   .partial = partial,
                                   .reduces = true,
                                   .own = own});
    if (to == BufferRole::kWork) schedule_.has_work = true;
  }

  Schedule& schedule_;
  const PlanRequest& request_;
};

}  // namespace meshbed::coll
