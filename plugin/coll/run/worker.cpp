#include "plugin/coll/run/worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace meshbed::coll {

Worker::~Worker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Worker::submit(std::function<void()> command) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    commands_.push_back(std::move(command));
  }
  changed_.notify_one();
}

void Worker::call(const std::function<void()>& command) {
  Completion done;
  submit([&] {
    command();
    done.finish();
  });
  done.wait();
}

void Worker::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !commands_.empty(); });
    if (commands_.empty()) return;
    std::function<void()> command = std::move(commands_.front());
    commands_.pop_front();
    lock.unlock();
    command();
    lock.lock();
  }
}

void Completion::finish() {
  // Notified under the lock: the waiter may destroy this object as soon as it has seen the flag.
  const std::lock_guard<std::mutex> lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

void Completion::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return finished_; });
}

bool Completion::wait_for(std::int64_t timeout_ms) {
  constexpr std::int64_t kYearMs = 365LL * 24 * 3600 * 1000;  // far from overflow
  const std::chrono::milliseconds limit(std::clamp<std::int64_t>(timeout_ms, 0, kYearMs));
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return finished_; });
}

}  // namespace meshbed::coll
