#pragma once
// One end of a connection as the ncclNet table sees it, over RDMA (connection.h) or TCP (tcp_connection.h). Used by one
// caller at a time, and sometimes by the process's service, in turns.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "plugin/base/result.h"
#include "plugin/net/link/event_log.h"
#include "plugin/net/process/object.h"
#include "plugin/net/process/state.h"

namespace meshbed::net {

class Endpoint : public Object {
 public:
  virtual ~Endpoint() = default;

  enum class Progress : std::uint8_t { kPending, kDone, kFailed };
  /// kDone: complete, `sizes` (may be nullptr) holds a size for each part, and the request is gone. kFailed: see
  /// failure(). (No Result: making one and taking it apart costs as much as a poll of the completion queue.)
  virtual Progress test(Request& request, int* sizes) = 0;
  /// Why the connection failed; valid only if it did.
  virtual const Error& failure() const = 0;
  /// Ends all requests. Afterwards the object may be deleted.
  virtual void close() = 0;

  /// Its state at the time `now_ns`. The caller has the turn, or no other thread runs. Uses only data that the data
  /// path keeps anyway.
  virtual ConnectionState state(std::int64_t now_ns) = 0;
  /// Both ends, as text.
  virtual std::string ends_text() const = 0;
  bool sends() const { return is(ObjectKind::kSend) || is(ObjectKind::kTcpSend); }
  const char* direction_name() const { return sends() ? "send" : "recv"; }

  /// From now on requests with a parent event have events of their own. Call it before the first request.
  void report_events_to(EventFunction function) { events_ = std::make_unique<EventLog>(function); }

  /// The right to work on a connection: false if another thread has it or has claimed it (claim()).
  class Turn {
   public:
    explicit Turn(Endpoint& endpoint) : Turn(endpoint, endpoint.claimed_.load(std::memory_order_relaxed) != 0) {}
    ~Turn() {
      if (mine_) taken_.store(false, std::memory_order_release);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const { return mine_; }
    /// Yields: a simulated process must yield when it has nothing to do.
    static void pass();

   private:
    friend class Endpoint;
    Turn(Endpoint& endpoint, bool refused)
        : taken_(endpoint.taken_), mine_(!refused && !taken_.exchange(true, std::memory_order_acquire)) {}

    std::atomic<bool>& taken_;
    bool mine_;
  };
  /// For the process's service. Callers hold the turn so often that the service would hardly ever find it free. A claim
  /// keeps them out until release_claim(), so that the turn is free soon. Each purpose has a claim of its own.
  enum Claim : std::uint8_t { kToTakeUp = 1, kToLook = 2 };
  Turn claim(Claim purpose) {
    claimed_.fetch_or(purpose, std::memory_order_relaxed);
    return Turn(*this, false);
  }
  void release_claim(Claim purpose) {
    claimed_.fetch_and(static_cast<std::uint8_t>(~purpose), std::memory_order_relaxed);
  }

 protected:
  explicit Endpoint(ObjectKind kind) : Object(kind) {}
  /// Waits for the connection's turn and calls `work` in it.
  template <typename Work>
  auto in_turn(const Work& work) {
    for (;;) {
      if (const Turn turn(*this, false); turn) return work();
      Turn::pass();
    }
  }

  struct RequestPart {
    std::size_t index = 0, size_bytes = 0;
    int tag = 0;
  };
  /// Begins an event for a part of a request that is being posted; does nothing without a profiler or a parent.
  void begin_event(Request& request, void* parent, const RequestPart& part) {
    if (parent != nullptr && events_ != nullptr) begin_wanted_event(request, parent, part);
  }
  /// Ends the events of a request; `done`: with its sizes.
  void end_events(Request& request, bool done) {
    if (request.has_events) events_->end(request, done);
  }
  /// Fills in both ends and the transport.
  virtual void describe(MeshbedTransferEvent& data) const = 0;

 private:
  [[gnu::cold, gnu::noinline]] void begin_wanted_event(Request& request, void* parent, const RequestPart& part);

  std::unique_ptr<EventLog> events_;  // nullptr: no profiler
  std::atomic<bool> taken_{false};
  std::atomic<std::uint8_t> claimed_{0};  // Claim bits
};

}  // namespace meshbed::net
