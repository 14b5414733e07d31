#pragma once
// The common part of the two ends of a circuit in a relay: the service's thread drives them, not a caller, and only
// after a notice of their completion channel.

#include "plugin/net/link/connection.h"

namespace meshbed::net {

class RelayEnd : public Connection {
 public:
  /// There may be completions.
  bool has_news() const { return has_news_; }
  /// The channel has announced a completion; it announces no other one before progress().
  void wake() {
    has_news_ = true;
    armed_ = false;
  }
  /// Polls if there may be completions; returns their number. Arms the queue first, so that a completion that this poll
  /// misses causes a notice.
  int progress() {
    if (!has_news_) return 0;
    if (!armed_) completions().arm();
    armed_ = true;
    const int count = poll();
    has_news_ = count == kPollAtOnce;
    heard_ = heard_ || count > 0;
    return count;
  }
  /// Called every kLookPauseMs: if nothing has arrived from the neighbour for several looks, an empty write probes its
  /// adapter. If it does not acknowledge, the circuit breaks when the queue pair's retries are over. So neighbours also
  /// detect a machine that died while nothing was in flight to it.
  void listen_to_silence() {
    silent_looks_ = heard_ ? 0 : silent_looks_ + 1;
    heard_ = false;
    if (silent_looks_ < kSilentLooksMost || broken()) return;
    silent_looks_ = 0;
    ask_neighbour();
  }
  static constexpr std::int64_t kLookPauseMs = 1000;
  bool broken() const { return failed(); }
  const Error& what_broke() const { return failure(); }
  /// "192.168.100.2 (rocep1s0f0)"
  std::string neighbour() const { return to_text(peer().address.address) + " (" + peer().nic + ")"; }

 protected:
  RelayEnd(ObjectKind kind, std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings)
      : Connection(kind, std::move(qp_link), settings) {
    completions().announce_to(this);
  }

 private:
  static constexpr unsigned kSilentLooksMost = 3;
  /// A signalled write without bytes.
  virtual void ask_neighbour() = 0;

  bool heard_ = true;
  unsigned silent_looks_ = 0;
  bool has_news_ = true;  // completions may have arrived while the chain was being made
  bool armed_ = false;
};

}  // namespace meshbed::net
