#include "testbed/render/perfetto.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "plugin/ring/kernel/wait_chain.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/megakernel/outcome.h"

namespace meshbed::testbed {
namespace {

constexpr Picoseconds kPicosecondsPerTraceUnit = 1'000'000;

std::string trace_time(Picoseconds at_ps) {
  return fmt::format("{}.{:06}", at_ps / kPicosecondsPerTraceUnit, at_ps % kPicosecondsPerTraceUnit);
}

std::string time_if_known(const char* name, Picoseconds at_ps) {
  return at_ps < 0 ? "" : fmt::format(R"(,"{}":{})", name, trace_time(at_ps));
}

class TraceWriter {
 public:
  void event(const std::string& fields) {
    text_ += count_++ == 0 ? "\n" : ",\n";
    text_ += "{" + fields + "}";
  }
  void pair(const char* category, const std::string& name, const std::string& id, int rank, Picoseconds from_ps,
            Picoseconds to_ps, const std::string& arguments) {
    const std::string common =
        fmt::format(R"("cat":"{}","name":{},"id":"{}","pid":{},"tid":0)", category, quoted(name), id, rank);
    event(fmt::format(R"("ph":"b",{},"ts":{},"args":{{{}}})", common, trace_time(from_ps), arguments));
    event(fmt::format(R"("ph":"e",{},"ts":{})", common, trace_time(to_ps)));
  }
  static std::string quoted(const std::string& text) { return json_text(nlohmann::json(text)); }
  std::string finish() { return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[" + text_ + "\n]}\n"; }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

void name_ranks(TraceWriter& writer, const Scenario& scenario) {
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    const std::string& node = scenario.cluster.nodes[static_cast<std::size_t>(node_of(scenario, rank))].name;
    writer.event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", rank,
                             TraceWriter::quoted(fmt::format("rank {} ({})", rank, node))));
  }
}

void write_collectives(TraceWriter& writer, const RunResult& result) {
  for (const CallTime& call : result.calls.times) {
    writer.event(fmt::format(R"("ph":"X","cat":"collective","name":{},"pid":{},"tid":0,"ts":{},"dur":{})",
                             TraceWriter::quoted(result.workload), call.rank, trace_time(call.start_ps),
                             trace_time(call.end_ps - call.start_ps)));
  }
}

void write_messages(TraceWriter& writer, const std::vector<TracedMessage>& messages) {
  std::size_t number = 0;
  for (const TracedMessage& message : messages) {
    const Picoseconds end_ps = message.completed_ps >= 0 ? message.completed_ps : message.delivered_ps;
    if (message.posted_ps < 0 || end_ps < message.posted_ps) continue;  // its end is not known
    writer.pair("wire", fmt::format("{} to rank {}", opcode_name(message.opcode), message.destination_rank),
                fmt::format("m{}", number++), message.source_rank, message.posted_ps, end_ps,
                fmt::format(R"("payload_bytes":{},"source":{},"destination":{}{}{})", message.payload_bytes,
                            TraceWriter::quoted(message.source), TraceWriter::quoted(message.destination),
                            time_if_known("started_us", message.started_ps),
                            time_if_known("delivered_us", message.delivered_ps)));
  }
}

/// From its claim to what its lane leaves it as.
void write_slots(TraceWriter& writer, const RingOutcome& rings) {
  struct Claimed {
    Picoseconds at_ps = 0;
    std::string steps;
  };
  std::map<std::tuple<int, int, std::uint32_t>, Claimed> claimed;  // by rank, ring and slot
  std::size_t number = 0;
  for (const RingEvent& event : rings.trace.events()) {
    const std::tuple key(event.rank, event.ring, event.slot);
    if (event.kind == RingEventKind::kPublish) continue;
    if (event.kind == RingEventKind::kClaim) {
      claimed[key] = {event.at_ps, ""};
      continue;
    }
    const auto found = claimed.find(key);
    if (found == claimed.end()) continue;
    found->second.steps += (found->second.steps.empty() ? "" : " ") + std::string(name_of(event.kind));
    const bool ends = event.kind == RingEventKind::kDone || event.kind == RingEventKind::kYield ||
                      event.kind == RingEventKind::kRequeue || event.kind == RingEventKind::kFault ||
                      event.kind == RingEventKind::kAbandoned;
    if (!ends) continue;
    writer.pair(
        "slot", fmt::format("slot {} {}", event.slot, ring::operation_name(event.opcode)), fmt::format("s{}", number++),
        event.rank, found->second.at_ps, event.at_ps,
        fmt::format(R"("steps":"{}","epoch":{},"message":{})", found->second.steps, event.epoch, event.message));
    claimed.erase(found);
  }
}

void write_fault_instants(TraceWriter& writer, const Scenario& scenario, const RunResult& result) {
  for (const FaultEvent& fault : result.simulation.faults) {
    writer.event(fmt::format(R"("ph":"i","s":"g","cat":"fault","name":{},"pid":0,"tid":0,"ts":{})",
                             TraceWriter::quoted(text_of(scenario, fault.step)), trace_time(fault.at_ps)));
  }
}

}  // namespace

std::string perfetto_trace(const Scenario& scenario, const RunResult& result,
                           const std::vector<TracedMessage>& messages) {
  TraceWriter writer;
  name_ranks(writer, scenario);
  write_collectives(writer, result);
  write_messages(writer, messages);
  if (result.rings != nullptr) write_slots(writer, *result.rings);
  write_fault_instants(writer, scenario, result);
  return writer.finish();
}

}  // namespace meshbed::testbed
