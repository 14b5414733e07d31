#pragma once
// What the two ends of a circuit in a relay have in common: the relay service's thread drives them, not a caller, and
// only where their completion queue has told it to.

#include "plugin/net/link/connection.h"

namespace meshbed::net {

class RelayEnd : public Connection {
 public:
  /// There may be completions.
  bool has_news() const { return has_news_; }
  /// The channel announced a completion, and announces no other one before progress().
  void wake() {
    has_news_ = true;
    armed_ = false;
  }
  /// Where there may be completions takes some in; how many. Armed first, so that what this poll does not see wakes it.
  int progress() {
    if (!has_news_) return 0;
    if (!armed_) completions().arm();
    armed_ = true;
    const int count = poll();
    has_news_ = count == kPollAtOnce;
    heard_ = heard_ || count > 0;
    return count;
  }
  /// Every kLookPauseMs: where nothing has come from the neighbour between so many looks, an empty write asks its
  /// adapter. One that does not answer breaks the circuit when the queue pair's retries are over, as it would if there
  /// were pieces for it; so a machine that died while nothing was under way to it is found out by its neighbours.
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
  bool has_news_ = true;  // what came while the chain was being made
  bool armed_ = false;
};

}  // namespace meshbed::net
