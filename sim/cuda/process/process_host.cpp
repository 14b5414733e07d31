#include "sim/cuda/process/process_host.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "sim/cuda/process/shared_buffer.h"

namespace meshbed::sim::cuda {
namespace {

/// How long a call, or the ticker, may be busy with the device before the program goes on.
constexpr auto kSlice = std::chrono::milliseconds(5);
/// How often the ticker looks whether something is due, and how long a program is silent before virtual time goes on
/// without it.
constexpr auto kTick = std::chrono::microseconds(500);
/// What a query that finds nothing takes of virtual time: else a program that polls would never see the end.
constexpr Picoseconds kQueryPs = kPicosecondsPerMicrosecond;

/// Of the calling thread; 0: it has not called yet. The system gives the id of a thread that has ended to the next one,
/// which must not inherit its device, its contexts and its last error.
thread_local std::uint64_t t_number = 0;
std::atomic<std::uint64_t> g_threads = 0;

/// What thread() answered the thread last, and which host that was: by its number, since an address may come again.
struct Known {
  std::uint64_t host = 0;
  ThreadKey thread = nullptr;
};
thread_local Known t_known;
std::atomic<std::uint64_t> g_hosts = 0;

}  // namespace

ProcessHost::ProcessHost(ProcessOptions options)
    : number_(++g_hosts), options_(std::move(options)), own_code_since_(Clock::now()) {
  ticker_ = std::thread([this] { tick(); });
}

ProcessHost::~ProcessHost() { stop(); }

void ProcessHost::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  something_.notify_all();
  ticker_.join();
}

// --- whose turn it is ---
void ProcessHost::take_turn() {
  const std::uint64_t ticket = next_ticket_++;
  if (served_ == ticket) return;
  std::unique_lock lock(mutex_);
  turn_comes_.wait(lock, [&] { return served_ == ticket; });
}

void ProcessHost::pass_turn() {
  const std::uint64_t next = ++served_;
  if (next_ticket_ <= next) return;
  // Every thread with a ticket waits already, or will check under the mutex.
  { const std::lock_guard lock(mutex_); }
  turn_comes_.notify_all();
}

void ProcessHost::offer_turn() {
  if (next_ticket_ == served_ + 1) return;
  pass_turn();
  take_turn();
}

void ProcessHost::count_own_code(Clock::time_point now) {
  if (!options_.virtual_time) {
    host_ps_ =
        std::max(host_ps_, device_ps_) +
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - own_code_since_).count() * kPicosecondsPerNanosecond;
  }
  own_code_since_ = now;
}

void ProcessHost::enter() {
  take_turn();
  const auto now = Clock::now();
  count_own_code(now);
  if (!options_.virtual_time) run_due(now, kSlice);
}

void ProcessHost::leave() {
  own_code_since_ = Clock::now();
  pass_turn();
}

// --- time and events ---
Picoseconds ProcessHost::now() const { return in_event_ ? device_ps_ : std::max(host_ps_, device_ps_); }

void ProcessHost::at(Picoseconds when_ps, int, void (*event)(void*, std::uint64_t), void* self,
                     std::uint64_t argument) {
  events_.push({std::max(when_ps, device_ps_), next_sequence_++, event, self, argument});
}

void ProcessHost::run_event() {
  const Event next = events_.top();
  events_.pop();
  device_ps_ = next.when_ps;
  in_event_ = true;
  next.event(next.self, next.argument);
  in_event_ = false;
}

void ProcessHost::run_due(Clock::time_point begun, Clock::duration most) {
  while (!events_.empty() && events_.top().when_ps <= host_ps_) {
    run_event();
    if (Clock::now() - begun > most) break;
  }
}

void ProcessHost::run_due() {
  if (!options_.virtual_time) {
    run_due(Clock::now(), kSlice);
    return;
  }
  while (!events_.empty() && events_.top().when_ps <= host_ps_) run_event();
}

void ProcessHost::tick() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // Without events there is nothing to do until a thread calls. (events_ is read under the turn; an outdated value
    // costs one more round.)
    something_.wait_for(lock, kTick);
    if (stopping_) return;
    if (next_ticket_ != served_) continue;  // a thread is inside, and serves the device
    lock.unlock();
    take_turn();
    const bool silent = Clock::now() - own_code_since_ >= kTick;
    if (!events_.empty() && silent) {
      if (options_.virtual_time) {
        const auto begun = Clock::now();
        while (!events_.empty() && Clock::now() - begun < kSlice) run_event();
      } else {
        const auto now = Clock::now();
        count_own_code(now);
        run_due(now, kSlice);
        own_code_since_ = Clock::now();
      }
    }
    pass_turn();
    lock.lock();
  }
}

void ProcessHost::sleep(Picoseconds duration_ps) { host_ps_ = std::max(host_ps_, device_ps_) + duration_ps; }

Picoseconds ProcessHost::advance(Picoseconds duration_ps) {
  sleep(duration_ps);
  run_due();
  return now();
}

void ProcessHost::block(const Waiting&) {
  Caller& caller = *callers_.at(t_number);
  caller.woken = false;
  while (!caller.woken) {
    if (!events_.empty() && !in_event_) {
      run_event();
      offer_turn();
      continue;
    }
    ++blocked_;
    std::unique_lock lock(mutex_);
    const std::uint64_t seen = changes_;
    ++served_;
    turn_comes_.notify_all();
    // A second at most: the work of the program's threads between calls cannot be observed.
    something_.wait_for(lock, std::chrono::seconds(1), [&] { return changes_ != seen || stopping_; });
    if (stopping_) something_.wait(lock, [] { return false; });
    const std::uint64_t ticket = next_ticket_++;
    turn_comes_.wait(lock, [&] { return served_ == ticket; });
    --blocked_;
  }
  host_ps_ = std::max(host_ps_, device_ps_);
}

void ProcessHost::wake(ThreadKey thread) {
  const_cast<Caller*>(static_cast<const Caller*>(thread))->woken = true;
  changed(this);
}

bool ProcessHost::spin(const Waiting&) {
  if (options_.virtual_time) host_ps_ = std::max(host_ps_, device_ps_) + kQueryPs;
  run_due();
  offer_turn();
  return false;
}

void ProcessHost::changed(ProcessKey) {
  if (blocked_ == 0) return;  // later calls check by themselves
  {
    const std::lock_guard lock(mutex_);
    ++changes_;
  }
  something_.notify_all();
}

// --- threads ---
ThreadKey ProcessHost::thread() const {
  if (t_known.host == number_) return t_known.thread;
  if (t_number == 0) t_number = ++g_threads;
  auto& known = const_cast<ProcessHost*>(this)->callers_[t_number];
  if (known == nullptr) known = std::make_unique<Caller>();
  t_known = {.host = number_, .thread = known.get()};
  return known.get();
}

ThreadKey ProcessHost::spawn(ProcessKey, const std::string&, std::function<void()> body) {
  const std::uint64_t number = ++g_threads;
  auto& known = callers_[number];
  known = std::make_unique<Caller>();
  std::thread([this, number, body = std::move(body)] {
    t_number = number;
    take_turn();
    body();
    pass_turn();
  }).detach();
  return known.get();
}

void ProcessHost::outside(const std::function<void()>& code) {
  pass_turn();
  code();
  take_turn();
}

// --- memory ---
std::shared_ptr<Buffer> ProcessHost::allocate(ProcessKey, std::uint64_t size_bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t whole = (size_bytes + page - 1) / page * page;
  return add_buffer(whole, -1);
}

std::shared_ptr<Buffer> ProcessHost::map(const std::shared_ptr<Buffer>& memory, std::uint64_t address) {
  auto buffer = std::make_shared<SharedBuffer>();
  buffer->address = address;
  buffer->size_bytes = memory->size_bytes;
  memory_[address] = memory->size_bytes;
  return buffer;
}

void ProcessHost::release(const Buffer& buffer) { memory_.erase(buffer.address); }

bool ProcessHost::is_device_memory(std::uint64_t address) const {
  const auto next = memory_.upper_bound(address);
  return next != memory_.begin() && address - std::prev(next)->first < std::prev(next)->second;
}

}  // namespace meshbed::sim::cuda
