#include "testbed/verify/ring_program.h"

namespace meshbed::testbed {
namespace {

using ring::Mode;
using ring::Word;
namespace arg = ring::mesh_arg;

constexpr Word kFirstEpoch = 1;

/// Each operation's id is its slot.
RingItem mesh_item(Word slot, Word opcode, Word after) {
  RingItem item{.slot = slot, .tenant = 0, .what = {.opcode = opcode, .args = {}}};
  item.what.args[arg::kId] = slot;
  item.what.args[arg::kAfter] = after;
  item.what.args[arg::kAlsoAfter] = ring::kNobody;
  item.what.args[arg::kEpoch] = kFirstEpoch;
  return item;
}

RingItem put_item(Word slot, Word message, Word after = ring::kNobody) {
  RingItem item = mesh_item(slot, ring::opcode::kPut, after);
  item.what.args[arg::kSpaces] = kOwnSpace << 8U;
  item.what.args[arg::kMessage] = message;
  return item;
}

/// Of SIGNAL, how many puts may go; of WAIT, how many must have come.
RingItem count_item(Word opcode, Word slot, Word message, Word after = ring::kNobody) {
  RingItem item = mesh_item(slot, opcode, after);
  item.what.args[arg::kCount] = message + 1;
  item.what.args[arg::kMessage] = message;
  return item;
}

RingItem reduce_item(Word slot, Word message, Word after) {
  RingItem item = mesh_item(slot, ring::opcode::kReduce, after);
  item.what.args[arg::kSpaces] = kLandingSpace << 8U;
  item.what.args[arg::kFirst] = message;
  item.what.args[arg::kMessage] = message;
  return item;
}

RingItem nop_item(Word slot, Word tenant) {
  return {.slot = slot, .tenant = tenant, .what = {.opcode = ring::opcode::kNop, .args = {}}};
}

std::vector<std::vector<RingItem>> exchange_items() {
  const std::vector<RingItem> one{put_item(0, 0), count_item(ring::opcode::kSignal, 1, 0, 0),
                                  count_item(ring::opcode::kWait, 2, 0), reduce_item(3, 0, 2)};
  return {one, one};
}

/// Three slots of each rank, a block each: none ends before the other two may run.
std::vector<std::vector<RingItem>> blocks_items() {
  const std::vector<RingItem> one{put_item(0, 0), count_item(ring::opcode::kSignal, 1, 0, 0),
                                  count_item(ring::opcode::kWait, 2, 0)};
  return {one, one};
}

std::vector<std::vector<RingItem>> waits_first_items() {
  const std::vector<RingItem> one{count_item(ring::opcode::kWait, 0, 0), put_item(1, 0),
                                  count_item(ring::opcode::kSignal, 2, 0, 1)};
  return {one, one};
}

std::vector<std::vector<RingItem>> two_messages_items() {
  return {{put_item(0, 0), count_item(ring::opcode::kSignal, 1, 0, 0), put_item(2, 1, 0),
           count_item(ring::opcode::kSignal, 3, 1, 2)},
          {count_item(ring::opcode::kWait, 0, 0), reduce_item(1, 0, 0), count_item(ring::opcode::kWait, 2, 1),
           reduce_item(3, 1, 2)}};
}

/// More CRITICAL items than the ancestor's priority kernel claims before it passes them over.
std::vector<std::vector<RingItem>> critical_items() {
  std::vector<RingItem> items;
  for (Word item = 0; item <= ring::kStarvationThreshold; ++item) items.push_back(nop_item(0, 0));
  return {items};
}

/// Of two tenants; the first slot is published twice.
std::vector<std::vector<RingItem>> tenants_items() { return {{nop_item(0, 0), nop_item(1, 1), nop_item(0, 1)}}; }

}  // namespace

const std::vector<RingExploreProgram>& ring_explore_programs() {
  static const std::vector<RingExploreProgram> programs{
      {.name = "ring-exchange",
       .about = "two ranks send each other a message and add up, two lanes each",
       .finds = "",
       .slots = 4,
       .lanes = 2,
       .ranks = exchange_items()},
      {.name = "ring-tenants",
       .about = "three publishes of two tenants, three lanes that look at the same slots, a mask that comes and goes",
       .finds = "",
       .by_priority = true,
       .slots = 4,
       .lanes = 3,
       .masks = 2,
       .ranks = tenants_items()},
      {.name = "ring-abandoned",
       .about = "the same by the ancestor's rules: masked between claim and re-check, a slot is claimed for ever",
       .finds = "abandoned-claim",
       .mode = Mode::kStrict,
       .by_priority = true,
       .slots = 4,
       .lanes = 3,
       .masks = 2,
       .ranks = tenants_items()},
      {.name = "ring-torn",
       .about = "by the ancestor's rules, where a slot's STATUS may be seen before its other words",
       .finds = "before its words were written",
       .mode = Mode::kStrict,
       .slots = 2,
       .lanes = 2,
       .weak = true,
       .ranks = {{nop_item(0, 0), nop_item(1, 0)}}},
      {.name = "ring-critical",
       .about = "nothing but CRITICAL work, more than sixteen claims of it, safe mode",
       .finds = "",
       .by_priority = true,
       .slots = 15,
       .lanes = 2,
       .ranks = critical_items()},
      {.name = "ring-livelock",
       .about = "the same by the ancestor's rules: after sixteen claims CRITICAL is passed over",
       .finds = "livelock",
       .mode = Mode::kStrict,
       .by_priority = true,
       .slots = 15,
       .lanes = 2,
       .ranks = critical_items()},
      {.name = "ring-resident",
       .about = "two ranks, three blocks each that wait for each other, a place for each",
       .finds = "",
       .mode = Mode::kStrict,
       .slots = 3,
       .lanes = 3,
       .places = 3,
       .by_turns = true,
       .ranks = blocks_items()},
      {.name = "ring-oversubscribed",
       .about = "the same with two places a rank: blocks that wait keep out the one that they wait for",
       .finds = "has no place on the GPU",
       .mode = Mode::kStrict,
       .slots = 3,
       .lanes = 3,
       .places = 2,
       .by_turns = true,
       .ranks = blocks_items()},
      {.name = "ring-waits-first",
       .about = "two ranks, one lane each, which takes its WAIT before its PUT: each waits for the other",
       .finds = "a cycle",
       .slots = 3,
       .lanes = 1,
       .by_turns = true,
       .ranks = waits_first_items()},
      {.name = "ring-ordered",
       .about = "two messages one way over one queue pair: data, then flag",
       .finds = "",
       .slots = 4,
       .lanes = 2,
       .by_turns = true,
       .ranks = two_messages_items()},
      {.name = "ring-unordered",
       .about = "the same over a transport that promises no order: a flag may be seen before its data",
       .finds = "before its data has landed",
       .slots = 4,
       .lanes = 2,
       .ordering = RingOrdering::kUnordered,
       .by_turns = true,
       .ranks = two_messages_items()},
      {.name = "ring-counted",
       .about = "the same, and flags count what has landed",
       .finds = "",
       .slots = 4,
       .lanes = 2,
       .ordering = RingOrdering::kCounted,
       .by_turns = true,
       .ranks = two_messages_items()},
  };
  return programs;
}

}  // namespace meshbed::testbed
