#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {

const sim::VerbsBackend* g_backend = nullptr;

void tell_unsupported(const char* verb, std::atomic_flag& told) {
  if (g_backend != nullptr && !told.test_and_set()) g_backend->unsupported(verb);
}

}  // namespace meshbed::dropin

MESHBED_VERB int meshbed_verbs_set_backend(const meshbed::sim::VerbsBackend* backend) {
  using meshbed::sim::VerbsBackend;
  if (backend == nullptr || backend->version != meshbed::sim::kBackendVersion ||
      backend->size != sizeof(VerbsBackend)) {
    return EINVAL;
  }
  meshbed::dropin::g_backend = backend;
  return 0;
}
