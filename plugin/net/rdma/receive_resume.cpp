// How a receiving connection is resumed. Receives complete in the order of their posting, so one number describes what
// has arrived: the first entry that was not served. It is read when nothing can arrive on the old QP link any more and
// every completion of the old QP link has been polled. So nothing is delivered twice, and nothing that was acknowledged
// is lost.
#include <algorithm>
#include <utility>

#include "plugin/net/link/process_links.h"
#include "plugin/net/link/sessions.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {

void ReceiveConnection::enroll(ProcessLinks& process) {
  session_ = session_number(peer(), qp_link().describe());
  process_ = &process;
  service_ = process.service();
  process.sessions().add(session_, *this);
}

bool ReceiveConnection::can_resume() const {
  return settings().failover_ms > 0 && process_ != nullptr && local().service_port != 0;
}

void ReceiveConnection::list_ends(const std::vector<Nic>& nics, std::vector<ReceivingEnd>& ends) {
  if (!can_resume() || peer().service_port == 0 || peer().wants_notice) return;
  const auto add = [&](const QpLink& one) {
    const auto port = one.local().port_in(nics);
    if (port == nics.end() || !port->link_up) return;
    ends.push_back({.session = session_,
                    .local = one.local(),
                    .own = one.describe(),
                    .sender = one.peer(),
                    .stands = one.local().has_gid_in(port->gids)});
    ends.back().sender.service_port = peer().service_port;  // a rail's end does not contain it
  };
  add(qp_link());
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if (const QpLink* rail = qp_link().rail(number); rail != nullptr && rail->joined_ns() != 0) add(*rail);
  }
}

/// A sender resumes its connection when its owner polls it, which may be much later: as long as its process exists and
/// has the connection, nothing is wrong.
std::optional<bool> ReceiveConnection::waits_longer() {
  if (peer().service_port == 0) return false;
  // After a lost flush the sender may be waiting for us.
  bool flushing = false;
  for_each_flush([&](Request&) { flushing = true; });
  if (flushing) return false;
  // If all our ports are down, no peer can be queried and no sender can resume.
  if (liveness_check_ == nullptr) {
    const std::vector<Nic> nics = process_->current_nics();
    if (std::none_of(nics.begin(), nics.end(), [](const Nic& nic) { return nic.link_up; })) return false;
    liveness_check_ = std::make_unique<LivenessCheck>(
        *process_, LivenessCheck::Lost{.session = session_, .local = local(), .sender = peer()});
  }
  switch (liveness_check_->advance()) {
    case LivenessCheck::Answer::kNotYet:
      return std::nullopt;
    case LivenessCheck::Answer::kGone:
      return false;
    case LivenessCheck::Answer::kThere:
      break;
  }
  liveness_check_.reset();
  MESHBED_INFO(
      "%s: the sender's process is alive, but has not polled the connection since the path was lost: waiting on",
      ends_text().c_str());
  return true;
}

void ReceiveConnection::polled(int count) {
  if (impaired()) return;
  if (count == 0) {
    listen_to_silence();
  } else if (holds_back() && !may_hold_back()) {
    announce_staged();
  }
}

void ReceiveConnection::probe() {
  if (announced_ - announced_done_ + kWritesOfReceive >= depth_) return;
  ++announced_;
  post_probe(RequestPool::kControlBit | announced_);
}

void ReceiveConnection::flushed(const ibv_wc& completion) {
  if ((completion.wr_id & RequestPool::kControlBit) == 0) --awaited_;
}

Result<std::optional<WireEnd>> ReceiveConnection::take_up(const LocalEnd& local, const WireEnd& sender,
                                                          std::uint8_t mtu) {
  if (!can_resume()) {
    return fail({.code = ErrorCode::kRemote,
                 .scope = Scope::kQueuePair,
                 .text = ends_text() + ": the sender lost its way to us, and NCCL_MESH_FAILOVER_TIMEOUT_SEC is 0 here",
                 .os_errno = 0});
  }
  // The sender changes from one chain to another, and may find a third one or the first one again: not an error here.
  if (!impaired()) {
    const bool changes = peer().wants_notice && sender.wants_notice;
    if (auto may = changes ? prepare_to_leave_for(local) : ok(); !may) return may.error();
    changes_chain_ = changes;
  }
  suspend({.code = ErrorCode::kRemote,
           .scope = Scope::kQueuePair,
           .text = ends_text() + (changes_chain_ ? ": the sender goes another way" : ": the sender lost its way to us"),
           .os_errno = 0},
          LogLevel::kInfo);
  if (failed()) return failure();
  qp_link().abort();  // the connection may have been suspended before, with a QP link that was never connected
  // Every receive leaves a completion: its own, or a flushed one.
  while (awaits_anything() && poll() > 0) continue;
  if (failed()) return failure();
  if (awaits_anything()) return std::optional<WireEnd>();

  const QpLinkShape shape = shape_on(*local.device);
  auto fresh = QpLink::open(local, settings().qp_link, shape);
  if (!fresh) return fresh.error();
  if (auto joined = (*fresh)->join(sender, mtu); !joined) return joined.error();
  if (!copy_ring(qp_link(), **fresh)) {
    return fail({.code = ErrorCode::kSystem,
                 .scope = Scope::kQueuePair,
                 .text = ends_text() + ": a receive's memory cannot be registered on " + local.device->name(),
                 .os_errno = 0});
  }
  stand_on(std::move(*fresh));
  depth_ = shape.depths.sends;
  announced_ = announced_done_ = 0;
  rails_ = 0;
  ledger_.reset();
  for (const Request* request : unfinished()) {
    if (!await(*request)) return failure();
  }
  if (auto moved = move_flushers(); !moved) return fail(moved.error());
  return std::optional(qp_link().describe());
}

/// Checks that the other device can serve before the present one, which works, is left.
Result<void> ReceiveConnection::prepare_to_leave_for(const LocalEnd& local) {
  bool registered = true;
  for_each_awaited_memory([&](Memory& memory) { registered = registered && memory.on(*local.device) != nullptr; });
  if (!registered) return handshake_error("a receive's memory cannot be registered on " + local.device->name());
  return flushers_.empty() ? ok() : open_flusher(local);
}

std::vector<Memory*> ReceiveConnection::hold_awaited_memory() {
  std::vector<Memory*> held;
  for_each_awaited_memory([&](Memory& memory) {
    memory.hold();
    held.push_back(&memory);
  });
  return held;
}

/// Copies the entries that are still awaited, with the keys of the new QP link's device.
bool ReceiveConnection::copy_ring(const QpLink& from, const QpLink& to) {
  for (std::uint64_t slot = 0; slot < kRingSlots; ++slot) {
    ClearToSend& entry = to.memory().as<ClearToSend>()[slot];
    entry = from.memory().as<ClearToSend>()[slot];
    if (memories_[slot] == nullptr) continue;
    const verbs::Registration* registration = memories_[slot]->on(to.device());
    if (registration == nullptr) return false;
    entry.rkey = registration->rkey();
  }
  return true;
}

void ReceiveConnection::announce_anew() {
  if (!suspended() || failed()) return;
  go_on(std::exchange(changes_chain_, false) ? LogLevel::kInfo : LogLevel::kWarn);
  liveness_check_.reset();
  for (const Request* request : unfinished()) {
    if (!announce(slot_of(request->group), request->parts)) return;
  }
  told_entry_ = next_entry_;
  resume_flushes();
}

}  // namespace meshbed::net
