#include "sim/trace/recorder.h"

#include <fmt/compile.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "sim/engine/network.h"

namespace meshbed::sim {

namespace {

/// "::ffff:192.168.100.1"
std::string gid_text(const models::RawGid& gid) {
  return to_text(models::IpAddress{.family = models::Family::kIpv6, .bytes = gid});
}

}  // namespace

std::string endpoint_name(const models::Cluster& cluster, const models::PortRef& port) {
  const bool known = port.node >= 0 && static_cast<std::size_t>(port.node) < cluster.nodes.size() && port.nic >= 0 &&
                     static_cast<std::size_t>(port.nic) < cluster.at(port.node).nics.size();
  return known ? port_name(cluster, port) : "nowhere";
}

std::string message_name(const models::Cluster& cluster, const MessageRecord& record) {
  return fmt::format("rank {} {} -> rank {} {}, message {} of QP {:#x}", record.source_rank,
                     endpoint_name(cluster, record.source), record.destination_rank,
                     endpoint_name(cluster, record.destination), record.sequence, record.source_qp);
}

Recorder::Recorder(const models::Cluster& cluster, const std::string& trace_path)
    : cluster_(cluster), trace_path_(trace_path) {
  if (trace_path.empty()) return;
  trace_.open(trace_path);
  if (!trace_) throw std::runtime_error(fmt::format("cannot write {}: {}", trace_path, std::strerror(errno)));
  trace_ << "posted_ps,started_ps,delivered_ps,completed_ps,source_rank,destination_rank,source,destination,source_gid,"
            "destination_gid,source_qp,destination_qp,sequence,opcode,payload_bytes,wire_bytes,status,tries,deliveries,"
            "immediate\n";
}

Recorder::Flow& Recorder::flow_of(const MessageRecord& record) {
  Flow& flow = flows_[record.source_qp];
  if (flow.destination_rank != nullptr && flow.source == record.source && flow.destination == record.destination &&
      flow.destination_qp == record.destination_qp) {
    return flow;
  }
  const QueuePairId source{record.source, record.source_qp};
  const QueuePairId destination{record.destination, record.destination_qp};
  const bool forth = source < destination;
  auto& ends = connections_.try_emplace(forth ? std::pair{source, destination} : std::pair{destination, source}, -1, -1)
                   .first->second;
  flow = {.source = record.source,
          .destination = record.destination,
          .destination_qp = record.destination_qp,
          .destination_rank = forth ? &ends.second : &ends.first,
          .usage = nullptr,
          .usage_rank = -1,
          .carried = nullptr,
          .carried_at = 0,
          .ends = fmt::format("{},{},{},{}", endpoint_name(cluster_, record.source),
                              endpoint_name(cluster_, record.destination), gid_text(record.source_gid),
                              gid_text(record.destination_gid))};
  if (record.source_rank >= 0) (forth ? ends.first : ends.second) = record.source_rank;
  return flow;
}

void Recorder::message(const MessageRecord& told) {
  Flow& flow = flow_of(told);
  MessageRecord record = told;
  if (told.destination_rank >= 0) *flow.destination_rank = told.destination_rank;
  record.destination_rank = *flow.destination_rank;
  digest_.add(record);
  ++totals_.messages;
  totals_.payload_bytes += record.payload_bytes;
  if (record.tries > 1) ++totals_.retransmitted;
  if (record.status == IBV_WC_SUCCESS) {
    ++totals_.succeeded;
    if (record.deliveries != 1) {
      if (totals_.unmatched++ == 0) {
        totals_.first_unmatched =
            fmt::format("{} was executed {} times", message_name(cluster_, record), record.deliveries);
      }
    }
  }

  if (flow.usage == nullptr || flow.usage_rank != record.destination_rank) {
    flow.usage = &pairs_[{record.source_rank, record.destination_rank, record.source, record.destination}];
    flow.usage_rank = record.destination_rank;
    flow.carried_at = 0;
  }
  if (flow.carried_at != takes_) {
    flow.carried = &carried_[{record.source_rank, record.destination_rank, record.source, record.destination}];
    flow.carried_at = takes_;
  }
  for (PairUsage* usage : {flow.usage, flow.carried}) {
    ++usage->messages;
    usage->payload_bytes += record.payload_bytes;
    usage->wire_bytes += record.wire_bytes;
  }

  if (trace_.is_open()) write_line(record, flow.ends);
  if (also_to_ != nullptr) also_to_->message(record);
}

void Recorder::close() {
  if (!trace_.is_open()) return;
  errno = 0;
  trace_.close();
  if (trace_) return;
  throw std::runtime_error(
      fmt::format("cannot write {}: {}", trace_path_, errno != 0 ? std::strerror(errno) : "not all of it was taken"));
}

void Recorder::write_line(const MessageRecord& record, const std::string& ends) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), FMT_COMPILE("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n"),
                 record.posted_ps, record.started_ps, record.delivered_ps, record.completed_ps, record.source_rank,
                 record.destination_rank, ends, record.source_qp, record.destination_qp, record.sequence, record.opcode,
                 record.payload_bytes, record.wire_bytes, record.status, record.tries, record.deliveries,
                 record.immediate);
  trace_.write(line.data(), static_cast<std::streamsize>(line.size()));
}

}  // namespace meshbed::sim
