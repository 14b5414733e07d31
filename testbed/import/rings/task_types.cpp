#include "testbed/import/rings/task_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace meshbed::testbed::rings {
namespace {

constexpr std::pair<int, const char*> kNames[] = {
    {0, "TERMINATE"},
    {10, "BEGIN_TASK_GRAPH"},
    {101, "EMBEDDING"},
    {102, "RMS_NORM_LINEAR"},
    {103, "ATTENTION_1"},
    {104, "ATTENTION_2"},
    {105, "SILU_MUL_LINEAR_WITH_RESIDUAL"},
    {106, "ALLREDUCE"},
    {107, "REDUCE"},
    {108, "LINEAR_WITH_RESIDUAL"},
    {109, "ARGMAX"},
    {110, "ARGMAX_PARTIAL"},
    {111, "ARGMAX_REDUCE"},
    {112, "FIND_NGRAM_PARTIAL"},
    {113, "FIND_NGRAM_GLOBAL"},
    {114, "TARGET_VERIFY_GREEDY"},
    {115, "SINGLE_BATCH_EXTEND_ATTENTION"},
    {116, "PAGED_ATTENTION_1"},
    {117, "PAGED_ATTENTION_2"},
    {118, "SILU_MUL"},
    {119, "RMS_NORM"},
    {120, "LINEAR"},
    {121, "IDENTITY"},
    {151, "LINEAR_WITH_RESIDUAL_HOPPER"},
    {152, "LINEAR_HOPPER"},
    {153, "PAGED_ATTENTION_HOPPER"},
    {154, "RMS_NORM_HOPPER"},
    {155, "LINEAR_SWAPAB_HOPPER"},
    {156, "LINEAR_SWAPAB_WITH_RESIDUAL_HOPPER"},
    {157, "LINEAR_CUTLASS_HOPPER"},
    {158, "LINEAR_CUTLASS_WITH_RESIDUAL_HOPPER"},
    {159, "SILU_MUL_HOPPER"},
    {160, "EMBEDDING_HOPPER"},
    {161, "MOE_W13_LINEAR_SM90"},
    {162, "MOE_W2_LINEAR_SM90"},
    {163, "SPLITK_LINEAR_SWAPAB_HOPPER"},
    {199, "NVSHMEM_COPY"},
    {251, "SPLITK_LINEAR_SM100"},
    {252, "LINEAR_WITH_RESIDUAL_SM100"},
    {253, "LINEAR_SM100"},
    {254, "MOE_W13_LINEAR_SM100"},
    {255, "MOE_W2_LINEAR_SM100"},
    {257, "ATTN_SM100"},
    {258, "ARGMAX_REDUCE_SM100"},
    {259, "ARGMAX_PARTIAL_SM100"},
    {260, "MOE_TOPK_SOFTMAX_SM100"},
    {261, "MOE_MUL_SUM_ADD_SM100"},
    {262, "TENSOR_INIT"},
};

}  // namespace

std::string name_of_task(int type) {
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& each) { return each.first == type; });
  return found != std::end(kNames) ? found->second : fmt::format("type{}", type);
}

}  // namespace meshbed::testbed::rings
