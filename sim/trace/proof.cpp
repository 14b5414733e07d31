#include "sim/trace/proof.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/lan/bond.h"
#include "models/lan/router.h"
#include "plugin/base/counted.h"

namespace meshbed::sim {
namespace {

/// True where one of the device's ports is among `ports`.
bool has_port_of(const models::Cluster& cluster, const std::vector<models::PortRef>& ports,
                 const models::PortRef& device) {
  return std::any_of(ports.begin(), ports.end(),
                     [&](const models::PortRef& port) { return models::device_of(cluster, port) == device; });
}

/// True where a router that is `from`'s gateway joins the switches of both.
bool joined_by_router(const models::Cluster& cluster, const models::PortRef& from, const models::PortRef& to) {
  const int router = cluster.nic_of(from).router;
  if (router < 0) return false;
  const auto on_one_of_its_switches = [&](const models::PortRef& port) {
    const std::vector<int>& switches = cluster.routers[static_cast<std::size_t>(router)].switches;
    return std::any_of(switches.begin(), switches.end(), [&](int index) {
      return has_port_of(cluster, cluster.switches[static_cast<std::size_t>(index)].ports, port);
    });
  };
  return on_one_of_its_switches(from) && on_one_of_its_switches(to);
}

/// True where one cable, one switch, or a router joins the two ports.
bool joined(const models::Cluster& cluster, const models::PortRef& left, const models::PortRef& right) {
  const bool by_cable = std::any_of(cluster.cables.begin(), cluster.cables.end(), [&](const models::Cable& cable) {
    const models::PortRef a = models::device_of(cluster, cable.a), b = models::device_of(cluster, cable.b);
    return (a == left && b == right) || (a == right && b == left);
  });
  if (by_cable || joined_by_router(cluster, left, right)) return true;
  return std::any_of(cluster.switches.begin(), cluster.switches.end(), [&](const models::Switch& one) {
    return has_port_of(cluster, one.ports, left) && has_port_of(cluster, one.ports, right);
  });
}

double nanoseconds(Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e3; }

}  // namespace

const char* mark_of(const Proof& proof) {
  if (!proof.checked) return "-";
  return proof.ok ? "ok" : "BROKEN";
}

Proof nothing_to_check(std::string_view name, std::string_view why) {
  return {std::string(name), true, fmt::format("nothing to check: {}", why), false};
}

Proof bound_kept(std::string_view label, Picoseconds time_ps, Picoseconds bound_ps) {
  if (bound_ps <= 0) return nothing_to_check(label, "the closed forms give no bound here");
  return {std::string(label), time_ps >= bound_ps,
          fmt::format("{:.3f} ns against a bound of {:.3f} ns, {:.4f} of it", nanoseconds(time_ps),
                      nanoseconds(bound_ps), static_cast<double>(time_ps) / static_cast<double>(bound_ps))};
}

Proof bytes_conserved(const std::vector<Link>& links) {
  const char* const name = "bytes in = bytes out";
  std::uint64_t total_bytes = 0, left_bytes = 0;
  for (const Link& link : links) {
    if (link.bytes_in != link.bytes_out + link.bytes_under_way) {
      return {name, false,
              fmt::format("{}: {} bytes in, {} bytes out, {} under way", link.name, link.bytes_in, link.bytes_out,
                          link.bytes_under_way)};
    }
    total_bytes += link.bytes_out;
    left_bytes += link.bytes_under_way;
  }
  if (total_bytes == 0) return nothing_to_check(name, "no link carried anything");
  // A queue pair that was given up leaves packets on a slow link, which are not waited for.
  const std::string left = left_bytes > 0 ? fmt::format(", {} more under way at the end", left_bytes) : "";
  return {name, true,
          fmt::format("{} over {}{}", counted(total_bytes, "wire byte"), counted(links.size(), "link"), left)};
}

Proof utilisation_possible(const std::vector<Link>& links, Picoseconds elapsed_ps, std::uint64_t transfers) {
  const char* const name = "utilisation <= 100 %";
  const auto slack_ps = static_cast<Picoseconds>(transfers);
  double highest = 0;
  std::string highest_link;
  for (const Link& link : links) {
    if (link.bytes_out == 0) continue;
    if (link.busy_ps > elapsed_ps) {
      return {name, false, fmt::format("{}: busy {} ps of {} ps", link.name, link.busy_ps, elapsed_ps)};
    }
    const Picoseconds needed_ps = wire_time_ps(link.bytes_out, link.rate_bps);
    if (needed_ps > link.busy_ps + slack_ps) {
      return {name, false,
              fmt::format("{}: {} bytes need {} ps at {} bit/s, busy only {} ps", link.name, link.bytes_out, needed_ps,
                          link.rate_bps, link.busy_ps)};
    }
    const double used = static_cast<double>(needed_ps) / static_cast<double>(std::max<Picoseconds>(elapsed_ps, 1));
    if (used > highest) {
      highest = used;
      highest_link = link.name;
    }
  }
  if (highest_link.empty()) return nothing_to_check(name, "no link carried anything");
  return {name, true, fmt::format("highest {:.2f} % ({})", highest * 100.0, highest_link)};
}

Proof sends_matched(const MessageTotals& totals, std::uint64_t in_flight) {
  const char* const name = "every send matched once";
  if (totals.unmatched > 0) {
    return {name, false, fmt::format("{} of {}: {}", totals.unmatched, totals.messages, totals.first_unmatched)};
  }
  if (in_flight > 0) return {name, false, fmt::format("{} posted and never completed", counted(in_flight, "message"))};
  if (totals.messages == 0) return nothing_to_check(name, "no message was sent");
  return {name, true,
          fmt::format("{}, {} acknowledged, {} retransmitted", counted(totals.messages, "message"), totals.succeeded,
                      totals.retransmitted)};
}

Proof subnets_true(const models::Cluster& cluster, const std::map<PairKey, PairUsage>& pairs) {
  const char* const name = "subnet truth";
  for (const auto& [key, usage] : pairs) {
    if (key.source == key.destination) continue;  // loopback within the port, between ranks of one node
    if (!joined(cluster, key.source, key.destination)) {
      return {name, false,
              fmt::format("{} from rank {} {} to rank {} {}: no cable or switch joins them",
                          counted(usage.messages, "message"), key.source_rank, endpoint_name(cluster, key.source),
                          key.destination_rank, endpoint_name(cluster, key.destination))};
    }
  }
  if (pairs.empty()) return nothing_to_check(name, "no message was sent");
  return {name, true, fmt::format("{}, each on one cable or switch", counted(pairs.size(), "pair") + " of ports")};
}

Proof data_right(std::uint64_t wrong, std::uint64_t checked, bool checks_expected) {
  const char* const name = "data right";
  if (wrong > 0) return {name, false, fmt::format("{} of {} elements are wrong", wrong, checked)};
  if (checks_expected && checked == 0) return {name, false, "nothing was checked"};
  if (checked == 0) return nothing_to_check(name, "no element was to be checked");
  return {name, true, fmt::format("{} checked", counted(checked, "element"))};
}

Proof same_file(std::string_view sha256_on_disk, std::string_view sha256_as_loaded) {
  const char* const name = "the plugin is the file on disk";
  if (sha256_on_disk.empty() || sha256_on_disk != sha256_as_loaded) {
    return {name, false, fmt::format("on disk {}, loaded {}", sha256_on_disk, sha256_as_loaded)};
  }
  return {name, true, fmt::format("SHA-256 {}", sha256_as_loaded.substr(0, 16))};
}

bool all_ok(const std::vector<Proof>& proofs) {
  return std::all_of(proofs.begin(), proofs.end(), [](const Proof& proof) { return proof.ok; });
}

}  // namespace meshbed::sim
