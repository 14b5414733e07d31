// What the documentation of graphs rules out, and what graphs refer to and for how long.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/cuda/entry.h"

namespace graph_rules_test {

using namespace meshbed::test;
namespace cuda = meshbed::sim::cuda;
using cuda::Graph;
using cuda::GraphExec;
using cuda::GraphNode;

namespace {

constexpr unsigned kNoSync = 1, kMove = 1;

Graph* make_graph() {
  Graph* graph = nullptr;
  CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&graph, 0) == 0);
  return graph;
}

cuda::cudaMemsetParams fill_of(CUdeviceptr target, std::size_t width, std::size_t height = 1) {
  return {.target = reinterpret_cast<void*>(target),
          .pitch = 64,
          .value = 1,
          .element_bytes = 4,
          .width = width,
          .height = height};
}

GraphNode* add_fill(Graph* graph, const cuda::cudaMemsetParams& fill, std::vector<GraphNode*> before = {}) {
  GraphNode* node = nullptr;
  CHECK(DRIVER_CALL(cuGraphAddMemsetNode, "cuGraphAddMemsetNode")(&node, graph, before.data(), before.size(), &fill,
                                                                  nullptr) == 0);
  return node;
}

GraphNode* add_copy(Graph* graph, CUdeviceptr target, CUdeviceptr source) {
  cuda::CUDA_MEMCPY3D copy{};
  copy.source.kind = copy.target.kind = cuda::kMemoryUnified;
  copy.source.device = source;
  copy.target.device = target;
  copy.width_bytes = 4;
  copy.height = copy.depth = 1;
  GraphNode* node = nullptr;
  CHECK(DRIVER_CALL(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode")(&node, graph, nullptr, 0, &copy, nullptr) == 0);
  return node;
}

GraphNode* add_child(Graph* graph, Graph* child) {
  GraphNode* node = nullptr;
  CHECK(DRIVER_CALL(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode")(&node, graph, nullptr, 0, child) == 0);
  return node;
}

struct Given {
  GraphNode* node = nullptr;
  CUdeviceptr place = 0;
};
Given add_memory(Graph* graph, std::size_t bytes) {
  cuda::cudaMemAllocNodeParams wanted{};
  wanted.pool.type = 1;
  wanted.pool.location = {1, 0};
  wanted.bytes = bytes;
  Given given;
  CHECK(DRIVER_CALL(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode")(&given.node, graph, nullptr, 0, &wanted) == 0);
  given.place = reinterpret_cast<CUdeviceptr>(wanted.address);
  return given;
}
CUresult add_free(Graph* graph, GraphNode* before, CUdeviceptr place) {
  GraphNode* node = nullptr;
  const std::size_t count = before != nullptr ? 1 : 0;
  return DRIVER_CALL(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode")(&node, graph, &before, count, place);
}

CUresult instantiate(GraphExec** executable, Graph* graph, unsigned long long flags = 0) {
  return DRIVER_CALL(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")(executable, graph, flags);
}
GraphExec* ready(Graph* graph) {
  GraphExec* executable = nullptr;
  CHECK(instantiate(&executable, graph) == 0);
  return executable;
}
CUresult launch(GraphExec* executable, CUstream stream) {
  return DRIVER_CALL(cuGraphLaunch, "cuGraphLaunch")(executable, handle_of(stream));
}
CUresult destroy(GraphExec* executable) { return DRIVER_CALL(cuGraphExecDestroy, "cuGraphExecDestroy")(executable); }
CUresult destroy(Graph* graph) { return DRIVER_CALL(cuGraphDestroy, "cuGraphDestroy")(graph); }
CUresult update(GraphExec* executable, Graph* graph, cuda::cudaGraphExecUpdateResultInfo& result) {
  return DRIVER_CALL(cuGraphExecUpdate_v2, "cuGraphExecUpdate")(executable, graph, &result);
}

/// Objects that a graph alone refers to, and how many of them are destroyed.
struct Objects {
  explicit Objects(CUstream of) : stream(of) {}
  CUstream stream;
  std::atomic<int> destroyed{0};
  cuda::UserObject* make() {
    cuda::UserObject* object = nullptr;
    const auto count = [](void* number) { ++*static_cast<std::atomic<int>*>(number); };
    CHECK(DRIVER_CALL(cuUserObjectCreate, "cuUserObjectCreate")(&object, &destroyed, count, 1, kNoSync) == 0);
    return object;
  }
  void give(Graph* graph) {
    CHECK(DRIVER_CALL(cuGraphRetainUserObject, "cuGraphRetainUserObject")(graph, make(), 1, kMove) == 0);
  }
  /// Destructors run on another thread: a host function behind them shows that their turn has come.
  bool become(int wanted) {
    for (int look = 0; look < 100; ++look) {
      CHECK(cuLaunchHostFunc(
                stream, [](void*) {}, nullptr) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      if (destroyed == wanted) return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("what is updated refers to the objects of the graph that it was updated from, and no longer to its own") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    const CUdeviceptr place = allocate(4);
    Objects objects(stream);
    Graph *first = make_graph(), *second = make_graph();
    add_fill(first, fill_of(place, 1));
    add_fill(second, fill_of(place, 1));
    objects.give(first);
    objects.give(second);
    GraphExec* executable = ready(first);
    CHECK(destroy(first) == 0);
    cuda::cudaGraphExecUpdateResultInfo result{};
    CHECK(update(executable, second, result) == 0);
    CHECK(objects.become(1));
    CHECK(destroy(second) == 0);
    CHECK(launch(executable, stream) == 0);
    CHECK(objects.become(1));  // the second one is what is ready now refers to
    CHECK(destroy(executable) == 0);
    CHECK(objects.become(2));
  });
}

TEST_CASE("a child's objects go with the child: where another one takes its place, they are no longer referred to") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    const CUdeviceptr place = allocate(4);
    Objects objects(stream);
    Graph *graph = make_graph(), *first = make_graph(), *second = make_graph();
    add_fill(first, fill_of(place, 1));
    add_fill(second, fill_of(place, 1));
    objects.give(first);
    objects.give(second);
    GraphNode* child = add_child(graph, first);
    CHECK(destroy(first) == 0);
    GraphExec* executable = ready(graph);
    CHECK(DRIVER_CALL(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams")(executable, child,
                                                                                                second) == 0);
    CHECK(destroy(second) == 0);
    CHECK(objects.become(0));  // the graph's child has the first one
    CHECK(destroy(graph) == 0);
    CHECK(objects.become(1));
    CHECK(destroy(executable) == 0);
    CHECK(objects.become(2));
  });
}

TEST_CASE("an object that only a graph refers to can be retained again") {
  run_gpus({}, [] {
    const Gpu gpu;
    Objects objects(make_stream());
    Graph *graph = make_graph(), *other = make_graph();
    cuda::UserObject* object = objects.make();
    const auto retain = DRIVER_CALL(cuGraphRetainUserObject, "cuGraphRetainUserObject");
    CHECK(retain(graph, object, 1, kMove) == 0);
    CHECK(retain(other, object, 1, 0) == 0);
    CHECK(DRIVER_CALL(cuUserObjectRetain, "cuUserObjectRetain")(object, 1) == 0);
    CHECK(destroy(graph) == 0);
    CHECK(destroy(other) == 0);
    CHECK(objects.become(0));
    CHECK(DRIVER_CALL(cuUserObjectRelease, "cuUserObjectRelease")(object, 1) == 0);
    CHECK(objects.become(1));
  });
}

TEST_CASE("a context that is destroyed first calls what destroys objects") {
  run_gpus({}, [] {
    CHECK(cuInit(0) == 0);
    CUcontext context = nullptr;
    CHECK(cuCtxCreate_v2(&context, 0, 0) == 0);
    Objects objects(nullptr);
    CHECK(DRIVER_CALL(cuUserObjectRelease, "cuUserObjectRelease")(objects.make(), 1) == 0);
    CHECK(cuCtxDestroy_v2(context) == 0);
    const Gpu gpu;
    CHECK(objects.become(1));
  });
}

TEST_CASE("memory of a graph: freed once in it, ready once, given once until it is freed") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    Graph *graph = make_graph(), *inside = make_graph();
    const Given kept = add_memory(graph, 64), freed = add_memory(inside, 64);
    CHECK(add_free(inside, freed.node, freed.place) == 0);
    CHECK(add_free(inside, freed.node, freed.place) == 1);
    CHECK(cuMemFreeAsync(kept.place, stream) == 1);  // no launch has given it
    GraphExec *executable = nullptr, *second = nullptr;
    CHECK(instantiate(&executable, graph) == 0);
    CHECK(instantiate(&second, graph) != 0);
    CHECK(launch(executable, stream) == 0);
    CHECK(launch(executable, stream) == 1);
    CHECK(cuMemsetD32Async(kept.place, 5, 1, stream) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(number_at(kept.place) == 5);
    CHECK(cuMemFreeAsync(kept.place, stream) == 0);
    CHECK(cuMemFreeAsync(kept.place, stream) == 1);
    CHECK(launch(executable, stream) == 0);
    CHECK(cuMemFree_v2(kept.place) == 0);
    CHECK(destroy(executable) == 0);
    // With the first flag each launch frees what is left of the one before.
    CHECK(instantiate(&second, graph, 1) == 0);
    CHECK(launch(second, stream) == 0);
    CHECK(launch(second, stream) == 0);
    // Another graph may free it.
    Graph* frees = make_graph();
    CHECK(add_free(frees, nullptr, kept.place) == 0);
    CHECK(launch(ready(frees), stream) == 0);
    CHECK(cuMemFreeAsync(kept.place, stream) == 1);
    // What is freed in the graph is invalid outside.
    GraphExec* of_inside = ready(inside);
    CHECK(launch(of_inside, stream) == 0);
    CHECK(launch(of_inside, stream) == 0);
    CHECK(cuMemFreeAsync(freed.place, stream) == 1);
    CHECK(cuStreamSynchronize(stream) == 0);
  });
}

TEST_CASE("a graph's memory goes with the graph and what was made ready of it, unless the program has it") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    constexpr std::size_t kBytes = std::size_t{30} << 30U;  // three of these are more than there is
    CUdeviceptr had = 0;
    for (int time = 0; time < 4; ++time) {
      CAPTURE(time);
      Graph* graph = make_graph();
      const Given given = add_memory(graph, kBytes);
      GraphExec* executable = ready(graph);
      CHECK(destroy(graph) == 0);
      CHECK(launch(executable, stream) == 0);
      CHECK(cuMemsetD32Async(given.place, 5, 1, stream) == 0);
      if (time < 3) CHECK(cuMemFreeAsync(given.place, stream) == 0);
      CHECK(destroy(executable) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      had = given.place;
    }
    CHECK(number_at(had) == 5);
    CHECK(cuMemFree_v2(had) == 0);
    CHECK(cuMemFree_v2(had) == 1);
  });
}

TEST_CASE("what is freed in a stream's turn is there until then, though its graph has gone") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    const CUfunction function = find_function(kImage, "add_one");
    const CUstream stream = make_stream();
    Graph* graph = make_graph();
    const Given given = add_memory(graph, 64);
    GraphExec* executable = ready(graph);
    CHECK(launch(executable, stream) == 0);
    CHECK(cuMemsetD32Async(given.place, 5, 1, stream) == 0);
    for (int time = 0; time < 3; ++time) CHECK(add_one(function, given.place, 500, stream) == 0);
    auto* seen = static_cast<int*>(allocate_pinned(4));
    CHECK(cuMemcpyDtoHAsync_v2(seen, given.place, 4, stream) == 0);
    CHECK(cuMemFreeAsync(given.place, stream) == 0);
    CHECK(destroy(executable) == 0);
    CHECK(destroy(graph) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(*seen == 8);
    CHECK(cuMemFreeAsync(given.place, stream) == 1);
  });
}

TEST_CASE("no child gives memory, and memory is pinned") {
  run_gpus({}, [] {
    const Gpu gpu;
    Graph *graph = make_graph(), *child = make_graph(), *embedded = nullptr;
    add_fill(child, fill_of(allocate(4), 1));
    GraphNode *node = add_child(graph, child), *none = nullptr;
    CHECK(DRIVER_CALL(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph")(node, &embedded) == 0);
    cuda::cudaMemAllocNodeParams wanted{};
    wanted.pool.location = {1, 0};
    wanted.bytes = 64;
    const auto add = DRIVER_CALL(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode");
    CHECK(add(&none, graph, nullptr, 0, &wanted) == 1);
    wanted.pool.type = 1;
    CHECK(add(&none, embedded, nullptr, 0, &wanted) != 0);
    CHECK(add(&none, graph, nullptr, 0, &wanted) == 0);
  });
}

TEST_CASE("an update says which node is given what it cannot have: other sides of a copy, other rows of a fill") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kParametersChanged = 5;
    const CUdeviceptr there = allocate(256);
    const auto here = reinterpret_cast<CUdeviceptr>(allocate_pinned(256));
    Graph *graph = make_graph(), *other_way = make_graph(), *same_way = make_graph();
    add_copy(graph, there, here);
    GraphNode* blamed = add_copy(other_way, here, there);
    add_copy(same_way, there + 4, here + 4);
    GraphExec* executable = ready(graph);
    cuda::cudaGraphExecUpdateResultInfo result{};
    CHECK(update(executable, other_way, result) == 910);
    CHECK(result.result == kParametersChanged);
    CHECK(result.node == blamed);
    CHECK(update(executable, same_way, result) == 0);

    Graph *rows = make_graph(), *more = make_graph(), *wider = make_graph(), *elsewhere = make_graph();
    GraphNode* fill = add_fill(rows, fill_of(there, 2, 2));
    add_fill(more, fill_of(there, 2, 3));
    add_fill(wider, fill_of(there, 3, 2));
    add_fill(elsewhere, fill_of(there + 64, 2, 2));
    executable = ready(rows);
    for (Graph* wanted : {more, wider}) {
      CHECK(update(executable, wanted, result) == 910);
      CHECK(result.result == kParametersChanged);
    }
    CHECK(update(executable, elsewhere, result) == 0);
    const auto set = DRIVER_CALL(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams");
    const auto wrong = fill_of(there, 3, 2), right = fill_of(there, 2, 2);
    CHECK(set(executable, fill, &wrong, nullptr) == 1);
    CHECK(set(executable, fill, &right, nullptr) == 0);
    // Of something that is no graph the older call says so, too.
    GraphNode* failed = nullptr;
    int why = 0;
    CHECK(find_entry<decltype(cuda::cuGraphExecUpdate)>("cuGraphExecUpdate", 11000)(executable, nullptr, &failed,
                                                                                    &why) != 0);
    CHECK(why == 1);
  });
}

TEST_CASE("a cooperative kernel stays one whatever it is given, and no other kernel takes its place") {
  run_gpus({}, [] {
    register_add_one();
    const Gpu gpu;
    const CUfunction function = find_function(kImage, "add_one");
    const CUstream stream = make_stream();
    CUdeviceptr place = allocate(4);
    unsigned microseconds = 1;
    void* arguments[] = {&place, &microseconds};
    CUgraph captured = nullptr, plain = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments) == 0);
    CHECK(cuStreamEndCapture(stream, &captured) == 0);
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(add_one(function, place, 1, stream) == 0);
    CHECK(cuStreamEndCapture(stream, &plain) == 0);
    auto* cooperative = reinterpret_cast<Graph*>(captured);
    GraphNode* node = nullptr;
    std::size_t count = 1;
    CHECK(DRIVER_CALL(cuGraphGetNodes, "cuGraphGetNodes")(cooperative, &node, &count) == 0);
    cuda::CUDA_KERNEL_NODE_PARAMS_v2 parameters{};
    CHECK(DRIVER_CALL(cuGraphKernelNodeGetParams_v2, "cuGraphKernelNodeGetParams")(node, &parameters) == 0);
    CHECK(DRIVER_CALL(cuGraphKernelNodeSetParams_v2, "cuGraphKernelNodeSetParams")(node, &parameters) == 0);
    cuda::cudaGraphExecUpdateResultInfo result{};
    CHECK(update(ready(cooperative), reinterpret_cast<Graph*>(plain), result) == 910);
    CHECK(result.result == 8);
  });
}

TEST_CASE("a node that is gone is no node of what was made ready, and neither is one that came later") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUdeviceptr place = allocate(64);
    Graph* graph = make_graph();
    GraphNode *gone = add_fill(graph, fill_of(place, 1)), *stays = add_fill(graph, fill_of(place + 4, 1));
    GraphExec* executable = ready(graph);
    CHECK(DRIVER_CALL(cuGraphDestroyNode, "cuGraphDestroyNode")(gone) == 0);
    const auto set = DRIVER_CALL(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams");
    const auto wanted = fill_of(place, 1);
    for (int later = 0; later < 8; ++later) {  // one of them is where the first one was
      CHECK(set(executable, add_fill(graph, fill_of(place, 1)), &wanted, nullptr) == 1);
    }
    CHECK(set(executable, stays, &wanted, nullptr) == 0);
  });
}

TEST_CASE("what cannot be made ready: a circle names a node of it, and flags that are not there are none") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr int kError = 1, kNoStructure = 2;
    const CUdeviceptr place = allocate(4);
    Graph* graph = make_graph();
    GraphNode* first = add_fill(graph, fill_of(place, 1));
    GraphNode* second = add_fill(graph, fill_of(place, 1), {first});
    add_fill(graph, fill_of(place, 1), {second});
    GraphExec* executable = nullptr;
    for (const unsigned long long flags : {2ULL, 16ULL, 5ULL}) CHECK(instantiate(&executable, graph, flags) == 1);
    const auto make = DRIVER_CALL(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams");
    cuda::CUDA_GRAPH_INSTANTIATE_PARAMS how{};
    CHECK(make(&executable, nullptr, &how) == 1);
    CHECK(how.result == kError);
    how = {.flags = 2, .upload_stream = nullptr, .failed = nullptr, .result = -1};
    CHECK(make(&executable, graph, &how) == 0);
    CHECK(how.result == 0);
    CHECK(DRIVER_CALL(cuGraphAddDependencies_v2, "cuGraphAddDependencies")(graph, &second, &first, nullptr, 1) == 0);
    CHECK(make(&executable, graph, &how) == 1);
    CHECK(how.result == kNoStructure);
    CHECK((how.failed == first || how.failed == second));
  });
}

TEST_CASE("a recording is ended by the thread that began it, unless it is a relaxed one") {
  run_gpus({}, [] {
    constexpr int kThreadLocal = 1, kRelaxed = 2;
    const Gpu gpu;
    const CUstream stream = make_stream();
    for (const int mode : {0, kThreadLocal, kRelaxed}) {
      CAPTURE(mode);
      CUgraph graph = nullptr;
      CHECK(cuStreamBeginCapture_v2(stream, mode) == 0);
      std::thread([&] {
        CHECK(cuCtxSetCurrent(gpu.context) == 0);
        CHECK(cuStreamEndCapture(stream, &graph) == (mode == kRelaxed ? 0 : 908));
      }).join();
      if (mode != kRelaxed) cuStreamEndCapture(stream, &graph);
      CHECK(cuStreamSynchronize(stream) == 0);
    }
  });
}

TEST_CASE("beside a blocking stream that is recorded the default stream says so, and cannot join") {
  run_gpus({}, [] {
    constexpr unsigned kBlocking = 0;
    const Gpu gpu;
    const CUstream stream = make_stream(kBlocking);
    const CUdeviceptr place = allocate(4);
    const CUevent event = make_event();
    const auto is_capturing = DRIVER_CALL(cuStreamIsCapturing, "cuStreamIsCapturing");
    int status = -1;
    unsigned long long id = 0;
    CUgraph graph = nullptr;
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuMemsetD32Async(place, 1, 1, stream) == 0);
    CHECK(is_capturing(nullptr, &status) == 906);
    CHECK(find_entry<decltype(cuda::cuStreamGetCaptureInfo)>("cuStreamGetCaptureInfo", 10010)(nullptr, &status, &id) ==
          906);
    CHECK(is_capturing(handle_of(stream), &status) == 0);
    CHECK(status == 1);  // asking did no harm
    CHECK(cuStreamEndCapture(stream, &graph) == 0);

    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuEventRecord(event, stream) == 0);
    CHECK(cuStreamWaitEvent(nullptr, event, 0) != 0);
    CHECK(cuStreamEndCapture(stream, &graph) == 901);
    CHECK(graph == nullptr);
    CHECK(is_capturing(nullptr, &status) == 0);
    CHECK(status == 0);
    CHECK(cuMemsetD32_v2(place, 2, 1) == 0);
    CHECK(number_at(place) == 2);
  });
}

TEST_CASE("what the program takes out of the way to the end of a recording does not spoil it") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    const CUdeviceptr place = allocate(8);
    int status = 0;
    unsigned long long id = 0;
    Graph* graph = nullptr;
    const GraphNode** tails = nullptr;
    std::size_t count = 0;
    CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
    CHECK(cuMemsetD32Async(place, 1, 1, stream) == 0);
    CHECK(cuMemsetD32Async(place + 4, 2, 1, stream) == 0);
    CHECK(find_entry<decltype(cuda::cuStreamGetCaptureInfo_v2)>("cuStreamGetCaptureInfo", 12000)(
              handle_of(stream), &status, &id, &graph, &tails, &count) == 0);
    GraphNode *from = nullptr, *to = nullptr;
    count = 1;
    CHECK(DRIVER_CALL(cuGraphGetEdges_v2, "cuGraphGetEdges")(graph, &from, &to, nullptr, &count) == 0);
    CHECK(DRIVER_CALL(cuGraphRemoveDependencies_v2, "cuGraphRemoveDependencies")(graph, &from, &to, nullptr, 1) == 0);
    CUgraph recorded = nullptr;
    CHECK(cuStreamEndCapture(stream, &recorded) == 0);
    CHECK(recorded != nullptr);
  });
}

}  // namespace graph_rules_test
