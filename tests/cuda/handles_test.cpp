// Programs compare handles and sort by them: which ones they are given depends on what they made and destroyed, and on
// nothing else in the heap.
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "tests/cuda/gpus.h"

using namespace meshbed;
using namespace meshbed::test;

namespace handles_test {
namespace {

/// Takes what the heap has free, of any size that an object of the driver's may have.
std::vector<std::unique_ptr<std::byte[]>> fill_gaps() {
  constexpr std::size_t kLargest = 2048, kOfEach = 16;
  std::vector<std::unique_ptr<std::byte[]>> taken;
  for (std::size_t bytes = 16; bytes <= kLargest; bytes += 16) {
    for (std::size_t count = 0; count < kOfEach; ++count) taken.push_back(std::make_unique<std::byte[]>(bytes));
  }
  return taken;
}

struct Destroyed {
  std::vector<int>* order;
  int number;
};

}  // namespace

TEST_CASE("a new handle is the one of its kind that was destroyed last, regardless of the rest of the heap") {
  run_gpus({}, [] {
    const Gpu gpu;
    const CUstream stream = make_stream();
    CHECK(cuStreamDestroy_v2(stream) == 0);
    const auto event = make_event(0);
    CHECK(cuEventDestroy_v2(event) == 0);
    const auto taken = fill_gaps();
    CHECK(make_stream() == stream);
    CHECK(make_event(0) == event);
    CHECK(make_stream() != stream);
  });
}

// Which order that is, CUDA does not say; it is the same whether their places are new or those of others.
TEST_CASE("objects of the program's are destroyed in the same order each time") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr unsigned kNoSync = 1, kMove = 1;
    constexpr int kObjects = 9;
    std::vector<int> order;
    std::array<Destroyed, kObjects> all{};
    const CUstream stream = make_stream();
    const auto destroy_graph_with_all = [&] {
      sim::cuda::Graph* graph = nullptr;
      CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&graph, 0) == 0);
      for (int number = 0; number < kObjects; ++number) {
        Destroyed& one = all[static_cast<std::size_t>(number)] = {&order, number};
        const auto destroy = [](void* it) {
          static_cast<Destroyed*>(it)->order->push_back(static_cast<Destroyed*>(it)->number);
        };
        sim::cuda::UserObject* object = nullptr;
        CHECK(DRIVER_CALL(cuUserObjectCreate, "cuUserObjectCreate")(&object, &one, destroy, 1, kNoSync) == 0);
        CHECK(DRIVER_CALL(cuGraphRetainUserObject, "cuGraphRetainUserObject")(graph, object, 1, kMove) == 0);
      }
      order.clear();
      CHECK(DRIVER_CALL(cuGraphDestroy, "cuGraphDestroy")(graph) == 0);
      // Behind the destructors, which run on another thread.
      CHECK(cuLaunchHostFunc(
                stream, [](void*) {}, nullptr) == 0);
      CHECK(cuStreamSynchronize(stream) == 0);
      return order;
    };
    const std::vector<int> first = destroy_graph_with_all();
    CHECK(first.size() == kObjects);
    for (int round = 0; round < 4; ++round) CHECK(destroy_graph_with_all() == first);
  });
}

TEST_CASE("an object of the program's that has gone, and what never was one, are refused") {
  run_gpus({}, [] {
    const Gpu gpu;
    constexpr unsigned kNoSync = 1;
    const auto release = DRIVER_CALL(cuUserObjectRelease, "cuUserObjectRelease");
    sim::cuda::UserObject* object = nullptr;
    int gone = 0;
    const auto destroy = [](void* count) { ++*static_cast<int*>(count); };
    CHECK(DRIVER_CALL(cuUserObjectCreate, "cuUserObjectCreate")(&object, &gone, destroy, 1, kNoSync) == 0);
    sim::cuda::Graph* graph = nullptr;
    CHECK(DRIVER_CALL(cuGraphCreate, "cuGraphCreate")(&graph, 0) == 0);
    const auto release_of_graph = DRIVER_CALL(cuGraphReleaseUserObject, "cuGraphReleaseUserObject");
    CHECK(release_of_graph(graph, object, 1) != 0);
    CHECK(release(object, 1) == 0);
    for (auto* const other :
         {object, reinterpret_cast<sim::cuda::UserObject*>(16), static_cast<sim::cuda::UserObject*>(nullptr)}) {
      CHECK(release(other, 1) != 0);
      CHECK(release_of_graph(graph, other, 1) != 0);
    }
    const CUstream stream = make_stream();
    CHECK(cuLaunchHostFunc(
              stream, [](void*) {}, nullptr) == 0);
    CHECK(cuStreamSynchronize(stream) == 0);
    CHECK(gone == 1);
  });
}

}  // namespace handles_test
