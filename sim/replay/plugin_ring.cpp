#include "sim/replay/plugin_ring.h"

#include <algorithm>

#include "models/link.h"
#include "sim/replay/schedules.h"

namespace meshbed::sim {
namespace {

std::uint64_t wire_bytes_of(std::uint64_t bytes, std::uint32_t pmtu_bytes, bool immediate) {
  return models::wire_bytes(bytes, pmtu_bytes, models::kRethBytes + (immediate ? models::kImmBytes : 0));
}

}  // namespace

PluginRing::PluginRing(const ReplayRequest& request, std::vector<PluginHop> hops, int first, bool folded)
    : request_(request),
      ranks_(static_cast<std::uint32_t>(request.ranks)),
      first_(static_cast<std::uint32_t>(first)),
      is_chain_(request.collective == Collective::kBroadcast),
      steps_(is_chain_                                      ? 1
             : request.collective == Collective::kAllReduce ? 2 * (ranks_ - 1)
                                                            : ranks_ - 1),
      chunks_(is_chain_ ? 1 : ranks_) {
  const Shares chunks(request.elements, request.collective == Collective::kAllReduce ? ranks_ : 1);
  const auto slices_of = [&](std::uint64_t count, std::uint32_t& slices, std::uint64_t& last_bytes) {
    slices = static_cast<std::uint32_t>((count + request.slice_elements - 1) / request.slice_elements);
    last_bytes = slices == 0 ? 0 : (count - (slices - 1) * request.slice_elements) * request.element_bytes;
  };
  full_bytes_ = request.slice_elements * request.element_bytes;
  longer_ = static_cast<std::uint32_t>(chunks.longer);
  slices_of(chunks.base + 1, long_slices_, last_long_bytes_);
  slices_of(chunks.base, short_slices_, last_short_bytes_);
  places_.resize(folded ? 1 : ranks_);
  const std::uint32_t offset = request.collective == Collective::kAllReduce ? 1 : 0;
  for (std::uint32_t number = 0; number < places(); ++number) {
    const PluginHop& forth = hops[number];
    const PluginHop& back = hops[before(number)];
    Place& place = places_[number];
    const auto time = [&](std::uint64_t bytes) {
      return wire_time_ps(wire_bytes_of(bytes, forth.pmtu_bytes, true), forth.forth.rate_bps);
    };
    const bool has_next = forth.forth.rate_bps > 0;
    if (has_next) {
      place.full_ps = time(full_bytes_);
      place.last_long_ps = time(last_long_bytes_);
      place.last_short_ps = time(last_short_bytes_);
    }
    place.forth_latency_ps = forth.forth.latency_ps;
    place.back_latency_ps = back.back.latency_ps;
    place.back_bps = back.back.rate_bps;
    place.back_pmtu_bytes = back.pmtu_bytes;
    place.chunk = is_chain_ ? 0 : (number + ranks_ - offset) % ranks_;
    place.due_chunk = place.arriving_chunk = folded ? place.chunk : is_chain_ ? 0 : chunk_before(place.chunk);
    warm_up(number, request.warmup);
  }
}

void PluginRing::warm_up(std::uint32_t number, int iterations) {
  Place& place = places_[number];
  // The estimate doubles, so that no message but the last ones matters (a slice has at most 1 GiB).
  constexpr std::uint32_t kStepsThatMatter = 24;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::uint32_t chunk = place.due_chunk;
    for (std::uint32_t step = 0; step < recv_steps(number); ++step, chunk = chunk_before(chunk)) {
      place.first_entry += slices(chunk);
      if (recv_steps(number) > kStepsThatMatter && step < recv_steps(number) - kStepsThatMatter) continue;
      for (std::uint32_t slice = 0; slice < slices(chunk); ++slice) {
        place.entry_bytes = std::min(bytes_of(chunk, slice), 2 * place.entry_bytes + kFirstEntryBytes);
      }
    }
  }
}

std::uint64_t PluginRing::bytes_of(std::uint32_t chunk, std::uint32_t slice) const {
  if (slice + 1 < slices(chunk)) return full_bytes_;
  return chunk < longer_ ? last_long_bytes_ : last_short_bytes_;
}

std::uint64_t PluginRing::planned_slices() const {
  const std::uint64_t all = std::uint64_t{longer_} * long_slices_ + std::uint64_t{chunks_ - longer_} * short_slices_;
  if (is_chain_) return (ranks_ - 1) * all;
  // Each chunk crosses steps_ hops.
  return places() == 1 ? std::uint64_t{steps_} * short_slices_ : steps_ * all;
}

std::uint64_t PluginRing::planned_bytes() const {
  const std::uint64_t buffer = request_.elements * request_.element_bytes;
  if (is_chain_) return (ranks_ - 1) * buffer;
  const bool is_all_reduce = request_.collective == Collective::kAllReduce;
  return steps_ * (is_all_reduce ? buffer : ranks_ * buffer) / (places() == 1 ? ranks_ : 1);
}

void PluginRing::note(const ReplayRecord& record) {
  if (request_.trace != nullptr) request_.trace->push_back(record);
}

ReplayTotals PluginRing::run() {
  totals_.on_progress = request_.on_progress;
  for (std::uint32_t number = 0; number < places(); ++number) post_receives(number, 0);
  for (std::uint32_t number = 0; number < places(); ++number) post_sends(number, 0);
  while (!queue_.empty()) {
    const TimedEvent event = queue_.pop();
    if (event.tag != kWake) arrive(event.stream, event.tag - 1, event.when_ps);
    advance(event.stream, event.when_ps);
  }
  return totals_;
}

/// The receive that this slice fills is the oldest one; what it forwards may go on now.
void PluginRing::arrive(std::uint32_t number, std::uint32_t chunk, Picoseconds now_ps) {
  Place& place = places_[number];
  while (place.arriving_slice == slices(place.arriving_chunk)) {
    place.arriving_slice = 0;
    place.arriving_chunk = chunk_before(place.arriving_chunk);
  }
  totals_.misplaced += chunk == place.arriving_chunk ? 0 : 1;
  place.entry_bytes = std::min(bytes_of(chunk, place.arriving_slice), 2 * place.entry_bytes + kFirstEntryBytes);
  ++place.arriving_slice;
  ++place.received;
  if (place.notified != place.receives && !may_hold_back(place)) announce(number, now_ps);
}

void PluginRing::advance(std::uint32_t number, Picoseconds now_ps) {
  post_receives(number, now_ps);
  post_sends(number, now_ps);
}

void PluginRing::post_receives(std::uint32_t number, Picoseconds now_ps) {
  Place& place = places_[number];
  while (place.recv_step < recv_steps(number) && place.receives - place.received < kWindow) {
    if (place.recv_slice == slices(place.due_chunk)) {
      place.recv_slice = 0;
      place.due_chunk = chunk_before(place.due_chunk);
      ++place.recv_step;
      continue;
    }
    // One write covers one contiguous part of the ring.
    const std::uint64_t entry = (place.first_entry + place.receives) % kRingEntries;
    const bool wraps = place.notified != place.receives && entry < (place.first_entry + place.notified) % kRingEntries;
    if (wraps) announce(number, now_ps);
    ++place.receives;
    ++place.recv_slice;
    if (!may_hold_back(place)) announce(number, now_ps);
  }
}

void PluginRing::announce(std::uint32_t number, Picoseconds now_ps) {
  Place& place = places_[number];
  Place& sender = places_[before(number)];
  const std::uint64_t parts = place.receives - place.notified, bytes = parts * kClearToSendBytes;
  const Picoseconds start_ps = std::max(place.back_free_ps, now_ps);
  place.back_free_ps = start_ps + wire_time_ps(wire_bytes_of(bytes, place.back_pmtu_bytes, false), place.back_bps);
  const Picoseconds arrived_ps = place.back_free_ps + place.back_latency_ps;
  for (; place.notified < place.receives; ++place.notified)
    sender.cts_arrived_ps[place.notified % kWindow] = arrived_ps;
  sender.announced += parts;
  ++announcements_;
  announced_receives_ += parts;
  totals_.add(number, ~std::uint32_t{0}, arrived_ps, bytes, true);
  note({.posted_ps = now_ps,
        .started_ps = start_ps,
        .delivered_ps = arrived_ps,
        .completed_ps = arrived_ps + sender.forth_latency_ps,
        .source = rank_of(number),
        .destination = rank_of(before(number)),
        .payload_bytes = bytes,
        .is_data = false});
  if (sender.waits_for_cts) {
    sender.waits_for_cts = false;
    queue_.push({arrived_ps, before(number), kWake});
  }
}

void PluginRing::post_sends(std::uint32_t number, Picoseconds now_ps) {
  Place& place = places_[number];
  while (place.send_step < send_steps(number)) {
    if (place.send_slice == slices(place.chunk)) {
      place.send_slice = 0;
      place.chunk = chunk_before(place.chunk);
      ++place.send_step;
      continue;
    }
    const bool is_forwarded_now = is_forwarded(number, place.send_step);
    if (is_forwarded_now && place.forwarded == place.received) return;
    while (place.completed < place.sends && place.acknowledged_ps[place.completed % kWindow] <= now_ps)
      ++place.completed;
    if (place.sends - place.completed == kWindow) {
      queue_.push({place.acknowledged_ps[place.completed % kWindow], number, kWake});
      return;
    }
    const auto at = static_cast<std::size_t>(place.sends % kWindow);
    if (place.announced == place.sends) {  // the receiver has not posted a receive for it
      place.waits_for_cts = true;
      return;
    }
    if (place.cts_arrived_ps[at] > now_ps) {
      queue_.push({place.cts_arrived_ps[at], number, kWake});
      return;
    }
    const bool is_last = place.send_slice + 1 == slices(place.chunk);
    const Picoseconds wire_ps = !is_last                ? place.full_ps
                                : place.chunk < longer_ ? place.last_long_ps
                                                        : place.last_short_ps;
    const Picoseconds start_ps = std::max(place.forth_free_ps, now_ps);
    place.forth_free_ps = start_ps + wire_ps;
    const Picoseconds arrival_ps = place.forth_free_ps + place.forth_latency_ps;
    const Picoseconds completed_ps = arrival_ps + places_[next(number)].back_latency_ps;
    const std::uint64_t bytes = bytes_of(place.chunk, place.send_slice);
    place.acknowledged_ps[at] = completed_ps;
    totals_.add(next(number), place.chunk, arrival_ps, bytes, true);
    totals_.end_ps = std::max(totals_.end_ps, completed_ps);
    note({.posted_ps = now_ps,
          .started_ps = start_ps,
          .delivered_ps = arrival_ps,
          .completed_ps = completed_ps,
          .source = rank_of(number),
          .destination = rank_of(next(number)),
          .payload_bytes = bytes,
          .is_data = true});
    if (is_forwarded_now) ++place.forwarded;
    ++place.sends;
    ++place.send_slice;
    queue_.push({arrival_ps, next(number), place.chunk + 1});
  }
}

}  // namespace meshbed::sim
