// The host of a queue: items that it generates, or that a recording contains, published as they arrive.
#include <algorithm>

#include "plugin/ring/abi/packed.h"
#include "plugin/ring/telemetry/recorded_work.h"
#include "testbed/scenario/megakernel/names.h"
#include "testbed/workload/megakernel/host.h"

namespace meshbed::testbed {

using ring::Word;

namespace {

/// Where an item's ADDs go.
Word observable_of(int number) { return kRingLayout.observables + 1 + static_cast<Word>(number) % RingHost::kAddWords; }

/// What a status says of a task's first end; nothing: DONE.
std::optional<ring::End> end_of(Word status) {
  switch (status) {
    case ring::status::kYield:
      return ring::End::kYield;
    case ring::status::kRequeue:
      return ring::End::kRequeue;
    case ring::status::kFault:
      return ring::End::kFault;
    default:
      return std::nullopt;
  }
}

/// As many operations as the kernel runs of it: its ADDs, and a NOP for each other one.
template <typename Item>
void pack_as_recorded(const ring::Slot& was, const ring::Layout& layout, Word observable, Item& item) {
  std::vector<ring::PackedOp> ops;
  if (const auto packed = ring::decode_packed(was, layout)) {
    for (const ring::PackedSlot::Op& op : packed->ops) {
      if (ops.size() == ring::kPackedOpsKernel) break;
      const bool adds = op.opcode == ring::opcode::kAtomicAdd;
      item.adds += adds ? 1 : 0;
      ops.push_back(adds ? ring::PackedOp{ring::opcode::kAtomicAdd, {1, observable}}
                         : ring::PackedOp{ring::opcode::kNop, {0, 0}});
    }
  }
  const auto words = ring::encode_packed(kRingLayout, ring::Mode::kSafe, ops);
  if (!words) {  // a table that does not fit its slot
    item.opcode = ring::opcode::kNop;
    item.adds = 0;
    return;
  }
  std::copy(words->begin(), words->end(), item.args);
}

}  // namespace

std::optional<Word> RingHost::free_slot(Ring& ring, const Item& item) const {
  Word begin = 0, end = ring.buffers.kernel.slots;
  if (settings_.by_priority) {
    begin = ring.buffers.control[kRingLayout.priority_offsets + item.level];
    end = ring.buffers.control[kRingLayout.priority_offsets + item.level + 1];
  }
  take_free(ring);
  if (begin == end) return std::nullopt;
  if (item.slot && *item.slot >= begin && *item.slot < end && ring.free.count(*item.slot) > 0) return item.slot;
  auto slot = ring.free.lower_bound(begin + ring.next[item.level] % (end - begin));
  if (slot == ring.free.end() || *slot >= end) slot = ring.free.lower_bound(begin);
  if (slot == ring.free.end() || *slot >= end) return std::nullopt;
  ring.next[item.level] = *slot - begin + 1;
  return *slot;
}

void RingHost::take_free(Ring& ring) {
  for (const Word slot : ring.kernel.take_done()) ring.free.insert(slot);
}

bool RingHost::is_queued(Ring& ring) {
  take_free(ring);
  return ring.free.size() < ring.buffers.kernel.slots;
}

Picoseconds RingHost::gap(Prng& prng) const {
  if (settings_.arrivals == "constant") return settings_.arrival_gap_ps;
  if (settings_.arrivals != "poisson") return 0;
  // A whole multiple of 1/1024 of the gap, so that no library's logarithm decides a digest: the geometric law, which is
  // the exponential one in steps.
  constexpr std::uint64_t kSteps = 1024;
  std::uint64_t steps = 0;
  while (prng.below(kSteps) != 0) ++steps;
  return static_cast<Picoseconds>(static_cast<std::uint64_t>(settings_.arrival_gap_ps) * steps / kSteps);
}

Picoseconds RingHost::due(Prng& prng, int number, Picoseconds start_ps, Picoseconds before_ps) const {
  if (!settings_.recorded) return before_ps + gap(prng);
  const std::uint64_t at_ns = settings_.recorded->items[static_cast<std::size_t>(number)].at_ns;
  return start_ps + static_cast<Picoseconds>(at_ns) * kPicosecondsPerNanosecond;
}

void RingHost::become_task(Item& item, ring::End end, Word times) const {
  item.opcode = kTaskOpcode;
  item.args[0] = static_cast<Word>(end);
  item.args[1] = static_cast<Word>(settings_.compute_ps / kPicosecondsPerNanosecond);
  item.args[2] = times;
}

RingHost::Item RingHost::draw(Prng& prng, int number) const {
  Item item{.tenant = static_cast<Word>(prng.below(static_cast<std::uint64_t>(settings_.tenants)))};
  item.level = settings_.by_priority ? draw_weighted(prng, settings_.priorities, ring::priority::kNormal)
                                     : ring::priority::kNormal;
  const RingMix kind = number == settings_.faulty_item ? RingMix::kFault : draw_mix(prng, settings_.mix);
  const Word observable = observable_of(number);
  switch (kind) {
    case RingMix::kNop:
      item.opcode = ring::opcode::kNop;
      break;
    case RingMix::kAdd:
      item.opcode = ring::opcode::kAtomicAdd;
      item.args[0] = 1;
      item.args[1] = observable;
      item.adds = 1;
      break;
    case RingMix::kPacked:
      // Two ADDs: the table of spec 2.4's golden slot, with this opcode in both places.
      item.opcode = ring::opcode::kPackedSlot;
      item.args[0] = 0x0002'0402;
      item.args[1] = 0x0000'0202;
      item.args[2] = item.args[4] = 1;
      item.args[3] = item.args[5] = observable;
      item.adds = 2;
      break;
    case RingMix::kPrintf:
      item.opcode = ring::opcode::kPrintf;
      item.args[0] = static_cast<Word>(number);
      break;
    case RingMix::kLoadMiss:
      item.opcode = ring::opcode::kLoadMiss;
      item.args[0] = static_cast<Word>(number);
      break;
    case RingMix::kCompute:
      become_task(item, ring::End::kDone, 0);
      break;
    case RingMix::kYield:
      become_task(item, ring::End::kYield, 1);
      break;
    case RingMix::kRequeue:
      become_task(item, ring::End::kRequeue, 1);
      break;
    case RingMix::kFault:
      become_task(item, ring::End::kFault, 1);
      break;
  }
  return item;
}

RingHost::Item RingHost::recorded(int number) const {
  const ring::RecordedWork& work = *settings_.recorded;
  const ring::RecordedItem& was = work.items[static_cast<std::size_t>(number)];
  const auto& args = was.words.args;
  Item item{.opcode = was.words.opcode, .tenant = was.words.tenant, .slot = was.slot};
  if (settings_.by_priority) item.level = was.level;
  if (const std::optional<ring::End> end = end_of(was.end)) {
    become_task(item, *end, 1);
    return item;
  }
  switch (item.opcode) {
    case ring::opcode::kAtomicAdd:
      item.args[0] = item.adds = 1;
      item.args[1] = observable_of(number);
      break;
    case ring::opcode::kPackedSlot:
      pack_as_recorded(was.words, ring::layout_of(work.abi), observable_of(number), item);
      break;
    case ring::opcode::kPrintf:
    case ring::opcode::kLoadMiss:
    case ring::opcode::kBatchFence:
      std::copy_n(args.begin(), ring::kArgsRead, item.args);
      break;
    case ring::opcode::kStoreU32:
    case ring::opcode::kLoadU32:
    case ring::opcode::kCompareSwap:
    case ring::opcode::kMemcpy:
    case ring::opcode::kShutdown:
      item.opcode = ring::opcode::kNop;  // words of another control buffer; the end is this run's
      break;
    default:
      if (ring::opcode::is_user(item.opcode)) become_task(item, ring::End::kDone, 0);
  }
  return item;
}

void RingHost::run_queue(std::uint64_t seed) {
  Prng prng(mix64(seed) ^ mix64(static_cast<std::uint64_t>(host_.rank()) + 1));
  for (Ring& ring : rings_) {
    for (Word slot = 0; slot < ring.buffers.kernel.slots; ++slot) ring.free.insert(ring.free.end(), slot);
  }
  const Picoseconds start_ps = host_.now_ps();
  Picoseconds due_ps = start_ps;
  for (int number = 0; number < settings_.items; ++number) {
    Item item = settings_.recorded ? recorded(number) : draw(prng, number);
    item.arrived_ps = due_ps = due(prng, number, start_ps, due_ps);
    while (host_.now_ps() < due_ps) {
      if (!wait(due_ps)) return;
    }
    Ring& ring = rings_[static_cast<std::size_t>(number) % rings_.size()];
    std::optional<Word> slot = free_slot(ring, item);
    for (; !slot; slot = free_slot(ring, item)) {
      if (!wait(-1)) return;
    }
    ring.counted.adds += item.adds;
    ring.free.erase(*slot);
    publish(ring, *slot, item);
    mask_on_time();
    serve_io();
  }
  while (std::any_of(rings_.begin(), rings_.end(), is_queued)) {
    if (!wait(-1)) return;
  }
}

}  // namespace meshbed::testbed
