#pragma once
// Replays a RecordedSchedule on a cluster's links: each message when what it waits for has happened. Links are shared
// as in runs of the real plugin (sim/engine/chunk_fabric.cpp); there is no plugin code, no simulated thread, no process
// a rank.
//
// A stream puts one message at a time on its links. A message has arrived a path's latency after its last bit has left,
// and is acknowledged one latency later. Within one instant, what happens comes before what is posted, and messages are
// posted in the order of the schedule, as ranks do it in a run.
//
// Cost: three events a message, and those of the fabric; about 150 bytes a message.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"
#include "sim/engine/network.h"
#include "sim/replay/recorded_schedule.h"
#include "sim/replay/replay.h"

namespace meshbed::sim {

/// Of one item; -1: not of its kind. Of a begin or an end, when it happened is `posted_ps`.
struct ItemTimes {
  Picoseconds posted_ps = -1, started_ps = -1, delivered_ps = -1, completed_ps = -1;
};

struct RecordedReplayOptions {
  Picoseconds give_up_ps = 0;  // nothing is simulated beyond this time; 0: no limit
  ReplayProgress on_progress = nullptr;
};

struct RecordedOutcome {
  std::vector<ItemTimes> times;  // as the schedule's items
  Picoseconds end_ps = 0;        // of the last thing that happened
  std::uint64_t events = 0;
  bool gave_up = false;     // it takes longer than RecordedReplayOptions::give_up_ps
  std::vector<Link> links;  // with what they carried
};

/// Payload of a packet, as RoCE takes it from the interfaces' MTU.
std::uint32_t mtu_between(const models::Cluster& cluster, models::PortRef one, models::PortRef other);

/// [as in a schedule: "node0/rocep1s0f0"]
std::map<std::string, models::PortRef> ports_by_name(const models::Cluster& cluster);

/// An error names the port that the cluster lacks, two ports that nothing joins, a wait for more than there is, or the
/// first item that never happens.
Result<RecordedOutcome> replay_schedule(const RecordedSchedule& schedule, const models::Cluster& cluster,
                                        const RecordedReplayOptions& options = {});

}  // namespace meshbed::sim
