#pragma once
// Reduction: MPI's operations on host memory, element by element. Pure.

#include <cstddef>

#include "plugin/dropin/mpi/handles.h"

namespace meshbed::dropin::mpi {

/// result[i] = result[i] OPERATION operand[i] for `count` elements, of any alignment. False: MPI does not define the
/// operation for this type.
bool reduce(Operation operation, Type type, void* result, const void* operand, std::size_t count);

}  // namespace meshbed::dropin::mpi
