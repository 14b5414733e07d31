#pragma once
// DeviceWords: how a GPU touches the words that it shares with a host (access.h), by the functions that programs of
// their own use (ring_device.cuh). For CUDA sources alone.
//
// Counters and exchanged control words have no order of their own: the release that ends a slot carries them, as in
// live_steps.h.

#include "plugin/ring/include/meshbed/ring_device.cuh"
#include "plugin/ring/kernel/access.h"

namespace meshbed::ring {

struct DeviceWords {
  __device__ static Word load(const Word* word) { return meshbed_load(word); }
  __device__ static Word acquire(const Word* word) { return meshbed_acquire(word); }
  __device__ static void store(Word* word, Word value) { meshbed_store(word, value); }
  __device__ static void release(Word* word, Word value) { meshbed_release(word, value); }
  __device__ static Word add(Word* word, Word value) { return meshbed_add(word, value); }
  __device__ static Word exchange(Word* word, Word value) { return meshbed_exchange(word, value); }
  __device__ static Word swap(Word* word, Word expected, Word desired) { return meshbed_swap(word, expected, desired); }
};

}  // namespace meshbed::ring
