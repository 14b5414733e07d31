// The exported verbs of unsupported.def. Their prototypes are not included on purpose: the answer does not depend on
// the arguments, and in this ABI (System V, both supported machines) a callee may ignore those that it is given.

#include <cerrno>

#include "sim/verbs/dropin/refusal.h"

namespace {

int refuse(const char* verb, std::atomic_flag& told, int answer) {
  meshbed::dropin::tell_unsupported(verb, told);
  errno = EOPNOTSUPP;
  return answer;
}

}  // namespace

#define UNSUPPORTED_RETURNING(verb, answer) \
  MESHBED_VERB int verb() {                 \
    static std::atomic_flag told;           \
    return refuse(#verb, told, answer);     \
  }
#define UNSUPPORTED_STATUS(verb) UNSUPPORTED_RETURNING(verb, EOPNOTSUPP)
#define UNSUPPORTED_MINUS_ONE(verb) UNSUPPORTED_RETURNING(verb, -1)
#define UNSUPPORTED_POINTER(verb) \
  MESHBED_VERB void* verb() {     \
    static std::atomic_flag told; \
    refuse(#verb, told, 0);       \
    return nullptr;               \
  }
#define UNSUPPORTED_VOID(verb)    \
  MESHBED_VERB void verb() {      \
    static std::atomic_flag told; \
    refuse(#verb, told, 0);       \
  }
#include "sim/verbs/dropin/unsupported.def"
