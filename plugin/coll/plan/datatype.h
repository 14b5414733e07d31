#pragma once
// Element types and reductions, numbered as in nccl.h (ncclDataType_t, ncclRedOp_t).

#include <cstddef>
#include <cstdint>

namespace meshbed::coll {

enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,  // moved, never reduced: its sums would be noise
  kFloat8e5m2 = 11,  // likewise
};
inline constexpr int kDataTypes = 12;

enum class ReduceOp : std::uint8_t {
  kSum = 0,
  kProduct = 1,
  kMax = 2,
  kMin = 3,
  kAverage = 4,
};
inline constexpr int kReduceOps = 5;

/// nccl-tests' names: "half", "float", "int32".
const char* name_of(DataType type);
/// "sum", "prod", "max", "min", "avg": nccl-tests' names.
const char* name_of(ReduceOp op);

constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
      return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
      return 8;
  }
  return 0;
}

constexpr bool is_reducible(DataType type) { return type != DataType::kFloat8e4m3 && type != DataType::kFloat8e5m2; }

/// What a partial result is kept in: float32 for the half types, so that a result is rounded once; else the type
/// itself.
constexpr DataType accumulator_of(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 ? DataType::kFloat32 : type;
}

}  // namespace meshbed::coll
