#include "plugin/ring/telemetry/recorded_work.h"

#include <algorithm>

#include "plugin/ring/telemetry/transitions.h"

namespace meshbed::ring {
namespace {

bool is_extraordinary(Word value) {
  return value == status::kYield || value == status::kRequeue || value == status::kFault;
}

/// The level whose partition the slot is in; NORMAL if there are no partitions.
Word level_of(const ControlSnapshot& control, Word slot) {
  const auto& offsets = control.priority_offsets;
  for (Word level = 0; level + 1 < offsets.size(); ++level) {
    if (slot >= offsets[level] && slot < offsets[level + 1]) return level;
  }
  return priority::kNormal;
}

bool same_work(const Slot& one, const Slot& other) {
  return one.opcode == other.opcode && one.tenant == other.tenant && one.priority == other.priority &&
         one.args == other.args;
}

class Reader {
 public:
  Reader(const Recording& recording, Mode mode)
      : layout_(layout_of(recording.shape.abi)),
        mode_(mode),
        checker_(mode),
        before_(recording.shape.slots),
        item_of_(recording.shape.slots, kNoItem) {
    work_.abi = recording.shape.abi;
    work_.slots = recording.shape.slots;
    start_ns_ = recording.snapshots.front().time_ns;
    work_.span_ns = recording.snapshots.back().time_ns - start_ns_;
  }

  Result<void> add(const Recording::Snapshot& snapshot) {
    Result<RingTelemetry> telemetry = decode_telemetry(snapshot.control, snapshot.ring, layout_, mode_);
    if (!telemetry) return telemetry.error();
    checker_.add(*telemetry);
    if (checker_.first()) return refused(to_text(*checker_.first()));
    const bool first = checker_.steps() == 1;
    if (first) {
      for (Word tenant = 0; tenant < kTenantMasksMost; ++tenant) {
        work_.tenant_masks[tenant] = load_word(snapshot.control.data(), control_word::kTenantMasks + tenant);
      }
    }
    for (Word index = 0; index < work_.slots; ++index) {
      const Result<Slot> slot = decode_slot(snapshot.ring, layout_, index);
      if (!slot) return slot.error();
      const bool published = is_new(before_[index], *slot, first);
      if (published) {
        item_of_[index] = work_.items.size();
        work_.items.push_back({.at_ns = snapshot.time_ns - start_ns_,
                               .slot = index,
                               .level = level_of(telemetry->control, index),
                               .words = *slot});
      }
      if (is_extraordinary(slot->status) && item_of_[index] != kNoItem) work_.items[item_of_[index]].end = slot->status;
      before_[index] = *slot;
    }
    if (!first) ended_ += static_cast<Word>(telemetry->control.done_count - done_count_);
    done_count_ = telemetry->control.done_count;
    queued_ = telemetry->occupancy.queue_depth();
    return ok();
  }

  /// What was published has ended or is queued. The done count may be ahead of what a snapshot shows, by a lane's slot.
  RecordedWork take() {
    work_.unseen = std::max<std::uint64_t>(ended_ + queued_, work_.items.size()) - work_.items.size();
    return std::move(work_);
  }

 private:
  static constexpr std::size_t kNoItem = ~std::size_t{0};

  /// In the first snapshot what is done is over; later what has become queued, or has other words, has come.
  static bool is_new(const Slot& before, const Slot& now, bool first) {
    if (first) return status::is_queued(now.status);
    if (now.status == status::kEmpty) return false;
    if (!same_work(before, now)) return true;
    return status::is_free(before.status) && status::is_queued(now.status);
  }

  const Layout& layout_;
  Mode mode_;
  SnapshotChecker checker_;
  std::uint64_t start_ns_ = 0, queued_ = 0, ended_ = 0;
  Word done_count_ = 0;
  std::vector<Slot> before_;
  std::vector<std::size_t> item_of_;  // by slot: what was last published into it
  RecordedWork work_;
};

}  // namespace

Result<RecordedWork> recorded_work(const Recording& recording, Mode mode) {
  if (recording.snapshots.empty()) return refused("a recording without a snapshot: there is nothing to publish");
  Reader reader(recording, mode);
  for (const Recording::Snapshot& snapshot : recording.snapshots) {
    if (const Result<void> added = reader.add(snapshot); !added) return added.error();
  }
  return reader.take();
}

}  // namespace meshbed::ring
