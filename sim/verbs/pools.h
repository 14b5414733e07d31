#pragma once
// Containers of the verbs room. They grow while a run warms up and allocate nothing afterwards.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "plugin/base/check.h"

namespace meshbed::sim::verbs {

/// A queue whose elements keep an absolute sequence number from push to pop. Capacity doubles on demand, so that deep
/// queues cost memory only where they are used. A push may move elements: hold no reference across it.
template <typename T>
class Ring {
 public:
  std::uint64_t begin() const { return begin_; }  // sequence of the oldest element
  std::uint64_t end() const { return end_; }      // one past the newest
  std::uint64_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  bool holds(std::uint64_t sequence) const { return sequence >= begin_ && sequence < end_; }

  T& operator[](std::uint64_t sequence) { return slots_[sequence & (slots_.size() - 1)]; }
  const T& operator[](std::uint64_t sequence) const { return slots_[sequence & (slots_.size() - 1)]; }
  T& front() { return (*this)[begin_]; }

  void push(const T& element) {
    if (size() == slots_.size()) grow();
    (*this)[end_++] = element;
  }
  void pop() { ++begin_; }
  void clear() { begin_ = end_; }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
    for (std::uint64_t sequence = begin_; sequence != end_; ++sequence) {
      larger[sequence & (larger.size() - 1)] = (*this)[sequence];
    }
    slots_ = std::move(larger);
  }

  std::vector<T> slots_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

/// Objects with stable addresses, reused last in, first out.
template <typename T>
class Pool {
 public:
  T* take() {
    if (free_.empty()) return &storage_.emplace_back();
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }

 private:
  std::deque<T> storage_;
  std::vector<T*> free_;
};

/// Objects by handle. A handle is first + its position, and is never given twice: a stale one finds nothing.
template <typename T>
class HandleTable {
 public:
  explicit HandleTable(std::uint32_t first = 1) : first_(first) {}

  std::uint32_t next() const { return first_ + static_cast<std::uint32_t>(objects_.size()); }
  T& add(std::unique_ptr<T> object) {
    peak_ = std::max(peak_, ++live_);
    return *objects_.emplace_back(std::move(object));
  }
  T* find(std::uint32_t handle) const {
    const std::uint32_t position = handle - first_;
    return position < objects_.size() ? objects_[position].get() : nullptr;
  }
  void remove(std::uint32_t handle) {
    objects_[handle - first_].reset();
    --live_;
  }
  std::size_t live() const { return live_; }
  /// The most that were alive at one time.
  std::size_t peak() const { return peak_; }

  template <typename Function>
  void for_each(Function function) const {
    for (std::size_t position = 0; position < objects_.size(); ++position) {
      if (T* object = objects_[position].get()) function(*object);
    }
  }

 private:
  std::uint32_t first_;
  std::vector<std::unique_ptr<T>> objects_;
  std::size_t live_ = 0, peak_ = 0;
};

}  // namespace meshbed::sim::verbs
