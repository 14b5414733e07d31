/* Work rings and device queues for programs of your own: the layouts, and the host's side. C11, C++17 and CUDA.
 *
 * Three layouts (docs/own-kernel.md has a whole program):
 *   slots  vyre's megakernel runtime, layout 2026-05: 16 words of 32 bits; the host publishes, a kernel claims
 *   FIFO   MSCCL++ 0.9.0's port channel: triggers of 16 bytes; a kernel pushes, the host posts
 *   GIN    NCCL 2.30.7's GIN proxy: descriptors of 128 bytes; a kernel pushes, the host posts and completes
 *
 * The device's side is ring_device.cuh. Memory that both sides share is pinned host memory (or managed memory) that is
 * zero before the first use. One host thread publishes into a slot, and one host thread polls a queue; any number of
 * GPU threads may claim and push.
 *
 * Functions that poll call sched_yield() when they find nothing, so that other threads go on, and in a simulation time.
 * All sizes are in bytes, all depths are powers of two. Version 0: names may still change. */
#ifndef MESHBED_RING_H
#define MESHBED_RING_H

#include <sched.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define MESHBED_RING_BOTH static inline __host__ __device__
#define MESHBED_RING_PURE __host__ __device__ constexpr inline
#elif defined(__cplusplus)
#define MESHBED_RING_BOTH static inline
#define MESHBED_RING_PURE constexpr inline
#else
#define MESHBED_RING_BOTH static inline
#define MESHBED_RING_PURE static inline
#endif

/* ---- slots ----------------------------------------------------------------------------------------------- */

enum {
  MESHBED_SLOT_WORDS = 16,
  /* Words of a slot. */
  MESHBED_SLOT_STATUS = 0,
  MESHBED_SLOT_OPCODE = 1,
  MESHBED_SLOT_TENANT = 2,
  MESHBED_SLOT_PRIORITY = 3,
  MESHBED_SLOT_ARGS = 4, /* 12 of them */
  MESHBED_SLOT_ARGS_MOST = 12,
  /* What the status word holds. */
  MESHBED_SLOT_EMPTY = 0,
  MESHBED_SLOT_PUBLISHED = 1,
  MESHBED_SLOT_CLAIMED = 2,
  MESHBED_SLOT_DONE = 3,
  MESHBED_SLOT_YIELD = 5,
  MESHBED_SLOT_REQUEUE = 6,
  MESHBED_SLOT_FAULT = 7,
  /* Opcodes below 8, from 0xfff0 to 0xffff, and with the highest bit are the runtime's. */
  MESHBED_OPCODE_USER_FIRST = 8,
  /* Words of the control buffer. */
  MESHBED_CONTROL_SHUTDOWN = 0,
  MESHBED_CONTROL_DONE_COUNT = 1,
  MESHBED_CONTROL_TENANT_BASE = 2, /* holds the index of tenant 0's mask */
  MESHBED_CONTROL_TENANT_MASKS = 3,
  MESHBED_CONTROL_TENANTS_MOST = 29,
  MESHBED_CONTROL_WORDS_LEAST = 160
};

/* ---- FIFO ------------------------------------------------------------------------------------------------ */

/* Of a trigger's type, or-ed. */
enum { MESHBED_FIFO_DATA = 1, MESHBED_FIFO_FLAG = 2, MESHBED_FIFO_SYNC = 4 };

typedef struct meshbed_fifo_trigger {
  uint64_t first;  /* size_bytes: 0-31; source offset: 32-63 */
  uint64_t second; /* destination offset: 0-31; source memory: 32-40; destination memory: 41-49; type: 50-52;
                      semaphore: 53-62; commit: 63 */
} meshbed_fifo_trigger;

/* Numbers that their bits hold. */
MESHBED_RING_PURE uint64_t meshbed_fifo_first(uint32_t size_bytes, uint32_t source_offset) {
  return (uint64_t)size_bytes | (uint64_t)source_offset << 32;
}
MESHBED_RING_PURE uint64_t meshbed_fifo_second(uint32_t destination_offset, uint32_t source_memory,
                                               uint32_t destination_memory, uint32_t type, uint32_t semaphore) {
  return (uint64_t)destination_offset | (uint64_t)(source_memory & 0x1ffu) << 32 |
         (uint64_t)(destination_memory & 0x1ffu) << 41 | (uint64_t)(type & 7u) << 50 |
         (uint64_t)(semaphore & 0x3ffu) << 53;
}
/* The commit bit of the lap that `position` is in: memory of zeros reads as empty. */
MESHBED_RING_PURE uint64_t meshbed_fifo_commit(uint64_t position, uint64_t depth) {
  return ((position / depth & 1u) ^ 1u) << 63;
}

/* Of a trigger that was taken. */
MESHBED_RING_PURE uint32_t meshbed_fifo_size_bytes(meshbed_fifo_trigger trigger) { return (uint32_t)trigger.first; }
MESHBED_RING_PURE uint32_t meshbed_fifo_source_offset(meshbed_fifo_trigger trigger) {
  return (uint32_t)(trigger.first >> 32);
}
MESHBED_RING_PURE uint32_t meshbed_fifo_destination_offset(meshbed_fifo_trigger trigger) {
  return (uint32_t)trigger.second;
}
MESHBED_RING_PURE uint32_t meshbed_fifo_source_memory(meshbed_fifo_trigger trigger) {
  return (uint32_t)(trigger.second >> 32 & 0x1ffu);
}
MESHBED_RING_PURE uint32_t meshbed_fifo_destination_memory(meshbed_fifo_trigger trigger) {
  return (uint32_t)(trigger.second >> 41 & 0x1ffu);
}
MESHBED_RING_PURE uint32_t meshbed_fifo_type(meshbed_fifo_trigger trigger) {
  return (uint32_t)(trigger.second >> 50 & 7u);
}
MESHBED_RING_PURE uint32_t meshbed_fifo_semaphore(meshbed_fifo_trigger trigger) {
  return (uint32_t)(trigger.second >> 53 & 0x3ffu);
}

typedef struct meshbed_fifo {
  uint64_t* triggers; /* 2 * depth words */
  uint64_t* head;     /* what kernels have reserved */
  uint64_t* tail;     /* below it all places are free again */
  uint64_t depth;
} meshbed_fifo;

/* ---- GIN ------------------------------------------------------------------------------------------------- */

enum {
  MESHBED_GIN_WORDS = 16,
  /* Operations, or-ed; a signal alone is a put of nothing. */
  MESHBED_GIN_PUT = 1,
  MESHBED_GIN_INLINE = 2,
  MESHBED_GIN_COUNTER = 4,
  MESHBED_GIN_SIGNAL_INC = 8,
  MESHBED_GIN_SIGNAL_ADD = 16,
  MESHBED_GIN_VA_SIGNAL = 32, /* a descriptor of its own, after the put's */
  MESHBED_GIN_GET = 64,
  MESHBED_GIN_FLUSH = 128
};

typedef struct meshbed_gin_descriptor {
  uint64_t words[MESHBED_GIN_WORDS]; /* bit 0 of each: it is written */
} meshbed_gin_descriptor;

/* The content of a descriptor of version 2. Offsets and handles have 63 bits, a size 57, a counter 23, a signal 24. */
typedef struct meshbed_gin_operation {
  uint32_t op;
  uint64_t size_bytes;
  uint64_t source_offset, source_handle;
  uint64_t destination_offset, destination_handle;
  uint32_t counter, signal;
  uint64_t signal_value;
  uint64_t inline_value; /* with MESHBED_GIN_INLINE: in place of a source; at most 8 bytes */
  uint32_t strong;       /* not 0: a strong signal */
} meshbed_gin_operation;

typedef struct meshbed_gin {
  uint64_t* words; /* 16 * depth */
  uint32_t* head;  /* what kernels have reserved */
  uint32_t* tail;  /* below it all operations are complete, in order */
  uint32_t depth;
} meshbed_gin;

MESHBED_RING_BOTH meshbed_gin_descriptor meshbed_gin_encode(const meshbed_gin_operation* what) {
  const uint64_t value = what->inline_value;
  const int is_inline = (what->op & MESHBED_GIN_INLINE) != 0;
  meshbed_gin_descriptor made;
  for (int word = 0; word < MESHBED_GIN_WORDS; ++word) made.words[word] = 1;
  made.words[0] |= (uint64_t)2 << 1;
  made.words[7] |= (uint64_t)(what->op & 0xffffu) << 8;
  if ((what->op & MESHBED_GIN_FLUSH) != 0) return made;
  made.words[0] |= what->size_bytes << 7;
  made.words[1] |= is_inline ? (value & 0xffffffffu) << 8 | (value >> 32 & 0xffffu) << 40 : what->source_offset << 1;
  made.words[2] |= is_inline ? (value >> 48) << 8 : what->source_handle << 1;
  made.words[3] |= what->destination_offset << 1;
  made.words[4] |= what->destination_handle << 1;
  made.words[5] |= (uint64_t)(what->counter & 0x7fffffu) << 1 | (uint64_t)(what->signal & 0xffffffu) << 24 |
                   what->signal_value << 48;
  made.words[6] |=
      (what->strong != 0 ? 2u : 0u) | (what->signal_value >> 16 & 0xffffu) << 8 | (what->signal_value >> 32) << 24;
  return made;
}

/* Fields that the operation does not use are undefined. */
MESHBED_RING_BOTH meshbed_gin_operation meshbed_gin_decode(const meshbed_gin_descriptor* from) {
  meshbed_gin_operation what;
  what.op = (uint32_t)(from->words[7] >> 8 & 0xffffu);
  what.size_bytes = from->words[0] >> 7;
  what.source_offset = from->words[1] >> 1;
  what.source_handle = from->words[2] >> 1;
  what.destination_offset = from->words[3] >> 1;
  what.destination_handle = from->words[4] >> 1;
  what.counter = (uint32_t)(from->words[5] >> 1 & 0x7fffffu);
  what.signal = (uint32_t)(from->words[5] >> 24 & 0xffffffu);
  what.signal_value =
      from->words[5] >> 48 | (from->words[6] >> 8 & 0xffffu) << 16 | (from->words[6] >> 24 & 0xffffffffu) << 32;
  what.inline_value = (from->words[1] >> 8 & 0xffffffffu) | (from->words[1] >> 40 & 0xffffu) << 32 |
                      (from->words[2] >> 8 & 0xffffu) << 48;
  what.strong = (uint32_t)(from->words[6] >> 1 & 1u);
  return what;
}

/* ---- the host's side ------------------------------------------------------------------------------------- */

/* Writes tenant, opcode, priority and arguments, then PUBLISHED with release. `priority`: 0 (critical) to 4 (idle). 0:
 * it is published; -1: the slot is neither EMPTY nor DONE, or there are more than 12 arguments: nothing is written. */
static inline int meshbed_slot_publish(uint32_t* ring, uint32_t slot, uint32_t tenant, uint32_t opcode,
                                       uint32_t priority, const uint32_t* args, uint32_t args_count) {
  uint32_t* const words = ring + (uint64_t)slot * MESHBED_SLOT_WORDS;
  const uint32_t now = __atomic_load_n(words + MESHBED_SLOT_STATUS, __ATOMIC_ACQUIRE);
  if ((now != MESHBED_SLOT_EMPTY && now != MESHBED_SLOT_DONE) || args_count > MESHBED_SLOT_ARGS_MOST) return -1;
  __atomic_store_n(words + MESHBED_SLOT_OPCODE, opcode, __ATOMIC_RELAXED);
  __atomic_store_n(words + MESHBED_SLOT_TENANT, tenant, __ATOMIC_RELAXED);
  __atomic_store_n(words + MESHBED_SLOT_PRIORITY, priority, __ATOMIC_RELAXED);
  for (uint32_t at = 0; at < MESHBED_SLOT_ARGS_MOST; ++at) {
    __atomic_store_n(words + MESHBED_SLOT_ARGS + at, at < args_count ? args[at] : 0u, __ATOMIC_RELAXED);
  }
  __atomic_store_n(words + MESHBED_SLOT_STATUS, (uint32_t)MESHBED_SLOT_PUBLISHED, __ATOMIC_RELEASE);
  return 0;
}

/* The slot's status; what the kernel wrote before it ended the slot is there. Yields where it is not DONE or FAULT. */
static inline uint32_t meshbed_slot_poll(const uint32_t* ring, uint32_t slot) {
  const uint32_t now = __atomic_load_n(ring + (uint64_t)slot * MESHBED_SLOT_WORDS, __ATOMIC_ACQUIRE);
  if (now != MESHBED_SLOT_DONE && now != MESHBED_SLOT_FAULT) sched_yield();
  return now;
}

/* A control buffer of zeros in which tenants 0 to `tenants` - 1 (at most 29) may run. */
static inline void meshbed_control_init(uint32_t* control, uint32_t tenants) {
  control[MESHBED_CONTROL_TENANT_BASE] = MESHBED_CONTROL_TENANT_MASKS;
  for (uint32_t tenant = 0; tenant < tenants && tenant < MESHBED_CONTROL_TENANTS_MOST; ++tenant) {
    control[MESHBED_CONTROL_TENANT_MASKS + tenant] = 0xffffffffu;
  }
}
/* Kernels end when they have ended the slots that they have. */
static inline void meshbed_control_shutdown(uint32_t* control) {
  __atomic_store_n(control + MESHBED_CONTROL_SHUTDOWN, 1u, __ATOMIC_RELEASE);
}
/* Slots that were ended as DONE, modulo 2^32. */
static inline uint32_t meshbed_control_done(const uint32_t* control) {
  return __atomic_load_n(control + MESHBED_CONTROL_DONE_COUNT, __ATOMIC_ACQUIRE);
}

/* 1: the trigger at `position` is in `taken`, and its commit bit is cleared; 0: it is not pushed yet. The host takes
 * positions 0, 1, 2, ... */
static inline int meshbed_fifo_poll(const meshbed_fifo* fifo, uint64_t position, meshbed_fifo_trigger* taken) {
  const uint64_t commit = (uint64_t)1 << 63;
  const uint64_t* const place = fifo->triggers + 2 * (position & (fifo->depth - 1));
  const uint64_t second = __atomic_load_n(place + 1, __ATOMIC_ACQUIRE);
  if ((second & commit) != meshbed_fifo_commit(position, fifo->depth)) {
    sched_yield();
    return 0;
  }
  taken->first = __atomic_load_n(place, __ATOMIC_RELAXED);
  taken->second = second & ~commit;
  return 1;
}
/* The trigger at `position` is posted: its place is free again, and so are all before it. */
static inline void meshbed_fifo_pop(const meshbed_fifo* fifo, uint64_t position) {
  __atomic_store_n(fifo->tail, position + 1, __ATOMIC_RELEASE);
}

/* 1: the operation at `position` is in `taken`, and its place is cleared; 0: it is not written, or not wholly. The host
 * takes positions 0, 1, 2, ... modulo 2^32. */
static inline int meshbed_gin_poll(const meshbed_gin* queue, uint32_t position, meshbed_gin_descriptor* taken) {
  uint64_t* const place = queue->words + (uint64_t)(position & (queue->depth - 1)) * MESHBED_GIN_WORDS;
  for (int word = 0; word < MESHBED_GIN_WORDS; ++word) {
    taken->words[word] = __atomic_load_n(place + word, __ATOMIC_ACQUIRE);
    if ((taken->words[word] & 1u) == 0) {
      sched_yield();
      return 0;
    }
  }
  for (int word = 0; word < MESHBED_GIN_WORDS; ++word) __atomic_store_n(place + word, (uint64_t)0, __ATOMIC_RELAXED);
  return 1;
}
/* All operations up to `position` are complete. */
static inline void meshbed_gin_complete(const meshbed_gin* queue, uint32_t position) {
  __atomic_store_n(queue->tail, position + 1, __ATOMIC_RELEASE);
}

#endif /* MESHBED_RING_H */
