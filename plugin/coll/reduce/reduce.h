#pragma once
// Reduction kernels: element by element, in the order arrived, own (see plan.h).
//
// A result of the half types is rounded once, however many ranks contribute: what one rank hands the next is float32
// (accumulator_of). So there are six forms, by what arrives, what is our own and what is made:
//
//             arrived       own         result
//   first     elements      elements    a partial result
//   between   a partial     elements    a partial result
//   last      a partial     elements    elements
//   only      elements      elements    elements (of two ranks)
//   join      a partial     a partial   a partial result
//   narrow    a partial     -           elements: what join has left to do where the two differ; else null, and last
//                                       does as well
//
// Every operation is rounded to nearest, ties to even, in the accumulator's type; an average is the sum, divided once,
// by the last rank. Integers wrap, and their average is the wrapped sum divided towards zero, as in NCCL. Of a number
// and a NaN, min and max take the number (IEEE 754-2019 minimumNumber); of two zeros, our own.
//
// The loops are compiled for several kinds of processors and chosen when the program runs: the same bits whichever.

#include <cstdint>

#include "plugin/coll/plan/datatype.h"

namespace meshbed::coll {

/// `count` elements. `result` may be an operand itself where their elements have one size, and must not overlap one
/// otherwise. `ranks`: how many contribute; an average divides by it. Any alignment that the element types need.
using ReduceFunction = void (*)(void* result, const void* arrived, const void* own, std::uint64_t count,
                                std::uint32_t ranks);

struct ReduceKernels {
  ReduceFunction first = nullptr, between = nullptr, last = nullptr, only = nullptr;
};
/// Not of the others: with these, their constants would become a table, and each copy of the library would write it.
struct PartialKernels {
  ReduceFunction join = nullptr, narrow = nullptr;
};

enum class VectorLevel : std::uint8_t {
  kBaseline = 0,  // what every processor of the architecture has: SSE2, NEON
  kAvx2 = 1,
  kAvx512 = 2,  // F, BW, DQ, VL
};
inline constexpr int kVectorLevels = 3;
const char* name_of(VectorLevel level);

/// Whether this processor, and this build, have it.
bool has(VectorLevel level);
/// The widest that it has.
VectorLevel best_level();

/// All nullptr where the type is not reduced (is_reducible).
ReduceKernels reduce_kernels(DataType type, ReduceOp op, VectorLevel level);
inline ReduceKernels reduce_kernels(DataType type, ReduceOp op) { return reduce_kernels(type, op, best_level()); }
PartialKernels partial_kernels(DataType type, ReduceOp op, VectorLevel level);
inline PartialKernels partial_kernels(DataType type, ReduceOp op) { return partial_kernels(type, op, best_level()); }

}  // namespace meshbed::coll
