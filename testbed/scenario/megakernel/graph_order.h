#pragma once
// GraphOrder: unordered accesses of a slot graph to the same bytes, at least one of them a write: a slot that reads a
// landing of a message without needing the wait for it, two messages with the same landing, two slots that write the
// same bytes. In a run such an error appears only with certain times; this check always finds it.
//
// A message's bytes are written from its put's start until its arrival is seen by the slots of the receiving rank that
// need it, or a later one of its connection. A put is done for its own rank when it is handed over; it is not checked
// when its bytes may be overwritten.

#include <cstddef>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/megakernel/slot_graph.h"

namespace meshbed::testbed {

/// Graphs with more slots are not checked: cost is memory of their square, in bits.
inline constexpr std::size_t kOrderedSlotsMost = 8192;

/// `element_bytes`: of the workload's type. Reports at the places of the slots. A graph with a cycle has no order, and
/// nothing is reported of it: a run ends with wait-cycle.
void check_graph_order(const SlotGraph& graph, std::size_t element_bytes, Diagnostics& diagnostics);

}  // namespace meshbed::testbed
