#pragma once
// The receiving connections of a process by their sessions' numbers, so that a sender that lost its QP link finds the
// one it belongs to. A session outlives its QP links: its number comes from the first QP link's two ends, which both
// sides know.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/net/wire/ring.h"
#include "plugin/net/wire/wire.h"

namespace meshbed::net {

class ReceiveConnection;

/// The number of a connection between these two first ends. Other hosts cannot guess it: 48 random bits, mixed.
inline std::uint64_t session_number(const WireEnd& sender, const WireEnd& receiver) {
  const auto half = [](const WireEnd& end) { return std::uint64_t{end.qp_number} << 32U | end.psn; };
  return mix64(mix64(half(sender) ^ sender.node) ^ half(receiver) ^ receiver.node);
}

class Sessions {
 public:
  void add(std::uint64_t session, ReceiveConnection& connection) {
    const std::lock_guard lock(mutex_);
    connections_[session] = &connection;
  }
  /// Afterwards no thread is working on the connection. The number of served entries is kept: the last acknowledgement
  /// may be lost with the cable, and the sender may ask after the end.
  void remove(std::uint64_t session, std::uint64_t served) {
    const std::lock_guard lock(mutex_);
    connections_.erase(session);
    ended_.emplace_back(session, served);
    if (ended_.size() > kEndedKept) ended_.pop_front();
  }
  bool has(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    return connections_.count(session) != 0;
  }
  /// The entries that an ended connection had served, at least; 0 if that is no longer known.
  std::uint64_t served_in_the_end(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    for (const auto& [ended, served] : ended_) {
      if (ended == session) return served;
    }
    return 0;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }
  /// Adds a sending connection of this process, for INQUIRY and LIVENESS_CHECK messages of its receiver.
  void add_sender(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    senders_[session];
  }
  void remove_sender(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    senders_.erase(session);
  }
  bool has_sender(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    return senders_.count(session) != 0;
  }
  /// Notes that the receiver's end of the sender's QP link, or of one of its rails, has the address in `moved`. Returns
  /// false if there is no such sender.
  bool tell_sender(std::uint64_t session, const WireEnd& moved) {
    const std::lock_guard lock(mutex_);
    const auto sender = senders_.find(session);
    if (sender == senders_.end()) return false;
    std::vector<WireEnd>& ends = sender->second;
    std::erase_if(ends, [&](const WireEnd& known) { return known.is_same_queue_pair(moved); });
    if (ends.size() > kMaxRails) ends.erase(ends.begin());
    ends.push_back(moved);
    return true;
  }
  /// The notes for a sender since its last call.
  std::vector<WireEnd> take_moved(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    const auto sender = senders_.find(session);
    return sender == senders_.end() ? std::vector<WireEnd>{} : std::exchange(sender->second, {});
  }
  /// Calls `work` with the connection, which cannot be removed meanwhile. Returns false if there is none.
  bool with(std::uint64_t session, const std::function<void(ReceiveConnection&)>& work) {
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(session);
    if (found == connections_.end()) return false;
    work(*found->second);
    return true;
  }
  /// Likewise on each of them.
  void for_each(const std::function<void(ReceiveConnection&)>& work) {
    const std::lock_guard lock(mutex_);
    for (const auto& [session, connection] : connections_) work(*connection);
  }

 private:
  static constexpr std::size_t kEndedKept = 4096;  // 64 KiB

  std::mutex mutex_;
  std::map<std::uint64_t, ReceiveConnection*> connections_;
  std::map<std::uint64_t, std::vector<WireEnd>> senders_;      // with the ends there that have moved
  std::deque<std::pair<std::uint64_t, std::uint64_t>> ended_;  // session, served; the oldest first
};

}  // namespace meshbed::net
