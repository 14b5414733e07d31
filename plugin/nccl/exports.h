#pragma once
// What the library shows: see plugin.map.

#include "plugin/nccl/net_abi.h"
#include "plugin/nccl/tuner_abi.h"

#define MESHBED_EXPORT extern "C" __attribute__((visibility("default")))

MESHBED_EXPORT const meshbed::nccl::NetV8 ncclNetPlugin_v8;
MESHBED_EXPORT const meshbed::nccl::NetV9 ncclNetPlugin_v9;
MESHBED_EXPORT const meshbed::nccl::NetV10 ncclNetPlugin_v10;
MESHBED_EXPORT const meshbed::nccl::NetV11 ncclNetPlugin_v11;
MESHBED_EXPORT const meshbed::nccl::NetV12 ncclNetPlugin_v12;
MESHBED_EXPORT const meshbed::nccl::TunerV5 ncclTunerPlugin_v5;
MESHBED_EXPORT const meshbed::nccl::TunerV6 ncclTunerPlugin_v6;

/// The state of this copy of the library as one line of JSON (docs/state.md), while none of its threads runs: for a
/// debugger, and for a simulation that stands still. Reads without locks, asks no device. Writes as much as
/// `size_bytes` takes, with a final zero; returns the length of the whole text, 0 where no transport is open. `now_ns`:
/// CLOCK_MONOTONIC.
MESHBED_EXPORT std::size_t meshbedState(std::int64_t now_ns, char* text, std::size_t size_bytes);
