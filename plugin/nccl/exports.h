#pragma once
// What the library shows: see plugin.map.

#include "plugin/nccl/net_abi.h"

#define MESHBED_EXPORT extern "C" __attribute__((visibility("default")))

MESHBED_EXPORT const meshbed::nccl::NetV8 ncclNetPlugin_v8;
MESHBED_EXPORT const meshbed::nccl::NetV9 ncclNetPlugin_v9;
MESHBED_EXPORT const meshbed::nccl::NetV10 ncclNetPlugin_v10;
MESHBED_EXPORT const meshbed::nccl::NetV11 ncclNetPlugin_v11;
MESHBED_EXPORT const meshbed::nccl::NetV12 ncclNetPlugin_v12;
