#pragma once
// Arguments: the C interface's arguments, checked and converted into the engine's own types; and an error in the types
// of the C interface. Pure functions.

#include "plugin/base/result.h"
#include "plugin/coll/meshcoll.h"
#include "plugin/coll/run/communicator.h"

namespace meshbed::coll {

/// The caller's mistake.
Error invalid(std::string text);
meshcoll_result code_of(const Error& error);
/// A text that fits, and zeros behind it.
void give_text(const std::string& text, char* to);

Result<CommunicatorOptions> read_options(const meshcoll_options& given);
/// Of every call but the barrier; on a communicator of `world` ranks, of which we are `rank`.
Result<Operation> read_operation(const meshcoll_args& given, int rank, int world);

}  // namespace meshbed::coll
