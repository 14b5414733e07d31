#pragma once
// Cubins: machine code, which nothing here runs. The names of its kernels are read, for those that a host function
// stands for.

#include <cstddef>
#include <set>
#include <span>
#include <string>

#include "plugin/base/result.h"

namespace meshbed::sim::cuda {

/// `image` may be longer than the cubin. Errors: kInvalidArgument, with the field that points beyond it.
Result<std::set<std::string>> kernels_of_cubin(std::span<const std::byte> image);

}  // namespace meshbed::sim::cuda
