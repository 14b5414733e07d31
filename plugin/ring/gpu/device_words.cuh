#pragma once
// DeviceWords: how a GPU touches the words that it shares with a host (access.h), at system scope: the other side is a
// processor behind PCIe or NVLink. For CUDA sources alone.
//
// Order (PTX ISA, memory consistency model): acquire and release as named; a claim acquires. Counters and exchanged
// control words have none of their own: the release that ends a slot carries them, as in live_steps.h.

#include "plugin/ring/kernel/access.h"

namespace meshbed::ring {

struct DeviceWords {
  __device__ static Word load(const Word* word) {
    Word value = 0;
    asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static Word acquire(const Word* word) {
    Word value = 0;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static void store(Word* word, Word value) {
    asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  __device__ static void release(Word* word, Word value) {
    asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
  __device__ static Word add(Word* word, Word value) {
    Word before = 0;
    asm volatile("atom.relaxed.sys.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
  }
  __device__ static Word exchange(Word* word, Word value) {
    Word before = 0;
    asm volatile("atom.relaxed.sys.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
  }
  __device__ static Word swap(Word* word, Word expected, Word desired) {
    Word before = 0;
    asm volatile("atom.acquire.sys.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(word), "r"(expected), "r"(desired)
                 : "memory");
    return before;
  }

  // Of a queue's words of 64 bits.
  __device__ static std::uint64_t load(const std::uint64_t* word) {
    std::uint64_t value = 0;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static std::uint64_t acquire(const std::uint64_t* word) {
    std::uint64_t value = 0;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static void store(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ static void release(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ static std::uint64_t swap(std::uint64_t* word, std::uint64_t expected, std::uint64_t desired) {
    std::uint64_t before = 0;
    asm volatile("atom.acquire.sys.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(before)
                 : "l"(word), "l"(expected), "l"(desired)
                 : "memory");
    return before;
  }
};

}  // namespace meshbed::ring
