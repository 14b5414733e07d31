#pragma once
// Queue model: what a slot's way through a device ring costs, and what a one-shot exchange of such messages comes to,
// as pure functions of values. Times are picoseconds, rates bytes a second. Values stand in profiles (models/profiles),
// each with where it comes from; the names here are the names there.
//
// A slot's way, in its order (the parameters that all device rings share, whoever is producer and consumer):
//   publish      the producer writes the slot
//   visibility   until the other side's loads see what was written
//   claim        the consumer takes the slot, by an atomic
//   poll         the consumer's spin: until it looks again
//   doorbell     from a lane's SIGNAL until who posts has seen it (host proxy), or the NIC has (device)
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

/// A one-shot exchange (device rings, section 4): every rank stages its buffer of b bytes, puts all of it to every
/// other rank with a flag behind it, and combines what n ranks have put, in rank order. On a switchless ring of four
/// the opposite rank is reached by a neighbour's proxy, which forwards: one hop more, and each NIC sends 3 b.
///
///   t = launch + (2 b + r) / memory + fence + grid_sync + hops half_round_trip + posted / nic_rate + grid_sync + rest
///   r = (n + 1) b   all-reduce: n buffers read, one written        r = 2 n b   all-gather: n read, n written
///   posted = hops == 1 ? b : 3 b;  half_round_trip: of one byte, doorbell, post, wire and poll together
struct OneShotModel {
  Picoseconds launch_ps = 0;           // operation_launch: of one more kernel in a graph
  Picoseconds fence_ps = 0;            // system_fence
  Picoseconds grid_sync_ps = 0;        // the last block is found, twice
  Picoseconds half_round_trip_ps = 0;  // GPU to GPU, one byte
  Picoseconds rest_ps = 0;             // call_rest: calibrated, what is left
  double nic_bytes_per_second = 0;     // nic_rate: of all ports of a node together
  double memory_bytes_per_second = 0;  // memory_rate
};
Result<OneShotModel> one_shot_model(const Profile& profile);

struct OneShotShape {
  bool reduces = true;  // all-reduce; else all-gather
  int ranks = 2;
  bool relayed = false;            // a switchless ring of four
  std::uint64_t buffer_bytes = 0;  // b
};
struct OneShotTime {
  Picoseconds launch_ps = 0, memory_ps = 0, queue_ps = 0, wire_ps = 0, rest_ps = 0;
  Picoseconds total_ps() const { return launch_ps + memory_ps + queue_ps + wire_ps + rest_ps; }
};
OneShotTime one_shot_time(const OneShotModel& model, const OneShotShape& shape);

}  // namespace meshbed::models
