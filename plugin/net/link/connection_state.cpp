// The state of a connection, for the state socket. Nothing is counted for this purpose alone: the completed requests,
// their bytes and the requests in the pool give what was posted, and the empty polls give the length of the silence.
#include <cstdio>

#include "plugin/base/deadline.h"
#include "plugin/net/link/connection.h"

namespace meshbed::net {
namespace {

EndState end_of(const LocalEnd& local, const verbs::QueuePair& pair) {
  return {.nic = local.nic.device_name,
          .address = to_text(local.address),
          .gid = verbs::to_text(local.gid.gid),
          .qp = pair.number()};
}

EndState end_of(const WireEnd& peer) {
  return {.nic = peer.nic, .address = to_text(peer.address), .gid = verbs::to_text(peer.gid), .qp = peer.qp_number};
}

void add_cable(std::vector<CableState>& cables, const QpLink& link) {
  for (CableState& known : cables) {
    const bool same = known.ours.nic == link.local().nic.device_name &&
                      known.ours.address == to_text(link.local().address) && known.theirs.nic == link.peer().nic &&
                      known.theirs.address == to_text(link.peer().address);
    if (!same) continue;
    known.bytes += link.carried_bytes();
    return;
  }
  cables.push_back({.ours = end_of(link.local(), link.pair()),
                    .theirs = end_of(link.peer()),
                    .bytes = link.carried_bytes(),
                    .rate_mbps = link.local().nic.rate_mbps});
}

}  // namespace

void Connection::add_cables(std::vector<CableState>& cables) const {
  add_cable(cables, *qp_link_);
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if (const QpLink* rail = qp_link_->rail(number)) add_cable(cables, *rail);
  }
}

ConnectionState Connection::state(std::int64_t now_ns) {
  ConnectionState state;
  state.relayed = is_relayed();
  state.sends = is(ObjectKind::kSend);
  state.name = ends_text();
  state.ours = end_of(local(), pair());
  state.theirs = end_of(peer());
  state.peer_node = state.relayed ? 0 : peer().node;
  state.phase = failed() ? "failed" : suspended() ? "suspended" : "up";
  if (failed()) {
    state.reason = failure().text;
  } else if (suspended()) {
    state.reason = suspension().text;
    if (const std::string what = obstacle(); !what.empty()) state.reason += "; " + what;
  }
  const std::vector<Request*> open = unfinished();
  state.done = operations_;
  state.posted = operations_ + open.size();
  state.bytes = bytes_;
  state.resumed = resumed_;
  state.returned = returned_;
  state.cables = past_cables_;
  add_cables(state.cables);
  const std::int64_t quiet_since_ns = suspended() ? suspended_ns_ : silence_.since_ns();
  if (quiet_since_ns != 0) state.quiet_ms = (now_ns - quiet_since_ns) / kNsPerMs;
  state.outstanding_count = open.size();
  for (const Request* request : open) {
    if (state.outstanding.size() == kRequestsShown) break;
    RequestState described = describe(*request);
    if (request->posted_ns != 0) {
      described.age_ms = (now_ns - request->posted_ns) / kNsPerMs;
    } else if (silence_.has_begun() && request->group < silence_.mark()) {
      described.age_ms = (now_ns - silence_.since_ns()) / kNsPerMs;
    }
    state.outstanding.push_back(std::move(described));
  }
  describe(state);
  if (failed()) {
    state.waits_for.clear();
  } else if (suspended()) {
    state.waits_for = "a path to " + state.peer;
  }
  return state;
}

void Connection::describe(MeshbedTransferEvent& data) const {
  data.relayed = is_relayed() ? 1 : 0;
  data.qp = pair().number();
  data.peer_qp = peer().qp_number;
  std::snprintf(data.nic, sizeof data.nic, "%s", local().nic.device_name.c_str());
  std::snprintf(data.peer_address, sizeof data.peer_address, "%s", to_text(peer().address.address).c_str());
}

}  // namespace meshbed::net
