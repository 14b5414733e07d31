// How a direct sending connection goes on after its leg was lost: everything that was sent and, as the receiver says,
// not served is sent once more, in the same order, as soon as the receiver has announced its memory anew; only then
// come new messages.
#include <algorithm>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/net/direct_send.h"
#include "plugin/net/memory.h"
#include "plugin/net/transport.h"

namespace meshbed::net {

void DirectSend::remember(Origin origin) {
  origin_ = std::move(origin);
  events_seen_ = origin_->transport->port_events();
  homecoming_ = std::make_unique<Homecoming>(*origin_, local(), peer());
}

bool DirectSend::can_resume() const { return settings().failover_ms > 0 && origin_ && peer().service_port != 0; }

void DirectSend::resume() {
  if (resumption_ == nullptr) {
    resumption_ = std::make_unique<Resumption>(*origin_, peer().service_port, settings().leg, &DirectSend::shape_on);
  }
  auto resumed = resumption_->advance();
  if (!resumed) {
    Error error = suspension();
    error.text += "; " + resumed.error().text;
    fail(std::move(error));
    return;
  }
  if (!*resumed) return;
  resumption_.reset();
  continue_on(std::move(**resumed));
}

void DirectSend::continue_on(Resumption::Resumed resumed) {
  const std::uint64_t served = resumed.served;
  if (served < confirmed_ || served > group_in_turn()) {
    fail({.code = ErrorCode::kRemote,
          .scope = Scope::kQueuePair,
          .text = ends_text() + ": the peer has served " + std::to_string(served) + " receives, but " +
                  std::to_string(confirmed_) + " were acknowledged and " + std::to_string(group_in_turn()) +
                  " were sent to: a message is lost",
          .os_errno = 0});
    return;
  }
  // The sizes of parts that need not be sent again.
  std::memcpy(resumed.leg->memory().as<std::uint8_t>() + kSizesAt, ring().as<std::uint8_t>() + kSizesAt,
              kRingBytes - kSizesAt);
  stand_on(std::move(resumed.leg));
  measure();
  queued_ = 0;
  probing_ = false;
  replays_.clear();
  replayed_ = 0;
  for (Request* request : unfinished()) {
    if (request->group < served) {
      finish(*request, request->sizes[0]);
      continue;
    }
    if (const char* problem = size_problem(request->sizes[0])) {
      fail({.code = ErrorCode::kSystem,
            .scope = Scope::kQueuePair,
            .text = ends_text() + ": a send of " + std::to_string(request->sizes[0]) + " bytes " + problem,
            .os_errno = 0});
      return;
    }
    request->work_requests = 0;
    replays_.push_back(request);
  }
  away_ = !homecoming_->is_home(local(), peer());
  going_home_ = false;
  expect_ring_anew();
  hold_back(!replays_.empty());
  events_seen_ = origin_->transport->port_events();
  go_on();
}

void DirectSend::replay() {
  for (; replayed_ < replays_.size(); ++replayed_) {
    Request& request = *replays_[replayed_];
    const std::uint32_t parts = parts_arrived(request.group);
    if (parts == 0 || !has_room(request.sizes[0])) return;
    // Of the group in turn some parts have not been sent to yet: another one will close it.
    const bool last_of_group = request.group < group_in_turn() &&
                               (replayed_ + 1 == replays_.size() || replays_[replayed_ + 1]->group != request.group);
    const Place place{.group = request.group,
                      .part = request.part,
                      .parts = parts,
                      .last = last_of_group,
                      .entry = ring().as<ClearToSend>() + slot_of(request.group) + request.part};
    const SendArguments send{
        .data = request.data, .size_bytes = request.sizes[0], .tag = place.entry->tag, .memory = request.memory};
    if (send.memory != nullptr && send.memory->on(device()) == nullptr) {
      fail({.code = ErrorCode::kSystem,
            .scope = Scope::kQueuePair,
            .text = ends_text() + ": a send's memory cannot be registered on " + device().name(),
            .os_errno = 0});
    }
    if (failed() || !carry(send, place, request)) return;
  }
  replays_.clear();
  replayed_ = 0;
  hold_back(false);
}

void DirectSend::polled(int count) {
  if (impaired()) return;
  if (!replays_.empty()) replay();
  if (away_ && !impaired()) look_homewards();
  if (count > 0 || !origin_ || impaired()) return;
  if (events_seen_ != origin_->transport->port_events()) look_at_port();
  if (!impaired()) listen_to_silence();
}

void DirectSend::look_homewards() {
  if (!going_home_ && homecoming_->advance(peer().service_port)) {
    going_home_ = true;
    hold_back(true);
  }
  if (!going_home_ || queued_ > 0 || !replays_.empty()) return;
  MESHBED_INFO("%s: going back to the first cable", ends_text().c_str());
  suspend({.code = ErrorCode::kRemote,
           .scope = Scope::kPort,
           .text = ends_text() + ": its first cable is back",
           .os_errno = 0},
          LogLevel::kInfo);
}

void DirectSend::probe() {
  if (probing_ || !has_room(0)) return;
  ibv_send_wr work{};
  work.wr_id = kProbeId;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.send_flags = IBV_SEND_SIGNALED;
  work.wr.rdma.remote_addr = peer().memory_address;
  work.wr.rdma.rkey = peer().memory_rkey;
  if (!post_send(work)) return;
  probing_ = true;
  ++queued_;
}

/// A port changed, perhaps ours. Where another way leads to the peer it is taken at once; where none does, the
/// adapter's retries may well outlast a short interruption, and nothing is lost by waiting for them.
void DirectSend::look_at_port() {
  events_seen_ = origin_->transport->port_events();
  if (!can_resume()) return;
  homecoming_->hurry();
  const std::vector<Nic> nics = origin_->transport->current_nics();
  const auto ours = std::find_if(nics.begin(), nics.end(), [this](const Nic& nic) {
    return nic.device == local().nic.device && nic.port == local().nic.port;
  });
  if (ours == nics.end()) return;
  const bool has_gid = std::any_of(ours->gids.begin(), ours->gids.end(), [this](const verbs::GidEntry& entry) {
    return entry.index == local().gid.index && entry.gid == local().gid.gid;
  });
  if ((ours->link_up && has_gid) || !ways_to(*origin_, nics)) return;
  suspend({.code = ErrorCode::kRemote,
           .scope = Scope::kPort,
           .text = ends_text() + ": the port of " + local().nic.device_name +
                   (ours->link_up ? " has another GID than " + verbs::to_text(local().gid.gid) + " now"
                                  : " is down: is its cable in?"),
           .os_errno = 0});
}

}  // namespace meshbed::net
