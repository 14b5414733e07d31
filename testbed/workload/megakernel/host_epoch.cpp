// The host of a program whose slots are published as they arrive, when their needs are done, or when entries become
// free.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "testbed/workload/megakernel/host.h"

namespace meshbed::testbed {

using ring::Word;
namespace arg = ring::mesh_arg;

/// One ring's slots of an epoch that are not published yet.
class RingHost::Publisher {
 public:
  Publisher(Ring& ring, bool when_ready, Picoseconds start_ps) : ring_(ring), start_ps_(start_ps) {
    const std::vector<ring::MeshSlot>& slots = ring.program.slots;
    ring.unpublished = slots.size();
    busy_.resize(ring.places.slots);
    for (std::size_t index = 0; index < slots.size(); ++index) by_id_[slots[index].args[arg::kId]] = index;
    lacks_.resize(slots.size());
    needed_by_.resize(slots.size());
    for (std::size_t index = 0; index < slots.size(); ++index) {
      for (const Word word : {arg::kAfter, arg::kAlsoAfter}) {
        const auto needed = when_ready ? by_id_.find(slots[index].args[word]) : by_id_.end();
        if (needed == by_id_.end()) continue;
        ++lacks_[index];
        needed_by_[needed->second].push_back(index);
      }
      if (lacks_[index] == 0) waiting_.emplace(arrival_of(index), index);
    }
  }

  bool over() const { return ring_.unpublished == 0; }
  Picoseconds arrival_of(std::size_t index) const {
    return start_ps_ + static_cast<Picoseconds>(mark_of(index).arrives_ns) * kPicosecondsPerNanosecond;
  }
  SlotMark mark_of(std::size_t index) const {
    const Word id = ring_.program.slots[index].args[arg::kId];
    return id < ring_.marks->size() ? (*ring_.marks)[id] : SlotMark{};
  }

  /// Slots have ended: their places are free, and what needs them may come.
  void take_done() {
    for (const Word place : ring_.kernel.take_done()) {
      const auto held = at_.find(place);
      if (held == at_.end()) continue;
      const std::size_t index = held->second;
      at_.erase(held);
      busy_[place] = false;
      for (const std::size_t other : needed_by_[index]) {
        if (--lacks_[other] == 0) waiting_.emplace(arrival_of(other), other);
      }
    }
  }

  /// The next slot that has arrived and has a place; in the plain kernel's ring the one that is first in order or none.
  std::optional<std::pair<std::size_t, Word>> take_next(Picoseconds now_ps) {
    for (auto next = waiting_.begin(); next != waiting_.end() && next->first <= now_ps; ++next) {
      const std::size_t index = next->second;
      if (const std::optional<Word> place = place_for(index)) {
        waiting_.erase(next);
        --ring_.unpublished;
        at_[*place] = index;
        busy_[*place] = true;
        return std::pair(index, *place);
      }
      if (!ring_.places.levels) return std::nullopt;
    }
    return std::nullopt;
  }

  /// When the next slot arrives that is still to come; -1: none.
  Picoseconds next_arrival(Picoseconds now_ps) const {
    const auto next = waiting_.upper_bound({now_ps, ring_.program.slots.size()});
    return next == waiting_.end() ? -1 : next->first;
  }

 private:
  std::optional<Word> place_for(std::size_t index) {
    if (!ring_.places.levels && !ring_.places.reuses) return static_cast<Word>(index);
    const Word level = mark_of(index).level;
    const Word begin = ring_.places.levels ? (*ring_.places.levels)[level] : 0;
    const Word end = ring_.places.levels ? (*ring_.places.levels)[level + 1] : ring_.places.slots;
    if (begin == end) return std::nullopt;
    Word& next = next_[ring_.places.levels ? level : 0];
    const Word place = begin + next % (end - begin);
    if (busy_[place]) return std::nullopt;
    ++next;
    return place;
  }

  Ring& ring_;
  Picoseconds start_ps_;
  std::map<Word, std::size_t> by_id_;
  std::vector<int> lacks_;                                 // by slot: so many of its rank that it needs are not done
  std::vector<std::vector<std::size_t>> needed_by_;        // by slot
  std::set<std::pair<Picoseconds, std::size_t>> waiting_;  // that lack nothing: by arrival, then in order
  std::map<Word, std::size_t> at_;                         // by place: the slot that is there
  std::vector<bool> busy_;                                 // by place
  std::array<Word, ring::priority::kLevels> next_{};
};

void RingHost::publish_epoch(Word epoch, const std::function<bool()>& goes_on) {
  const Picoseconds start_ps = host_.now_ps();
  std::vector<Publisher> publishers;
  publishers.reserve(rings_.size());
  for (Ring& ring : rings_) publishers.emplace_back(ring, settings_.when_ready, start_ps);
  const auto all_over = [&] {
    return std::all_of(publishers.begin(), publishers.end(), [](const Publisher& one) { return one.over(); });
  };
  Picoseconds noted_ps = -1;
  while (goes_on() && !all_over()) {
    bool published = false;
    Picoseconds due_ps = -1;
    for (std::size_t index = 0; index < rings_.size(); ++index) {
      Publisher& publisher = publishers[index];
      publisher.take_done();
      if (const auto next = publisher.take_next(host_.now_ps())) {
        const ring::MeshSlot one = slot_of_epoch(rings_[index].program, static_cast<Word>(next->first), epoch);
        const SlotMark mark = publisher.mark_of(next->first);
        Item item{.opcode = one.opcode, .tenant = mark.tenant, .level = mark.level};
        item.arrived_ps = publisher.arrival_of(next->first);
        std::copy(std::begin(one.args), std::end(one.args), std::begin(item.args));
        publish(rings_[index], next->second, item);
        published = true;
      }
      const Picoseconds arrival_ps = publisher.next_arrival(host_.now_ps());
      if (arrival_ps >= 0 && (due_ps < 0 || arrival_ps < due_ps)) due_ps = arrival_ps;
    }
    if (published) continue;
    // Who waits for slots that are still to come is not stuck: they are under way.
    if (due_ps > noted_ps) {
      rings_.front().kernel.at(due_ps, [] {});
      noted_ps = due_ps;
    }
    if (!wait(due_ps)) return;
  }
}

}  // namespace meshbed::testbed
