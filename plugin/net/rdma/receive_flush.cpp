// How received GPU memory is flushed (flusher.h): a read through the QP link's device, through the devices of the rails
// that have brought stripes, and through every device that the connection has used, because bytes that came over an
// earlier device may still be on their way. A flush does not need the QP link. If its read is lost, the connection is
// suspended as for a lost QP link, and the flush is repeated over the next QP link's device, or over this one as soon
// as its port is back: the sender may have no reason to resume soon. An earlier device whose port is down cannot be
// read through: there the flush waits until the bytes that came over it must have landed. The same holds if the read
// through a rail's device is lost: the connection goes on, and GPU memory is not striped over that device until its
// port is back. A suspended connection has no rails: their devices then count as earlier ones.
#include <algorithm>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/net/process/address.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/receive.h"

namespace meshbed::net {
namespace {

/// Request::unread has a bit for each.
constexpr std::size_t kFlushersMax = 32;
/// Lost flushes in a row through one device, after which the connection fails, or GPU memory is no longer striped over
/// that device.
constexpr unsigned kLostFlushesMax = 3;
/// Between two checks of a port that is down.
constexpr std::int64_t kPortPauseMs = 10;

Error flush_error(ErrorCode code, std::string text, int error_number = 0) {
  return {.code = code, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = error_number};
}

/// The end with a GID that its port has now. A flusher is connected to itself, so any GID of the same type serves; the
/// connection's own GID may have disappeared since its QP link was opened.
LocalEnd with_present_gid(const LocalEnd& local) {
  LocalEnd end = local;
  const Result<verbs::PortState> port = local.device->query_port(local.nic.port);
  if (!port) return end;
  const std::vector<verbs::GidEntry> gids = local.device->gids(*port);
  if (local.has_gid_in(gids)) return end;
  const verbs::GidEntry* found = nullptr;
  for (const verbs::GidEntry& entry : gids) {
    // Prefer the same address family: a link-local GID is the last choice.
    const bool is_alike = address_of(entry.gid).family == address_of(local.gid.gid).family;
    if (entry.type == local.gid.type && (found == nullptr || is_alike)) found = &entry;
  }
  if (found != nullptr) end.gid = *found;
  return end;
}

}  // namespace

Result<void> ReceiveConnection::expect_device_memory() {
  if (!settings().flushes) return ok();
  return in_turn([this]() -> Result<void> { return open_flushers(); });
}

bool ReceiveConnection::needs_flusher(std::span<const ReceivePart> parts) const {
  if (!settings().flushes || !flushers_.empty()) return false;
  for (const ReceivePart& part : parts) {
    if (part.memory != nullptr && part.memory->is_device()) return true;
  }
  return false;
}

Result<void> ReceiveConnection::open_flushers() {
  if (auto opened = open_flusher(local()); !opened) return opened;
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    if (const QpLink* rail = qp_link().rail(number)) open_rail_flusher(*rail);
  }
  return ok();
}

void ReceiveConnection::open_rail_flusher(const QpLink& rail) {
  if (&rail.device() == &device()) return;  // the QP link's serves both
  const Flusher* known = flusher_on(rail.device());
  if (known != nullptr && known->losses() > kLostFlushesMax) return;
  if (auto opened = open_flusher(rail.local()); !opened) {
    MESHBED_INFO("%s: GPU memory is not striped over %s", opened.error().text.c_str(), rail.device().name().c_str());
  }
}

Flusher* ReceiveConnection::flusher_on(const verbs::Device& device) const {
  const auto found = std::find_if(flushers_.begin(), flushers_.end(),
                                  [&](const auto& flusher) { return &flusher->device() == &device; });
  return found != flushers_.end() ? found->get() : nullptr;
}

bool ReceiveConnection::can_flush(const QpLink& rail) {
  Flusher* flusher = flusher_on(rail.device());
  return flusher != nullptr && ((flusher->stands() && !flusher->broken()) || reopen(*flusher, rail));
}

bool ReceiveConnection::reopen(Flusher& lost, const QpLink& rail) {
  if (lost.losses() > kLostFlushesMax || !lost.look_is_due()) return false;
  lost.put_off_look(kPortPauseMs);
  const Result<verbs::PortState> port = rail.device().query_port(rail.local().nic.port);
  if (!port || !port->active || !open_flusher(rail.local())) return false;
  resume_flushes();
  return !failed();
}

Result<void> ReceiveConnection::open_flusher(const LocalEnd& connected) {
  const LocalEnd local = with_present_gid(connected);
  std::size_t index = 0;
  while (index < flushers_.size() && &flushers_[index]->device() != local.device) ++index;
  if (index < flushers_.size() && flushers_[index]->serves(local)) {
    flushers_[index]->stand(true);
    return ok();
  }
  if (index == kFlushersMax) {
    return flush_error(ErrorCode::kUnsupported, ends_text() + ": GPU memory over more than 32 devices");
  }
  auto opened = Flusher::open(local, settings().qp_link);
  if (!opened) {
    Error error = opened.error();
    error.text = ends_text() + ": no queue pair for flushing GPU memory: " + error.text;
    return error;
  }
  if (index == flushers_.size()) {
    flushers_.push_back(std::move(*opened));
  } else {
    (*opened)->succeed(*flushers_[index]);
    flushers_[index] = std::move(*opened);
  }
  return ok();
}

Result<Request*> ReceiveConnection::flush(void* data, Memory& memory) {
  if (!settings().flushes) return nullptr;
  // Unlike the other calls this cannot return "not now": no request would mean that there is nothing to wait for.
  return in_turn([&]() -> Result<Request*> {
    if (failed()) return failure();
    if (memory.device() != &home() || pool_.empty()) {
      Error error = flush_error(
          ErrorCode::kInvalidArgument,
          ends_text() + (pool_.empty() ? ": a flush beyond 256 requests" : ": a flush of memory of another device"));
      MESHBED_WARN("%s", error.text.c_str());
      return error;
    }
    if (flushers_.empty()) {  // nothing was received into GPU memory, but the caller asks for a flush
      if (auto opened = open_flushers(); !opened) return fail(opened.error());
    }
    Request& request = take_request();
    request.flushes = true;
    request.unread = 0;
    request.sizes[0] = 0;
    request.data = data;
    memory.hold();
    request.memory = &memory;
    if (!start_flush(request)) return failure();
    return &request;
  });
}

/// False: failed.
bool ReceiveConnection::start_flush(Request& request) {
  for (std::size_t index = 0; index < flushers_.size(); ++index) {
    Flusher& flusher = *flushers_[index];
    // Messages over the QP link are not counted: nearly all come over it.
    if (!stands_on(flusher) && !flusher.has_unread()) continue;
    if (flusher.stands() || flusher.can_read()) {
      if (!read_by(index, request)) return false;
    } else if (!flusher.has_settled()) {
      flusher.set_broken();           // a new one is opened if the connection returns to its device
      request.unread |= 1U << index;  // the flush waits for the landing time instead of a read
    }
  }
  return true;
}

bool ReceiveConnection::read_by(std::size_t index, Request& request) {
  Flusher& flusher = *flushers_[index];
  request.unread |= 1U << index;
  if (flusher.broken()) return true;  // the connection is suspended: resume_flushes()
  const verbs::Registration* registration = request.memory->on(flusher.device());
  if (registration == nullptr) {
    fail(flush_error(ErrorCode::kSystem,
                     ends_text() + ": the memory of a flush cannot be registered on " + flusher.device().name()));
    return false;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(request.data);
  if (const int error = flusher.read(request.work_id(), address, registration->rkey())) {
    fail(flush_error(ErrorCode::kSystem, ends_text() + ": a flush is refused: " + std::strerror(error), error));
    return false;
  }
  return true;
}

void ReceiveConnection::advance_flushes() {
  ibv_wc found[kPollAtOnce];
  for (std::size_t index = 0; index < flushers_.size() && !failed(); ++index) {
    Flusher& flusher = *flushers_[index];
    const int count = flusher.poll(found);
    if (count < 0) {
      fail(
          flush_error(ErrorCode::kSystem, ends_text() + ": the completion queue of flushes cannot be polled any more"));
    }
    for (int at = 0; at < count; ++at) {
      if (found[at].status != IBV_WC_SUCCESS) {
        lose_flusher(flusher, found[at]);
        continue;
      }
      flusher.note_read();
      if (Request* request = pool_.find(found[at].wr_id); request != nullptr && !request->done) {
        confirm_read(index, *request);
      }
    }
    if (flusher.is_idle() && flusher.has_settled()) {
      for_each_flush([&](Request& request) { confirm_read(index, request); });
    }
  }
}

void ReceiveConnection::confirm_read(std::size_t index, Request& request) {
  if ((request.unread >> index & 1U) == 0) return;
  request.unread &= ~(1U << index);
  if (request.unread == 0) finish(request, 0);
}

void ReceiveConnection::lose_flusher(Flusher& flusher, const ibv_wc& completion) {
  if (flusher.broken()) return;
  flusher.set_broken();
  if (!flusher.stands() || impaired()) return;
  flusher.note_loss();
  Error error = flush_error(ErrorCode::kRemote,
                            ends_text() + ": a flush of GPU memory failed: " + ibv_wc_status_str(completion.status) +
                                ": " + advice(completion.status, flusher.local()));
  // Another QP link helps if the port was down or has another address now, but not if an adapter cannot reach itself.
  if (!is_lost_way(completion.status, flusher.local())) {
    fail(std::move(error));
  } else if (!stands_on(flusher)) {
    lose_rail_flusher(flusher, error);
  } else if (can_resume() && flusher.losses() <= kLostFlushesMax) {
    suspend(std::move(error));
  } else {
    fail(std::move(error));
  }
}

void ReceiveConnection::lose_rail_flusher(Flusher& flusher, const Error& why) {
  flusher.stand(false);
  flusher.put_off_look(kPortPauseMs);
  MESHBED_WARN("%s; GPU memory is not striped over %s %s", why.text.c_str(), flusher.device().name().c_str(),
               flusher.losses() > kLostFlushesMax ? "any more" : "until its port is up");
}

Result<void> ReceiveConnection::move_flushers() {
  if (flushers_.empty()) return ok();
  auto opened = open_flusher(local());
  leave_devices();
  return opened;
}

void ReceiveConnection::leave_devices() {
  for (const auto& flusher : flushers_) {
    if (stands_on(*flusher)) continue;
    flusher->stand(false);
    // Reads through it would only exhaust their retries.
    if (!flusher->can_read()) flusher->set_broken();
  }
}

void ReceiveConnection::qp_link_lost() {
  held_.store(Held::kNothing, std::memory_order_relaxed);  // all receives are announced again after a resumption
  if (!failed()) leave_devices();
}

void ReceiveConnection::resume() {
  bool awaited = false;
  for_each_flush([&](Request&) { awaited = true; });
  if (awaited && next_port_look_.passed()) {
    next_port_look_ = Deadline::after_ms_or_never(kPortPauseMs);
    const Result<verbs::PortState> port = device().query_port(local().nic.port);
    // If it cannot be opened yet, for example because the port's address is not back, it is tried again.
    if (port && port->active && open_flusher(local())) resume_flushes();
  }
  Turn::pass();
}

/// Repeats the reads that were lost with a flusher that has been replaced.
void ReceiveConnection::resume_flushes() {
  for (std::size_t index = 0; index < flushers_.size(); ++index) {
    Flusher& flusher = *flushers_[index];
    if (!flusher.stands() || !flusher.take_freshness()) continue;
    for_each_flush([&](Request& request) {
      if (!failed() && (request.unread >> index & 1U) != 0) read_by(index, request);
    });
  }
}

}  // namespace meshbed::net
