// Works: which have not ended.

#include <algorithm>

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

}  // namespace meshbed::sim::cuda
