#pragma once
// The words of a megakernel's work ring, as vyre's megakernel runtime lays them out (vyre, commit ca35047):
// slots, control buffer, debug log, IO queue, tasks, and the numbers that stand in them.
//
// Nomenclature
//   word     u32, little-endian; all buffers are words
//   slot     16 words: an operation, its tenant and its status
//   lane     one thread of the kernel; in the plain kernel lane i owns slot i
//   tenant   the owner of the work; a mask in the control buffer permits it to run
//   window   slots of one ticket and opcode, some required and some lookahead
//
// A buffer does not contain the number of its layout: its reader must know it (Abi). Standard library only, and numbers
// only, so that a CUDA source can include it too (functions with --expt-relaxed-constexpr).

#include <cstdint>

namespace meshbed::ring {

using Word = std::uint32_t;
inline constexpr Word kWordBytes = 4;

/// Values of a slot's STATUS word. Any other value is unknown: corruption, or a reader of the wrong layout.
namespace status {
inline constexpr Word kEmpty = 0;      // by the host's reset
inline constexpr Word kPublished = 1;  // by the host
inline constexpr Word kClaimed = 2;    // by the kernel, compare-and-swap
inline constexpr Word kDone = 3;       // by the kernel, after the handler
inline constexpr Word kWaitIo = 4;     // this and the next three: by custom handlers alone
inline constexpr Word kYield = 5;
inline constexpr Word kRequeue = 6;
inline constexpr Word kFault = 7;
inline constexpr Word kCount = 8;
// IO queue entries alone:
inline constexpr Word kIoOk = 0x10;
inline constexpr Word kIoError = 0x11;

constexpr bool is_known(Word value) { return value < kCount; }
/// Work that is under way: it counts in windows and sketches.
constexpr bool is_active(Word value) { return value >= kPublished && value <= kRequeue && value != kDone; }
/// Neither free nor done; true for faulted and unknown slots too.
constexpr bool is_queued(Word value) { return value != kEmpty && value != kDone; }
/// The host publishes into these alone.
constexpr bool is_free(Word value) { return value == kEmpty || value == kDone; }
}  // namespace status

/// 2.4. a0 ... are a slot's arguments; "control" is the control buffer by words, "observable" its results.
namespace opcode {
inline constexpr Word kNop = 0;
inline constexpr Word kStoreU32 = 1;       // control[a1] = a0
inline constexpr Word kAtomicAdd = 2;      // control[a1] += a0
inline constexpr Word kLoadU32 = 3;        // observable[a1] = control[a0]
inline constexpr Word kCompareSwap = 4;    // control[a0]: a1 expected, a2 desired; what it was -> observable[a0]
inline constexpr Word kMemcpy = 5;         // control words a0.. -> a1.., a2 of them
inline constexpr Word kDfaStep = 6;        // no handler: done at once
inline constexpr Word kBatchFence = 7;     // [items, tag]: epoch += 1, observable[0] = tag
inline constexpr Word kLoadMiss = 0xfffd;  // [resource, prefetch]: IO-enabled kernels alone
inline constexpr Word kPrintf = 0xfffe;    // [format, x, y]: a debug record
inline constexpr Word kPackedSlot = 0x8000'0001;
inline constexpr Word kShutdown = 0xffff'ffff;  // control[SHUTDOWN] = 1

inline constexpr Word kSystemLowLast = 7;  // reserved: up to here, this range, and all with the high bit
inline constexpr Word kSystemRangeFirst = 0xfff0, kSystemRangeLast = 0xffff;
inline constexpr Word kSystemBit = 0x8000'0000;
inline constexpr Word kUserFirst = 8;

constexpr bool is_system(Word op) {
  return (op & kSystemBit) != 0 || (op >= kSystemRangeFirst && op <= kSystemRangeLast) || op <= kSystemLowLast;
}
constexpr bool is_user(Word op) { return !is_system(op); }
/// LOAD_MISS is none: it has its own encoder, and publish() refuses it.
constexpr bool is_builtin(Word op) {
  return op <= kBatchFence || op == kPrintf || op == kPackedSlot || op == kShutdown;
}
constexpr bool is_publishable(Word op) { return is_builtin(op) || is_user(op); }
}  // namespace opcode

/// Of a slot's PRIORITY word, and of the partitions of the priority kernel (which never reads that word: 2.11).
namespace priority {
inline constexpr Word kCritical = 0;
inline constexpr Word kHigh = 1;
inline constexpr Word kNormal = 2;
inline constexpr Word kLow = 3;
inline constexpr Word kIdle = 4;
inline constexpr Word kLevels = 5;
}  // namespace priority

/// 2.11.
inline constexpr Word kStarvationThreshold = 16;
/// 2.2: defined, and read by no kernel.
inline constexpr Word kTenantFairnessThreshold = 64;
inline constexpr Word kPriorityFairnessThreshold = 16;

// ---- slots ----------------------------------------------------------------------------------------------------------

inline constexpr Word kSlotWords = 16;
inline constexpr Word kSlotBytes = kSlotWords * kWordBytes;
inline constexpr Word kSlotsMost = 0xffff'ffffU / kSlotWords;  // 268,435,455: what indices on the wire can name
inline constexpr Word kSlotsMostEncoded = 1U << 20;            // what an encoder makes a buffer for
inline constexpr Word kArgsRead = 3;                           // by built-in handlers, and kept in snapshots

namespace slot_word {
inline constexpr Word kStatus = 0;
inline constexpr Word kOpcode = 1;
inline constexpr Word kTenant = 2;
}  // namespace slot_word

// ---- control buffer -------------------------------------------------------------------------------------------------

namespace control_word {
inline constexpr Word kShutdown = 0;
inline constexpr Word kDoneCount = 1;
inline constexpr Word kTenantBase = 2;  // holds the word index of the masks
inline constexpr Word kTenantMasks = 3;
}  // namespace control_word

inline constexpr Word kTenantMasksMost = 29;  // words 3-31; what stands behind them is no mask
inline constexpr Word kTenantMaskAll = 0xffff'ffff;
inline constexpr Word kTenantQuotasMost = 32;
inline constexpr Word kTenantQuota = 1'000'000;
inline constexpr Word kTenantFairnessSlots = 32;
inline constexpr Word kMetricsSlots = 32;
inline constexpr Word kPriorityOffsets = priority::kLevels + 1;  // the last: the count of slots
inline constexpr Word kObservablesMostEncoded = 1U << 20;

enum class Abi : Word { k2026_04, k2026_05 };

/// Where things stand. A word index of kNone: this layout has none of it.
struct Layout {
  static constexpr Word kNone = 0xffff'ffff;

  Abi abi;
  const char* name;        // "2026-05", as --abi has it
  Word priority_word;      // in a slot
  Word arg0_word;          // in a slot
  Word args_per_slot;      // words
  Word control_min_words;  // fewer cannot be read
  Word tenant_quotas;      // in the control buffer, as all that follow: word indices
  Word tenant_fairness;
  Word metrics;
  Word epoch;
  Word priority_offsets;
  Word starvation_counter;
  Word priority_fairness;
  Word observables;
};

/// Stable in every commit of the public repository since 2026-05-26.
inline constexpr Layout kLayout2026_05{.abi = Abi::k2026_05,
                                       .name = "2026-05",
                                       .priority_word = 3,
                                       .arg0_word = 4,
                                       .args_per_slot = 12,
                                       .control_min_words = 160,
                                       .tenant_quotas = 32,
                                       .tenant_fairness = 64,
                                       .metrics = 96,
                                       .epoch = 128,
                                       .priority_offsets = 129,
                                       .starvation_counter = 135,
                                       .priority_fairness = 136,
                                       .observables = 160};

/// From a package snapshot of April 2026. Its smallest size is not documented: its epoch needs 97 words. Its
/// observables are before its metrics, so that there are 32 of them.
inline constexpr Layout kLayout2026_04{.abi = Abi::k2026_04,
                                       .name = "2026-04",
                                       .priority_word = Layout::kNone,
                                       .arg0_word = 3,
                                       .args_per_slot = 13,
                                       .control_min_words = 97,
                                       .tenant_quotas = Layout::kNone,
                                       .tenant_fairness = Layout::kNone,
                                       .metrics = 64,
                                       .epoch = 96,
                                       .priority_offsets = Layout::kNone,
                                       .starvation_counter = Layout::kNone,
                                       .priority_fairness = Layout::kNone,
                                       .observables = 32};

inline constexpr Word kArgsMost = 13;  // of both layouts

constexpr const Layout& layout_of(Abi abi) { return abi == Abi::k2026_04 ? kLayout2026_04 : kLayout2026_05; }

/// As written (strict: each quirk of the ancestor's, see quirks.h), or as it should have been.
enum class Mode { kStrict, kSafe };

// ---- packed slots ---------------------------------------------------------------------------------------------------

inline constexpr Word kPackedOpsKernel = 4;   // the kernel clamps the count to this
inline constexpr Word kPackedArgsKernel = 3;  // and skips an operation whose arguments would not all be in the slot

/// Words of count, length and table in front of the arguments.
constexpr Word packed_metadata_words(Word ops) { return (2 + 2 * ops + kWordBytes - 1) / kWordBytes; }

// ---- debug log ------------------------------------------------------------------------------------------------------

inline constexpr Word kDebugCursorWord = 0;  // words written, not records
inline constexpr Word kDebugRecordsWord = 1;
inline constexpr Word kDebugRecordWords = 4;  // format, arg1, arg2, word index of the slot
inline constexpr Word kDebugRecords = 64;     // of the kernel's own log: 257 words

constexpr std::uint64_t debug_log_bytes(std::uint64_t records) {
  return kWordBytes * (kDebugRecordsWord + kDebugRecordWords * records);
}

// ---- IO queue -------------------------------------------------------------------------------------------------------

inline constexpr Word kIoEntries = 64;
inline constexpr Word kIoEntryWords = 8;
inline constexpr Word kIoQueueBytes = kIoEntries * kIoEntryWords * kWordBytes;

namespace io_word {
inline constexpr Word kOp = 0;
inline constexpr Word kSource = 1;
inline constexpr Word kDestination = 2;
inline constexpr Word kOffsetLow = 3;
inline constexpr Word kOffsetHigh = 4;
inline constexpr Word kByteCount = 5;
inline constexpr Word kStatus = 6;
inline constexpr Word kTag = 7;
}  // namespace io_word

namespace io_op {
inline constexpr Word kRead = 1;
inline constexpr Word kWrite = 2;
inline constexpr Word kFence = 3;
}  // namespace io_op

/// Where the kernel has its buffers.
namespace binding {
inline constexpr Word kControl = 0;
inline constexpr Word kRing = 1;
inline constexpr Word kDebug = 2;
inline constexpr Word kIo = 3;
}  // namespace binding

// ---- windows and tasks ----------------------------------------------------------------------------------------------

inline constexpr Word kWindowPayloadMost = 10;  // words, after ticket and class
inline constexpr Word kWindowRequired = 0;
inline constexpr Word kWindowLookahead = 1;
inline constexpr Word kHotWindowSlots = 4;  // from here on a window counts as hot

inline constexpr Word kTaskWords = 16;

namespace task_state {  // no slot's statuses
inline constexpr Word kEmpty = 0;
inline constexpr Word kReady = 1;
inline constexpr Word kRunning = 2;
inline constexpr Word kDone = 3;
inline constexpr Word kPaused = 4;
inline constexpr Word kYielded = 5;
inline constexpr Word kRequeued = 6;
inline constexpr Word kFaulted = 7;
inline constexpr Word kCount = 8;

constexpr bool is_schedulable(Word state) { return state == kReady || state == kYielded || state == kRequeued; }
}  // namespace task_state

namespace task_flag {
inline constexpr Word kPaused = 1;
inline constexpr Word kYielded = 2;
inline constexpr Word kRequeue = 4;
inline constexpr Word kResumeReady = 8;
}  // namespace task_flag

}  // namespace meshbed::ring
