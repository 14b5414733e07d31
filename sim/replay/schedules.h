#pragma once
// The schedules of a replay, as sim/replay/run.h wants them: pure functions of numbers, with a counter or two a stream.
// Internal to sim/replay.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/base/check.h"
#include "plugin/base/units.h"
#include "sim/replay/hops.h"
#include "sim/replay/replay.h"
#include "sim/replay/run.h"

namespace meshbed::sim {

/// `count` elements in `parts` nearly equal parts; the first count % parts are one longer (as plugin/coll/plan/plan.h).
struct Shares {
  std::uint64_t base = 0, longer = 0;
  Shares(std::uint64_t count, std::uint64_t parts) : base(count / parts), longer(count % parts) {}
  std::uint64_t of(std::uint64_t part) const { return base + (part < longer ? 1U : 0U); }
  bool equal() const { return longer == 0; }
};

/// Round the ring: message k of rank r carries chunk r - 1 - k of an all_reduce or reduce_scatter, block r - k of an
/// all_gather. Stream: channel * ranks + rank; folded, the channel.
class RingSchedule {
 public:
  static constexpr bool kPaced = false, kRepeats = true;

  struct Channel {
    std::uint64_t long_bytes = 0, short_bytes = 0;
    std::uint32_t longer = 0;  // chunks of long_bytes: the first
  };

  /// `hops`: [stream] to the next rank.
  RingSchedule(const ReplayRequest& request, std::vector<ReplayHop> hops, bool folded)
      : ranks_(static_cast<std::uint32_t>(request.ranks)),
        is_all_reduce_(request.collective == Collective::kAllReduce),
        steps_((is_all_reduce_ ? 2 : 1) * (ranks_ - 1)),
        hops_(std::move(hops)) {
    const std::uint32_t first_offset = request.collective == Collective::kAllGather ? 0 : 1;
    const auto channels = static_cast<std::uint32_t>(request.channels);
    const Shares parts(request.elements, channels);
    const std::uint32_t each = folded ? 1 : ranks_;
    streams_.resize(std::size_t{channels} * each);
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      const Shares chunks(parts.of(channel), is_all_reduce_ ? ranks_ : 1);
      const std::uint64_t short_bytes = chunks.base * request.element_bytes;
      const std::uint64_t long_bytes = (chunks.base + 1) * request.element_bytes;
      for (std::uint32_t rank = 0; rank < each; ++rank) {
        const std::uint32_t number = channel * each + rank;
        Stream& stream = streams_[number];
        const ReplayHop& hop = hops_[number];
        stream.next = channel * each + (rank + 1) % each;
        stream.longer = static_cast<std::uint32_t>(chunks.longer);
        stream.chunk = (rank + ranks_ - first_offset) % ranks_;
        // The sender is the rank before; of a folded one every rank's counters are those of rank 0.
        const std::uint32_t sender = folded ? 0 : rank + ranks_ - 1;
        stream.expected = (sender + ranks_ - first_offset) % ranks_;
        stream.short_bytes = short_bytes;
        stream.long_bytes = long_bytes;
        stream.short_ps = wire_time_ps(short_bytes, hop.rate_bps);
        stream.long_ps = wire_time_ps(long_bytes, hop.rate_bps);
        stream.latency_ps = hop.latency_ps;
      }
    }
  }

  std::uint32_t streams() const { return static_cast<std::uint32_t>(streams_.size()); }
  std::uint32_t steps(std::uint32_t) const { return steps_; }
  std::uint32_t needed(std::uint32_t, std::uint32_t index) const { return index; }
  const Path& path(std::uint32_t stream, std::uint32_t) const { return *hops_[stream].path; }

  ReplayMessage message(std::uint32_t number, std::uint32_t) {
    Stream& stream = streams_[number];
    const bool is_long = stream.chunk < stream.longer;
    const ReplayMessage message{.to = stream.next,
                                .tag = stream.chunk,
                                .bytes = is_long ? stream.long_bytes : stream.short_bytes,
                                .wire_ps = is_long ? stream.long_ps : stream.short_ps,
                                .latency_ps = stream.latency_ps};
    stream.chunk = before(stream.chunk);
    return message;
  }

  /// A partial sum that arrives as message k holds the k + 1 ranks before this one, which is what `expected` says; this
  /// rank adds itself, or copies the whole chunk from message n - 1 on.
  bool arrive(std::uint32_t number, std::uint32_t, std::uint32_t tag) {
    Stream& stream = streams_[number];
    const bool in_place = tag == stream.expected;
    stream.expected = before(stream.expected);
    return in_place;
  }

  std::uint32_t alike(std::uint32_t number) const { return streams_[number].longer == 0 ? steps_ : 0; }
  std::uint64_t alike_bytes(std::uint32_t number) const { return streams_[number].short_bytes; }
  void skip(std::uint32_t number, std::uint32_t sent, std::uint32_t received) {
    Stream& stream = streams_[number];
    stream.chunk = before(stream.chunk, sent);
    stream.expected = before(stream.expected, received);
  }
  std::uint32_t tag_after(std::uint32_t, std::uint32_t tag, std::uint32_t skipped) const {
    return before(tag, skipped);
  }

 private:
  struct Stream {
    std::uint32_t next = 0, longer = 0, chunk = 0, expected = 0;
    Picoseconds short_ps = 0, long_ps = 0, latency_ps = 0;
    std::uint64_t short_bytes = 0, long_bytes = 0;
  };
  std::uint32_t before(std::uint32_t chunk) const { return chunk == 0 ? ranks_ - 1 : chunk - 1; }
  std::uint32_t before(std::uint32_t chunk, std::uint32_t steps) const {
    return (chunk + ranks_ - steps % ranks_) % ranks_;
  }

  std::uint32_t ranks_;
  bool is_all_reduce_;
  std::uint32_t steps_;
  std::vector<ReplayHop> hops_;
  std::vector<Stream> streams_;
};

/// Along the ring from its first rank to its last, slice after slice. Stream: channel * ranks + place in the chain.
class ChainSchedule {
 public:
  static constexpr bool kPaced = false, kRepeats = true;

  /// `hops`: [stream], those of the last place unused.
  ChainSchedule(const ReplayRequest& request, std::vector<ReplayHop> hops)
      : ranks_(static_cast<std::uint32_t>(request.ranks)), hops_(std::move(hops)) {
    const auto channels = static_cast<std::uint64_t>(request.channels);
    const std::uint64_t slice = std::max<std::uint64_t>(request.slice_bytes / request.element_bytes, 1);
    const Shares parts(request.elements, channels);
    for (std::uint64_t channel = 0; channel < channels; ++channel) {
      const std::uint64_t count = parts.of(channel);
      const std::uint64_t slices = (count + slice - 1) / slice;
      const std::uint64_t last = slices == 0 ? 0 : count - (slices - 1) * slice;
      channels_.push_back({.slices = static_cast<std::uint32_t>(slices),
                           .slice_bytes = slice * request.element_bytes,
                           .last_bytes = last * request.element_bytes});
    }
  }

  std::uint32_t streams() const { return static_cast<std::uint32_t>(channels_.size()) * ranks_; }
  std::uint32_t steps(std::uint32_t stream) const {
    return stream % ranks_ == ranks_ - 1 ? 0 : channels_[stream / ranks_].slices;
  }
  std::uint32_t needed(std::uint32_t stream, std::uint32_t index) const { return stream % ranks_ == 0 ? 0 : index + 1; }
  const Path& path(std::uint32_t stream, std::uint32_t) const { return *hops_[stream].path; }

  ReplayMessage message(std::uint32_t stream, std::uint32_t index) {
    const Channel& channel = channels_[stream / ranks_];
    const ReplayHop& hop = hops_[stream];
    const std::uint64_t bytes = index + 1 == channel.slices ? channel.last_bytes : channel.slice_bytes;
    return {.to = stream + 1,
            .tag = index,
            .bytes = bytes,
            .wire_ps = wire_time_ps(bytes, hop.rate_bps),
            .latency_ps = hop.latency_ps};
  }

  bool arrive(std::uint32_t, std::uint32_t index, std::uint32_t tag) { return index == tag; }

  std::uint32_t alike(std::uint32_t stream) const {
    const Channel& channel = channels_[stream / ranks_];
    return channel.slices == 0 || channel.last_bytes == channel.slice_bytes ? channel.slices : channel.slices - 1;
  }
  std::uint64_t alike_bytes(std::uint32_t stream) const { return channels_[stream / ranks_].slice_bytes; }
  void skip(std::uint32_t, std::uint32_t, std::uint32_t) {}
  std::uint32_t tag_after(std::uint32_t, std::uint32_t tag, std::uint32_t skipped) const { return tag + skipped; }

  struct Channel {
    std::uint32_t slices = 0;
    std::uint64_t slice_bytes = 0, last_bytes = 0;
  };
  const std::vector<Channel>& channels() const { return channels_; }

 private:
  std::uint32_t ranks_;
  std::vector<ReplayHop> hops_;
  std::vector<Channel> channels_;
};

/// The binomial tree below the root. Stream: place in the tree, (rank - root) mod ranks; place p is the child of p less
/// its lowest bit. Up: to the parent, when all children have come. Down: to the children, the largest subtree first.
class TreeSchedule {
 public:
  static constexpr bool kPaced = false, kRepeats = false;

  /// `hops_up`: [place] to its parent; `hops_down`: [place] from its parent.
  TreeSchedule(const ReplayRequest& request, std::vector<ReplayHop> hops_up, std::vector<ReplayHop> hops_down)
      : ranks_(static_cast<std::uint32_t>(request.ranks)),
        up_(request.collective != Collective::kBroadcast),
        down_(request.collective != Collective::kReduce),
        bytes_(request.elements * request.element_bytes),
        hops_up_(std::move(hops_up)),
        hops_down_(std::move(hops_down)),
        held_(ranks_, up_ ? 1 : 0) {
    if (!up_) held_[0] = ranks_;
  }

  std::uint32_t streams() const { return ranks_; }
  std::uint32_t steps(std::uint32_t place) const {
    return (sends_up(place) ? 1U : 0U) + (down_ ? children(place) : 0U);
  }
  std::uint32_t needed(std::uint32_t place, std::uint32_t index) const {
    const std::uint32_t from_children = up_ ? children(place) : 0U;
    const bool is_up = sends_up(place) && index == 0;
    return is_up || place == 0 ? from_children : from_children + 1;
  }
  const Path& path(std::uint32_t place, std::uint32_t to) const {
    return to < place ? *hops_up_[place].path : *hops_down_[to].path;
  }

  /// The tag is how many ranks' contributions it holds.
  ReplayMessage message(std::uint32_t place, std::uint32_t index) {
    std::uint32_t to = place & (place - 1);
    if (!sends_up(place) || index > 0) {
      const std::uint32_t child = children(place) - 1 - (index - (sends_up(place) ? 1U : 0U));
      to = place + (std::uint32_t{1} << child);
    }
    const ReplayHop& hop = to < place ? hops_up_[place] : hops_down_[to];
    return {.to = to,
            .tag = held_[place],
            .bytes = bytes_,
            .wire_ps = wire_time_ps(bytes_, hop.rate_bps),
            .latency_ps = hop.latency_ps};
  }

  /// From a child: its subtree, of which nothing is here yet. From the parent: all, once, when this subtree is whole.
  bool arrive(std::uint32_t place, std::uint32_t index, std::uint32_t tag) {
    std::uint32_t& held = held_[place];
    if (up_ && index < children(place)) {
      held += tag;
      return held <= subtree(place);
    }
    const bool in_place = tag == ranks_ && (up_ ? held == subtree(place) : held == 0);
    held = tag;
    return in_place;
  }

  /// Every place ends with what the collective gives it.
  bool is_whole() const {
    for (std::uint32_t place = 0; place < ranks_; ++place) {
      if (held_[place] != (down_ || place == 0 ? ranks_ : subtree(place))) return false;
    }
    return true;
  }

 private:
  bool sends_up(std::uint32_t place) const { return up_ && place != 0; }
  std::uint32_t reach(std::uint32_t place) const { return place == 0 ? std::bit_ceil(ranks_) : place & (~place + 1); }
  std::uint32_t subtree(std::uint32_t place) const { return std::min(reach(place), ranks_ - place); }
  /// place + 1, place + 2, place + 4, ...
  std::uint32_t children(std::uint32_t place) const {
    return static_cast<std::uint32_t>(std::bit_width(subtree(place) - 1));
  }

  std::uint32_t ranks_;
  bool up_, down_;
  std::uint64_t bytes_;
  std::vector<ReplayHop> hops_up_, hops_down_;
  std::vector<std::uint32_t> held_;  // [place] ranks whose contributions it holds
};

/// Each rank to every other, the next one first, one after the other. Stream: rank; folded, there is one.
class PairsSchedule {
 public:
  static constexpr bool kPaced = true, kRepeats = false;

  PairsSchedule(const ReplayRequest& request, ReplayHops& hops, bool folded)
      : ranks_(static_cast<std::uint32_t>(request.ranks)),
        bytes_(request.elements * request.element_bytes),
        hops_(&hops),
        folded_(folded),
        has_trunks_(!request.cluster->switches.front().boxes.empty()),
        received_(folded ? 1 : ranks_) {
    // In one box all hops have the latency of the first; rates are those of the ports.
    latency_ps_ = hops.hop(0, 1, 0)->latency_ps;
    for (std::uint32_t rank = 0; rank < streams(); ++rank) {
      const int next = static_cast<int>((rank + 1) % ranks_), before = static_cast<int>((rank + ranks_ - 1) % ranks_);
      const Path* const out = hops.hop(static_cast<int>(rank), next, 0)->path;
      const Path* const in = hops.hop(before, static_cast<int>(rank), 0)->path;
      Port port{.out = out, .in = in};
      for (std::size_t at = 0; at < out->sent; ++at) port.out_bps = std::min(port.out_bps, rate_bps(out->links[at]));
      for (std::size_t at = in->sent; at < in->links.size(); ++at) {
        port.in_bps = std::min(port.in_bps, rate_bps(in->links[at]));
      }
      ports_.push_back(port);
      paths_.emplace_back();
    }
  }

  std::uint32_t streams() const { return folded_ ? 1 : ranks_; }
  std::uint32_t steps(std::uint32_t) const { return ranks_ - 1; }
  std::uint32_t needed(std::uint32_t, std::uint32_t) const { return 0; }

  /// Out of the sender's port, into the receiver's; between boxes by way of trunks, which depend on both.
  const Path& path(std::uint32_t from, std::uint32_t to) {
    if (has_trunks_) return *hop(from, to).path;
    Path& path = paths_[from];
    const Path& out = *ports_[from].out;
    const Path& in = *ports_[to].in;
    path = out;
    path.links.resize(out.sent);
    path.links.insert(path.links.end(), in.links.begin() + static_cast<std::ptrdiff_t>(in.sent), in.links.end());
    path.destination = in.destination;
    return path;
  }

  ReplayMessage message(std::uint32_t rank, std::uint32_t index) {
    const std::uint32_t to = folded_ ? 0 : (rank + 1 + index) % ranks_;
    if (has_trunks_) {
      const ReplayHop way = hop(rank, to);
      return {.to = to,
              .tag = rank,
              .bytes = bytes_,
              .wire_ps = wire_time_ps(bytes_, way.rate_bps),
              .latency_ps = way.latency_ps};
    }
    const std::uint64_t slowest_bps = std::min(ports_[rank].out_bps, ports_[to].in_bps);
    return {.to = to,
            .tag = folded_ ? index + 1 : rank,
            .bytes = bytes_,
            .wire_ps = wire_time_ps(bytes_, slowest_bps),
            .latency_ps = latency_ps_};
  }

  /// Each other rank once: as many as there are, and their numbers' sums are right.
  bool arrive(std::uint32_t rank, std::uint32_t, std::uint32_t tag) {
    Received& here = received_[rank];
    ++here.count;
    here.sum += tag;
    here.squares += std::uint64_t{tag} * tag;
    return tag < ranks_ && (folded_ || tag != rank);
  }
  bool is_whole() const {
    const std::uint64_t n = ranks_, all = n * (n - 1) / 2, squares = (n - 1) * n * (2 * n - 1) / 6;
    for (std::uint64_t rank = 0; rank < received_.size(); ++rank) {
      const Received& here = received_[rank];
      const std::uint64_t own = folded_ ? 0 : rank;
      if (here.count != n - 1 || here.sum != all - own || here.squares != squares - own * own) return false;
    }
    return true;
  }

 private:
  ReplayHop hop(std::uint32_t from, std::uint32_t to) {
    return *hops_->hop(static_cast<int>(from), static_cast<int>(to), 0);
  }

  struct Port {
    const Path* out = nullptr;  // to the next rank
    const Path* in = nullptr;   // from the one before
    std::uint64_t out_bps = ~std::uint64_t{0}, in_bps = ~std::uint64_t{0};
  };
  std::uint64_t rate_bps(int link) const { return hops_->network().links()[static_cast<std::size_t>(link)].rate_bps; }

  struct Received {
    std::uint64_t count = 0, sum = 0, squares = 0;
  };
  std::uint32_t ranks_;
  std::uint64_t bytes_;
  ReplayHops* hops_;
  bool folded_, has_trunks_;
  Picoseconds latency_ps_ = 0;
  std::vector<Port> ports_;
  std::vector<Path> paths_;  // [sender] under way
  std::vector<Received> received_;
};

}  // namespace meshbed::sim
