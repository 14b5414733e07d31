#pragma once
// A megakernel as a machine of lanes, each of which is stepped: the state of a launch, and the result of a lane's step.
// scan.h looks for work, handlers.h does it, step.h is the machine. (vyre, commit ca35047, 2.11; layout 2026-05, the
// only one with kernels.)
//
// The caller decides when which lane steps: a simulator gives each step a time, a test walks all interleavings, a
// thread or a GPU lane steps without end. Between two steps of a lane anything may happen: every place where the
// ancestor's kernel can be overtaken is a border between steps. No step waits: it returns that there was nothing to do.
//
//   kScan ---- candidate ---> kCandidate --- claimed ---> kRecheck ---> kRun ---> kFinish ---> kScan
//                                 \--- lost to another lane, or masked meanwhile: kScan
//
// In strict mode each quirk of the ancestor's shows; in safe mode it does not:
//   livelock          16 claims of CRITICAL and HIGH: both are passed over until lower work has come, even where there
//                     is none. Safe: lower levels go first then, and nothing is passed over.
//   abandoned claim   a tenant that is masked between claim and re-check leaves its slot CLAIMED for ever. Safe: the
//                     slot is put back (REQUEUE).
//   unchecked index   an argument may overwrite masks and SHUTDOWN; one beyond the buffer does nothing (as robust
//                     buffers on a GPU do). Safe: FAULT, and only observables are written to.
//   no such tenant    tenants beyond the masks take the quota words behind them for theirs. Safe: FAULT.
//   lost miss         LOAD_MISS without a free IO entry is done at once, two lanes may take one entry, an ERROR or a
//                     DONE is waited for until 2^32 polls have passed (here: Kernel::polls_most), and its entry is
//                     never free again. Safe: entries are claimed, the slot is WAIT_IO meanwhile, ERROR is FAULT.
//   silent opcode     what has no handler is done at once. Safe: FAULT (but for DFA_STEP, which has none by design).
//   packed            more than four operations are cut off, six and more take the wrong words. Safe: as the host
//                     wrote them.
//   quotas            written by the host and never read. Safe: Kernel::enforces_quotas.
//   owned slots       the plain kernel's lane i looks at slot i alone, and never again at a slot that yielded. Safe: at
//                     every slot i + k lanes, those too.

#include <cstdint>

#include "plugin/ring/kernel/access.h"

namespace meshbed::ring {

/// What one launch works on. Buffers are the caller's; whole words.
struct Kernel {
  Word* control = nullptr;
  Word control_words = 0;  // kLayout2026_05.control_min_words at least
  Word* ring = nullptr;
  Word slots = 0;
  Word* debug = nullptr;  // nullptr: PRINTF leaves nothing
  Word debug_records = kDebugRecords;
  Word* io = nullptr;  // nullptr: a kernel without IO, which does not know LOAD_MISS
  Word io_entries = kIoEntries;
  Word lanes = 1;
  Word polls_most = 1U << 20;  // strict LOAD_MISS; the ancestor's 2^32 outlast any simulation
  Mode mode = Mode::kSafe;
  bool by_priority = false;  // the priority kernel (2.11), not the plain one
  bool enforces_quotas = false;
};

enum class LanePhase : Word { kScan, kCandidate, kRecheck, kRun, kFinish, kStopped };

/// One lane's own state; starts as it is declared.
struct KernelLane {
  static constexpr Word kNone = 0xffff'ffff;

  Word index = 0;
  LanePhase phase = LanePhase::kScan;
  Word slot = 0;               // from kCandidate on
  Word seen = status::kEmpty;  // what the slot's status was when it became the candidate
  Word level = 0;              // its partition; of the priority kernel
  Word ends_as = 0;            // kFinish: the status to store
  Word packed_at = 0;          // the inner operation that is next
  Word io_entry = kNone;       // that it waits for
  Word polls = 0;              // in vain, since the operation began
  bool waits_io = false;       // the slot's status is WAIT_IO
};

enum class Step : Word {
  kNothing,    // scanned, and nothing is there
  kCandidate,  // a slot to claim
  kMissed,     // another lane was faster, or the candidate is no longer one
  kClaimed,
  kAbandoned,  // strict: claimed, its tenant was masked meanwhile, CLAIMED for ever
  kGivenBack,  // safe: the same, REQUEUE
  kChecked,    // claimed, and may run
  kWaiting,    // its operation waits for something
  kRan,        // the operation came to its end; the status follows
  kEnded,      // the status is stored: KernelLane::ends_as
  kStopped,    // SHUTDOWN was seen
};

/// What an operation came to.
enum class End : Word { kDone, kAgain, kWaitIo, kYield, kRequeue, kFault, kUnknown };

/// One operation of a slot, or of a packed one.
struct Operation {
  Word opcode = 0;
  Word tenant = 0;
  Word slot = 0;
  const Word* args = nullptr;  // plain loads, as the ancestor's
  Word args_count = 0;
};

/// Opcodes of the user: none.
struct NoUserOperations {
  MESHBED_DEVICE End operator()(const Operation&) const { return End::kUnknown; }
};

MESHBED_DEVICE inline Word* slot_at(const Kernel& kernel, Word slot) {
  return kernel.ring + static_cast<std::uint64_t>(slot) * kSlotWords;
}

}  // namespace meshbed::ring
