#pragma once
// The receiving connections of a process by their sessions' numbers, so that a sender that lost its leg finds the one
// it belongs to. A session outlives its legs: its number comes from the first leg's two ends, which both sides know.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "plugin/base/prng.h"
#include "plugin/net/wire.h"

namespace meshbed::net {

class ReceiveConnection;

/// Of a connection between these two first ends. Not to be guessed by strangers: 48 random bits, mixed.
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
  /// Afterwards nobody is working on the connection.
  void remove(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    connections_.erase(session);
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }
  /// Sending connections of this process that have not ended, for receivers that ask after them.
  void add_sender(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    senders_.insert(session);
  }
  void remove_sender(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    senders_.erase(session);
  }
  bool has_sender(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    return senders_.count(session) != 0;
  }
  /// Works on the connection, which cannot go away meanwhile. False: there is none.
  bool with(std::uint64_t session, const std::function<void(ReceiveConnection&)>& work) {
    const std::lock_guard lock(mutex_);
    const auto found = connections_.find(session);
    if (found == connections_.end()) return false;
    work(*found->second);
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, ReceiveConnection*> connections_;
  std::set<std::uint64_t> senders_;
};

}  // namespace meshbed::net
