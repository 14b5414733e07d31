#include "testbed/world/metal_trace.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "emu/trace/verbs_trace.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

using QpCall = std::size_t (*)(meshbed_traced_qp*, std::size_t);
using MessageCall = std::size_t (*)(meshbed_traced_message*, std::size_t);

struct Calls {
  QpCall qps = nullptr;
  MessageCall messages = nullptr;
};
Calls g_calls;

std::string hex(std::span<const std::uint8_t> gid) {
  std::string text;
  for (const std::uint8_t byte : gid) text += fmt::format("{:02x}", byte);
  return text;
}

/// What hex() made into text.
models::RawGid raw_gid(const std::string& text) {
  models::RawGid gid{};
  for (std::size_t byte = 0; byte < gid.size() && 2 * byte + 1 < text.size(); ++byte) {
    gid[byte] = static_cast<std::uint8_t>(std::stoul(text.substr(2 * byte, 2), nullptr, 16));
  }
  return gid;
}

/// One queue pair of one rank.
struct End {
  int rank = -1;
  models::PortRef port{-1, -1};
  std::uint32_t number = 0, remote_number = 0;
  std::string gid, remote_gid;
};

/// The scenario's NIC of that name, or with that address: real machines may name their devices otherwise.
models::PortRef port_of(const Scenario& scenario, int rank, const std::string& device, const std::string& gid) {
  const int node = node_of(scenario, rank);
  const auto& nics = scenario.cluster.at(node).nics;
  const auto has_gid = [&](const models::Nic& nic) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [&](const models::IpPrefix& prefix) { return hex(models::gid_of(prefix.address)) == gid; });
  };
  auto found = std::find_if(nics.begin(), nics.end(), has_gid);
  if (found == nics.end()) {
    found = std::find_if(nics.begin(), nics.end(), [&](const models::Nic& nic) { return nic.device == device; });
  }
  return {node, found == nics.end() ? -1 : static_cast<int>(found - nics.begin())};
}

std::vector<End> ends_of(const Scenario& scenario, int rank, const nlohmann::json& trace) {
  std::vector<End> ends;
  for (const nlohmann::json& qp : trace.at("qps")) {
    const auto gid = qp.at("gid").get<std::string>();
    ends.push_back({.rank = rank,
                    .port = port_of(scenario, rank, qp.at("device"), gid),
                    .number = qp.at("number"),
                    .remote_number = qp.at("remote_number"),
                    .gid = gid,
                    .remote_gid = qp.at("remote_gid")});
  }
  return ends;
}

const End* other_end(const std::vector<std::vector<End>>& ends, const End& one) {
  for (const auto& of_rank : ends) {
    for (const End& other : of_rank) {
      if (other.number == one.remote_number && other.gid == one.remote_gid && other.remote_number == one.number &&
          other.remote_gid == one.gid) {
        return &other;
      }
    }
  }
  return nullptr;
}

}  // namespace

Result<void> start_verbs_trace(const std::string& library) {
  void* const loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (loaded == nullptr) return Error{.code = ErrorCode::kSystem, .scope = Scope::kJob, .text = dlerror()};
  g_calls.qps = reinterpret_cast<QpCall>(dlsym(loaded, "meshbed_verbs_trace_qps"));
  g_calls.messages = reinterpret_cast<MessageCall>(dlsym(loaded, "meshbed_verbs_trace_messages"));
  if (g_calls.qps != nullptr && g_calls.messages != nullptr) return ok();
  return Error{.code = ErrorCode::kSystem, .scope = Scope::kJob, .text = library + " is not a verbs trace"};
}

nlohmann::json verbs_trace(std::int64_t zero_ns, const MetalDevices& devices) {
  nlohmann::json trace{{"qps", nlohmann::json::array()}, {"messages", nlohmann::json::array()}};
  if (g_calls.qps == nullptr) return trace;
  // The messages first: each names a queue pair that is there by then.
  std::vector<meshbed_traced_message> messages(g_calls.messages(nullptr, 0));
  g_calls.messages(messages.data(), messages.size());
  std::vector<meshbed_traced_qp> qps(g_calls.qps(nullptr, 0));
  g_calls.qps(qps.data(), qps.size());
  for (const meshbed_traced_qp& qp : qps) {
    trace["qps"].push_back({{"device", devices.scenario_name(qp.device)},
                            {"number", qp.number},
                            {"remote_number", qp.remote_number},
                            {"gid", hex(qp.gid)},
                            {"remote_gid", hex(qp.remote_gid)}});
  }
  for (const meshbed_traced_message& each : messages) {
    trace["messages"].push_back({each.qp, each.sequence, each.opcode, each.bytes, each.status, each.posted_ns - zero_ns,
                                 each.completed_ns < 0 ? -1 : each.completed_ns - zero_ns, each.immediate});
  }
  return trace;
}

void replay_traces(const Scenario& scenario, const std::vector<nlohmann::json>& traces, sim::Recorder& recorder) {
  std::vector<std::vector<End>> ends;
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    ends.push_back(ends_of(scenario, static_cast<int>(rank), traces[rank]));
  }
  std::vector<std::vector<const End*>> others(ends.size());
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    for (const End& end : ends[rank]) others[rank].push_back(other_end(ends, end));
  }
  std::vector<sim::MessageRecord> records;
  for (std::size_t rank = 0; rank < traces.size(); ++rank) {
    for (const nlohmann::json& message : traces[rank].at("messages")) {
      const auto qp = message.at(0).get<std::size_t>();
      const End& source = ends[rank].at(qp);
      const End* destination = others[rank].at(qp);
      const auto completed_ns = message.at(6).get<std::int64_t>();
      sim::MessageRecord record;
      record.posted_ps = message.at(5).get<Picoseconds>() * kPicosecondsPerNanosecond;
      record.completed_ps = completed_ns < 0 ? -1 : completed_ns * kPicosecondsPerNanosecond;
      record.sequence = message.at(1);
      record.opcode = message.at(2);
      record.payload_bytes = message.at(3);
      record.status = message.at(4);
      record.immediate = message.at(7);
      record.source_rank = source.rank;
      record.source = source.port;
      record.source_gid = raw_gid(source.gid);
      record.destination_gid = raw_gid(source.remote_gid);
      record.source_qp = source.number;
      record.destination_qp = source.remote_number;
      record.destination = {-1, -1};
      if (destination != nullptr) {
        record.destination_rank = destination->rank;
        record.destination = destination->port;
      }
      record.tries = 1;
      record.deliveries = record.status == 0 ? 1 : 0;
      records.push_back(record);
    }
  }
  std::stable_sort(records.begin(), records.end(), [](const sim::MessageRecord& one, const sim::MessageRecord& other) {
    return std::tie(one.posted_ps, one.source_rank) < std::tie(other.posted_ps, other.source_rank);
  });
  for (const sim::MessageRecord& record : records) recorder.message(record);
}

}  // namespace meshbed::testbed
