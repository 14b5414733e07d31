#pragma once
// Slots: an operation's plan as a stream of megakernel slots (plugin/ring/kernel/mesh_ops.h), in an order in which each
// slot needs only earlier ones, so that one lane can run the stream, and any number of lanes that claim in order.
//
// Nomenclature
//   slice     one message, as in plan.h: the same slices, the same reductions, in the same order: the engine's bits
//   landing   where a slice arrives: in the output, or in the staging space where something is still to be done with it
//   edge      a connection's other end; sends and receives are numbered each for themselves, as they are first used
//
// For each slice sent:      PUT (after what made its bytes, and after the connection's PUT before), SIGNAL
// For each slice received:  WAIT, then REDUCE where it is to be added to; what is sent on goes as above
// Every slice that is reduced has its own place in the staging space: nothing is used twice in an epoch, so that no
// slot waits for room. Cost: 2 slots a slice sent, 1 or 2 a slice received; staging of S (n-1)/n bytes in an
// all_reduce.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/ring/kernel/mesh_ops.h"

namespace meshbed::coll {

/// The memories of a rank's program.
enum class Space : std::uint8_t { kInput, kOutput, kStaging, kWork, kMade };
inline constexpr int kSpaces = 5;

/// Bytes from an offset in a space on.
struct Area {
  Space space = Space::kInput;
  std::uint64_t offset_bytes = 0;
};

struct Landing {
  Area area;
  std::uint64_t size_bytes = 0;
};

struct SlotProgram {
  struct Receiving {
    int peer = -1, channel = 0;
    std::vector<Landing> landings;  // by message
  };
  struct Sending {
    int peer = -1, channel = 0;
    std::uint64_t messages = 0;
  };
  std::vector<Sending> sends;         // connection c of PUT, SIGNAL and FENCE
  std::vector<Receiving> receives;    // connection c of WAIT
  std::vector<ring::MeshSlot> slots;  // slot i has id i
  std::uint64_t staging_bytes = 0;

  ring::MeshBoard board() const {
    const std::size_t connections = sends.size() > receives.size() ? sends.size() : receives.size();
    return {.connections = static_cast<ring::Word>(connections), .ids = static_cast<ring::Word>(slots.size())};
  }
};

/// Where a plan's own buffers lie, and what must be done before its input may be read.
struct PlanPlace {
  Area input{.space = Space::kInput}, output{.space = Space::kOutput};
  ring::Word input_after = ring::kNoId;
  int channel = 0;  // plans that are to overlap have connections of their own
};

struct PlannedSlots {
  Plan plan;
  PlanPlace place{};
  std::vector<ring::Word> made{};  // the ids of the slots after which its output is there
};

/// Puts programs together, one operation after the other.
class SlotBuilder {
 public:
  /// Plans that go on at once: what they send of their own stands before what any of them waits for, so that no rank
  /// waits in one for what another rank sends in its next. kUnsupported: in place over one buffer (plan.h's
  /// kStoreBehindSend).
  Result<void> add_plans(std::vector<PlannedSlots>& plans);
  Result<void> add_plan(const Plan& plan, const PlanPlace& place);
  /// result = arrived + own, elements of `element_bytes`, as of two ranks.
  ring::Word add_sum(Area arrived, Area own, Area result, std::uint64_t count, ring::Word after);
  /// One of reduce.h's forms; `arrived` is combined with `own`, in this order.
  ring::Word add_reduce(Form form, Area arrived, Area own, Area result, std::uint64_t count, ring::Word after,
                        ring::Word also_after);
  /// The last reduction is one of a chain that a kernel does in one pass: its partial results take no time in memory.
  void keep_partial_on_chip();
  /// Nothing but an end: done when both are.
  ring::Word add_join(ring::Word after, ring::Word also_after);
  ring::Word add_copy(Area from, Area to, std::uint64_t size_bytes, ring::Word after,
                      ring::Word also_after = ring::kNoId);
  ring::Word add_compute(std::uint64_t duration_ns, ring::Word after, ring::Word also_after = ring::kNoId);
  /// Slots so far: the id that the next one gets.
  std::size_t size() const { return program_.slots.size(); }
  /// Room in the staging space that nothing else gets.
  Area staged(std::uint64_t size_bytes);
  /// One message of its own to `peer`, and one from it; the first gives its SIGNAL's id, the second its WAIT's.
  ring::Word add_put(int peer, int channel, Area from, std::uint64_t size_bytes, ring::Word after);
  ring::Word add_wait(int peer, int channel, Landing landing);
  /// All messages that will come from `peer` there, in their order; then any of them can be waited for, by any number
  /// of slots.
  void expect_messages(int peer, int channel, const std::vector<Landing>& landings);
  ring::Word add_wait_for(int peer, int channel, std::size_t message, ring::Word after, ring::Word also_after);

  /// kInvalidArgument: something lies at 4 GiB or beyond, or there are more slots than a ring can name.
  Result<SlotProgram> take();

 private:
  ring::Word add(ring::MeshSlot slot, ring::Word after, ring::Word also_after);
  /// Checks what it narrows; a failure is kept for take().
  ring::Word word_of(std::uint64_t value);
  ring::Word spaces_of(Form form, Space first, Space second, Space third) const;
  ring::Word send_connection(int peer, int channel);
  ring::Word receive_connection(int peer, int channel);

  template <typename StepKind>
  class Slices;
  struct Weave;
  struct Received {
    ring::Word id = ring::kNoId;  // after which it may be sent on
    Area area;                    // of a partial result
  };
  void send_slice(const Plan& plan, const PlanPlace& place, const SendStep& slice, const Received* forwarded);
  void begin(Weave& weave, std::vector<ring::Word>& made);
  Result<void> finish(Weave& weave, std::vector<ring::Word>& made);
  Received receive_slice(const Plan& plan, const PlanPlace& place, const RecvStep& slice);

  SlotProgram program_;
  std::vector<ring::Word> last_put_;  // by connection
  bool too_large_ = false;
};

/// The whole of one operation: its plan, or its pairs' (sub_plans_of), out of place.
Result<SlotProgram> slots_of(const PlanRequest& request);

}  // namespace meshbed::coll
