#include "plugin/dropin/mpi/reduction.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace meshbed::dropin::mpi {
namespace {

template <typename T, typename Function>
void each(void* result, const void* operand, std::size_t count, Function function) {
  for (std::size_t index = 0; index < count; ++index) {
    T left, right;
    char* at = static_cast<char*>(result) + index * sizeof(T);
    std::memcpy(&left, at, sizeof(T));
    std::memcpy(&right, static_cast<const char*>(operand) + index * sizeof(T), sizeof(T));
    left = function(left, right);
    std::memcpy(at, &left, sizeof(T));
  }
}

/// Integers wrap, as they do in Open MPI's loops on this machine.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename T>
bool reduce_as(Operation operation, void* result, const void* operand, std::size_t count) {
  const auto apply = [&](auto function) {
    each<T>(result, operand, count, function);
    return true;
  };
  switch (operation) {
    case Operation::kMax:
      return apply([](T left, T right) { return std::max(left, right); });
    case Operation::kMin:
      return apply([](T left, T right) { return std::min(left, right); });
    case Operation::kSum:
      return apply([](T left, T right) {
        return static_cast<T>(static_cast<Wrapping<T>>(left) + static_cast<Wrapping<T>>(right));
      });
    case Operation::kProd:
      return apply([](T left, T right) {
        // In 64 bits: two unsigned shorts would multiply as ints.
        if constexpr (std::is_integral_v<T>) {
          return static_cast<T>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
        } else {
          return left * right;
        }
      });
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (operation) {
      case Operation::kLand:
        return apply([](T left, T right) { return static_cast<T>(left != 0 && right != 0); });
      case Operation::kLor:
        return apply([](T left, T right) { return static_cast<T>(left != 0 || right != 0); });
      case Operation::kLxor:
        return apply([](T left, T right) { return static_cast<T>((left != 0) != (right != 0)); });
      case Operation::kBand:
        return apply([](T left, T right) { return static_cast<T>(left & right); });
      case Operation::kBor:
        return apply([](T left, T right) { return static_cast<T>(left | right); });
      case Operation::kBxor:
        return apply([](T left, T right) { return static_cast<T>(left ^ right); });
      default:
        break;
    }
  }
  return false;
}

bool is_bitwise(Operation operation) {
  return operation == Operation::kBand || operation == Operation::kBor || operation == Operation::kBxor;
}
bool is_logical(Operation operation) {
  return operation == Operation::kLand || operation == Operation::kLor || operation == Operation::kLxor;
}

}  // namespace

bool reduce(Operation operation, Type type, void* result, const void* operand, std::size_t count) {
  switch (type) {
    case Type::kNull:
      return false;
    case Type::kByte:
      return is_bitwise(operation) && reduce_as<std::uint8_t>(operation, result, operand, count);
    case Type::kBool:
      return is_logical(operation) && reduce_as<std::uint8_t>(operation, result, operand, count);
    case Type::kInt8:
      return reduce_as<std::int8_t>(operation, result, operand, count);
    case Type::kUint8:
      return reduce_as<std::uint8_t>(operation, result, operand, count);
    case Type::kInt16:
      return reduce_as<std::int16_t>(operation, result, operand, count);
    case Type::kUint16:
      return reduce_as<std::uint16_t>(operation, result, operand, count);
    case Type::kInt32:
      return reduce_as<std::int32_t>(operation, result, operand, count);
    case Type::kUint32:
      return reduce_as<std::uint32_t>(operation, result, operand, count);
    case Type::kInt64:
      return reduce_as<std::int64_t>(operation, result, operand, count);
    case Type::kUint64:
      return reduce_as<std::uint64_t>(operation, result, operand, count);
    case Type::kFloat:
      return reduce_as<float>(operation, result, operand, count);
    case Type::kDouble:
      return reduce_as<double>(operation, result, operand, count);
  }
  return false;
}

}  // namespace meshbed::dropin::mpi
