// The state of a connection over TCP, for the state socket and for a profiler.
#include <algorithm>
#include <cstdio>

#include "plugin/base/deadline.h"
#include "plugin/net/tcp/tcp_receive.h"
#include "plugin/net/tcp/tcp_send.h"

namespace meshbed::net {
namespace {}  // namespace

ConnectionState TcpConnection::state(std::int64_t now_ns) {
  ConnectionState state;
  state.sends = sends();
  state.name = ends_text();
  state.ours = {.nic = ends_.netdev, .address = to_text(ends_.local)};
  state.theirs = {.nic = ends_.peer_netdev, .address = to_text(ends_.remote.address)};
  state.way = "TCP";
  state.cables = {{.ours = state.ours, .theirs = state.theirs, .bytes = bytes_}};
  state.peer = peer_text();
  state.phase = failed() ? "failed" : "up";
  if (failed()) state.reason = failure().text;
  std::vector<Outstanding> open = outstanding();
  state.done = operations_;
  state.posted = operations_ + open.size();
  state.bytes = bytes_;
  if (silence_.has_begun()) state.quiet_ms = (now_ns - silence_.since_ns()) / kNsPerMs;
  state.outstanding_count = open.size();
  for (Outstanding& one : open) {
    if (state.outstanding.size() == kRequestsShown) break;
    if (one.posted_ns != 0) {
      one.state.age_ms = (now_ns - one.posted_ns) / kNsPerMs;
    } else if (silence_.has_begun() && one.number < silence_.mark()) {
      one.state.age_ms = (now_ns - silence_.since_ns()) / kNsPerMs;
    }
    state.outstanding.push_back(std::move(one.state));
  }
  if (!failed()) state.waits_for = awaited(state);
  return state;
}

std::string TcpConnection::peer_text() const { return to_text(ends_.remote.address) + " (" + ends_.peer_netdev + ")"; }

void TcpConnection::describe(MeshbedTransferEvent& data) const {
  std::snprintf(data.nic, sizeof data.nic, "%s", ends_.netdev.c_str());
  std::snprintf(data.peer_address, sizeof data.peer_address, "%s", to_text(ends_.remote.address).c_str());
}

std::vector<TcpConnection::Outstanding> TcpSendConnection::outstanding() const {
  std::vector<Outstanding> open;
  for (std::uint64_t number = written_; number < posted_; ++number) {
    const Request& request = *messages_[number % messages_.size()];
    open.push_back({.number = number,
                    .posted_ns = request.posted_ns,
                    .state = {.tags = {ring_[request.group % kRingEntries].tag}, .size_bytes = request.sizes[0]}});
  }
  return open;
}

std::string TcpSendConnection::awaited(const ConnectionState& state) const {
  if (!state.outstanding.empty()) return "room in the kernel's buffer: " + state.peer + " takes nothing in";
  if (!refused_) return "";
  return "clear-to-send of " + state.peer + " for a message of " + std::to_string(refused_->size_bytes) +
         " bytes with tag " + std::to_string(refused_->tag);
}

std::vector<TcpConnection::Outstanding> TcpReceiveConnection::outstanding() const {
  std::vector<Outstanding> open;
  for (std::uint64_t entry = oldest_entry_; entry < next_entry_;) {
    const Request& request = *ring_[entry % kRingEntries].request;
    Outstanding one{.number = entry, .posted_ns = request.posted_ns, .state = {}};
    for (std::uint64_t part = 0; part < request.parts; ++part) {
      const Awaited& slot = ring_[(entry + part) % kRingEntries];
      one.state.tags.push_back(slot.tag);
      one.state.size_bytes += slot.capacity_bytes;
    }
    open.push_back(std::move(one));
    entry += request.parts;
  }
  return open;
}

std::string TcpReceiveConnection::awaited(const ConnectionState& state) const {
  if (state.outstanding.empty()) return "";
  std::string tags;
  for (const int tag : state.outstanding.front().tags) tags += (tags.empty() ? "" : ", ") + std::to_string(tag);
  return "a message with tag " + tags + " of " + state.peer;
}

}  // namespace meshbed::net
