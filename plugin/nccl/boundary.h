#pragma once
// The C boundary: what goes over it is an ncclResult_t and out-parameters that are set only on success. Nothing that
// this library throws crosses it; what others throw (a simulator ends a rank that way) passes through untouched.

#include <exception>

#include "plugin/base/log.h"
#include "plugin/base/result.h"
#include "plugin/nccl/net_abi.h"

namespace meshbed::nccl {

/// Every ErrorCode has one ncclResult_t.
NcclResult to_nccl(ErrorCode code);

/// Sends the log to NCCL's logger, which filters by NCCL_DEBUG and NCCL_DEBUG_SUBSYS; nullptr: standard error. `who`
/// begins each line; a literal.
void send_log_to(LogFunction logger, const char* who = "NET/Mesh");

/// What a caller got wrong: logged as a warning that names `entry`, the table's function.
Error refuse(const char* entry, const char* what);

/// Runs `body`, which returns a Result<void>. Errors were logged where they were found. Inlined into every entry point:
/// what `body` captures stays in registers.
template <typename Body>
[[gnu::always_inline]] inline int at_boundary(const char* entry, Body&& body) {
  try {
    const Result<void> result = body();
    return result ? kNcclSuccess : to_nccl(result.error().code);
  } catch (const std::exception& problem) {
    MESHBED_WARN("%s: %s", entry, problem.what());
    return kNcclInternalError;
  }
}

}  // namespace meshbed::nccl
