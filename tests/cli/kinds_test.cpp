// The lists of kinds: faults, workloads, worlds.

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "testbed/scenario/kinds/fault_kind.h"
#include "testbed/scenario/kinds/workload_kind.h"
#include "testbed/scenario/kinds/world_facts.h"

namespace kinds_test {

using namespace meshbed::testbed;

template <typename Kinds>
void check_names(const Kinds& kinds) {
  std::set<std::string> names;
  for (const auto& each : kinds) {
    names.insert(each.name);
    CHECK(&info_of(each.kind) == &each);
    CHECK(std::string(name_of(each.kind)) == each.name);
  }
  CHECK(names.size() == kinds.size());
}

TEST_CASE("each kind has one line, found by its number, and a name of its own") {
  check_names(kFaultKinds);
  check_names(kWorkloadKinds);
  check_names(kWorlds);
}

TEST_CASE("a fault that ends others has no duration, cuts nothing, and has the target of those that it ends") {
  std::string pairs, giving;
  for (const FaultInfo& each : kFaultKinds) {
    if (gives_link(each.kind)) giving += std::string(each.name) + " ";
    if (!each.ends) continue;
    pairs += std::string(each.name) + " ends " + name_of(*each.ends) + "; ";
    CHECK_FALSE(each.lasts);
    CHECK_FALSE(each.cuts);
    CHECK((each.target == info_of(*each.ends).target));
    CHECK(info_of(*each.ends).lasts);
  }
  CHECK(pairs == "cable_up ends cable_down; port_up ends port_down; node_continue ends node_stop; ");
  CHECK(giving == "cable_up port_up ");
}

TEST_CASE("which faults cut, and which keys only some of them have") {
  std::string cutting, keys;
  for (const FaultInfo& each : kFaultKinds) {
    if (cuts(each.kind)) cutting += std::string(each.name) + " ";
    for (const std::string_view key : keys_of(each.kind)) keys += std::string(each.name) + "." + std::string(key) + " ";
  }
  CHECK(cutting == "cable_down port_down node_kill address_change ");
  CHECK(keys ==
        "loss.amount delay.amount rate.amount reorder.amount address_change.address strangers.from "
        "strangers.connections strangers.byte_every refuse.status ");
}

TEST_CASE("which workloads run the engine, have iterations, and take memory of GPUs") {
  using Names = std::vector<std::string>;
  CHECK(names_of(&WorkloadInfo::runs_engine) == Names{"collective", "matrix", "megakernel"});
  CHECK(names_of(&WorkloadInfo::has_iterations) == Names{"collective", "reconnect"});
  CHECK(names_of(&WorkloadInfo::gpu_memory) == Names{"collective", "matrix", "reconnect", "megakernel"});
}

}  // namespace kinds_test
