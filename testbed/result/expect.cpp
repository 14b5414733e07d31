#include "testbed/result/expect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "models/lan/bond.h"
#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {
namespace {

class Checker {
 public:
  Checker(const Scenario& scenario, RunResult& result)
      : scenario_(scenario), expect_(scenario.expect), result_(result) {}

  void error() {
    if (!expect_.error) return;
    const auto& errors = result_.simulation.errors;
    const auto seen = std::find_if(errors.begin(), errors.end(), [&](const RankError& error) {
      return error.text.find(*expect_.error) != std::string::npos;
    });
    result_.expected_error_seen = seen != errors.end();
    add("an error with \"" + *expect_.error + "\"", result_.expected_error_seen,
        result_.expected_error_seen ? fmt::format("seen at rank {}", seen->rank)
        : errors.empty()            ? "no rank failed"
                                    : fmt::format("none of the {} errors above has it", errors.size()));
  }

  /// False if the node stays to the end, so that all other expectations apply as usual.
  bool lost() {
    if (!expect_.lost || !lost_its_power()) return false;
    std::set<int> gone{index_of(*expect_.lost)};  // nodes that others may miss
    const RankError* unnamed = nullptr;
    int named = 0;
    for (const RankError& error : result_.simulation.errors) {
      const int node = node_of(scenario_, error.rank);
      const bool names = names_one_of(error.text, missed_by(node, gone));
      if (gone.count(node) == 0 && unnamed == nullptr && !names) unnamed = &error;
      if (names) ++named;
      gone.insert(node);
    }
    const std::string astray = rings_that_miss(gone, named);
    const bool ended = result_.simulation.outcome.kind == sim::OutcomeKind::kFinished;
    // Ranks that were stopped with the run, because another rank failed, could not detect the loss.
    const int stopped = result_.simulation.stopped;
    const bool undetected = stopped > 0 && named == 0;
    result_.expected_error_seen = unnamed == nullptr && !undetected && astray.empty() && ended && result_.wrong == 0;
    add("without " + *expect_.lost + " every rank ends and names a lost node, with no element wrong",
        result_.expected_error_seen,
        !ended               ? "the ranks above still waited"
        : unnamed != nullptr ? fmt::format("rank {} names no lost node: {}", unnamed->rank, unnamed->text)
        : !astray.empty()    ? astray
        : result_.wrong > 0  ? result_.first_wrong
        : undetected ? fmt::format("{} stopped with the run before they detected the loss", counted(stopped, "rank"))
                     : fmt::format("{} errors or verdicts name a lost node", named));
    return true;
  }

  /// Adds ranks whose rings wait for a lost rank to `gone`, and counts them in `named`. Returns the verdict of a ring
  /// that waits for no lost rank; empty: there is none.
  std::string rings_that_miss(std::set<int>& gone, int& named) const {
    if (result_.rings == nullptr) return "";
    std::vector<const RingVerdict*> waiting;
    for (const RingVerdict& verdict : result_.rings->verdicts) {
      // If an error ended the rank, that error names the lost node.
      if (verdict.reached && !verdict.broken_off && verdict.cause != ring::Cause::kDrained) waiting.push_back(&verdict);
    }
    for (bool found = true; found;) {
      found = false;
      for (const RingVerdict*& verdict : waiting) {
        if (verdict == nullptr || verdict->waits_for < 0) continue;
        if (gone.count(node_of(scenario_, verdict->waits_for)) == 0) continue;
        gone.insert(node_of(scenario_, verdict->rank));
        verdict = nullptr;
        ++named;
        found = true;
      }
    }
    const auto left =
        std::find_if(waiting.begin(), waiting.end(), [](const RingVerdict* one) { return one != nullptr; });
    if (left == waiting.end()) return "";
    return fmt::format("rank {} waits for no lost rank: {}", (*left)->rank, (*left)->text);
  }

  void unreachable() {
    for (const auto& [left, right] : expect_.unreachable) {
      const bool joined = directly_joined(scenario_.cluster, index_of(left), index_of(right));
      add(fmt::format("no direct path between {} and {}", left, right), !joined, joined ? "they are joined" : "none");
    }
  }

  /// A ring that ends without draining is a result if [expect] names that cause, else a failed expectation.
  void watchdog() {
    if (result_.rings == nullptr || !result_.simulation.ended_well()) return;
    const auto& verdicts = result_.rings->verdicts;
    const std::string waits = result_.rings->waits.text();
    // "drained" must hold for every ring, the other causes for at least one.
    if (expect_.watchdog && *expect_.watchdog != ring::name_of(ring::Cause::kDrained)) {
      const auto seen = std::find_if(verdicts.begin(), verdicts.end(), [&](const RingVerdict& one) {
        return one.reached && ring::name_of(one.cause) == *expect_.watchdog;
      });
      return add("the watchdog says " + *expect_.watchdog, seen != verdicts.end(),
                 seen == verdicts.end() ? "no rank's does"
                                        : fmt::format("rank {} at {}: {}{}", seen->rank, duration_text(seen->at_ps),
                                                      seen->text, waits.empty() ? "" : "; " + waits));
    }
    const auto stuck = std::find_if(verdicts.begin(), verdicts.end(), [](const RingVerdict& one) {
      return !one.reached || one.cause != ring::Cause::kDrained;
    });
    add("every ring drains", stuck == verdicts.end(),
        stuck == verdicts.end() ? counted(verdicts.size(), "ring")
        : stuck->reached ? fmt::format("rank {}: {}: {}{}", stuck->rank, ring::name_of(stuck->cause), stuck->text,
                                       waits.empty() ? "" : "; " + waits)
                         : fmt::format("rank {} did not come to its end", stuck - verdicts.begin()));
  }

  void data_and_speed() {
    if (expect_.wrong && result_.replay) {
      const bool kept = sim::all_ok(result_.proofs) && *expect_.wrong == 0;
      add(fmt::format("wrong = {}", *expect_.wrong), kept,
          !kept ? "a proof is broken"
          : !result_.replay->schedule.empty()
              ? "a replay moves no data; those of the run that was recorded were right"
              : "a replay moves no data; the schedule has each contribution exactly once");
    } else if (expect_.wrong) {
      // Without a run no result is right.
      const bool ran = result_.simulation.ended_well();
      add(fmt::format("wrong = {}", *expect_.wrong), ran && result_.checked > 0 && result_.wrong == *expect_.wrong,
          !ran                   ? "the run failed"
          : result_.checked == 0 ? "nothing was checked"
                                 : fmt::format("{}", result_.wrong));
    }
    // Times of a real machine are shown, but not compared with the model.
    const bool timed = result_.world.virtual_time;
    if (timed && expect_.max_over_bound) {
      const double over = result_.over_bound();
      add(fmt::format("time at most {} of the bound", *expect_.max_over_bound),
          over > 0 && over <= *expect_.max_over_bound,
          over > 0                          ? fmt::format("{:.4f}", over)
          : result_.simulation.ended_well() ? "there is no bound"
                                            : "the run failed");
    }
    if (timed && expect_.min_busbw_GBps) {
      add(fmt::format("bus bandwidth at least {} GB/s", *expect_.min_busbw_GBps),
          result_.busbw_GBps() >= *expect_.min_busbw_GBps, fmt::format("{:.3f} GB/s", result_.busbw_GBps()));
    }
    if (result_.replay) return of_replay();
    if (expect_.rail_balance) {
      const std::optional<double> imbalance = rail_imbalance(scenario_.cluster, result_.pairs);
      add(fmt::format("rails within {} of each other", *expect_.rail_balance),
          result_.simulation.ended_well() && imbalance && *imbalance <= *expect_.rail_balance,
          !result_.simulation.ended_well() ? "the run failed"
          : imbalance                      ? fmt::format("{:.4f}", *imbalance)
                                           : "no node that took part has two cabled NICs");
    }
    if (timed) counted_by_the_simulator();
    if (expect_.connections) {
      add(counted(*expect_.connections, "connection"), result_.connections == *expect_.connections,
          fmt::format("{}", result_.connections));
    }
  }

 private:
  /// A replay counts neither connections nor sockets.
  void of_replay() {
    const auto pass_over = [this](const std::string& name) {
      result_.expectations.push_back(sim::nothing_to_check(name, "a replay does not count it"));
    };
    if (expect_.rail_balance) pass_over(fmt::format("rails within {} of each other", *expect_.rail_balance));
    if (expect_.connections) pass_over(counted(*expect_.connections, "connection"));
    if (const auto least = expect_.min_socket_bytes) pass_over(fmt::format("at least {} bytes over sockets", *least));
    if (const auto most = expect_.max_socket_bytes) pass_over(fmt::format("at most {} bytes over sockets", *most));
    if (const auto most = expect_.max_run_time_ps) {
      const std::string name = fmt::format("all over after {} at most", duration_text(*most));
      const Picoseconds took_ps = result_.simulation.elapsed_ps;
      if (result_.replay->schedule.empty()) return pass_over(name);
      add(name, took_ps <= *most, duration_text(took_ps));
    }
  }

  void add(std::string name, bool kept, std::string detail) {
    result_.expectations.push_back({std::move(name), kept, std::move(detail)});
  }

  /// The lost nodes, and the nodes that were connected to this node only through lost ones.
  std::set<int> missed_by(int node, const std::set<int>& gone) const {
    std::set<int> reached{node};
    for (std::vector<int> rim{node}; !rim.empty();) {
      const int from = rim.back();
      rim.pop_back();
      for (int to = 0; to < static_cast<int>(scenario_.cluster.nodes.size()); ++to) {
        if (gone.count(to) > 0 || !directly_joined(scenario_.cluster, from, to)) continue;
        if (reached.insert(to).second) rim.push_back(to);
      }
    }
    std::set<int> missed;
    for (int each = 0; each < static_cast<int>(scenario_.cluster.nodes.size()); ++each) {
      if (reached.count(each) == 0) missed.insert(each);
    }
    return missed;
  }

  bool lost_its_power() const {
    const auto& taken = result_.simulation.faults;
    return std::any_of(taken.begin(), taken.end(), [&](const FaultEvent& event) {
      const Fault& fault = scenario_.faults[event.step.fault];
      return fault.kind == FaultKind::kNodeKill && fault.target == *expect_.lost;
    });
  }

  /// Whether a text names one of the nodes, by a rank or by an address that it has or was to get.
  bool names_one_of(const std::string& text, const std::set<int>& nodes) const {
    const auto says = [&](const std::string& name) {
      for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if (end == text.size() || std::isdigit(static_cast<unsigned char>(text[end])) == 0) return true;
      }
      return false;
    };
    for (int rank = 0; rank < ranks_of(scenario_); ++rank) {
      if (nodes.count(node_of(scenario_, rank)) > 0 && says(fmt::format("rank {}", rank))) return true;
    }
    for (const int index : nodes) {
      const models::Node& node = scenario_.cluster.nodes[static_cast<std::size_t>(index)];
      if (node.management && says(to_text(node.management->address.address))) return true;
      for (const models::Nic& nic : node.nics) {
        for (const models::IpPrefix& prefix : nic.addresses) {
          if (says(to_text(prefix.address))) return true;
        }
      }
      for (const Fault& fault : scenario_.faults) {
        const bool its_own = fault.kind == FaultKind::kAddressChange && fault.target.rfind(node.name + "/", 0) == 0;
        if (its_own && says(to_text(fault.address.address))) return true;
      }
    }
    return false;
  }

  void counted_by_the_simulator() {
    const std::uint64_t bytes = result_.simulation.host.management_bytes;
    const auto detail = fmt::format("{}", bytes);
    if (const auto least = expect_.min_socket_bytes) {
      add(fmt::format("at least {} bytes over sockets", *least), bytes >= *least, detail);
    }
    if (const auto most = expect_.max_socket_bytes) {
      add(fmt::format("at most {} bytes over sockets", *most), bytes <= *most, detail);
    }
    if (const auto most = expect_.max_strangers) {
      const sim::HostCounters& host = result_.simulation.host;
      // The limit proves nothing if no stranger connected.
      add(fmt::format("at most {} held for strangers", counted(*most, "connection")),
          host.stranger_connections > 0 && host.peak_strangers_held <= *most,
          host.stranger_connections == 0
              ? "no stranger came"
              : fmt::format("{}, {} begun", host.peak_strangers_held, host.stranger_connections));
    }
    if (const auto most = expect_.max_run_time_ps) {
      const Picoseconds took = result_.simulation.elapsed_ps;
      add(fmt::format("all over after {} at most", duration_text(*most)),
          result_.simulation.ended_well() && took <= *most,
          result_.simulation.ended_well() ? duration_text(took) : "the run failed");
    }
  }

  int index_of(const std::string& node) const {
    const auto& nodes = scenario_.cluster.nodes;
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const auto& one) { return one.name == node; });
    return static_cast<int>(found - nodes.begin());
  }

  const Scenario& scenario_;
  const Expect& expect_;
  RunResult& result_;
};

}  // namespace

std::optional<double> rail_imbalance(const models::Cluster& cluster,
                                     const std::map<sim::PairKey, sim::PairUsage>& pairs) {
  std::map<models::PortRef, std::uint64_t> bytes;
  for (const auto& [key, usage] : pairs) {
    bytes[key.source] += usage.payload_bytes;
    bytes[key.destination] += usage.payload_bytes;
  }
  std::map<int, std::vector<std::uint64_t>> rails;  // by node: the bytes of each cabled NIC, idle ones too
  std::set<models::PortRef> counted;
  // Bytes over a RoCE LAG are counted at its device; a bond's standby is not a separate rail.
  const auto add = [&](const models::PortRef& port) {
    const models::PortRef device = models::device_of(cluster, port);
    if (models::is_standby(cluster, device) && bytes[device] == 0) return;
    if (counted.insert(device).second) rails[device.node].push_back(bytes[device]);
  };
  for (const models::Cable& cable : cluster.cables) {
    add(cable.a);
    add(cable.b);
  }
  for (const models::Switch& one : cluster.switches) std::for_each(one.ports.begin(), one.ports.end(), add);
  std::optional<double> worst;
  for (const auto& [node, each] : rails) {
    const auto [least, most] = std::minmax_element(each.begin(), each.end());
    if (each.size() < 2 || *most == 0) continue;
    worst = std::max(worst.value_or(0), 1.0 - static_cast<double>(*least) / static_cast<double>(*most));
  }
  return worst;
}

bool directly_joined(const models::Cluster& cluster, int left, int right) {
  const auto nic = [&](models::PortRef port) -> const models::Nic& {
    return cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)];
  };
  // Ports in different VLANs do not receive each other's frames.
  const auto joins = [&](models::PortRef a, models::PortRef b) {
    return a.node == left && b.node == right && nic(a).vlan == nic(b).vlan;
  };
  for (const models::Cable& cable : cluster.cables) {
    if (joins(cable.a, cable.b) || joins(cable.b, cable.a)) return true;
  }
  for (const models::Nic& here : cluster.nodes[static_cast<std::size_t>(left)].nics) {
    for (const models::Nic& there : cluster.nodes[static_cast<std::size_t>(right)].nics) {
      if (here.router >= 0 && here.router == there.router) return true;
    }
  }
  return std::any_of(cluster.switches.begin(), cluster.switches.end(), [&](const models::Switch& one) {
    return std::any_of(one.ports.begin(), one.ports.end(), [&](models::PortRef a) {
      return a.node == left &&
             std::any_of(one.ports.begin(), one.ports.end(), [&](models::PortRef b) { return joins(a, b); });
    });
  });
}

void check_expectations(const Scenario& scenario, RunResult& result) {
  Checker checker(scenario, result);
  checker.error();
  checker.unreachable();
  checker.watchdog();
  if (!scenario.expect.error && !checker.lost()) checker.data_and_speed();
}

}  // namespace meshbed::testbed
