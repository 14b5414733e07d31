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
  item.what.args[arg::kAlsoAfter] = ring::kNoId;
  item.what.args[arg::kEpoch] = kFirstEpoch;
  return item;
}

RingItem put_item(Word slot, Word message, Word after = ring::kNoId) {
  RingItem item = mesh_item(slot, ring::opcode::kPut, after);
  item.what.args[arg::kMessage] = message;
  return item;
}

/// Of SIGNAL, how many puts may go; of WAIT, how many must have come.
RingItem count_item(Word opcode, Word slot, Word message, Word after = ring::kNoId) {
  RingItem item = mesh_item(slot, opcode, after);
  item.what.args[arg::kCount] = message + 1;
  item.what.args[arg::kMessage] = message;
  return item;
}

RingItem reduce_item(Word slot, Word message, Word after) {
  RingItem item = mesh_item(slot, ring::opcode::kReduce, after);
  item.what.args[arg::kMessage] = message;
  item.reads = {{0, message}};
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

/// The receiver's REDUCE does not need its WAIT.
std::vector<std::vector<RingItem>> missing_need_items() {
  return {{put_item(0, 0), count_item(ring::opcode::kSignal, 1, 0, 0)},
          {count_item(ring::opcode::kWait, 0, 0), reduce_item(1, 0, ring::kNoId)}};
}

/// The receiver waits for two messages, and one is sent.
std::vector<std::vector<RingItem>> missing_put_items() {
  return {{put_item(0, 0), count_item(ring::opcode::kSignal, 1, 0, 0)},
          {count_item(ring::opcode::kWait, 0, 0), count_item(ring::opcode::kWait, 1, 1)}};
}

/// Each needs the other.
std::vector<std::vector<RingItem>> circle_items() {
  return {{mesh_item(0, ring::opcode::kCopy, 1), mesh_item(1, ring::opcode::kCopy, 0)}};
}

/// Three slots through a ring of two: the first two need the third, which has no place.
std::vector<std::vector<RingItem>> small_ring_items() {
  RingItem last = mesh_item(2, ring::opcode::kCopy, ring::kNoId);
  last.slot = 0;
  return {{mesh_item(0, ring::opcode::kCopy, 2), mesh_item(1, ring::opcode::kCopy, 2), last}};
}

/// The same operation is published twice: what needs it may run after the first one.
std::vector<std::vector<RingItem>> twice_items() {
  RingItem again = put_item(2, 0);
  again.what.args[arg::kId] = 0;
  return {{put_item(0, 0), count_item(ring::opcode::kSignal, 1, 0, 0), again}, {count_item(ring::opcode::kWait, 0, 0)}};
}

/// The WAIT's count is of the message before.
std::vector<std::vector<RingItem>> wrong_count_items() {
  std::vector<std::vector<RingItem>> items = two_messages_items();
  items[1][2].what.args[arg::kCount] = 1;
  return items;
}

/// The slots name the next epoch, whose needs are those of this one.
std::vector<std::vector<RingItem>> wrong_epoch_items() {
  std::vector<RingItem> one{mesh_item(0, ring::opcode::kCopy, ring::kNoId), mesh_item(1, ring::opcode::kCopy, 0)};
  one[1].what.args[arg::kEpoch] = kFirstEpoch + 1;
  return {one};
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
      {.name = "ring-missing-need",
       .about = "a slot reads a message and needs no WAIT for it",
       .finds = "before its data has landed",
       .slots = 2,
       .lanes = 2,
       .by_turns = true,
       .ranks = missing_need_items()},
      {.name = "ring-missing-put",
       .about = "a WAIT for a message that no slot sends",
       .finds = "which has published no SIGNAL of it",
       .slots = 2,
       .lanes = 2,
       .by_turns = true,
       .ranks = missing_put_items()},
      {.name = "ring-circle",
       .about = "two slots that need each other",
       .finds = "a cycle",
       .slots = 2,
       .lanes = 2,
       .by_turns = true,
       .ranks = circle_items()},
      {.name = "ring-too-small",
       .about = "a ring of two slots that both need a third one, for which there is no place",
       .finds = "which is not published",
       .slots = 2,
       .lanes = 2,
       .by_turns = true,
       .ranks = small_ring_items()},
      {.name = "ring-twice",
       .about = "a PUT that is published twice under one id: a message too many",
       .finds = "1 message that was put and never signalled",
       .slots = 3,
       .lanes = 2,
       .by_turns = true,
       .ranks = twice_items()},
      {.name = "ring-wrong-count",
       .about = "a WAIT whose count is that of the message before",
       .finds = "before its data has landed",
       .slots = 4,
       .lanes = 2,
       .by_turns = true,
       .ranks = wrong_count_items()},
      {.name = "ring-wrong-epoch",
       .about = "a slot that needs another one in an epoch that does not come",
       .finds = "waits for slot 0",
       .slots = 2,
       .lanes = 2,
       .by_turns = true,
       .ranks = wrong_epoch_items()},
      {.name = "ring-masked",
       .about = "a tenant is masked and stays so: its slots are never claimed",
       .finds = "tenant-masked",
       .slots = 2,
       .lanes = 2,
       .masks = 1,
       .by_turns = true,
       .ranks = {{nop_item(0, 0), nop_item(1, 1)}}},
  };
  return programs;
}

}  // namespace meshbed::testbed
