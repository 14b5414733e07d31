#pragma once
// What the opcodes do (vyre, commit ca35047). Each gives an End; kAgain and kWaitIo are called again.

#include "plugin/ring/kernel/kernel.h"

namespace meshbed::ring {

/// May an argument name this word to be written to? Strict: any, but nothing happens beyond the buffer.
MESHBED_DEVICE inline bool may_write(const Kernel& kernel, std::uint64_t word) {
  return word < kernel.control_words && (kernel.mode == Mode::kStrict || word >= kLayout2026_05.observables);
}

/// An index that leads nowhere.
MESHBED_DEVICE inline End astray(const Kernel& kernel) {
  return kernel.mode == Mode::kStrict ? End::kDone : End::kFault;
}

MESHBED_DEVICE inline std::uint64_t observable(std::uint64_t index) { return kLayout2026_05.observables + index; }

template <typename Words>
MESHBED_DEVICE End copy_words(const Kernel& kernel, std::uint64_t from, std::uint64_t to, std::uint64_t count) {
  const bool fits = from + count <= kernel.control_words && to + count <= kernel.control_words;
  if (!fits && kernel.mode == Mode::kSafe) return End::kFault;
  if (count > 0 && !may_write(kernel, to)) return astray(kernel);
  for (std::uint64_t at = 0; at < count && from + at < kernel.control_words && to + at < kernel.control_words; ++at) {
    Words::exchange(kernel.control + to + at, Words::load(kernel.control + from + at));
  }
  return End::kDone;
}

template <typename Words>
MESHBED_DEVICE End print(const Kernel& kernel, const Operation& op) {
  if (kernel.debug == nullptr) return End::kDone;
  // The cursor goes on where there is no room: how many records were dropped can be seen.
  const Word at = Words::add(kernel.debug + kDebugCursorWord, kDebugRecordWords);
  if (at / kDebugRecordWords >= kernel.debug_records) return End::kDone;
  Word* const record = kernel.debug + kDebugRecordsWord + at;
  for (Word word = 0; word < kArgsRead; ++word) Words::store(record + word, op.args[word]);
  Words::store(record + kArgsRead, op.slot * kSlotWords);
  return End::kDone;
}

/// Takes an IO entry for `resource`; KernelLane::kNone where none is free.
template <typename Words>
MESHBED_DEVICE Word take_io_entry(const Kernel& kernel, Word resource) {
  for (Word index = 0; index < kernel.io_entries; ++index) {
    Word* const entry = kernel.io + index * kIoEntryWords;
    if (kernel.mode == Mode::kStrict) {
      // Another lane may have seen the same.
      if (Words::load(entry + io_word::kStatus) != status::kEmpty) continue;
    } else if (Words::swap(entry + io_word::kStatus, status::kEmpty, status::kClaimed) != status::kEmpty) {
      continue;
    }
    Words::store(entry + io_word::kOp, io_op::kRead);
    Words::store(entry + io_word::kSource, resource);
    Words::store(entry + io_word::kDestination, resource);
    Words::store(entry + io_word::kOffsetLow, 0);
    Words::store(entry + io_word::kOffsetHigh, 0);
    Words::store(entry + io_word::kByteCount, 0);
    Words::store(entry + io_word::kTag, resource);
    Words::release(entry + io_word::kStatus, status::kPublished);
    return index;
  }
  return KernelLane::kNone;
}

template <typename Words>
MESHBED_DEVICE End load_miss(const Kernel& kernel, KernelLane& lane, const Operation& op) {
  const bool strict = kernel.mode == Mode::kStrict;
  if (kernel.io == nullptr) return End::kUnknown;
  if (lane.io_entry == KernelLane::kNone) {
    lane.io_entry = take_io_entry<Words>(kernel, op.args[0]);
    if (lane.io_entry == KernelLane::kNone) return strict ? End::kDone : End::kWaitIo;
  }
  Word* const word = kernel.io + lane.io_entry * kIoEntryWords + io_word::kStatus;
  const Word now = Words::acquire(word);
  if (now == status::kIoOk) {
    Words::release(word, status::kEmpty);
    lane.io_entry = KernelLane::kNone;
    return End::kDone;
  }
  if (strict) {
    if (++lane.polls < kernel.polls_most) return End::kAgain;
    lane.io_entry = KernelLane::kNone;  // it is never freed
    return End::kDone;
  }
  if (now != status::kIoError && now != status::kDone) return End::kWaitIo;
  Words::release(word, status::kEmpty);
  lane.io_entry = KernelLane::kNone;
  return now == status::kDone ? End::kDone : End::kFault;
}

/// Runs all opcodes except packed slots; kUnknown: the opcode is the user's, or undefined.
template <typename Words>
MESHBED_DEVICE End run_builtin(const Kernel& kernel, KernelLane& lane, const Operation& op) {
  Word* const control = kernel.control;
  const Word a0 = op.args[0], a1 = op.args[1], a2 = op.args[2];
  switch (op.opcode) {
    case opcode::kNop:
    case opcode::kDfaStep:
      return End::kDone;
    case opcode::kStoreU32:
      if (!may_write(kernel, a1)) return astray(kernel);
      Words::exchange(control + a1, a0);
      return End::kDone;
    case opcode::kAtomicAdd:
      if (!may_write(kernel, a1)) return astray(kernel);
      Words::add(control + a1, a0);
      return End::kDone;
    case opcode::kLoadU32:
      if (a0 >= kernel.control_words || observable(a1) >= kernel.control_words) return astray(kernel);
      Words::exchange(control + observable(a1), Words::load(control + a0));
      return End::kDone;
    case opcode::kCompareSwap: {
      if (!may_write(kernel, a0) || observable(a0) >= kernel.control_words) return astray(kernel);
      const Word before = Words::swap(control + a0, a1, a2);
      Words::exchange(control + observable(a0), before);
      return End::kDone;
    }
    case opcode::kMemcpy:
      return copy_words<Words>(kernel, a0, a1, a2);
    case opcode::kBatchFence:
      Words::add(control + kLayout2026_05.epoch, 1);
      if (observable(0) < kernel.control_words) Words::exchange(control + observable(0), a1);
      return End::kDone;
    case opcode::kLoadMiss:
      return load_miss<Words>(kernel, lane, op);
    case opcode::kPrintf:
      return print<Words>(kernel, op);
    case opcode::kShutdown:
      Words::exchange(control + control_word::kShutdown, 1);
      return End::kDone;
    default:
      return End::kUnknown;
  }
}

/// One operation, inner or not, counted once it is at its end.
template <typename Words, typename User>
MESHBED_DEVICE End run_operation(const Kernel& kernel, KernelLane& lane, const Operation& op, User& user) {
  End end = run_builtin<Words>(kernel, lane, op);
  if (end == End::kUnknown && opcode::is_user(op.opcode)) end = user(op);
  if (end == End::kUnknown) end = kernel.mode == Mode::kStrict ? End::kDone : End::kFault;
  if (end == End::kDone && op.opcode < kMetricsSlots)
    Words::add(kernel.control + kLayout2026_05.metrics + op.opcode, 1);
  return end;
}

/// `args`: the slot's, from ARG0 on. Goes on at lane.packed_at.
template <typename Words, typename User>
MESHBED_DEVICE End run_packed(const Kernel& kernel, KernelLane& lane, const Operation& outer, User& user) {
  const auto byte_at = [&](Word index) { return outer.args[index / kWordBytes] >> 8U * (index % kWordBytes) & 0xffU; };
  const Word said = byte_at(0);
  const bool strict = kernel.mode == Mode::kStrict;
  const Word count = strict && said > kPackedOpsKernel ? kPackedOpsKernel : said;
  const Word metadata = packed_metadata_words(count);
  // A table that is longer than the slot.
  if (metadata > outer.args_count) return End::kFault;
  for (; lane.packed_at < count; ++lane.packed_at) {
    const Word first = metadata + byte_at(2 + 2 * lane.packed_at + 1);
    if (first + kPackedArgsKernel > outer.args_count) {
      if (strict) continue;
      if (first > outer.args_count) return End::kFault;
    }
    // Fewer than three words may be left in safe mode: what is not there is 0.
    Word args[kPackedArgsKernel] = {};
    for (Word word = 0; word < kPackedArgsKernel && first + word < outer.args_count; ++word) {
      args[word] = outer.args[first + word];
    }
    const Operation inner{.opcode = byte_at(2 + 2 * lane.packed_at),
                          .tenant = outer.tenant,
                          .slot = outer.slot,
                          .args = args,
                          .args_count = kPackedArgsKernel};
    const End end = run_operation<Words>(kernel, lane, inner, user);
    if (end != End::kDone) return end;
    lane.polls = 0;
  }
  return End::kDone;
}

/// The operation of the slot that the lane has claimed.
template <typename Words, typename User>
MESHBED_DEVICE End run_slot(const Kernel& kernel, KernelLane& lane, User& user) {
  const Word* const slot = slot_at(kernel, lane.slot);
  const Operation op{.opcode = slot[slot_word::kOpcode],
                     .tenant = slot[slot_word::kTenant],
                     .slot = lane.slot,
                     .args = slot + kLayout2026_05.arg0_word,
                     .args_count = kLayout2026_05.args_per_slot};
  return op.opcode == opcode::kPackedSlot ? run_packed<Words>(kernel, lane, op, user)
                                          : run_operation<Words>(kernel, lane, op, user);
}

}  // namespace meshbed::ring
