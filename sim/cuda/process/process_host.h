#pragma once
// ProcessHost: one program in a process of its own, with the GPUs that it sees in the same process.
//
// Two clocks. The device's is the time of its last event; the host's is the program's own time. While the program runs
// its own code, the host's clock follows the wall clock, or stops (virtual time). A CUDA call advances it by the
// model's time of the call. While a thread waits for the device, the device's events take place one after the other on
// that thread, and both clocks jump with them. For a program that only polls memory, a thread of this host (the ticker)
// runs the events.
//
// Any thread of the program may call; enter() and leave() stand around each call and let one in at a time, in the order
// in which they came.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/cuda/host.h"

namespace meshbed::sim::cuda {

struct ProcessOptions {
  bool virtual_time = false;  // the program's own code takes no time
  std::map<std::string, std::string> environment{};
  std::string cache_folder{};  // Host::cache_folder()
};

class ProcessHost final : public Host {
 public:
  explicit ProcessHost(ProcessOptions options);
  /// No event takes place any more; threads that were spawned wait for the end of the process.
  ~ProcessHost() override;

  void enter();
  void leave();
  /// The destructor's first half: call it at exit, when no thread is inside.
  void stop();
  /// The program's own code takes that long, in which the device goes on; the time that it is then. Within a turn.
  Picoseconds advance(Picoseconds duration_ps);

  Picoseconds now() const override;
  void at(Picoseconds when_ps, int node, void (*event)(void* self, std::uint64_t argument), void* self,
          std::uint64_t argument) override;
  ProcessKey process() const override { return this; }
  ThreadKey thread() const override;
  int node_of(ProcessKey) const override { return 0; }
  const std::map<std::string, std::string>& environment_of(ProcessKey) const override { return options_.environment; }
  std::string cache_folder() const override { return options_.cache_folder; }
  std::uint32_t number_of(ProcessKey) const override { return static_cast<std::uint32_t>(::getpid()); }
  void sleep(Picoseconds duration_ps) override;
  void block(const Waiting& waiting) override;
  void wake(ThreadKey thread) override;
  bool spin(const Waiting& waiting) override;
  void changed(ProcessKey process) override;
  ThreadKey spawn(ProcessKey process, const std::string& name, std::function<void()> body) override;
  void outside(const std::function<void()>& code) override;
  std::shared_ptr<Buffer> allocate(ProcessKey process, std::uint64_t size_bytes) override;
  std::shared_ptr<Buffer> map(const std::shared_ptr<Buffer>& memory, std::uint64_t address) override;
  void release(const Buffer& buffer) override;
  bool is_device_memory(std::uint64_t address) const override;
  bool has_neighbours() const override { return false; }
  int export_dma_buf(ProcessKey, const Buffer&, std::uint64_t, std::uint64_t) override { return -1; }
  int export_object(ProcessKey, const std::shared_ptr<void>&) override { return -1; }
  std::shared_ptr<void> find_object(ProcessKey, int) const override { return nullptr; }
  std::shared_ptr<Buffer> allocate_shareable(ProcessKey process, std::uint64_t size_bytes, std::uint64_t tag) override;
  int export_memory(const Buffer& memory) override;
  std::shared_ptr<Buffer> import_memory(int descriptor, std::uint64_t& tag) override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    Picoseconds when_ps;
    std::uint64_t sequence;
    void (*event)(void*, std::uint64_t);
    void* self;
    std::uint64_t argument;
    bool operator>(const Event& other) const {
      return when_ps != other.when_ps ? when_ps > other.when_ps : sequence > other.sequence;
    }
  };
  struct Caller {
    bool woken = false;
  };

  /// Memory of that file, whose descriptor it takes, or of none (-1). Throws std::bad_alloc.
  std::shared_ptr<Buffer> add_buffer(std::uint64_t size_bytes, int file);
  void take_turn();
  void pass_turn();
  /// Passes the turn to the threads that wait for it, and takes it again.
  void offer_turn();
  void run_event();
  /// Events up to the host's clock; stops when so much wall time has passed since `begun`.
  void run_due(Clock::time_point begun, Clock::duration most);
  /// As above; in virtual time all of them.
  void run_due();
  void count_own_code(Clock::time_point now);
  void tick();

  const std::uint64_t number_;
  ProcessOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable turn_comes_, something_;
  std::atomic<std::uint64_t> next_ticket_ = 0, served_ = 0;
  std::uint64_t changes_ = 0;
  std::size_t blocked_ = 0;  // threads within block(); guarded by the turn
  bool stopping_ = false;

  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_sequence_ = 0;
  Picoseconds device_ps_ = 0, host_ps_ = 0;
  bool in_event_ = false;
  Clock::time_point own_code_since_;
  std::map<std::uint64_t, std::unique_ptr<Caller>> callers_;  // by the threads' numbers
  std::map<std::uint64_t, std::uint64_t> memory_;             // sizes of device memory by address
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<Buffer>> shared_;  // by their files
  std::thread ticker_;
};

}  // namespace meshbed::sim::cuda
