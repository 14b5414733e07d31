#pragma once
// Config: an ncclConfig_t, looked at: each of its fields is honoured or refused by name.

#include "plugin/dropin/library.h"

namespace meshbed::dropin {

/// nullptr is what NCCL_CONFIG_INITIALIZER says.
Outcome check_config(const ncclConfig_t* config);

}  // namespace meshbed::dropin
