#pragma once
// Refusals: errors of this room, logged where they are found.

#include <string>

#include "plugin/base/result.h"

namespace meshbed::local {

/// Logs `text` as a warning and returns it as an error that takes the connection with it.
Error refuse(ErrorCode code, std::string text);
/// The same for a call of the kernel's: "memfd_create: No space left on device". `number`: its errno.
Error refused_by_kernel(const std::string& what, int number);
/// "Operation not permitted".
std::string text_of_errno(int number);

}  // namespace meshbed::local
