#pragma once
// RecordedSchedule: which messages a run of the real plugin had, and what each of them waited for, so that they can be
// replayed on other links without plugin code.
//
// Nomenclature. Stream: a queue pair's messages one way, in order. Signal: something that a rank sees and that happens
// again and again: arrivals of a stream (at its destination), completions of a stream (its acknowledgements, at its
// source), begins and ends of a rank's calls. Wait: a signal and how often it must have happened. Item: one message, or
// the begin or the end of a rank's call; it happens `delay_ps` after the last of its waits.
//
// Waits are those of the item alone; what an earlier item of the same stream waited for has happened. A run shows when
// things happen, not why: schedule_recorder.h says which waits are taken.
//
// As text, a line each, numbers in decimal, times in picoseconds:
//   meshbed-schedule 1
//   scenario NAME | workload NAME | bytes N | warmup N    each once
//   stream NUMBER RANK PORT RANK PORT FLOW READS MTU  source and destination; PORT: node0/rocep1s0f0
//   post STREAM PAYLOAD WIRE RESPONSE DELAY WAIT...   in order of posting, of all ranks; fenced: IBV_SEND_FENCE
//   begin RANK DELAY WAIT... | end RANK DELAY WAIT...
//   items N                                     the last line
// WAIT is a3:12 (stream 3's 12th message has arrived), c3:12 (is acknowledged), b1:2 (rank 1 has begun its 2nd call),
// or e1:2 (has ended it).

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace meshbed::sim {

enum class SignalKind : std::uint8_t { kArrival, kCompletion, kBegin, kEnd };

struct ScheduleSignal {
  SignalKind kind = SignalKind::kArrival;
  std::uint32_t index = 0;  // a stream; of kBegin and kEnd a rank
  auto operator<=>(const ScheduleSignal&) const = default;
};

struct ScheduleWait {
  ScheduleSignal signal;
  std::uint64_t count = 0;  // >= 1
};

struct ScheduleStream {
  int source_rank = 0, destination_rank = 0;
  std::string source_port, destination_port;  // "node0/rocep1s0f0"
  std::uint64_t flow = 0;                     // what switches of several boxes select its links by
  std::uint32_t reads_most = 0;               // reads and atomics under way at one time
  std::uint32_t mtu_bytes = 0;                // of a packet between these ports, by their interfaces
};

enum class ItemKind : std::uint8_t { kPost, kBegin, kEnd };

struct ScheduleItem {
  ItemKind kind = ItemKind::kPost;
  std::uint32_t index = 0;  // its stream; of kBegin and kEnd its rank
  std::uint64_t payload_bytes = 0, wire_bytes = 0;
  std::uint64_t response_bytes = 0;  // on the wire back, of a read or an atomic; 0: it is acknowledged
  bool is_fenced = false;            // it starts when all reads and atomics before it have their responses
  Picoseconds delay_ps = 0;
  std::uint32_t first_wait = 0, waits = 0;  // in RecordedSchedule::waits
};

struct RecordedSchedule {
  std::string scenario, workload;
  std::uint64_t bytes = 0;
  int warmup = 0;
  int ranks = 0;  // one more than the largest that a stream or an item has
  std::vector<ScheduleStream> streams;
  std::vector<ScheduleItem> items;
  std::vector<ScheduleWait> waits;
};

std::string text_of(const RecordedSchedule& schedule);

/// Errors name the line, and what is wrong with it: also a schedule without a message, with calls that do not end, or
/// with nothing but warm-up.
Result<RecordedSchedule> parse_schedule(std::istream& text);

/// "c3:12"
std::string text_of(const ScheduleWait& wait);

}  // namespace meshbed::sim
