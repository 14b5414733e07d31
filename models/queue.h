#pragma once
// Queue model: what a slot's way through a device ring costs, as pure functions of values. Times are picoseconds, rates
// bytes a second. Values stand in profiles (models/profiles), each with where it comes from; the names here are the
// names there. What a whole one-shot exchange takes is models/time/collective_time.h's (CollectiveAlgorithm::kDirect).
//
// A slot's way, in its order (the parameters that all device rings share, for any producer and consumer):
//   publish      the producer writes the slot
//   visibility   until the other side's loads see what was written
//   claim        the consumer takes the slot, by an atomic
//   poll         the consumer's spin: until it looks again
//   doorbell     from a lane's SIGNAL until the poster has seen it (host proxy), or the NIC has (device)
//   post         the work request is built and handed to the NIC; by the host proxy, one message after the other
//   flag         after the data has arrived, until the flag stands in memory. Nothing of its own where the NIC writes
//                it behind the data on one queue pair, which keeps their order; a look of the receiving proxy elsewhere
//   credit       from the end of a message until its sender may use the room again
//
//   slot_ps     = visibility + poll + claim
//   message_ps  = doorbell + post + latency + bytes / rate + flag + poll
//   round_ps    = publish + slot_ps + message_ps + credit
//   slots/s     = min(1 / publish, depth / round)        a ring of `depth` slots, each back after one round

#include <cstdint>

#include "models/profile.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::models {

struct QueueModel {
  Picoseconds publish_ps = 0, visibility_ps = 0, claim_ps = 0, poll_ps = 0, doorbell_ps = 0, post_ps = 0, flag_ps = 0,
              credit_ps = 0;
};
/// All of its parameters must be in the profile; the error names the first that is not.
Result<QueueModel> queue_model(const Profile& profile);

struct Wire {
  Picoseconds latency_ps = 0;
  double bytes_per_second = 0;  // 0: size costs nothing
};

/// Bytes that pass at a rate; 0 where the rate is 0 (unbounded).
Picoseconds passing_ps(std::uint64_t bytes, double bytes_per_second);

/// From a published slot to its consumer's first instruction.
Picoseconds slot_ps(const QueueModel& queue);
/// From SIGNAL to the end of the WAIT on the other side.
Picoseconds message_ps(const QueueModel& queue, const Wire& wire, std::uint64_t bytes);
/// From a slot's publication until its room is free again.
Picoseconds round_ps(const QueueModel& queue, const Wire& wire, std::uint64_t bytes);
/// Of a ring of `depth` slots that one producer fills without a pause; `depth` is 1 at least.
double slots_per_second(const QueueModel& queue, const Wire& wire, std::uint64_t bytes, std::uint64_t depth);

}  // namespace meshbed::models
