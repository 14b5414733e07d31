#pragma once
// Route windows and batches: several slots that belong together (vyre, commit ca35047). How a window is doing:
// telemetry.h.

#include <vector>

#include "plugin/ring/abi/slot.h"

namespace meshbed::ring {

struct RouteWindow {
  Word ticket = 0;
  Word opcode = opcode::kUserFirst;
  Word tenant = 0;
  std::vector<std::vector<Word>> required{}, lookahead{};  // payloads, of up to 10 words
};

/// Its slots, from `start_slot` on: the required ones, then the lookahead. Errors: a payload that is too long, a window
/// of no slot, more slots than indices name.
Result<std::vector<Publication>> window_slots(const RouteWindow& window, Word start_slot, const Layout& layout);

/// The slot that closes a batch: the epoch counts one more, observable 0 becomes `tag`.
Publication batch_fence(Word slot, Word tenant, Word items, Word tag);

/// Publishes all, or none. Errors: the first that publish() refuses, or two of one slot; the ring is as it was then.
Result<void> publish_all(MutableBytes ring, const Layout& layout, Mode mode, const std::vector<Publication>& slots);

/// Publishes the items and the fence behind them, or nothing. `items`: their slots are set to start_slot and on.
/// Errors: as publish_all().
Result<void> publish_batch(MutableBytes ring, const Layout& layout, Mode mode, Word start_slot,
                           std::vector<Publication> items, Word tag);

}  // namespace meshbed::ring
