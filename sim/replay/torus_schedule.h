#pragma once
// TorusSchedule: an all_reduce on a torus, one dimension after the other, as sim/replay/run.h wants it. Internal to
// sim/replay.
//
// The data are in 2d parts on a torus of d dimensions, so that all cables are used in both directions: part p begins
// with dimension p mod d and goes on with the next ones; the first d parts go up, the others down. In each dimension,
// rings reduce and scatter what is left of the part, length by length shorter; then, in the opposite order, they gather
// (Barnett, Littlefield, Payne, van de Geijn, "Global combine on mesh architectures with wormhole routing", 1993). Of
// n = k^d ranks, S bytes, links of rate B and latency L:
//   all_reduce      sum over j < d of 2(k-1) (S/(2d k^(j+1) B) + L)  =  2d(k-1) L + (n-1)/n S/(d B)
// Phase: a dimension's ring, scattering (0 .. d-1) or gathering (d .. 2d-1). Stream: part * ranks + rank; folded, the
// part.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/replay/hops.h"
#include "sim/replay/replay.h"
#include "sim/replay/run.h"
#include "sim/replay/schedules.h"

namespace meshbed::sim {

/// Ranks of a torus, the first dimension fastest (models/topology_generate.h). Dimensions of one are left out.
class TorusShape {
 public:
  explicit TorusShape(const std::vector<int>& lengths) {
    std::uint32_t stride = 1;
    for (const int length : lengths) {
      if (length > 1) dimensions_.push_back({static_cast<std::uint32_t>(length), stride});
      stride *= static_cast<std::uint32_t>(length);
    }
    ranks_ = stride;
  }
  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t dimensions() const { return static_cast<std::uint32_t>(dimensions_.size()); }
  std::uint32_t parts() const { return 2 * dimensions(); }
  std::uint32_t length(std::uint32_t dimension) const { return dimensions_[dimension].length; }
  bool is_cube() const {
    return std::all_of(dimensions_.begin(), dimensions_.end(),
                       [&](const Dimension& each) { return each.length == dimensions_.front().length; });
  }
  /// Of the ring in that dimension; downwards, places are counted from its end.
  std::uint32_t place(std::uint32_t rank, std::uint32_t dimension, bool up) const {
    const Dimension& each = dimensions_[dimension];
    const std::uint32_t place = rank / each.stride % each.length;
    return up ? place : each.length - 1 - place;
  }
  std::uint32_t neighbour(std::uint32_t rank, std::uint32_t dimension, bool up) const {
    const Dimension& each = dimensions_[dimension];
    const std::uint32_t place = rank / each.stride % each.length;
    const std::uint32_t there = (place + (up ? 1 : each.length - 1)) % each.length;
    return rank - place * each.stride + there * each.stride;
  }

 private:
  struct Dimension {
    std::uint32_t length, stride;
  };
  std::vector<Dimension> dimensions_;
  std::uint32_t ranks_ = 1;
};

class TorusSchedule {
 public:
  static constexpr bool kPaced = false, kRepeats = false;

  /// `hops`: [rank * parts + dimension] upwards, + d downwards; folded, those of rank 0.
  TorusSchedule(const ReplayRequest& request, TorusShape shape, std::vector<ReplayHop> hops, bool folded)
      : shape_(std::move(shape)),
        each_(folded ? 1 : shape_.ranks()),
        elements_(request.elements),
        element_bytes_(request.element_bytes),
        hops_(std::move(hops)),
        arrived_(std::size_t{shape_.parts()} * each_ * phases(), 0) {
    for (std::uint32_t phase = 0; phase < phases(); ++phase) steps_ += length(0, phase) - 1;
  }

  std::uint32_t streams() const { return shape_.parts() * each_; }
  std::uint32_t steps(std::uint32_t) const { return steps_; }
  /// Neighbours of different dimensions may be phases apart: which messages have come counts, not how many.
  std::uint32_t needed(std::uint32_t stream, std::uint32_t index) const {
    const std::uint32_t part = stream / each_;
    const std::uint32_t* const arrived = &arrived_[std::size_t{stream} * phases()];
    for (std::uint32_t phase = 0; phase < phases(); ++phase) {
      const std::uint32_t of_phase = length(part, phase) - 1, wanted = std::min(index, of_phase);
      if (arrived[phase] < wanted) return ~std::uint32_t{0};
      if (index < of_phase) return 0;
      index -= of_phase;
    }
    return 0;
  }
  const Path& path(std::uint32_t stream, std::uint32_t to) const {
    const std::uint32_t rank = stream % each_, there = to % each_;
    for (std::uint32_t way = stream / each_ < dimensions() ? 0 : dimensions(); way < shape_.parts(); ++way) {
      if (shape_.neighbour(rank, way % dimensions(), way < dimensions()) == there) return *hop(rank, way).path;
    }
    return *hop(rank, 0).path;
  }

  /// Of the part's elements, those that message `index` carries.
  struct Elements {
    std::uint64_t begin = 0, count = 0;
  };
  Elements elements_of(std::uint32_t stream, std::uint32_t index) const {
    const std::uint32_t part = stream / each_, rank = stream % each_;
    const auto [phase, step] = position(part, index);
    Elements range{part_begin(part), Shares(elements_, shape_.parts()).of(part)};
    const std::uint32_t depth = phase < dimensions() ? phase : phases() - 1 - phase;
    for (std::uint32_t each = 0; each < depth; ++each) range = chunk(range, part, each, place(rank, part, each));
    const std::uint32_t length_here = length(part, phase), place_here = place(rank, part, depth);
    const std::uint32_t back = (phase < dimensions() ? 1 : 0) + step;
    return chunk(range, part, depth, (place_here + 2 * length_here - back) % length_here);
  }
  bool reduces(std::uint32_t part, std::uint32_t index) const { return position(part, index).first < dimensions(); }
  std::uint32_t receiver(std::uint32_t stream, std::uint32_t index) const {
    const std::uint32_t part = stream / each_;
    const std::uint32_t dimension = dimension_of(part, position(part, index).first);
    return each_ == 1 ? stream : part * each_ + shape_.neighbour(stream % each_, dimension, goes_up(part));
  }

  /// The tag is the phase and the step.
  ReplayMessage message(std::uint32_t stream, std::uint32_t index) {
    const std::uint32_t part = stream / each_;
    const auto [phase, step] = position(part, index);
    const ReplayHop& way = hop(stream % each_, dimension_of(part, phase) + (goes_up(part) ? 0 : dimensions()));
    const std::uint64_t bytes = elements_of(stream, index).count * element_bytes_;
    return {.to = receiver(stream, index),
            .tag = phase << kStepBits | step,
            .bytes = bytes,
            .wire_ps = wire_time_ps(bytes, way.rate_bps),
            .latency_ps = way.latency_ps};
  }

  bool arrive(std::uint32_t stream, std::uint32_t, std::uint32_t tag) {
    const std::uint32_t phase = tag >> kStepBits, step = tag & ((1U << kStepBits) - 1);
    return arrived_[std::size_t{stream} * phases() + phase]++ == step;
  }

  bool is_whole() const {
    for (std::uint32_t stream = 0; stream < streams(); ++stream) {
      for (std::uint32_t phase = 0; phase < phases(); ++phase) {
        if (arrived_[std::size_t{stream} * phases() + phase] != length(stream / each_, phase) - 1) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::uint32_t kStepBits = 24;

  std::uint32_t dimensions() const { return shape_.dimensions(); }
  std::uint32_t phases() const { return 2 * dimensions(); }
  bool goes_up(std::uint32_t part) const { return part < dimensions(); }
  std::uint32_t dimension_of(std::uint32_t part, std::uint32_t phase) const {
    return (part + (phase < dimensions() ? phase : phases() - 1 - phase)) % dimensions();
  }
  std::uint32_t length(std::uint32_t part, std::uint32_t phase) const {
    return shape_.length(dimension_of(part, phase));
  }
  std::uint32_t place(std::uint32_t rank, std::uint32_t part, std::uint32_t phase) const {
    return shape_.place(rank, dimension_of(part, phase), goes_up(part));
  }
  const ReplayHop& hop(std::uint32_t rank, std::uint32_t way) const {
    return hops_[std::size_t{rank} * shape_.parts() + way];
  }
  /// Phase and step of a message.
  std::pair<std::uint32_t, std::uint32_t> position(std::uint32_t part, std::uint32_t index) const {
    std::uint32_t phase = 0;
    for (; index >= length(part, phase) - 1; ++phase) index -= length(part, phase) - 1;
    return {phase, index};
  }
  std::uint64_t part_begin(std::uint32_t part) const {
    const Shares shares(elements_, shape_.parts());
    return part * shares.base + std::min<std::uint64_t>(part, shares.longer);
  }
  Elements chunk(const Elements& range, std::uint32_t part, std::uint32_t phase, std::uint32_t which) const {
    const Shares shares(range.count, length(part, phase));
    return {range.begin + which * shares.base + std::min<std::uint64_t>(which, shares.longer), shares.of(which)};
  }

  TorusShape shape_;
  std::uint32_t each_;  // streams of a part
  std::uint32_t steps_ = 0;
  std::uint64_t elements_, element_bytes_;
  std::vector<ReplayHop> hops_;
  std::vector<std::uint32_t> arrived_;  // [stream][phase] messages
};

}  // namespace meshbed::sim
