#include "testbed/workload/reconnect_objects.h"

#include <doctest/doctest.h>

#include <string>

namespace reconnect_objects_test {

using namespace meshbed::testbed;

namespace {

Scenario reconnecting(const std::string& environment, const std::string& faults) {
  return parse_scenario("[topology]\nkind = \"ring\"\nnodes = 2\nrails = 3\n" + environment +
                            "[workload]\nkind = \"reconnect\"\n" + faults,
                        "reconnecting", {});
}

constexpr const char* kFault = "[[fault]]\nkind = \"cable_down\"\ntarget = \"node0-node1\"\nat = \"1ms\"\n";
constexpr const char* kTwoQueuePairs = "[environment]\nNCCL_IB_QPS_PER_CONNECTION = \"2\"\n";

}  // namespace

TEST_CASE("objects of ranks that reconnect: lost QP links are counted with their rails, and only under faults") {
  const ReconnectObjects quiet = most_reconnect_objects(reconnecting("", ""), 2);
  CHECK(quiet.verbs == 2 * (64 + 2 * 16));
  CHECK(quiet.descriptors == quiet.verbs);
  // Five lost QP links at each of two ends of each rank: 4 objects, and 2 of each of two rails.
  const ReconnectObjects lossy = most_reconnect_objects(reconnecting("", kFault), 2);
  CHECK(lossy.verbs == quiet.verbs + 2 * 2 * 5 * (4 + 2 * 2));
  CHECK(lossy.descriptors == quiet.descriptors);
  // Two queue pairs on each of three cables are the QP link's and five rails'.
  CHECK(most_reconnect_objects(reconnecting(kTwoQueuePairs, ""), 2).verbs == quiet.verbs);
  CHECK(most_reconnect_objects(reconnecting(kTwoQueuePairs, kFault), 2).verbs == quiet.verbs + 2 * 2 * 5 * (4 + 5 * 2));
}

}  // namespace reconnect_objects_test
