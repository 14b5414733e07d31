// Every interleaving of three lanes over two slots, and of threads over many: each slot runs once, or stays where the
// kernel says it stays.
#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "tests/ring/launch.h"

namespace interleavings_test {

using namespace meshbed::ring;
using meshbed::test::kModes;
using meshbed::test::Launch;
using meshbed::test::Options;

namespace {

/// All that the lanes can tell states apart by: what the walk has seen before, it need not see again.
using State = std::vector<Word>;

class Walk {
 public:
  Walk(const Options& options, Word slots_published) : launch_(options) {
    for (Word slot = 0; slot < slots_published; ++slot) {
      launch_.publish(slot, opcode::kAtomicAdd, {1, kLayout2026_05.observables + slot}, slot % 2);
    }
  }

  /// One more thing that may happen at any time, once: tenant 1 is masked, and unmasked.
  void let_tenant_be_masked() { masks_left_ = 2; }

  void run() { visit(); }

  std::size_t states() const { return seen_.size(); }
  std::set<State> ends;  // by slot: its status at the end

 private:
  void visit() {
    if (!seen_.insert(state()).second) return;
    bool moved = false;
    const auto saved_control = launch_.control, saved_slots = launch_.slots;
    const auto saved_lanes = launch_.lanes;
    const int saved_masks = masks_left_;
    const auto restore = [&] {
      std::copy(saved_control.begin(), saved_control.end(), launch_.control.begin());
      std::copy(saved_slots.begin(), saved_slots.end(), launch_.slots.begin());
      std::copy(saved_lanes.begin(), saved_lanes.end(), launch_.lanes.begin());
      masks_left_ = saved_masks;
    };
    for (KernelLane& lane : launch_.lanes) {
      NoUserOperations none;
      const Word before = launch_.done_count();
      if (step<PlainWords>(launch_.kernel, lane, none) != Step::kNothing) {
        moved = true;
        look(before);
        visit();
      }
      restore();
    }
    if (masks_left_ > 0) {
      moved = true;
      launch_.mask(1, --masks_left_ == 1 ? 0 : kTenantMaskAll);
      visit();
      restore();
    }
    if (!moved) note_end();
  }

  void look(Word done_before) {
    Word done = 0;
    for (Word slot = 0; slot < launch_.kernel.slots; ++slot) {
      done += launch_.status(slot) == status::kDone ? 1 : 0;
      CHECK(launch_.observed(slot) <= 1);  // never twice
      if (launch_.status(slot) == status::kDone) CHECK(launch_.observed(slot) == 1);
    }
    CHECK(launch_.done_count() >= done);  // 2.2: one ahead at most, for each lane; never behind
    CHECK(launch_.done_count() >= done_before);
  }

  void note_end() {
    State end;
    for (Word slot = 0; slot < launch_.kernel.slots; ++slot) end.push_back(launch_.status(slot));
    ends.insert(end);
  }

  State state() const {
    State all = launch_.control;
    all.insert(all.end(), launch_.slots.begin(), launch_.slots.end());
    for (const KernelLane& lane : launch_.lanes) {
      all.insert(all.end(), {static_cast<Word>(lane.phase), lane.slot, lane.seen, lane.level, lane.ends_as});
    }
    all.push_back(static_cast<Word>(masks_left_));
    return all;
  }

  Launch launch_;
  int masks_left_ = 0;
  std::set<State> seen_;
};

}  // namespace

TEST_CASE("three lanes, two slots, every interleaving: each slot runs once and ends DONE") {
  for (const Mode mode : kModes) {
    for (const bool by_priority : {false, true}) {
      // Four slots, all of one level: with three lanes each of the two that hold work is looked at by two of them.
      Walk walk(
          {.slots = by_priority ? 4U : 2U, .lanes = 3, .observables = 5, .mode = mode, .by_priority = by_priority}, 2);
      walk.run();
      CHECK(walk.states() > (by_priority ? 100 : 8));  // lanes of the plain kernel share no slot
      REQUIRE(walk.ends.size() == 1);
      CHECK((*walk.ends.begin())[0] == status::kDone);
      CHECK((*walk.ends.begin())[1] == status::kDone);
    }
  }
}

TEST_CASE("and a tenant that is masked and unmasked at any time: the ancestor may abandon its slot, safe mode never") {
  for (const Mode mode : kModes) {
    Walk walk({.slots = 4, .lanes = 3, .observables = 5, .mode = mode, .by_priority = true}, 2);
    walk.let_tenant_be_masked();
    walk.run();
    std::set<Word> ends;
    for (const State& end : walk.ends) {
      CHECK(end[0] == status::kDone);
      ends.insert(end[1]);
    }
    if (mode == Mode::kStrict) {
      CHECK(ends == std::set<Word>{status::kDone, status::kClaimed});
    } else {
      CHECK(ends == std::set<Word>{status::kDone});
    }
  }
}

TEST_CASE("four threads as lanes over a ring that all of them share: nothing is lost, nothing runs twice") {
  constexpr Word kLanes = 4, kRounds = 400;
  for (const Mode mode : kModes) {
    // The ancestor's lanes own a slot each: its priority kernel would lock where only high work is left over.
    const bool shares = mode == Mode::kSafe;
    const Word slots = shares ? 64 : kLanes;
    Launch launch({.slots = slots, .lanes = kLanes, .observables = slots, .mode = mode, .by_priority = shares});
    std::vector<std::thread> threads;
    for (KernelLane& lane : launch.lanes) {
      threads.emplace_back([&launch, &lane] {
        NoUserOperations none;
        while (turn<AtomicWords>(launch.kernel, lane, none) != Step::kStopped) std::this_thread::yield();
      });
    }
    const auto wait_until_free = [&launch](Word slot) {
      while (!status::is_free(AtomicWords::acquire(slot_at(launch.kernel, slot)))) std::this_thread::yield();
    };
    for (Word round = 0; round < kRounds; ++round) {
      for (Word slot = 0; slot < slots; ++slot) {
        wait_until_free(slot);
        Word* const words = slot_at(launch.kernel, slot);
        words[slot_word::kOpcode] = opcode::kAtomicAdd;
        words[kLayout2026_05.arg0_word] = 1;
        words[kLayout2026_05.arg0_word + 1] = kLayout2026_05.observables + slot;
        AtomicWords::release(words, status::kPublished);
      }
    }
    for (Word slot = 0; slot < slots; ++slot) wait_until_free(slot);
    AtomicWords::release(launch.kernel.control + control_word::kShutdown, 1);
    for (std::thread& thread : threads) thread.join();
    for (Word slot = 0; slot < slots; ++slot) CHECK(launch.observed(slot) == kRounds);
    CHECK(launch.done_count() == kRounds * slots);
  }
}

}  // namespace interleavings_test
