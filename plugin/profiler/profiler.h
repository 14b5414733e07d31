#pragma once
// What libnccl-profiler-meshbed.so exports.

#include <cstddef>

#include "plugin/nccl/profiler_abi.h"

#define MESHBED_EXPORT extern "C" __attribute__((visibility("default")))

MESHBED_EXPORT const meshbed::nccl::Profiler ncclProfiler_v5;
MESHBED_EXPORT const meshbed::nccl::Profiler ncclProfiler_v6;

/// What NCCL has decided in this process as one line of JSON (docs/nccl.md), in the order in which each was first met.
/// Writes as much as `size_bytes` takes, with a final zero; returns the length of the whole text.
MESHBED_EXPORT std::size_t meshbedNcclDecisions(char* text, std::size_t size_bytes);
