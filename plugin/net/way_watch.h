#pragma once
// Which of a process's relayed connections had better go another way round. A connection that has something under way
// asks for a look now and then; the service asks all nodes around what they have in flight (beacon.h), weighs the chain
// that the connection has against the other ones that are as short (way_balance.h), and leaves its advice. The
// connection follows when it is at a point where it can (send_resume.cpp). Idle connections ask for nothing, and where
// none asks nothing is ever sent.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plugin/net/way_balance.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::net {

class Scout;
class Transport;

/// Of one connection, which has it together with the watch.
class WatchedWay {
 public:
  WatchedWay(const Handle& peer, int dev, std::vector<Hop> hops, std::uint64_t threshold_bytes)
      : peer_(peer), dev_(dev), hops_(std::move(hops)), balance_(threshold_bytes) {}

  // Any thread, and at no cost:
  bool is_due(std::int64_t now_ns) const { return now_ns >= next_look_ns_.load(std::memory_order_relaxed); }
  bool is_advised() const { return advised_ns_.load(std::memory_order_relaxed) != 0; }
  /// Advice that is older says nothing of the loads any more.
  bool is_stale(std::int64_t now_ns) const { return now_ns - advised_ns_.load(std::memory_order_relaxed) > kFreshNs; }
  /// A look is wanted; the service has to be woken for it. `own_bytes`: what the connection has in flight.
  void want_look(std::uint64_t own_bytes) {
    next_look_ns_.store(INT64_MAX, std::memory_order_relaxed);
    own_bytes_.store(own_bytes, std::memory_order_relaxed);
    wanted_.store(true, std::memory_order_release);
  }

 private:
  friend class WayWatch;
  static constexpr std::int64_t kFreshNs = 1'000'000'000;

  std::atomic<std::int64_t> next_look_ns_{0};
  std::atomic<std::uint64_t> own_bytes_{0};
  std::atomic<bool> wanted_{false};
  std::atomic<std::int64_t> advised_ns_{0};  // 0: no advice
  // The watch's mutex guards the rest:
  Handle peer_;
  int dev_;
  bool asked_ = false;  // it is what the question that is under way is for
  std::vector<Hop> hops_, advised_;
  WayBalance balance_;
};

class WayWatch {
 public:
  WayWatch(Transport& transport, Scout& scout) : transport_(transport), scout_(scout) {}

  // Any thread:
  /// For a connection to `peer` through these relays, until it lets go of what it gets. nullptr: connections do not
  /// change over here (NCCL_MESH_RING_LOAD_BALANCE is not 2).
  std::shared_ptr<WatchedWay> enroll(const Handle& peer, int dev, const std::vector<Hop>& hops);
  /// The connection has another chain now, whatever the reason.
  void changed(WatchedWay& way, const std::vector<Hop>& hops);
  /// The advice, which is gone then; nullopt: it was stale.
  std::optional<std::vector<Hop>> take_advice(WatchedWay& way);

  // The service's thread:
  /// One step, where looks are wanted.
  void advance();
  /// Answers are awaited: advance() again, soon.
  bool busy() const { return asked_; }

 private:
  void weigh(WatchedWay& way, const std::vector<Nic>& nics, std::int64_t now_ns);

  Transport& transport_;
  Scout& scout_;
  bool asked_ = false;
  std::vector<std::uint64_t> in_flight_bytes_;  // from each NIC, when the question went out: as old as the answers
  std::int64_t weigh_at_ns_ = 0, next_advice_ns_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<WatchedWay>> ways_;
};

}  // namespace meshbed::net
