#pragma once
// Launch: the buffers of one megakernel as its host would encode them, for tests.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <vector>

#include "plugin/ring/abi/control.h"
#include "plugin/ring/kernel/step.h"

namespace meshbed::test {

using ring::Word;

struct Options {
  Word slots = 8, lanes = 1, tenants = 2, observables = 64;
  ring::Mode mode = ring::Mode::kSafe;
  bool by_priority = false, has_io = false;
};

class Launch {
 public:
  explicit Launch(const Options& options)
      : control(ring::kLayout2026_05.observables + options.observables),
        slots(options.slots * ring::kSlotWords),
        debug(ring::kDebugRecordsWord + ring::kDebugRecords * ring::kDebugRecordWords),
        io(ring::kIoEntries * ring::kIoEntryWords),
        lanes(options.lanes) {
    control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
    for (Word tenant = 0; tenant < options.tenants; ++tenant) {
      if (tenant < ring::kTenantMasksMost) control[ring::control_word::kTenantMasks + tenant] = ring::kTenantMaskAll;
      if (tenant < ring::kTenantQuotasMost) {
        control[ring::kLayout2026_05.tenant_quotas + tenant] = ring::kTenantQuota;
      }
    }
    const auto levels = ring::levels_of(options.slots);
    std::copy(levels.begin(), levels.end(), control.begin() + ring::kLayout2026_05.priority_offsets);
    kernel = {.control = control.data(),
              .control_words = static_cast<Word>(control.size()),
              .ring = slots.data(),
              .slots = options.slots,
              .debug = debug.data(),
              .io = options.has_io ? io.data() : nullptr,
              .lanes = options.lanes,
              .polls_most = 1000,
              .mode = options.mode,
              .by_priority = options.by_priority};
    for (Word index = 0; index < options.lanes; ++index) lanes[index].index = index;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void publish(Word slot, Word op, std::initializer_list<Word> args = {}, Word tenant = 0) {
    Word* const words = ring::slot_at(kernel, slot);
    words[ring::slot_word::kOpcode] = op;
    words[ring::slot_word::kTenant] = tenant;
    words[ring::kLayout2026_05.priority_word] = ring::priority::kNormal;
    Word at = ring::kLayout2026_05.arg0_word;
    for (const Word arg : args) words[at++] = arg;
    words[ring::slot_word::kStatus] = ring::status::kPublished;
  }

  /// Every lane in turn, until none has anything to do but wait, or `rounds` are over. How many slots ended.
  template <typename User>
  int run(User&& user, int rounds = 100) {
    int ended = 0;
    for (bool busy = true; busy && rounds-- > 0;) {
      busy = false;
      for (ring::KernelLane& lane : lanes) {
        const ring::Step now = ring::turn<ring::PlainWords>(kernel, lane, user);
        ended += now == ring::Step::kEnded ? 1 : 0;
        busy = busy || now == ring::Step::kEnded || now == ring::Step::kWaiting;
      }
    }
    return ended;
  }
  int run() { return run(ring::NoUserOperations{}); }

  Word status(Word slot) const { return ring::slot_at(kernel, slot)[ring::slot_word::kStatus]; }
  Word observed(Word index) const { return control[ring::kLayout2026_05.observables + index]; }
  Word metric(Word op) const { return control[ring::kLayout2026_05.metrics + op]; }
  Word done_count() const { return control[ring::control_word::kDoneCount]; }
  void mask(Word tenant, Word value) { control[ring::control_word::kTenantMasks + tenant] = value; }

  std::vector<Word> control, slots, debug, io;
  std::vector<ring::KernelLane> lanes;
  ring::Kernel kernel;
};

inline const std::array<ring::Mode, 2> kModes{ring::Mode::kStrict, ring::Mode::kSafe};

}  // namespace meshbed::test
