// What Meshbed's plugin writes at a job's end with NCCL_MESH_REPORT: one process, its ports, cables and peers
// (plugin/net/report/report_text.cpp; docs/telemetry.md has the keys).

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

using document::Value;

/// Its ports. One that has carried data and has no link now is what went wrong; another one may never have had a cable.
void ports(const Value& report, const std::string& owner, const std::string& file, Case& found) {
  constexpr double kMbpsPerGbps = 1000;
  std::set<std::string> with_cables;
  for (const Value& cable : list_at(report, "cables")) with_cables.insert(text_at(cable, "nic"));
  for (const Value& nic : list_at(report, "nics")) {
    Adapter adapter{.owner = owner,
                    .device = text_at(nic, "name"),
                    .netdev = text_at(nic, "netdev"),
                    .rate_Gbps = number_at(nic, "rate_mbps") / kMbpsPerGbps,
                    .addresses = {},
                    .at = {}};
    for (const Value& address : list_at(nic, "addresses")) {
      if (address.is_string()) adapter.addresses.push_back(address.get<std::string>());
    }
    const bool is_down = nic.contains("link_up") && !flag_at(nic, "link_up");
    adapter.at = whole_file(file, fmt::format("{}: {} {:.6g} Gb/s {} {}", owner, adapter.device, adapter.rate_Gbps,
                                              is_down ? "down" : "up", fmt::join(adapter.addresses, ", ")));
    if (is_down) {
      found.add_fact("link_down", owner + " " + adapter.device, adapter.at);
      if (with_cables.count(adapter.device) > 0) {
        found.add_sign(CauseCode::kPortDown, 0.80, "report: link down",
                       "a port that carried the job's data has no link at its end", adapter.at);
      }
    }
    found.adapters.push_back(std::move(adapter));
  }
}

void peers(const Value& report, const std::string& owner, const std::string& file, Case& found) {
  for (const Value& peer : list_at(report, "peers")) {
    const std::string name = text_at(peer, "peer");
    const auto count = [&](const char* key) { return number_at(peer, key); };
    if (count("failed") > 0) {
      const Line at = whole_file(file, fmt::format("{}: {:.0f} of {:.0f} connections with {} failed", owner,
                                                   count("failed"), count("connections"), name));
      found.add_fact("failed_connections", at.text, at);
      found.failed.emplace(owner, at);
      found.add_sign(CauseCode::kRetryExceeded, 0.45, "report: failed", "connections of the job failed", at);
    }
    if (count("failovers") > 0) {
      const Line at = whole_file(
          file, fmt::format("{}: {:.0f} times over to another cable to {}", owner, count("failovers"), name));
      found.add_fact("failovers", at.text, at);
      found.add_sign(CauseCode::kPortDown, 0.60, "report: failovers",
                     "a connection lost its cable and went on over another one", at);
    }
    for (const Value& way : list_at(peer, "ways")) {
      if (way != "TCP") continue;
      found.add_sign(CauseCode::kNoPath, 0.40, "report: TCP", "there was no path over RDMA: the data went over TCP",
                     whole_file(file, fmt::format("{}: TCP to {}", owner, name)));
    }
  }
}

}  // namespace

bool read_job_report(const Value& value, const std::string& file, Case& found) {
  if (text_at(value, "report") != "mesh" || !value.contains("format")) return false;
  found.formats.insert("job report of the plugin");
  const std::string owner = fmt::format("{}:{:.0f}", text_at(value, "host"), number_at(value, "pid"));
  const Line whole = whole_file(file, owner);
  found.owners.emplace(owner, whole);
  found.ended.insert(owner);  // it is written at the end
  found.add_fact("plugin_version", text_at(value, "version"), whole);
  for (const char* key : {"connections", "sent_bytes", "received_bytes", "resumed", "failbacks", "warnings"}) {
    found.add_fact(fmt::format("report.{}.{}", owner, key), number_at(value, key),
                   whole_file(file, fmt::format("{}: {} {:.0f}", owner, key, number_at(value, key))));
  }
  ports(value, owner, file, found);
  peers(value, owner, file, found);
  return true;
}

}  // namespace meshbed::testbed::diagnose
