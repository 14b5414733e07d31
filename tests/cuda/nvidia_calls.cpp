// The driver's calls as we declare them, against NVIDIA's header, where it is installed: the same number of parameters,
// each of the same size and a pointer where theirs is one; and the numbers of graphs. Whatever differs does not
// compile.
#define __CUDA_API_VERSION_INTERNAL  // every version of a call under a name of its own
#include <cuda.h>
#include <cudaProfiler.h>

#include <type_traits>

#include "sim/cuda/graph/nodes.h"
#include "tests/cuda/call_shape.h"

#if CUDA_VERSION / 1000 == 13
namespace {

using meshbed::test::shape_of;
template <typename Theirs, typename Ours>
constexpr bool is_same_call(Theirs* theirs, Ours* ours) {
  if constexpr (std::is_same_v<decltype(shape_of(theirs)), decltype(shape_of(ours))>) {
    return shape_of(theirs) == shape_of(ours);
  }
  return false;
}

}  // namespace

#define MESHBED_CUDA_CALL(type, name, parameters, arguments)                             \
  static_assert(is_same_call(static_cast<decltype(&::name)>(nullptr),                    \
                             static_cast<decltype(&meshbed::sim::cuda::name)>(nullptr)), \
                #name);
#include "sim/cuda/driver_calls.def"
#undef MESHBED_CUDA_CALL

#define MESHBED_CUDA_TWIN(type, name, twin, parameters, arguments)                       \
  static_assert(is_same_call(static_cast<decltype(&meshbed::sim::cuda::name)>(nullptr),  \
                             static_cast<decltype(&meshbed::sim::cuda::twin)>(nullptr)), \
                #twin);
#include "sim/cuda/per_thread/runtime_twins.def"
#undef MESHBED_CUDA_TWIN

namespace ours = meshbed::sim::cuda;
static_assert(int{CU_GRAPH_NODE_TYPE_CONDITIONAL} == ours::kMemoryOperationsNode + 1);
static_assert(int{CU_GRAPH_NODE_TYPE_GRAPH} == ours::kChildNode);
static_assert(int{CU_GRAPH_NODE_TYPE_WAIT_EVENT} == ours::kWaitEventNode);
static_assert(int{CU_GRAPH_NODE_TYPE_EVENT_RECORD} == ours::kRecordEventNode);
static_assert(int{CU_GRAPH_NODE_TYPE_MEM_ALLOC} == ours::kAllocNode);
static_assert(int{CU_GRAPH_NODE_TYPE_MEM_FREE} == ours::kFreeNode);
static_assert(int{CU_GRAPH_NODE_TYPE_BATCH_MEM_OP} == ours::kMemoryOperationsNode);
static_assert(int{CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED} == ours::kTopologyChanged);
static_assert(int{CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED} == ours::kTypeChanged);
static_assert(int{CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED} == ours::kParametersChanged);
static_assert(int{CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED} == ours::kAttributesChanged);
static_assert(int{CU_STREAM_WAIT_VALUE_NOR} == static_cast<int>(ours::WaitCondition::kNor));
#endif
