// Nodes of any kind by one call.
#include <vector>

#include "tests/cuda/entry.h"

namespace any_node_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;
using cuda::CUgraphNodeParams;
using cuda::GraphNode;

namespace {

constexpr int kFill = 2, kChild = 4, kEmpty = 5, kRecord = 7, kAlloc = 10, kConditional = 13;

CUgraphNodeParams of_type(int type) {
  CUgraphNodeParams wanted{};
  wanted.type = type;
  return wanted;
}
CUgraphNodeParams fill_of(CUdeviceptr place, unsigned value) {
  CUgraphNodeParams wanted = of_type(kFill);
  wanted.of.fill.parameters = {.target = reinterpret_cast<void*>(place),
                               .pitch = 0,
                               .value = value,
                               .element_bytes = 4,
                               .width = 1,
                               .height = 1};
  return wanted;
}

}  // namespace

TEST_CASE("one call adds nodes of each kind, and changes them in the graph and in what is ready") {
  run_gpus({}, [] {
    constexpr unsigned kFreeOnLaunch = 1;
    const Gpu gpu;
    const auto add = DRIVER_CALL(cuGraphAddNode_v2, "cuGraphAddNode");
    const CUdeviceptr place = allocate(8);
    const CUevent event = make_event();
    const CUstream stream = make_stream();
    cuda::Graph *graph = nullptr, *child = nullptr;
    CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&graph, 0) == 0);
    CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&child, 0) == 0);
    GraphNode *inner = nullptr, *empty = nullptr, *fill = nullptr, *whole = nullptr, *record = nullptr,
              *gives = nullptr;
    CUgraphNodeParams wanted = fill_of(place, 1);
    CHECK(add(&inner, child, nullptr, nullptr, 0, &wanted) == 0);
    wanted = of_type(kEmpty);
    CHECK(add(&empty, graph, nullptr, nullptr, 0, &wanted) == 0);
    wanted = fill_of(place + 4, 2);
    CHECK(add(&fill, graph, &empty, nullptr, 1, &wanted) == 0);
    wanted = of_type(kChild);
    wanted.of.child.graph = child;
    CHECK(add(&whole, graph, &fill, nullptr, 1, &wanted) == 0);
    wanted.of.child.ownership = 1;
    CHECK(add(&whole, graph, &fill, nullptr, 1, &wanted) == 801);
    wanted = of_type(kRecord);
    wanted.of.event = handle_of(event);
    CHECK(add(&record, graph, &whole, nullptr, 1, &wanted) == 0);
    wanted = of_type(kAlloc);
    wanted.of.memory.pool.type = 1;
    wanted.of.memory.pool.location = {1, 0};
    wanted.of.memory.bytes = 64;
    CHECK(add(&gives, graph, nullptr, nullptr, 0, &wanted) == 0);
    CHECK(wanted.of.memory.address != nullptr);
    const auto given = reinterpret_cast<CUdeviceptr>(wanted.of.memory.address);
    wanted = of_type(kConditional);
    CHECK(add(&gives, graph, nullptr, nullptr, 0, &wanted) == 801);
    wanted.type = 99;
    CHECK(add(&gives, graph, nullptr, nullptr, 0, &wanted) == 1);

    wanted = fill_of(place + 4, 3);
    CHECK(DRIVER_CALL(cuGraphNodeSetParams, "cuGraphNodeSetParams")(fill, &wanted) == 0);
    CHECK(DRIVER_CALL(cuGraphNodeSetParams, "cuGraphNodeSetParams")(empty, &wanted) == 1);
    cuda::GraphExec* executable = nullptr;
    CHECK(DRIVER_CALL(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")(&executable, graph, kFreeOnLaunch) ==
          0);
    CHECK(DRIVER_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, handle_of(stream)) == 0);
    CHECK(cuEventSynchronize(event) == 0);
    CHECK(number_at(place) == 1);
    CHECK(number_at(place + 4) == 3);
    CHECK(cuMemFreeAsync(given, stream) == 0);  // or it could not be given again
    wanted = fill_of(place + 4, 4);
    CHECK(DRIVER_CALL(cuGraphExecNodeSetParams, "cuGraphExecNodeSetParams")(executable, fill, &wanted) == 0);
    CHECK(DRIVER_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, handle_of(stream)) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(place + 4) == 4);
  });
}

}  // namespace any_node_test
