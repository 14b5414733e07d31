#pragma once
// GpuReduce: the reductions of reduce/reduce.h as kernels of one GPU (reduce_gpu.cu), loaded into one context. A result
// is the processor's bit for bit, but for what a computed NaN carries (reduce/reduce_element.h).

#include <array>
#include <cstdint>
#include <string>

#include "plugin/base/result.h"
#include "plugin/coll/plan/datatype.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/module.h"

namespace meshbed::coll {

/// The forms of reduce/reduce.h.
enum class ReduceForm : std::uint8_t { kFirst, kBetween, kLast, kOnly, kJoin, kNarrow };
inline constexpr int kReduceForms = 6;

/// The kernel of a type that is reduced (is_reducible), as reduce_gpu.cu names it: "reduce_float_sum",
/// "reduce_half_sum_first".
std::string kernel_name(ReduceForm form, DataType type, ReduceOp op);

/// Those of one type and operation; good as long as the GpuReduce that found them.
struct GpuReduceKernels {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::array<cuda::CUfunction, kReduceForms> functions{};  // by form
};

/// Addresses as the GPU sees them: its own memory, or pinned memory. `result` may be an operand itself where their
/// elements have one size, and must not overlap one otherwise. Aligned as their elements; 16 bytes at a time where all
/// three lie equally far from such a border.
struct GpuReduction {
  ReduceForm form = ReduceForm::kOnly;
  void* result = nullptr;
  const void *arrived = nullptr, *own = nullptr;  // own: null for kNarrow
  std::uint64_t count = 0;                        // elements
  std::uint32_t ranks = 1;                        // how many contribute: an average's divisor
};

class GpuReduce {
 public:
  /// Into the current context. Takes as long as the driver needs to compile the kernels (kept by it for the next time).
  static Result<GpuReduce> load(const cuda::Driver& driver);
  /// kInvalidArgument: a type that is not reduced.
  Result<GpuReduceKernels> kernels(DataType type, ReduceOp op) const;

 private:
  explicit GpuReduce(cuda::Module module) : module_(std::move(module)) {}
  cuda::Module module_;
};

/// Comes back at once; the stream, whose context must be current, has it behind all that it was given before.
Result<void> start(const cuda::Driver& driver, const GpuReduceKernels& kernels, const GpuReduction& reduction,
                   cuda::CUstream stream);

}  // namespace meshbed::coll
