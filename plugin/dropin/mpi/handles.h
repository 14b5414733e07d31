#pragma once
// Handles: what MPI's handles point to. A program may hold copies of the predefined ones (COPY relocations), so they
// are recognised by their content, not by their addresses.

#include <array>
#include <cstddef>
#include <cstdint>

#include "plugin/dropin/mpi/mpi.h"

namespace meshbed::dropin::mpi {

enum class HandleKind : std::uint32_t { kCommunicator = 1, kDatatype, kOperation, kRequest, kInfo, kErrorHandler };

inline constexpr std::uint64_t kMagic = 0x4d50494d45534842;  // "MPIMESHB"

/// The first bytes of every object that a handle points to.
struct Handle {
  std::uint64_t magic;
  HandleKind kind;
  std::uint32_t number;  // which of the kind's predefined ones; kMade: made by a call
};
inline constexpr std::uint32_t kMade = 0xffff;

/// One of the predefined ones, `number` of its kind's enumeration, in as many bytes as Open MPI's.
template <HandleKind kKind, std::size_t kBytes>
struct Predefined {
  template <typename Number>
  constexpr explicit Predefined(Number number) : handle{kMagic, kKind, static_cast<std::uint32_t>(number)} {}
  Handle handle;
  std::array<char, kBytes - sizeof(Handle)> rest{};
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

/// nullptr: `pointer` is not a handle of this kind.
const Handle* handle_of(const void* pointer, HandleKind kind);
/// Type::kNull: `datatype` is none of mpi.h's.
Type type_of(MPI_Datatype datatype);
/// In bytes; 0 for kNull.
std::size_t size_of(Type type);
/// Operation::kNull: `op` is none of mpi.h's.
Operation operation_of(MPI_Op op);

}  // namespace meshbed::dropin::mpi
