#pragma once
// Config: what a program or its environment asks for: each field of an ncclConfig_t is honoured or refused by name.

#include <cstdint>

#include "plugin/dropin/library.h"

namespace meshbed::dropin {

/// nullptr counts as NCCL_CONFIG_INITIALIZER.
Outcome check_config(const ncclConfig_t* config);

/// How long rank 0 may take until it listens: NCCL_SOCKET_RETRY_CNT tries, and after the n-th of them n times
/// NCCL_SOCKET_RETRY_SLEEP_MSEC, by NCCL's defaults a minute. What is no number from 1 on is a WARN, and the default.
std::int64_t reach_timeout_ms();

}  // namespace meshbed::dropin
