#pragma once
// How a verb that is not implemented says so. Apart from table.h because unsupported.cpp must not see verbs.h.

#include <atomic>

namespace meshbed::dropin {

/// Logs one WARN a verb: `told` is the verb's own.
void tell_unsupported(const char* verb, std::atomic_flag& told);

}  // namespace meshbed::dropin

/// In front of every exported function; version nodes are in libibverbs.map.
#define MESHBED_VERB extern "C" __attribute__((visibility("default")))
