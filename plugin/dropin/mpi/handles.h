#pragma once
// Handles: what MPI's handles point to. A program that is linked for it holds copies of the predefined ones (COPY
// relocations), so that they are known by what is in them, not by their addresses.

#include <array>
#include <cstddef>
#include <cstdint>

#include "plugin/dropin/mpi/mpi.h"

namespace meshbed::dropin::mpi {

enum class HandleKind : std::uint32_t { kCommunicator = 1, kDatatype, kOperation, kRequest, kInfo, kErrorHandler };

inline constexpr std::uint64_t kMagic = 0x4d50494d45534842;  // "MPIMESHB"

/// The first bytes of all that a handle points to.
struct Handle {
  std::uint64_t magic;
  HandleKind kind;
  std::uint32_t number;  // of the kind's predefined ones; kMade: made by a call
};
inline constexpr std::uint32_t kMade = 0xffff;

template <std::size_t kBytes>
struct Predefined {
  Handle handle;
  std::array<char, kBytes - sizeof(Handle)> rest;
};

enum Communicators : std::uint32_t { kWorld, kSelf, kNull };
enum ErrorHandlers : std::uint32_t { kErrorsAreFatal, kErrorsReturn };
enum class Operation : std::uint32_t { kNull, kMax, kMin, kSum, kProd, kLand, kBand, kLor, kBor, kLxor, kBxor };
enum class Type : std::uint32_t {
  kNull,
  kByte,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kDouble,
  kBool,
};

/// nullptr: that is no handle of this kind.
const Handle* handle_of(const void* pointer, HandleKind kind);
/// Type::kNull where it is none.
Type type_of(MPI_Datatype datatype);
/// In bytes; 0: kNull.
std::size_t size_of(Type type);
/// Operation::kNull where it is none.
Operation operation_of(MPI_Op op);

}  // namespace meshbed::dropin::mpi
