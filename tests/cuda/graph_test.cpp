// Graphs that a program makes node by node with the driver's calls, asks about, changes and launches.
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/cuda/entry.h"

namespace graph_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;
using cuda::Graph;
using cuda::GraphExec;
using cuda::GraphNode;

namespace {

constexpr int kKernel = 0, kFill = 2, kHost = 3, kChild = 4, kEmpty = 5, kWait = 6, kRecord = 7;

Graph* make_graph() {
  Graph* graph = nullptr;
  CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&graph, 0) == 0);
  return graph;
}

/// `count` numbers from `target` on become `value`.
GraphNode* add_fill(Graph* graph, CUdeviceptr target, unsigned value, std::vector<GraphNode*> before = {}) {
  const cuda::cudaMemsetParams fill{.target = reinterpret_cast<void*>(target),
                                    .pitch = 0,
                                    .value = value,
                                    .element_bytes = 4,
                                    .width = 1,
                                    .height = 1};
  GraphNode* node = nullptr;
  CHECK(DRIVER_CALL(cuGraphAddMemsetNode, "cuGraphAddMemsetNode")(&node, graph, before.data(), before.size(), &fill,
                                                                  nullptr) == 0);
  return node;
}

struct AddOne {
  CUfunction function = find_function(kImage, "add_one");
  CUdeviceptr place = 0;
  unsigned microseconds = 1;
  void* arguments[2] = {&place, &microseconds};
  cuda::CUDA_KERNEL_NODE_PARAMS_v2 parameters() {
    return {.launch = {.function = handle_of(function),
                       .grid = {1, 1, 1},
                       .block = {1, 1, 1},
                       .shared_bytes = 0,
                       .arguments = arguments,
                       .extra = nullptr},
            .kernel = nullptr,
            .context = nullptr};
  }
};

GraphNode* add_kernel(Graph* graph, AddOne& kernel, std::vector<GraphNode*> before = {}) {
  const auto parameters = kernel.parameters();
  GraphNode* node = nullptr;
  CHECK(DRIVER_CALL(cuGraphAddKernelNode_v2, "cuGraphAddKernelNode")(&node, graph, before.data(), before.size(),
                                                                     &parameters) == 0);
  return node;
}

cuda::CUDA_MEMCPY3D copy_to_host(void* target, CUdeviceptr source, std::size_t bytes) {
  cuda::CUDA_MEMCPY3D copy{};
  copy.source.kind = cuda::kMemoryDevice;
  copy.source.device = source;
  copy.target.kind = cuda::kMemoryHost;
  copy.target.host = target;
  copy.width_bytes = bytes;
  copy.height = copy.depth = 1;
  return copy;
}

GraphExec* instantiate(Graph* graph) {
  GraphExec* executable = nullptr;
  CHECK(DRIVER_CALL(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")(&executable, graph, 0) == 0);
  return executable;
}

void launch(GraphExec* executable, CUstream stream) {
  CHECK(DRIVER_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, handle_of(stream)) == 0);
}
void launch_and_wait(GraphExec* executable, CUstream stream) {
  launch(executable, stream);
  CHECK(cuStreamSynchronize(stream) == 0);
}

int type_of(GraphNode* node) {
  int type = -1;
  CHECK(DRIVER_CALL(cuGraphNodeGetType, "cuGraphNodeGetType")(node, &type) == 0);
  return type;
}

}  // namespace

TEST_CASE("a fill, a kernel, a copy and a host function in a row, each a node of its own") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    AddOne kernel;
    kernel.place = allocate(4);
    auto* seen = static_cast<int*>(allocate_pinned(8));
    Graph* graph = make_graph();
    GraphNode* fill = add_fill(graph, kernel.place, 41);
    GraphNode* add = add_kernel(graph, kernel, {fill});
    GraphNode *copy = nullptr, *host = nullptr;
    const auto to_host = copy_to_host(seen, kernel.place, 4);
    CHECK(DRIVER_CALL(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")(&copy, graph, &add, 1, &to_host, nullptr) == 0);
    const cuda::cudaHostNodeParams doubles{.function =
                                               [](void* data) {
                                                 auto* numbers = static_cast<int*>(data);
                                                 numbers[1] = 2 * numbers[0];
                                               },
                                           .data = seen};
    CHECK(DRIVER_CALL(cuGraphAddHostNode, "cuGraphAddHostNode")(&host, graph, &copy, 1, &doubles) == 0);
    CHECK(type_of(fill) == kFill);
    CHECK(type_of(add) == kKernel);
    CHECK(type_of(host) == kHost);
    const CUstream stream = make_stream();
    GraphExec* executable = instantiate(graph);
    for (int time = 0; time < 2; ++time) {
      seen[0] = seen[1] = 0;
      launch_and_wait(executable, stream);
      CHECK(seen[0] == 42);
      CHECK(seen[1] == 84);
    }

    cuda::CUDA_KERNEL_NODE_PARAMS_v2 launch{};
    CHECK(DRIVER_CALL(cuGraphKernelNodeGetParams_v2, "cuGraphKernelNodeGetParams")(add, &launch) == 0);
    CHECK(launch.launch.function == handle_of(kernel.function));
    CHECK(*static_cast<CUdeviceptr*>(launch.launch.arguments[0]) == kernel.place);
    cuda::CUDA_MEMCPY3D copied{};
    CHECK(DRIVER_CALL(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams")(copy, &copied) == 0);
    CHECK(copied.source.kind == cuda::kMemoryDevice);
    CHECK(copied.source.device == kernel.place);
    CHECK(copied.target.kind == cuda::kMemoryHost);
    CHECK(copied.target.host == seen);
    CHECK(copied.width_bytes == 4);
    cuda::cudaMemsetParams filled{};
    CHECK(DRIVER_CALL(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams")(fill, &filled) == 0);
    CHECK(filled.value == 41);
    CHECK(filled.target == reinterpret_cast<void*>(kernel.place));
    cuda::cudaHostNodeParams called{};
    CHECK(DRIVER_CALL(cuGraphHostNodeGetParams, "cuGraphHostNodeGetParams")(host, &called) == 0);
    CHECK(called.data == seen);
    CHECK(DRIVER_CALL(cuGraphHostNodeGetParams, "cuGraphHostNodeGetParams")(fill, &called) == 1);  // another type
    cuda::CUDA_MEMCPY3D of_array = to_host;
    of_array.source.kind = cuda::kMemoryArray;  // and there is none
    CHECK(DRIVER_CALL(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")(&copy, graph, &add, 1, &of_array, nullptr) == 1);
  });
}

TEST_CASE("edges: asked for, added, removed; twice the same one and a circle are errors") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUdeviceptr place = allocate(4);
    Graph* graph = make_graph();
    GraphNode *first = add_fill(graph, place, 1), *second = add_fill(graph, place, 2, {first}), *third = nullptr;
    CHECK(DRIVER_CALL(cuGraphAddEmptyNode, "cuGraphAddEmptyNode")(&third, graph, nullptr, 0) == 0);
    CHECK(type_of(third) == kEmpty);
    const auto add = DRIVER_CALL(cuGraphAddDependencies_v2, "cuGraphAddDependencies");
    cuda::CUgraphEdgeData plain[1]{}, programmatic[1]{};
    programmatic[0].type = 1;
    CHECK(add(graph, &second, &third, programmatic, 1) == 1);  // only a kernel has such edges
    CHECK(add(graph, &second, &third, plain, 1) == 0);
    CHECK(add(graph, &second, &third, nullptr, 1) == 1);
    CHECK(add(graph, &third, &third, nullptr, 1) == 1);

    std::size_t count = 0;
    const auto edges = DRIVER_CALL(cuGraphGetEdges_v2, "cuGraphGetEdges");
    CHECK(edges(graph, nullptr, nullptr, nullptr, &count) == 0);
    REQUIRE(count == 2);
    GraphNode *from[3], *to[3];
    count = 3;
    CHECK(edges(graph, from, to, nullptr, &count) == 0);
    CHECK(count == 2);
    CHECK(from[0] == first);
    CHECK(to[1] == third);
    CHECK(to[2] == nullptr);
    GraphNode* found[2] = {};
    count = 2;
    CHECK(DRIVER_CALL(cuGraphGetRootNodes, "cuGraphGetRootNodes")(graph, found, &count) == 0);
    CHECK(count == 1);
    CHECK(found[0] == first);
    count = 2;
    CHECK(DRIVER_CALL(cuGraphNodeGetDependencies_v2, "cuGraphNodeGetDependencies")(third, found, plain, &count) == 0);
    CHECK(count == 1);
    CHECK(found[0] == second);
    count = 2;
    CHECK(DRIVER_CALL(cuGraphNodeGetDependentNodes_v2, "cuGraphNodeGetDependentNodes")(first, found, nullptr, &count) ==
          0);
    CHECK(count == 1);
    CHECK(found[0] == second);

    CHECK(add(graph, &third, &first, nullptr, 1) == 0);
    GraphExec* executable = nullptr;
    CHECK(DRIVER_CALL(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")(&executable, graph, 0) == 1);
    cuda::CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    CHECK(DRIVER_CALL(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams")(&executable, graph, &how) == 1);
    CHECK(how.result == 2);
    const auto remove = DRIVER_CALL(cuGraphRemoveDependencies_v2, "cuGraphRemoveDependencies");
    CHECK(remove(graph, &third, &first, nullptr, 1) == 0);
    CHECK(remove(graph, &third, &first, nullptr, 1) == 1);
    CHECK(DRIVER_CALL(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams")(&executable, graph, &how) == 0);
    CHECK(how.result == 0);

    CHECK(DRIVER_CALL(cuGraphDestroyNode, "cuGraphDestroyNode")(second) == 0);
    CHECK(DRIVER_CALL(cuGraphDestroyNode, "cuGraphDestroyNode")(second) == 1);
    CHECK(edges(graph, nullptr, nullptr, nullptr, &count) == 0);
    CHECK(count == 0);
    launch_and_wait(executable, make_stream());  // made before
    CHECK(number_at(place) == 2);
  });
}

TEST_CASE("what is ready is changed node by node, and what is switched off does nothing") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    AddOne kernel;
    kernel.place = allocate(8);
    Graph* graph = make_graph();
    GraphNode *fill = add_fill(graph, kernel.place, 10), *add = add_kernel(graph, kernel, {fill});
    GraphExec* executable = instantiate(graph);
    const CUstream stream = make_stream();
    const cuda::cudaMemsetParams other{.target = reinterpret_cast<void*>(kernel.place),
                                       .pitch = 0,
                                       .value = 20,
                                       .element_bytes = 4,
                                       .width = 2,
                                       .height = 1};
    const auto set_fill = DRIVER_CALL(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams");
    CHECK(set_fill(executable, fill, &other, nullptr) == 0);
    CHECK(set_fill(executable, add, &other, nullptr) == 1);
    kernel.place += 4;
    const auto changed = kernel.parameters();
    CHECK(DRIVER_CALL(cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams")(executable, add, &changed) ==
          0);
    launch_and_wait(executable, stream);
    CHECK(number_at(kernel.place - 4) == 20);
    CHECK(number_at(kernel.place) == 21);
    unsigned enabled = 7;
    CHECK(DRIVER_CALL(cuGraphNodeGetEnabled, "cuGraphNodeGetEnabled")(executable, add, &enabled) == 0);
    CHECK(enabled == 1);
    CHECK(DRIVER_CALL(cuGraphNodeSetEnabled, "cuGraphNodeSetEnabled")(executable, add, 0) == 0);
    launch_and_wait(executable, stream);
    CHECK(number_at(kernel.place) == 20);
    // The graph itself is as it was.
    launch_and_wait(instantiate(graph), stream);
    CHECK(number_at(kernel.place - 4) == 11);

    const auto update = DRIVER_CALL(cuGraphExecUpdate_v2, "cuGraphExecUpdate");
    cuda::cudaGraphExecUpdateResultInfo result{};
    CHECK(update(executable, graph, &result) == 0);
    GraphNode* third = add_fill(graph, kernel.place, 3);
    CHECK(update(executable, graph, &result) == 910);
    CHECK(result.result == 2);
    CHECK(DRIVER_CALL(cuGraphDestroyNode, "cuGraphDestroyNode")(third) == 0);
    Graph* kinds = make_graph();
    add_fill(kinds, kernel.place, 1, {add_fill(kinds, kernel.place, 1)});
    CHECK(update(executable, kinds, &result) == 910);
    CHECK(result.result == 3);
    // Before CUDA 12 the answers had other places.
    GraphNode* failed = nullptr;
    int why = -1;
    CHECK(find_entry<decltype(cuda::cuGraphExecUpdate)>("cuGraphExecUpdate", 11000)(executable, kinds, &failed, &why) ==
          910);
    CHECK(why == 3);
    CHECK(failed != nullptr);
  });
}

TEST_CASE("a child graph is a copy that stands in line, and a clone knows what its nodes were made of") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    AddOne kernel;
    kernel.place = allocate(4);
    Graph *child = make_graph(), *graph = make_graph();
    GraphNode* add = add_kernel(child, kernel);
    add_kernel(child, kernel, {add});
    GraphNode *fill = add_fill(graph, kernel.place, 5), *inner = nullptr;
    const auto add_child = DRIVER_CALL(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode");
    CHECK(add_child(&inner, graph, &fill, 1, child) == 0);
    CHECK(add_child(&inner, graph, &fill, 1, graph) == 1);
    CHECK(type_of(inner) == kChild);
    add_kernel(graph, kernel, {inner});
    Graph* own = nullptr;
    CHECK(DRIVER_CALL(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph")(inner, &own) == 0);
    CHECK(own != child);
    GraphNode* same = nullptr;
    CHECK(DRIVER_CALL(cuGraphNodeFindInClone, "cuGraphNodeFindInClone")(&same, add, own) == 0);
    CHECK(type_of(same) == kKernel);
    CHECK(DRIVER_CALL(cuGraphNodeFindInClone, "cuGraphNodeFindInClone")(&same, fill, own) == 1);
    GraphExec* executable = instantiate(graph);
    const CUstream stream = make_stream();
    launch_and_wait(executable, stream);
    CHECK(number_at(kernel.place) == 8);

    Graph *sooner = make_graph(), *shorter = make_graph();
    AddOne elsewhere;
    elsewhere.function = kernel.function;
    elsewhere.place = allocate(4);
    add_kernel(sooner, elsewhere, {add_kernel(sooner, elsewhere)});
    add_kernel(shorter, elsewhere);
    const auto set_child = DRIVER_CALL(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams");
    CHECK(set_child(executable, inner, shorter) == 1);
    CHECK(set_child(executable, inner, sooner) == 0);
    launch_and_wait(executable, stream);
    CHECK(number_at(kernel.place) == 6);
    CHECK(number_at(elsewhere.place) == 2);
    Graph* clone = nullptr;
    CHECK(DRIVER_CALL(cuGraphClone, "cuGraphClone")(&clone, graph) == 0);
    CHECK(DRIVER_CALL(cuGraphDestroy, "cuGraphDestroy")(graph) == 0);
    launch_and_wait(instantiate(clone), stream);
    CHECK(number_at(kernel.place) == 8);
  });
}

TEST_CASE("nodes record and await events, those that a stream recorded as external ones, too") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    AddOne kernel;
    kernel.place = allocate(4);
    kernel.microseconds = 100;
    const CUevent event = make_event(), other = make_event();
    const CUstream stream = make_stream(), behind = make_stream();
    Graph* graph = make_graph();
    GraphNode *add = add_kernel(graph, kernel), *record = nullptr, *wait = nullptr;
    CHECK(DRIVER_CALL(cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode")(&record, graph, &add, 1,
                                                                              handle_of(event)) == 0);
    CHECK(type_of(record) == kRecord);
    cuda::Event* seen = nullptr;
    CHECK(DRIVER_CALL(cuGraphEventRecordNodeGetEvent, "cuGraphEventRecordNodeGetEvent")(record, &seen) == 0);
    CHECK(seen == handle_of(event));
    launch(instantiate(graph), stream);
    CHECK(cuEventQuery(event) == 600);
    CHECK(cuStreamWaitEvent(behind, event, 0) == 0);
    CHECK(cuMemsetD32Async(kernel.place, 7, 1, behind) == 0);
    CHECK(cuStreamSynchronize(behind) == 0);
    CHECK(number_at(kernel.place) == 7);  // after the kernel

    Graph* waits = make_graph();
    CHECK(DRIVER_CALL(cuGraphAddEventWaitNode, "cuGraphAddEventWaitNode")(&wait, waits, nullptr, 0, handle_of(other)) ==
          0);
    CHECK(type_of(wait) == kWait);
    add_fill(waits, kernel.place, 9, {wait});
    GraphExec* executable = instantiate(waits);
    CHECK(add_one(kernel.function, kernel.place, 100, stream) == 0);
    CHECK(cuEventRecord(other, stream) == 0);
    launch_and_wait(executable, behind);
    CHECK(number_at(kernel.place) == 9);
    CHECK(cuEventDestroy_v2(other) == 0);
    CHECK(DRIVER_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, handle_of(behind)) == 400);

    const auto record_with = DRIVER_CALL(cuEventRecordWithFlags, "cuEventRecordWithFlags");
    CHECK(record_with(handle_of(event), handle_of(stream), 1) == 1);  // outside of a recording
    CUgraph recorded = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuMemsetD32Async(kernel.place, 1, 1, stream) == 0);
    CHECK(record_with(handle_of(event), handle_of(stream), 1) == 0);
    CHECK(cuStreamEndCapture(stream, &recorded) == 0);
    CUgraphExec made = nullptr;
    CHECK(cuGraphInstantiateWithFlags(&made, recorded, 0) == 0);
    CHECK(cuGraphLaunch(made, stream) == 0);
    CHECK(cuEventSynchronize(event) == 0);
    CHECK(number_at(kernel.place) == 1);
  });
}

TEST_CASE("two launches of one executable come one after the other, whichever streams they are in") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    AddOne kernel;
    kernel.place = allocate(4);
    kernel.microseconds = 500;
    Graph* graph = make_graph();
    add_kernel(graph, kernel);
    GraphExec* executable = instantiate(graph);
    const CUstream first = make_stream(), second = make_stream();
    const meshbed::Picoseconds begun = genuine_gpu() ? 0 : now_ps();
    launch(executable, first);
    launch(executable, second);
    CHECK(cuStreamSynchronize(second) == 0);
    if (!genuine_gpu()) CHECK(now_ps() - begun >= 1000 * meshbed::kPicosecondsPerMicrosecond);
    CHECK(number_at(kernel.place) == 2);
  });
}

TEST_CASE("a graph that is launched into a recording becomes a child of what is recorded") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    AddOne kernel;
    kernel.place = allocate(4);
    Graph* graph = make_graph();
    add_kernel(graph, kernel);
    GraphExec* inner = instantiate(graph);
    const CUstream stream = make_stream();
    CUgraph recorded = nullptr;
    CUgraphExec made = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    launch(inner, stream);
    CHECK(add_one(kernel.function, kernel.place, 1, stream) == 0);
    CHECK(cuStreamEndCapture(stream, &recorded) == 0);
    CHECK(number_at(kernel.place) == 0);
    CHECK(cuGraphInstantiateWithFlags(&made, recorded, 0) == 0);
    CHECK(cuGraphLaunch(made, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(kernel.place) == 2);
  });
}

TEST_CASE("memory that a graph gives: its nodes say what they give, and nothing is taken from such a graph") {
  run_gpus({}, [] {
    const Gpu gpu;
    Graph *graph = make_graph(), *clone = nullptr;
    GraphNode *gives = nullptr, *ends = nullptr;
    cuda::cudaMemAllocNodeParams wanted{}, told{};
    wanted.pool.type = 1;
    wanted.pool.location = {1, 0};
    wanted.bytes = 64;
    CHECK(DRIVER_CALL(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode")(&gives, graph, nullptr, 0, &wanted) == 0);
    const auto place = reinterpret_cast<CUdeviceptr>(wanted.address);
    CHECK(DRIVER_CALL(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode")(&ends, graph, &gives, 1, place) == 0);
    CHECK(DRIVER_CALL(cuGraphMemAllocNodeGetParams, "cuGraphMemAllocNodeGetParams")(gives, &told) == 0);
    CHECK(told.bytes == 64);
    CHECK(told.address == wanted.address);
    CUdeviceptr ended = 0;
    CHECK(DRIVER_CALL(cuGraphMemFreeNodeGetParams, "cuGraphMemFreeNodeGetParams")(ends, &ended) == 0);
    CHECK(ended == place);
    CHECK(DRIVER_CALL(cuGraphClone, "cuGraphClone")(&clone, graph) == 801);
    CHECK(DRIVER_CALL(cuGraphDestroyNode, "cuGraphDestroyNode")(ends) == 801);
    std::uint64_t bytes = 1;
    CHECK(DRIVER_CALL(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute")(0, 0, &bytes) == 0);
    CHECK(bytes == 0);  // it has not been launched
  });
}

TEST_CASE("an object of the program's is destroyed when neither it nor a graph, nor a launch, refers to it") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    constexpr unsigned kNoSync = 1, kMove = 1;
    AddOne kernel;
    kernel.place = allocate(4);
    kernel.microseconds = 1000;
    std::atomic<int> destroyed = 0;
    const auto destroy = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
    // Destructors run on another thread: a host function behind them shows that their turn has come.
    const CUstream stream = make_stream();
    const auto seen = [&] {
      CHECK(cuLaunchHostFunc(
                stream, [](void*) {}, nullptr) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      return destroyed.load();
    };
    const auto create = DRIVER_CALL(cuUserObjectCreate, "cuUserObjectCreate");
    const auto release = DRIVER_CALL(cuUserObjectRelease, "cuUserObjectRelease");
    cuda::UserObject *first = nullptr, *second = nullptr;
    CHECK(create(&first, &destroyed, destroy, 1, 0) == 1);
    CHECK(create(&first, &destroyed, destroy, 0, kNoSync) == 1);
    CHECK(create(&first, &destroyed, destroy, 1, kNoSync) == 0);
    CHECK(DRIVER_CALL(cuUserObjectRetain, "cuUserObjectRetain")(first, 2) == 0);
    CHECK(release(first, 2) == 0);
    CHECK(seen() == 0);
    CHECK(release(first, 1) == 0);
    CHECK(seen() == 1);

    Graph* graph = make_graph();
    add_kernel(graph, kernel);
    const auto retain = DRIVER_CALL(cuGraphRetainUserObject, "cuGraphRetainUserObject");
    CHECK(create(&second, &destroyed, destroy, 1, kNoSync) == 0);
    CHECK(retain(graph, second, 1, kMove) == 0);
    GraphExec* executable = instantiate(graph);
    CHECK(DRIVER_CALL(cuGraphReleaseUserObject, "cuGraphReleaseUserObject")(graph, second, 1) == 0);
    CHECK(DRIVER_CALL(cuGraphDestroy, "cuGraphDestroy")(graph) == 0);
    CHECK(seen() == 1);
    const CUstream working = make_stream();
    launch(executable, working);
    CHECK(DRIVER_CALL(cuGraphExecDestroy, "cuGraphExecDestroy")(executable) == 0);
    CHECK(cuStreamSynchronize(working) == 0);
    for (int look = 0; look < 100 && seen() < 2; ++look) {
    }
    CHECK(destroyed == 2);
    CHECK(number_at(kernel.place) == 1);
  });
}

}  // namespace graph_test
