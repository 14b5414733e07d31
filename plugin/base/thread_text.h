#pragma once
// ThreadText: texts that are handed over a C boundary as plain pointers. Each thread has its own copy of the last one
// that it asked for, so that no other thread's call takes it away. Any thread.

#include <pthread.h>

#include <string_view>

namespace meshbed {

class ThreadText {
 public:
  /// Lives as long as the process: a thread that ends later takes its text with it.
  ThreadText();
  ThreadText(const ThreadText&) = delete;
  ThreadText& operator=(const ThreadText&) = delete;

  /// The calling thread's copy of `text`, which stays until the thread's next keep() or its end. If there is no
  /// memory for it, a fixed text about that.
  const char* keep(std::string_view text);

 private:
  pthread_key_t key_{};
  bool works_ = false;  // the process had a key left
};

}  // namespace meshbed
