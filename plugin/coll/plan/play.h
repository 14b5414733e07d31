#pragma once
// Play: how long a schedule takes on the cables of a mesh, slice by slice. Pure.
//
// For an algorithm whose steps wait for one another and share cables, so that neither the bytes of the busiest cable
// nor a number of messages gives its time: halving and doubling, which waits a whole transfer for its pairs where the
// ranks are no power of two, and whose exchanges overlap as far as they use different cables. So are the ring, what
// goes directly, and the blocks of a mesh, where ring neighbours have relays between them.
//
// Nomenclature as in schedule.h; in addition: line - the slices of one connection that wait for one cable. A slice
// leaves when every earlier receive of its rank's list has digested the elements that it shares with it, and arrives a
// message's latency after its last bit. A cable serves its lines in turns, one slice each. On a way through relays a
// slice follows its own first piece.
//
// Cost: the slices of all ranks times the transfers of one rank.

#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/plan.h"

namespace meshbed::coll {

struct Played {
  double ns = 0;            // of the whole operation, from its first message on
  std::uint64_t steps = 0;  // slices that crossed a cable: what playing costs
};

/// Of the request's collective on its mesh, by the ring or an algorithm that has a schedule for it. `wire_per_byte`:
/// bytes on the wire for each byte of data; `mbps_most`: as cable_load()'s.
Played play(Algorithm algorithm, const PlanRequest& request, const CostModel& model, double wire_per_byte,
            double mbps_most);

}  // namespace meshbed::coll
