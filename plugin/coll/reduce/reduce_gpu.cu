// The reductions as GPU kernels: one a form of reduce/reduce.h, element type and operation. gpu_reduce.h launches them.
//
// Where partial results are elements, all forms but the one that divides are one: reduce_<type>_<operation>.
// Of the half types there is one a form: reduce_<type>_<operation>_<form>, and reduce_<type>_<sum|avg>_narrow.

#include "plugin/coll/reduce/reduce_device.h"

using meshbed::coll::Bfloat16;
using meshbed::coll::Float16;
using meshbed::coll::ReduceOp;

// blockIdx counts in 32 bits: one product of 64.
#define THREAD (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x)
#define THREADS (static_cast<std::uint64_t>(gridDim.x) * blockDim.x)

#define KERNEL(name, op, divides, Result, Arrived, Own)                                                         \
  extern "C" __global__ void name(void* result, const void* arrived, const void* own, std::uint64_t count,      \
                                  std::uint32_t ranks) {                                                        \
    meshbed::coll::reduce_form<ReduceOp::op, divides, Result, Arrived, Own>(result, arrived, own, count, ranks, \
                                                                            THREAD, THREADS);                   \
  }

#define NARROW(name, divides, Type)                                                                    \
  extern "C" __global__ void name(void* result, const void* arrived, const void*, std::uint64_t count, \
                                  std::uint32_t ranks) {                                               \
    meshbed::coll::narrow_form<divides, Type>(result, arrived, count, ranks, THREAD, THREADS);         \
  }

#define WHOLE_TYPE(name, Type)                                    \
  KERNEL(reduce_##name##_sum, kSum, false, Type, Type, Type)      \
  KERNEL(reduce_##name##_prod, kProduct, false, Type, Type, Type) \
  KERNEL(reduce_##name##_max, kMax, false, Type, Type, Type)      \
  KERNEL(reduce_##name##_min, kMin, false, Type, Type, Type)      \
  KERNEL(reduce_##name##_avg, kSum, true, Type, Type, Type)

#define HALF_OPERATION(name, operation, op, Type)                              \
  KERNEL(reduce_##name##_##operation##_first, op, false, float, Type, Type)    \
  KERNEL(reduce_##name##_##operation##_between, op, false, float, float, Type) \
  KERNEL(reduce_##name##_##operation##_last, op, false, Type, float, Type)     \
  KERNEL(reduce_##name##_##operation##_only, op, false, Type, Type, Type)

#define HALF_TYPE(name, Type)                                     \
  HALF_OPERATION(name, sum, kSum, Type)                           \
  HALF_OPERATION(name, prod, kProduct, Type)                      \
  HALF_OPERATION(name, max, kMax, Type)                           \
  HALF_OPERATION(name, min, kMin, Type)                           \
  KERNEL(reduce_##name##_avg_last, kSum, true, Type, float, Type) \
  KERNEL(reduce_##name##_avg_only, kSum, true, Type, Type, Type)  \
  NARROW(reduce_##name##_sum_narrow, false, Type)                 \
  NARROW(reduce_##name##_avg_narrow, true, Type)

WHOLE_TYPE(int8, std::int8_t)
WHOLE_TYPE(uint8, std::uint8_t)
WHOLE_TYPE(int32, std::int32_t)
WHOLE_TYPE(uint32, std::uint32_t)
WHOLE_TYPE(int64, std::int64_t)
WHOLE_TYPE(uint64, std::uint64_t)
WHOLE_TYPE(float, float)
WHOLE_TYPE(double, double)
HALF_TYPE(half, Float16)
HALF_TYPE(bfloat16, Bfloat16)
