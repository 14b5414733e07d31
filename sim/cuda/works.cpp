// Works: which have not ended, and counts of those that were begun.

#include <algorithm>

#include "sim/cuda/system.h"
#include "sim/cuda/work.h"

namespace meshbed::sim::cuda {

std::uint64_t Works::add(const WorkRef& work) {
  std::size_t place = places_.size();
  if (free_.empty()) {
    places_.push_back(work);
  } else {
    place = free_.back();
    free_.pop_back();
    places_[place] = work;
  }
  ++count_;
  return ++given_ << kPlaceBits | place;
}

WorkRef Works::find(std::uint64_t id) const {
  const std::uint64_t place = id & kPlaceMask;
  return place < places_.size() && places_[place] != nullptr && places_[place]->id == id ? places_[place] : nullptr;
}

void Works::remove(std::uint64_t id) {
  const std::uint64_t place = id & kPlaceMask;
  places_[place] = nullptr;
  free_.push_back(static_cast<std::uint32_t>(place));
  --count_;
}

WorkRef Works::any_of(const Context& context) const {
  const auto found = std::find_if(places_.begin(), places_.end(),
                                  [&](const auto& work) { return work != nullptr && work->context == &context; });
  return found != places_.end() ? *found : nullptr;
}

void count(Counters& counters, const Task& task) {
  counters.launches += std::holds_alternative<KernelLaunch>(task) ? 1 : 0;
  const auto* copy = std::get_if<Copy>(&task);
  if (copy == nullptr) return;
  std::uint64_t& copies = copy->engine == Engine::kIn    ? counters.copies_in
                          : copy->engine == Engine::kOut ? counters.copies_out
                                                         : counters.copies_inside;
  ++copies;
  counters.copied_bytes += copy->width_bytes * copy->height * copy->depth;
}

}  // namespace meshbed::sim::cuda
