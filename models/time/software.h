#pragma once
// Software: what the software of a class of machines costs a run, at the places where a run can spend it. Pure.
//
// A run carries bytes over its scenario's links itself; everything else of models/time/collective_time.h is spent:
//   call    launch + pairs + peers, by each rank before its call: a run's calls are neither eager nor behind a barrier
//   bytes   fill + ramp + LL spill + waves + reduce + copy, and lines: what LL and LL128 move beyond what the run's own
//           messages do; by each rank before its call
//   hop     net_<protocol>_us + net_latency_us - wire_us: of each message, from its arrival until its receiver goes on.
//           A latency, not work: of messages that come one behind the other each goes on `hop` after its own arrival.
//           wire_us is what the class's wire and adapters take of it, in whose place the scenario's latency stands
//   rate    NICs carry nic_fraction of their rate, and no more together than host_cap_GBps
// so that steps of one message each come to   launch + steps (latency + hop) + W / (fraction rate) + bytes.

#include <vector>

#include "models/time/collective_time.h"
#include "plugin/base/units.h"

namespace meshbed::models {

struct SoftwareCost {
  Picoseconds call_ps = 0, bytes_ps = 0, hop_ps = 0;
};

/// Of a call between nodes: what a class has of links within one is no run's.
/// `payload_factor`: bytes that the run's own messages have for each byte of payload; 2 where it sends lines of LL.
SoftwareCost software_cost(const Machine& machine, const CollectiveCall& call, double payload_factor = 1);
/// For messages that belong to no known collective, as those of a recording: NCCL's Simple unless given. A call is one
/// launch.
SoftwareCost software_cost_of_messages(const Machine& machine, CollectiveProtocol protocol);

/// What is left of a NIC's rate, of a node that has `nics` of them; at least 1 bit/s.
std::uint64_t reached_bps(const Machine& machine, std::uint64_t rate_bps, int nics);

/// The parameters that those equations read for the call, in the order of the profile's; without those that are there
/// by default and change nothing.
std::vector<MachineParameter> parameters_of(const Machine& machine, const CollectiveTime& time);

}  // namespace meshbed::models
