#pragma once
// How a kernel touches the words that it shares with a host and with other lanes. One instruction source, three ways:
// alone in one thread (a simulation), with other threads of this process, on a GPU (whose access a kernel would bring).
//
//   load, store       no order with anything else, as the ancestor's control words and statuses
//   acquire, release  what the other side wrote before its release is seen after our acquire
//   add, exchange     give what the word held before
//   swap              compare-and-swap; gives what the word held before, so that equal to `expected` is success
//
// Standard library only, functions only: a CUDA source includes this too.

#include <atomic>

#include "plugin/ring/abi/abi.h"

#if defined(__CUDACC__)
#define MESHBED_DEVICE __host__ __device__
#else
#define MESHBED_DEVICE
#endif

namespace meshbed::ring {

/// One thread alone: what the interpreter of a simulation runs on.
struct PlainWords {
  static Word load(const Word* word) { return *word; }
  static Word acquire(const Word* word) { return *word; }
  static void store(Word* word, Word value) { *word = value; }
  static void release(Word* word, Word value) { *word = value; }
  static Word add(Word* word, Word value) {
    const Word before = *word;
    *word = before + value;
    return before;
  }
  static Word exchange(Word* word, Word value) {
    const Word before = *word;
    *word = value;
    return before;
  }
  static Word swap(Word* word, Word expected, Word desired) {
    const Word before = *word;
    if (before == expected) *word = desired;
    return before;
  }
};

/// Among threads: claims acquire, and the end of a slot releases.
struct AtomicWords {
  static Word load(const Word* word) { return shared(word).load(std::memory_order_relaxed); }
  static Word acquire(const Word* word) { return shared(word).load(std::memory_order_acquire); }
  static void store(Word* word, Word value) { shared(word).store(value, std::memory_order_relaxed); }
  static void release(Word* word, Word value) { shared(word).store(value, std::memory_order_release); }
  static Word add(Word* word, Word value) { return shared(word).fetch_add(value, std::memory_order_acq_rel); }
  static Word exchange(Word* word, Word value) { return shared(word).exchange(value, std::memory_order_acq_rel); }
  static Word swap(Word* word, Word expected, Word desired) {
    shared(word).compare_exchange_strong(expected, desired, std::memory_order_acq_rel, std::memory_order_acquire);
    return expected;
  }

 private:
  /// An atomic_ref of constants is C++26's.
  static std::atomic_ref<Word> shared(const Word* word) { return std::atomic_ref<Word>(*const_cast<Word*>(word)); }
};

}  // namespace meshbed::ring
