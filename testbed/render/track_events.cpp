// Cost: O(n log n) of messages, slots and calls; about 100 bytes of memory for each event beside its bytes in the file.

#include "testbed/render/track_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "plugin/ring/kernel/wait_chain.h"
#include "sim/engine/network.h"
#include "sim/perfetto/track_writer.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/megakernel/outcome.h"

namespace meshbed::testbed {
namespace {

using perfetto::Event;
using perfetto::kNoTrack;
using perfetto::Lanes;
using perfetto::Track;
using perfetto::TrackWriter;

constexpr std::uint32_t kRdmaRead = 4;  // infiniband/verbs.h, enum ibv_wr_opcode

/// The order of tracks below their parent.
enum NodePlace : std::uint32_t { kRankPlace = 0, kNicPlace = 100'000, kLinkPlace = 200'000 };
enum RankPlace : std::uint32_t { kCallPlace = 0, kNcclPlace, kSendPlace, kReceivePlace, kGpuPlace, kRingPlace };

std::string_view node_of_port(std::string_view port) { return port.substr(0, port.find('/')); }

/// "node0/rocep1s0f0>node1/rocep1s0f1" as the node's track of it.
std::string link_title(const std::string& link) {
  const std::size_t at = link.find('>');
  const std::string from = link.substr(0, at), to = link.substr(at + 1);
  const auto is_nic = [](const std::string& end) {
    return end.find('/') != end.npos && end.find("/pcie") == end.npos && end.find("/qsfp") == end.npos;
  };
  const std::string ends = from.empty() ? "into " + to : to.empty() ? "out of " + from : from + " > " + to;
  return (is_nic(from) && is_nic(to) ? "cable " : "link ") + ends;
}

/// The parent tracks, each created on first use, except processes: those are created in order of nodes, which gives
/// their pids.
class Groups {
 public:
  Groups(TrackWriter& writer, const Scenario& scenario, const RunResult& result)
      : writer_(writer), scenario_(scenario), links_(result.simulation.links) {
    for (const models::Node& node : scenario.cluster.nodes) {
      const int pid = static_cast<int>(processes_.size()) + 1;
      processes_.emplace(node.name, writer.process(pid, node.name));
    }
  }

  Track rank(int rank) {
    return made(fmt::format("rank {}", rank), [&](const std::string& name) {
      const std::string& node = scenario_.cluster.at(node_of(scenario_, rank)).name;
      return writer_.track(process(node), name, kRankPlace + static_cast<std::uint32_t>(rank));
    });
  }
  /// "node0/rocep1s0f0"
  Track nic(const std::string& port) {
    return made("NIC " + port, [&](const std::string& name) {
      const auto place = kNicPlace + static_cast<std::uint32_t>(made_.size());
      return writer_.track(process(node_of_port(port)), name, place);
    });
  }
  /// Below the node at which the link starts; if it starts at a switch, below the node at which it ends.
  Track link(std::size_t index) {
    const std::string& link = links_[index].name;
    return made(link_title(link), [&](const std::string& name) {
      const std::size_t at = link.find('>');
      Track parent = process(node_of_port(std::string_view(link).substr(0, at)));
      if (parent == kNoTrack) parent = process(node_of_port(std::string_view(link).substr(at + 1)));
      return writer_.track(parent, name, kLinkPlace + static_cast<std::uint32_t>(index));
    });
  }
  Track ring(int rank, int ring) {
    return made(fmt::format("rank {} ring {}", rank, ring), [&](const std::string&) {
      return writer_.track(this->rank(rank), fmt::format("ring {}", ring),
                           kRingPlace + static_cast<std::uint32_t>(ring));
    });
  }

 private:
  Track process(std::string_view node) const {
    const auto found = processes_.find(node);
    return found != processes_.end() ? found->second : kNoTrack;
  }
  template <typename Make>
  Track made(const std::string& name, const Make& make) {
    const auto found = made_.find(name);
    return found != made_.end() ? found->second : made_.emplace(name, make(name)).first->second;
  }

  TrackWriter& writer_;
  const Scenario& scenario_;
  const std::vector<sim::Link>& links_;
  std::map<std::string, Track, std::less<>> processes_;
  std::map<std::string, Track> made_;
};

/// Which operation a rank's n-th call was; nullptr: not known.
class CallPlans {
 public:
  explicit CallPlans(const std::vector<OperationRecord>& operations) {
    for (const OperationRecord& record : operations) plans_.insert(plans_.end(), record.count, &record);
  }
  const OperationRecord* of(std::size_t call) const { return call < plans_.size() ? plans_[call] : nullptr; }

 private:
  std::vector<const OperationRecord*> plans_;
};

using CallsByRank = std::map<int, std::vector<CallTime>>;  // in order

CallsByRank calls_by_rank(const RunResult& result) {
  CallsByRank calls;
  for (const CallTime& call : result.calls.times) calls[call.rank].push_back(call);
  for (auto& [rank, own] : calls) {
    std::stable_sort(own.begin(), own.end(),
                     [](const CallTime& left, const CallTime& right) { return left.start_ps < right.start_ps; });
  }
  return calls;
}

void write_calls(TrackWriter& writer, Groups& groups, const RunResult& result, const CallsByRank& calls) {
  const CallPlans plans(result.operations);
  for (const auto& [rank, own] : calls) {
    Lanes lanes(writer, groups.rank(rank), "calls", kCallPlace);
    for (std::size_t index = 0; index < own.size(); ++index) {
      Event event = writer.event("collective", result.workload);
      event.argument("call", index).argument("size", result.bytes);
      if (const OperationRecord* record = plans.of(index); record != nullptr && !record->plan.algorithm.empty()) {
        event.argument("algorithm", record->plan.algorithm).argument("protocol", record->plan.protocol);
        event.argument("channels", static_cast<std::uint64_t>(record->plan.channels));
        event.argument("timed", record->operation.timed ? "yes" : "no, warm-up");
      }
      lanes.slice(own[index].start_ps, own[index].end_ps, event);
    }
  }
  if (result.rings == nullptr) return;
  std::vector<RingCall> programs = result.rings->calls;
  std::stable_sort(programs.begin(), programs.end(),
                   [](const RingCall& left, const RingCall& right) { return left.start_ps < right.start_ps; });
  std::map<int, Lanes> lanes;
  for (const RingCall& call : programs) {
    lanes.try_emplace(call.rank, writer, groups.rank(call.rank), "calls", kCallPlace)
        .first->second.slice(call.start_ps, call.end_ps, writer.event("program", result.rings->program));
  }
}

/// The links that messages between two ports go over, by the ports' names.
class Paths {
 public:
  Paths(const Scenario& scenario, const RunResult& result) {
    for (const sim::Path& path : result.simulation.paths) {
      links_[{sim::port_name(scenario.cluster, path.source), sim::port_name(scenario.cluster, path.destination)}] =
          &path.links;
    }
  }
  /// nullptr: not known. The data of a read travels the other way.
  const std::vector<int>* of(const TracedMessage& message) const {
    const auto found = message.opcode == kRdmaRead ? links_.find(std::tie(message.destination, message.source))
                                                   : links_.find(std::tie(message.source, message.destination));
    return found != links_.end() ? found->second : nullptr;
  }

 private:
  struct Less {
    using is_transparent = void;
    template <typename Left, typename Right>
    bool operator()(const Left& left, const Right& right) const {
      return std::tie(std::get<0>(left), std::get<1>(left)) < std::tie(std::get<0>(right), std::get<1>(right));
    }
  };
  std::map<std::pair<std::string, std::string>, const std::vector<int>*, Less> links_;
};

Picoseconds end_of(const TracedMessage& message) {
  return message.completed_ps >= 0 ? message.completed_ps : message.delivered_ps;
}
bool is_sent(const TracedMessage& message) {
  return message.posted_ps >= 0 && end_of(message) >= message.posted_ps;  // else its end is not known
}
bool is_on_wire(const TracedMessage& message) {
  return message.started_ps >= message.posted_ps && message.delivered_ps >= message.started_ps;
}

/// Indices of the messages for which `has` holds, by `time`.
template <typename Has>
std::vector<std::size_t> by_time(const std::vector<TracedMessage>& messages, Picoseconds TracedMessage::*time,
                                 Has has) {
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < messages.size(); ++index) {
    if (has(messages[index])) order.push_back(index);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t left, std::size_t right) { return messages[left].*time < messages[right].*time; });
  return order;
}

/// Counts the messages of a connection within each call of its rank.
class Steps {
 public:
  explicit Steps(const CallsByRank& calls) : calls_(calls) {}

  struct Step {
    std::size_t call = 0, step = 0;
  };
  /// Messages come in the order of their posts. False: it belongs to no call.
  bool next(const TracedMessage& message, Step* step) {
    const auto found = calls_.find(message.source_rank);
    if (found == calls_.end()) return false;
    std::size_t& at = at_[message.source_rank];
    while (at < found->second.size() && found->second[at].end_ps < message.posted_ps) ++at;
    if (at == found->second.size() || found->second[at].start_ps > message.posted_ps) return false;
    auto& [call, count] = counts_[{message.source_rank, message.source_qp}];
    if (call != at) count = 0;
    call = at;
    *step = {at, count++};
    return true;
  }

 private:
  const CallsByRank& calls_;
  std::map<int, std::size_t> at_;
  std::map<std::pair<int, std::uint32_t>, std::pair<std::size_t, std::size_t>> counts_;  // call, messages in it
};

std::string path_text(const TracedMessage& message) { return message.source + " > " + message.destination; }

/// Message n has the flow n + 1: isend, the wire, irecv.
void write_messages(TrackWriter& writer, Groups& groups, int ranks, const CallsByRank& calls,
                    const std::vector<TracedMessage>& messages) {
  Steps steps(calls);
  std::map<int, Lanes> sends;
  const auto is_rank = [ranks](int rank) {
    return rank >= 0 && rank < ranks;
  };  // a process outside the job has no rank
  const auto leaves = [&](const TracedMessage& one) { return is_sent(one) && is_rank(one.source_rank); };
  for (const std::size_t index : by_time(messages, &TracedMessage::posted_ps, leaves)) {
    const TracedMessage& message = messages[index];
    const std::string name = fmt::format("{} to rank {}", opcode_name(message.opcode), message.destination_rank);
    Event event = writer.event("isend", name);
    event.argument("size", message.payload_bytes).argument("path", path_text(message));
    event.argument("qp", std::uint64_t{message.source_qp}).argument("sequence", message.sequence);
    if (Steps::Step step; steps.next(message, &step)) event.argument("call", step.call).argument("step", step.step);
    if (message.status != 0 && message.status != kStatusUnknown) {
      event.argument("status", std::uint64_t{message.status});
    }
    if (message.delivered_ps >= message.posted_ps) event.flow(index + 1);
    sends.try_emplace(message.source_rank, writer, groups.rank(message.source_rank), "isend", kSendPlace)
        .first->second.slice(message.posted_ps, end_of(message), event);
  }
  std::map<std::string, Lanes> wires;
  for (const std::size_t index : by_time(messages, &TracedMessage::started_ps, is_on_wire)) {
    const TracedMessage& message = messages[index];
    Event event = writer.event("wire", opcode_name(message.opcode));
    event.argument("size", message.payload_bytes).argument("path", path_text(message));
    if (leaves(message)) event.flow(index + 1);
    wires.try_emplace(message.source, writer, groups.nic(message.source), "wire")
        .first->second.slice(message.started_ps, message.delivered_ps, event);
  }
  std::map<int, Track> receives;
  const auto arrives = [&](const TracedMessage& one) { return one.delivered_ps >= 0 && is_rank(one.destination_rank); };
  for (const std::size_t index : by_time(messages, &TracedMessage::delivered_ps, arrives)) {
    const TracedMessage& message = messages[index];
    Event event =
        writer.event("irecv", fmt::format("{} from rank {}", opcode_name(message.opcode), message.source_rank));
    event.argument("size", message.payload_bytes).argument("path", path_text(message));
    if (leaves(message) && message.delivered_ps >= message.posted_ps) event.flow_end(index + 1);
    const auto found = receives.try_emplace(message.destination_rank, kNoTrack).first;
    if (found->second == kNoTrack) {
      found->second = writer.track(groups.rank(message.destination_rank), "irecv", kReceivePlace);
    }
    writer.instant(found->second, message.delivered_ps, event);
  }
}

/// Of each link the part of its rate that it carried, in each of LinkLoad's bins.
void write_utilisation(TrackWriter& writer, Groups& groups, const RunResult& result) {
  constexpr double kPercent = 100;
  for (std::size_t index = 0; index < result.simulation.links.size(); ++index) {
    const sim::Link& link = result.simulation.links[index];
    if (link.load.bins().empty()) continue;
    const Track track = writer.counter(groups.link(index), "utilisation", "%", 0);
    const double bin_s = static_cast<double>(link.load.width_ps()) / static_cast<double>(kPicosecondsPerSecond);
    const double full_bytes = static_cast<double>(link.rate_bps) / 8 * bin_s;
    double shown = -1;
    Picoseconds at_ps = 0;
    for (const std::uint64_t bytes : link.load.bins()) {
      const double percent = std::min(kPercent, kPercent * static_cast<double>(bytes) / full_bytes);
      if (percent != shown) writer.count(track, at_ps, percent);
      shown = percent;
      at_ps += link.load.width_ps();
    }
    writer.count(track, at_ps, 0.0);
  }
}

/// Of each link the messages that go over it, from their posts until they are delivered or given up.
void write_queues(TrackWriter& writer, Groups& groups, const Scenario& scenario, const RunResult& result,
                  const std::vector<TracedMessage>& messages) {
  const Paths paths(scenario, result);
  std::map<int, std::map<Picoseconds, std::int64_t>> changes;  // by link and nanosecond
  for (const TracedMessage& message : messages) {
    const std::vector<int>* links = is_sent(message) ? paths.of(message) : nullptr;
    if (links == nullptr) continue;
    const Picoseconds until_ps =
        message.delivered_ps >= message.posted_ps ? message.delivered_ps : message.completed_ps;
    for (const int link : *links) {
      ++changes[link][message.posted_ps / kPicosecondsPerNanosecond];
      --changes[link][until_ps / kPicosecondsPerNanosecond];
    }
  }
  for (const auto& [link, times] : changes) {
    const Track track = writer.counter(groups.link(static_cast<std::size_t>(link)), "queue depth", "messages", 1);
    writer.count(track, 0, std::int64_t{0});
    std::int64_t depth = 0;
    for (const auto& [at_ns, change] : times) {
      depth += change;
      if (change != 0) writer.count(track, at_ns * kPicosecondsPerNanosecond, depth);
    }
  }
}

bool ends_slot(RingEventKind kind) {
  return kind == RingEventKind::kDone || kind == RingEventKind::kYield || kind == RingEventKind::kRequeue ||
         kind == RingEventKind::kFault || kind == RingEventKind::kAbandoned;
}

/// A slot's slice lasts from its claim until its lane leaves it; events between are instants.
void write_slots(TrackWriter& writer, Groups& groups, const RingOutcome& rings) {
  struct Slot {
    Track track = kNoTrack;
    Picoseconds claimed_ps = -1;  // -1: it is not claimed
    std::vector<const RingEvent*> steps{};
  };
  std::map<std::tuple<int, int, std::uint32_t>, Slot> slots;  // by rank, ring and slot
  for (const RingEvent& event : rings.trace.events()) {
    Slot& slot = slots[{event.rank, event.ring, event.slot}];
    if (event.kind == RingEventKind::kClaim) {
      slot.claimed_ps = event.at_ps;
      slot.steps.clear();
      continue;
    }
    if (slot.claimed_ps < 0) continue;  // published, or seen only by the host
    if (!ends_slot(event.kind)) {
      slot.steps.push_back(&event);
      continue;
    }
    if (slot.track == kNoTrack) {
      slot.track = writer.track(groups.ring(event.rank, event.ring), fmt::format("slot {}", event.slot), event.slot);
    }
    Event slice = writer.event("slot", ring::operation_name(event.opcode));
    slice.argument("end", name_of(event.kind)).argument("epoch", std::uint64_t{event.epoch});
    const auto step =
        std::find_if(slot.steps.begin(), slot.steps.end(), [](const RingEvent* one) { return one->source >= 0; });
    if (const RingEvent& message = step != slot.steps.end() ? **step : event; message.source >= 0) {
      slice.argument("source", static_cast<std::uint64_t>(message.source));
      slice.argument("destination", static_cast<std::uint64_t>(message.destination));
      slice.argument("channel", static_cast<std::uint64_t>(message.channel));
      slice.argument("message", std::uint64_t{message.message});
    }
    writer.begin(slot.track, slot.claimed_ps, slice);
    for (const RingEvent* one : slot.steps) {
      writer.instant(slot.track, one->at_ps, writer.event("slot", name_of(one->kind)));
    }
    writer.end(slot.track, event.at_ps);
    slot.claimed_ps = -1;
  }
}

/// How NCCL carried out such a call of a program's; nullptr: its profiler did not announce it.
const NcclDecision* decision_of(const NcclCallSpan& call, const std::vector<NcclDecision>& all) {
  for (const NcclDecision& one : all) {
    const bool is_same = call.name == "nccl" + one.operation && call.datatype == one.datatype;
    const auto ranks = static_cast<std::uint64_t>(one.ranks);
    if (is_same && one.is_announced() && (one.bytes == call.bytes || one.bytes == call.bytes * ranks)) return &one;
  }
  return nullptr;
}

void write_nccl_calls(TrackWriter& writer, Groups& groups, const RunResult& result) {
  std::map<std::pair<int, std::uint64_t>, Lanes> threads;
  for (const NcclCallSpan& call : result.simulation.nccl_calls) {
    Event event = writer.event("nccl", call.name);
    if (!call.datatype.empty()) {
      event.argument("count", call.count).argument("datatype", call.datatype).argument("bytes", call.bytes);
    }
    if (call.peer >= 0) {
      const bool is_message = call.name == "ncclSend" || call.name == "ncclRecv";
      event.argument(is_message ? "peer" : "root", static_cast<std::uint64_t>(call.peer));
    }
    if (const NcclDecision* decision = decision_of(call, result.simulation.nccl.decisions)) {
      event.argument("algorithm", decision->algorithm).argument("protocol", decision->protocol);
      event.argument("channels", static_cast<std::uint64_t>(decision->channels));
    }
    if (call.end_ps < 0) event.argument("end", "it did not return");
    const std::string title = call.thread == 1 ? "NCCL calls" : fmt::format("NCCL calls, thread {}", call.thread);
    threads.try_emplace({call.rank, call.thread}, writer, groups.rank(call.rank), title, kNcclPlace)
        .first->second.slice(call.start_ps, call.end_ps < 0 ? result.simulation.elapsed_ps : call.end_ps, event);
  }
}

void write_gpus(TrackWriter& writer, Groups& groups, const RunResult& result) {
  std::vector<GpuSpan> spans = result.simulation.gpu_spans;
  std::stable_sort(spans.begin(), spans.end(),
                   [](const GpuSpan& left, const GpuSpan& right) { return left.start_ps < right.start_ps; });
  std::map<std::pair<int, std::string>, Lanes> streams;
  for (const GpuSpan& span : spans) {
    Event event = writer.event(span.is_call ? "cuda" : "gpu", span.name);
    if (!span.grid.empty()) event.argument("grid", span.grid);
    if (span.bytes > 0) event.argument("bytes", span.bytes);
    streams.try_emplace({span.rank, span.track}, writer, groups.rank(span.rank), span.track, kGpuPlace)
        .first->second.slice(span.start_ps, span.end_ps, event);
  }
}

void write_faults(TrackWriter& writer, Groups& groups, const Scenario& scenario, const RunResult& result) {
  if (!result.simulation.faults.empty()) {
    const Track track = writer.track(kNoTrack, "faults");
    for (const FaultEvent& fault : result.simulation.faults) {
      writer.instant(track, fault.at_ps, writer.event("fault", text_of(scenario, fault.step)));
    }
  }
  std::map<int, Track> tracks;
  for (const RankError& error : result.simulation.errors) {
    if (error.rank < 0 || error.rank >= ranks_of(scenario)) continue;
    const auto found = tracks.try_emplace(error.rank, kNoTrack).first;
    if (found->second == kNoTrack) found->second = writer.track(groups.rank(error.rank), "errors", kCallPlace);
    Event event = writer.event("error", error.error_class);
    writer.instant(found->second, error.at_ps, event.argument("text", error.text));
  }
}

}  // namespace

std::string track_events(const Scenario& scenario, const RunResult& result,
                         const std::vector<TracedMessage>& messages) {
  TrackWriter writer;
  Groups groups(writer, scenario, result);
  const CallsByRank calls = calls_by_rank(result);
  write_calls(writer, groups, result, calls);
  write_messages(writer, groups, ranks_of(scenario), calls, messages);
  write_utilisation(writer, groups, result);
  write_queues(writer, groups, scenario, result, messages);
  if (result.rings != nullptr) write_slots(writer, groups, *result.rings);
  write_nccl_calls(writer, groups, result);
  write_gpus(writer, groups, result);
  write_faults(writer, groups, scenario, result);
  return writer.finish();
}

}  // namespace meshbed::testbed
