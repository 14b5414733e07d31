#include "plugin/coll/run/gpu_reduce.h"

#include <algorithm>

namespace meshbed::cuda {

const char* reduce_gpu_ptx();  // reduce_gpu.cu

}  // namespace meshbed::cuda

namespace meshbed::coll {
namespace {

constexpr unsigned kThreads = 256;
// About what the largest GPUs hold at once; every block goes on through the elements with the whole grid's stride.
constexpr std::uint64_t kBlocksMax = 1024;
constexpr std::uint64_t kVectorBytes = 16;

const char* name_of(ReduceForm form) {
  switch (form) {
    case ReduceForm::kFirst:
      return "first";
    case ReduceForm::kBetween:
      return "between";
    case ReduceForm::kLast:
      return "last";
    case ReduceForm::kOnly:
      return "only";
    case ReduceForm::kJoin:
      return "join";
    case ReduceForm::kNarrow:
      return "narrow";
  }
  return "unknown";
}

}  // namespace

std::string kernel_name(ReduceForm form, DataType type, ReduceOp op) {
  const bool widens = accumulator_of(type) != type;
  if (form == ReduceForm::kJoin) {
    form = ReduceForm::kBetween;
    if (widens) return kernel_name(form, accumulator_of(type), op);
  }
  // Only who divides last averages; until then it is a sum. Narrowing depends on nothing else.
  const bool divides = op == ReduceOp::kAverage && form != ReduceForm::kFirst && form != ReduceForm::kBetween;
  if (!divides && (op == ReduceOp::kAverage || form == ReduceForm::kNarrow)) op = ReduceOp::kSum;
  std::string name = std::string("reduce_") + name_of(type) + "_" + name_of(op);
  if (widens) name += std::string("_") + name_of(form);
  return name;
}

Result<GpuReduce> GpuReduce::load(const cuda::Driver& driver) {
  auto module = cuda::Module::load(driver, cuda::reduce_gpu_ptx());
  if (!module) return module.error();
  return GpuReduce(std::move(*module));
}

Result<GpuReduceKernels> GpuReduce::kernels(DataType type, ReduceOp op) const {
  if (!is_reducible(type)) {
    return Error{ErrorCode::kInvalidArgument, Scope::kRequest, std::string(name_of(type)) + " is moved, never reduced"};
  }
  GpuReduceKernels kernels{.type = type, .op = op, .functions = {}};
  for (int number = 0; number < kReduceForms; ++number) {
    const auto form = static_cast<ReduceForm>(number);
    if (form == ReduceForm::kNarrow && accumulator_of(type) == type) continue;  // there is nothing to narrow
    const auto found = module_.kernel(kernel_name(form, type, op));
    if (!found) return found.error();
    kernels.functions[static_cast<std::size_t>(number)] = *found;
  }
  return kernels;
}

Result<void> start(const cuda::Driver& driver, const GpuReduceKernels& kernels, const GpuReduction& reduction,
                   cuda::CUstream stream) {
  if (reduction.count == 0) return ok();
  const std::uint64_t widest_bytes = size_of(accumulator_of(kernels.type));
  const std::uint64_t vectors = (reduction.count * widest_bytes + kVectorBytes - 1) / kVectorBytes;
  const std::uint64_t blocks = std::min(kBlocksMax, (vectors + kThreads - 1) / kThreads);
  GpuReduction its = reduction;
  void* arguments[] = {&its.result, &its.arrived, &its.own, &its.count, &its.ranks};
  return cuda::launch(driver, kernels.functions[static_cast<std::size_t>(reduction.form)],
                      {.grid = {static_cast<unsigned>(blocks)}, .block = {kThreads}, .stream = stream}, arguments);
}

}  // namespace meshbed::coll
