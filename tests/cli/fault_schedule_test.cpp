#include "testbed/verify/fault_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "testbed/scenario/scenario.h"

namespace fault_schedule_test {

using namespace meshbed;
using namespace meshbed::testbed;

TEST_CASE("schedules of GPU memory have several cables each, striping, and every fault that ends; others have none") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const std::string text = fault_schedule(seed, Schedules::kGpuRails);
    const Scenario scenario = parse_scenario(text, "schedule", {});
    CHECK(scenario.workload.kind == WorkloadKind::kReconnect);
    CHECK(scenario.workload.gpu_memory);
    CHECK(text.find("rails = 1\n") == std::string::npos);
    CHECK(text.find("STRIPE_BYTES = \"0\"") == std::string::npos);
    CHECK(fault_schedule(seed).find("gpu") == std::string::npos);
    if (scenario.workload.parts > 1) seen.insert("grouped receives");
    for (const Fault& fault : scenario.faults) seen.insert(name_of(fault.kind));
  }
  for (const char* wanted : {"grouped receives", "cable_down", "port_down", "node_stop", "loss", "delay", "reorder",
                             "rate", "address_change"}) {
    CHECK_MESSAGE(seen.count(wanted) == 1, wanted);
  }
}

TEST_CASE("schedules draw every cabling, workload and fault that they are to draw, and each is a scenario") {
  std::set<std::string> seen;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::set<std::string> readdressed;
    const std::string text = fault_schedule(seed);
    const Scenario scenario = parse_scenario(text, "schedule", {});  // throws where it is none
    for (const char* kind : {"ring", "line", "star", "full-mesh"}) {
      if (text.find("kind = \"" + std::string(kind) + "\"") != std::string::npos) seen.insert(kind);
    }
    const Workload& workload = scenario.workload;
    seen.insert(workload.kind == WorkloadKind::kReconnect ? "reconnect" : workload.collective);
    if (workload.parts > 1) seen.insert("grouped receives");
    if (workload.late_by_ps > 0) seen.insert("late");
    for (const Fault& fault : scenario.faults) {
      seen.insert(name_of(fault.kind));
      if (fault.point == "start") seen.insert("while connections are made");
      if (fault.kind == FaultKind::kAddressChange) {
        seen.insert(fault.point == "start" ? "address early" : "address later");
        if (!readdressed.insert(fault.target).second) seen.insert("address twice");
      }
      const bool for_good = fault.kind == FaultKind::kNodeKill || fault.kind == FaultKind::kAddressChange;
      CHECK((for_good || fault.duration_ps > 0));
    }
    const auto killed = std::count_if(scenario.faults.begin(), scenario.faults.end(),
                                      [](const Fault& fault) { return fault.kind == FaultKind::kNodeKill; });
    CHECK(killed == (scenario.expect.lost ? 1 : 0));
  }
  for (const char* wanted : {"ring",           "line",
                             "star",           "full-mesh",
                             "all_reduce",     "all_gather",
                             "reduce_scatter", "alltoall",
                             "sendrecv",       "broadcast",
                             "reconnect",      "grouped receives",
                             "late",           "while connections are made",
                             "address early",  "address later",
                             "address twice",  "cable_down",
                             "port_down",      "node_stop",
                             "loss",           "delay",
                             "reorder",        "rate",
                             "address_change", "node_kill"}) {
    CHECK_MESSAGE(seen.count(wanted) == 1, wanted);
  }
}

}  // namespace fault_schedule_test
