#pragma once
// Worker: one thread that runs the commands given to it, in order. The engine has two, as NCCL has: service (listen,
// connect, accept, registration, close) and progress (send, receive, test).
//
// Commands are few (a handful an operation); the data path never passes here.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace meshbed::coll {

class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  /// Finishes what was submitted, then ends the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void submit(std::function<void()> command);
  /// Submits and waits until it has run.
  void call(const std::function<void()>& command);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> commands_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when all else is there
};

/// Something that happens once, on another thread. Any number of threads may wait for it.
class Completion {
 public:
  void finish();
  void wait();
  /// False where `timeout_ms` passed first.
  bool wait_for(std::int64_t timeout_ms);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
};

}  // namespace meshbed::coll
