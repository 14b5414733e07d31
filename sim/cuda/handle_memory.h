#pragma once
// HandleMemory: the base of objects whose addresses programs know as handles. Programs compare handles: whether a new
// object gets the address of a destroyed one must depend only on the objects of its kind that were made and destroyed,
// not on other content of the heap, or a run would not repeat.

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace meshbed::sim::cuda {

template <typename Object>
class HandleMemory {
 public:
  static void* operator new(std::size_t bytes) {
    Freed& freed = of_process();
    const std::lock_guard hold(freed.lock);
    if (freed.places.empty()) return ::operator new(bytes);
    void* const place = freed.places.back();
    freed.places.pop_back();
    return place;
  }
  static void operator delete(void* place) {
    Freed& freed = of_process();
    const std::lock_guard hold(freed.lock);
    freed.places.push_back(place);
  }

 private:
  struct Freed {
    std::mutex lock;
    std::vector<void*> places;  // never given back to the heap
  };
  static Freed& of_process() {
    static auto* const freed = new Freed;
    return *freed;
  }
};

}  // namespace meshbed::sim::cuda
