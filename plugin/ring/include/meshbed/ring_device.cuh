// The device's side of ring.h, for CUDA sources in C++17 or later, compute capability 7.0 or higher. One GPU thread
// calls a function at a time for itself; none of them waits for other threads of its block.
//
// Order (PTX ISA, memory consistency model): all accesses are at system scope, for the other side is a processor behind
// PCIe or NVLink. A claim acquires; the end of a slot and a push release what the thread wrote before. What other
// threads of a block wrote must be ordered before by a barrier or a fence of theirs.
#pragma once

#include "meshbed/ring.h"

// ---- single accesses ------------------------------------------------------------------------------------------------

__device__ inline uint32_t meshbed_load(const uint32_t* word) {
  uint32_t value = 0;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint32_t meshbed_acquire(const uint32_t* word) {
  uint32_t value = 0;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void meshbed_store(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ inline void meshbed_release(uint32_t* word, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
/// What the word held before, as the next two.
__device__ inline uint32_t meshbed_add(uint32_t* word, uint32_t value) {
  uint32_t before = 0;
  asm volatile("atom.relaxed.sys.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}
__device__ inline uint32_t meshbed_exchange(uint32_t* word, uint32_t value) {
  uint32_t before = 0;
  asm volatile("atom.relaxed.sys.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}
__device__ inline uint32_t meshbed_swap(uint32_t* word, uint32_t expected, uint32_t desired) {
  uint32_t before = 0;
  asm volatile("atom.acquire.sys.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "l"(word), "r"(expected), "r"(desired)
               : "memory");
  return before;
}
__device__ inline uint64_t meshbed_load(const uint64_t* word) {
  uint64_t value = 0;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint64_t meshbed_acquire(const uint64_t* word) {
  uint64_t value = 0;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline void meshbed_store(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline void meshbed_release(uint64_t* word, uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline uint64_t meshbed_swap(uint64_t* word, uint64_t expected, uint64_t desired) {
  uint64_t before = 0;
  asm volatile("atom.acquire.sys.cas.b64 %0, [%1], %2, %3;"
               : "=l"(before)
               : "l"(word), "l"(expected), "l"(desired)
               : "memory");
  return before;
}

// ---- slots ----------------------------------------------------------------------------------------------------------

/// Whether the slot's tenant may run: safe mode's rule (vyre's quirk tenant-mask-unbounded is not repeated).
__device__ inline bool meshbed_tenant_may_run(const uint32_t* control, uint32_t tenant) {
  if (tenant >= MESHBED_CONTROL_TENANTS_MOST) return false;
  return meshbed_load(control + meshbed_load(control + MESHBED_CONTROL_TENANT_BASE) + tenant) != 0;
}

/// Claims a PUBLISHED slot (or one that was put back) for this thread. Its words may be read afterwards. False: there is
/// nothing to do in it, its tenant may not run, or another thread was faster.
__device__ inline bool meshbed_slot_claim(uint32_t* ring, const uint32_t* control, uint32_t slot) {
  uint32_t* const words = ring + (uint64_t)slot * MESHBED_SLOT_WORDS;
  const uint32_t now = meshbed_acquire(words + MESHBED_SLOT_STATUS);
  if (now != MESHBED_SLOT_PUBLISHED && now != MESHBED_SLOT_YIELD && now != MESHBED_SLOT_REQUEUE) return false;
  if (!meshbed_tenant_may_run(control, words[MESHBED_SLOT_TENANT])) return false;
  if (meshbed_swap(words + MESHBED_SLOT_STATUS, now, MESHBED_SLOT_CLAIMED) != now) return false;
  // Its tenant may have been masked, or the slot published anew for another one, since.
  if (meshbed_tenant_may_run(control, words[MESHBED_SLOT_TENANT])) return true;
  meshbed_release(words + MESHBED_SLOT_STATUS, MESHBED_SLOT_REQUEUE);
  return false;
}

/// Ends a slot that this thread has claimed: DONE (which counts), YIELD or REQUEUE (it is claimed again), or FAULT.
__device__ inline void meshbed_slot_complete(uint32_t* ring, uint32_t* control, uint32_t slot, uint32_t status) {
  // Counted before: a thread that sees the slot DONE sees it counted.
  if (status == MESHBED_SLOT_DONE) meshbed_add(control + MESHBED_CONTROL_DONE_COUNT, 1);
  meshbed_release(ring + (uint64_t)slot * MESHBED_SLOT_WORDS + MESHBED_SLOT_STATUS, status);
}

__device__ inline bool meshbed_is_shut_down(const uint32_t* control) {
  return meshbed_acquire(control + MESHBED_CONTROL_SHUTDOWN) != 0;
}

// ---- queues to the host's proxy -------------------------------------------------------------------------------------

/// Reserves a place of a queue that frees places in order. False: it is full. A place is reserved only if it is free, so
/// that one whose wait ends in vain leaves nothing behind.
template <typename Index>
__device__ bool meshbed_reserve(Index* head, const Index* tail, Index depth, Index* reserved) {
  Index position = meshbed_load(head);
  for (;;) {
    // Acquire: the host has read the place before it gave it back.
    const Index free_from = meshbed_acquire(tail);
    if ((Index)(position - free_from) >= depth) {
      const Index now = meshbed_load(head);
      if (now == position) return false;
      position = now;
      continue;
    }
    const Index before = meshbed_swap(head, position, (Index)(position + 1));
    if (before == position) break;
    position = before;
  }
  *reserved = position;
  return true;
}

/// Pushes a trigger (meshbed_fifo_first, meshbed_fifo_second). False: the queue is full. `pushed`: its position.
__device__ inline bool meshbed_fifo_try_push(const meshbed_fifo& fifo, uint64_t first, uint64_t second,
                                             uint64_t* pushed) {
  uint64_t position = 0;
  if (!meshbed_reserve(fifo.head, fifo.tail, fifo.depth, &position)) return false;
  uint64_t* const place = fifo.triggers + 2 * (position & (fifo.depth - 1));
  meshbed_store(place, first);
  // Release: the host that sees the commit sees the bytes to be sent.
  meshbed_release(place + 1, second | meshbed_fifo_commit(position, fifo.depth));
  if (pushed != nullptr) *pushed = position;
  return true;
}
/// Waits for room.
__device__ inline uint64_t meshbed_fifo_push(const meshbed_fifo& fifo, uint64_t first, uint64_t second) {
  uint64_t position = 0;
  while (!meshbed_fifo_try_push(fifo, first, second, &position)) {
  }
  return position;
}
/// The host has posted the trigger at `position`.
__device__ inline bool meshbed_fifo_is_posted(const meshbed_fifo& fifo, uint64_t position) {
  return meshbed_acquire(fifo.tail) > position;
}

/// Pushes a descriptor (meshbed_gin_encode). False: the queue is full. `pushed`: its position.
__device__ inline bool meshbed_gin_try_push(const meshbed_gin& queue, const meshbed_gin_descriptor& what,
                                            uint32_t* pushed) {
  uint32_t position = 0;
  if (!meshbed_reserve(queue.head, queue.tail, queue.depth, &position)) return false;
  uint64_t* const place = queue.words + (uint64_t)(position & (queue.depth - 1)) * MESHBED_GIN_WORDS;
  // Each word shows by itself that it is written; the fence orders the bytes to be sent before all of them.
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  for (int word = 0; word < MESHBED_GIN_WORDS; ++word) meshbed_store(place + word, what.words[word] | 1u);
  if (pushed != nullptr) *pushed = position;
  return true;
}
/// Waits for room.
__device__ inline uint32_t meshbed_gin_push(const meshbed_gin& queue, const meshbed_gin_descriptor& what) {
  uint32_t position = 0;
  while (!meshbed_gin_try_push(queue, what, &position)) {
  }
  return position;
}
/// All operations up to `position` are complete: of two positions, the other is not farther than half of all.
__device__ inline bool meshbed_gin_is_complete(const meshbed_gin& queue, uint32_t position) {
  return (int32_t)(meshbed_acquire(queue.tail) - position) > 0;
}
