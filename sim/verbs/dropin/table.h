#pragma once
// The back end's table as the drop-in sees it, and the C conventions of verbs that fail.

#include <cerrno>

#include "sim/verbs/backend.h"
#include "sim/verbs/dropin/refusal.h"

namespace meshbed::dropin {

extern const sim::VerbsBackend* g_backend;  // set once, before any verb

inline const sim::VerbsBackend& backend() { return *g_backend; }

/// The C convention of verbs that return a pointer or -1.
template <typename Pointer>
Pointer* null_with(int error) {
  errno = error;
  return nullptr;
}
inline int minus_one_with(int error) {
  errno = error;
  return -1;
}

}  // namespace meshbed::dropin
