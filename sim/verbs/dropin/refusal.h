#pragma once
// The result of a verb that is not implemented. Apart from table.h because unsupported.cpp must not see verbs.h.

#include <atomic>

namespace meshbed::dropin {

/// Logs one WARN for each verb, by the verb's own flag.
void tell_unsupported(const char* verb, std::atomic_flag& told);

}  // namespace meshbed::dropin

/// In front of every exported function; version nodes are in libibverbs.map.
#define MESHBED_VERB extern "C" __attribute__((visibility("default")))
