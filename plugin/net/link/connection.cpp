#include "plugin/net/link/connection.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/net/process/memory.h"

namespace meshbed::net {
namespace {

/// Polls between two readings of the clock.
constexpr std::uint32_t kPollsBetweenClocks = 16;
/// How often in a row a connection may be resumed without progress before its time-out continues to run.
constexpr unsigned kFruitlessMost = 3;
/// An owner that polls a suspended connection less often than this is absent: no path is searched for meanwhile.
constexpr std::int64_t kAttentiveNs = 1'000'000'000;
/// Empty polls for which close() waits for the device to flush what is posted.
constexpr int kDrainPolls = 2;

}  // namespace

Connection::Connection(ObjectKind kind, std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings)
    : Endpoint(kind), pool_(this), qp_link_(std::move(qp_link)), home_(qp_link_->device()), settings_(settings) {}

Connection::~Connection() {
  pool_.for_each_in_use([](Request& request) {
    if (request.memory != nullptr) request.memory->drop();
  });
}

Connection::Progress Connection::test(Request& request, int* sizes) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return Progress::kPending;
  }
  if (request.flushes && !request.done) advance_flushes();
  if (!request.done && !impaired()) poll();
  if (!request.done && (impaired() || settings_.operation_timeout_ns != 0) && !attend_to(request)) {
    end_events(request, false);
    return Progress::kFailed;
  }
  if (!request.done) return Progress::kPending;
  if (sizes != nullptr) {
    for (std::size_t part = 0; part < request.parts; ++part) sizes[part] = static_cast<int>(request.sizes[part]);
  }
  pool_.give_back(request);
  return Progress::kDone;
}

bool Connection::attend_to(Request& request) {
  if (impaired() && !attend()) return request.done;  // the resumption may have found it served
  return request.done || in_time(request);
}

void Connection::close() {
  in_turn([this] { finish_all(); });  // a peer that tries to resume it finds it closed
}

void Connection::finish_all() {
  const std::size_t unfinished = pool_.in_use();
  if (!impaired()) closing();
  qp_link_->abort();
  // From here on flushed work is not a failure, and is not logged.
  const bool broke = failed() || suspended();
  if (!failed()) {
    failure_ = Error{.code = ErrorCode::kClosed, .scope = Scope::kQueuePair, .text = "closed", .os_errno = 0};
    impaired_ = true;
    ended();
  }
  for (int empty = 0; unfinished > 0 && empty < kDrainPolls;) {
    if (poll() <= 0) ++empty;
  }
  pool_.for_each_in_use([this](Request& request) { end_events(request, false); });
  MESHBED_INFO("connection-summary transport=rdma direction=%s peer=%s nic=%s ops=%" PRIu64 " bytes=%" PRIu64
               " unfinished=%zu errors=%d resumed=%u",
               direction_name(), to_text(peer().address.address).c_str(), local().nic.device_name.c_str(), operations_,
               bytes_, unfinished, broke ? 1 : 0, resumed_);
}

int Connection::poll() {
  ibv_wc found[kPollAtOnce];
  int count = completions().poll(found);
  for (int index = 0; index < count; ++index) {
    if (found[index].status == IBV_WC_SUCCESS) {
      completed(found[index]);
    } else {
      handle_failed(found[index]);
    }
  }
  if (count < 0) fail_polling();
  if (qp_link_->has_rails()) count += poll_rails();
  polled(count);
  return count;
}

int Connection::poll_rails() {
  int total = 0;
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    QpLink* rail = qp_link_->rail(number);
    if (rail == nullptr) continue;
    ibv_wc found[kPollAtOnce];
    const int count = rail->completions().poll(found);
    for (int index = 0; index < count; ++index) {
      if (found[index].status == IBV_WC_SUCCESS) {
        rail_completed(number, found[index]);
        continue;
      }
      handle_failure(found[index], *rail);
      rail_flushed(number, found[index]);
    }
    if (count < 0) fail_polling();
    total += std::max(count, 0);
  }
  return total;
}

const Error& Connection::fail_polling() {
  return fail({.code = ErrorCode::kSystem,
               .scope = Scope::kQueuePair,
               .text = ends_text() + ": the completion queue cannot be polled any more",
               .os_errno = 0});
}

void Connection::handle_failed(const ibv_wc& completion) {
  handle_failure(completion, *qp_link_);
  flushed(completion);
}

/// A lost rail also ends the QP link: the connection is resumed on the remaining cables.
void Connection::handle_failure(const ibv_wc& completion, const QpLink& qp_link) {
  if (impaired()) return;
  if (is_lost_way(completion.status, qp_link.local()) && can_resume()) {
    way_lost(qp_link);
    suspend(describe_failure(completion, qp_link));
  } else {
    fail(describe_failure(completion, qp_link));
  }
}

bool Connection::is_lost_way(ibv_wc_status status, const LocalEnd& local) {
  if (status == IBV_WC_RETRY_EXC_ERR) return true;
  if (status != IBV_WC_LOC_QP_OP_ERR) return false;
  // Soft-RoCE reports this status when it cannot send from our address (rxe_net.c): the address or its port is gone.
  const Result<verbs::PortState> port = local.device->query_port(local.nic.port);
  if (!port || !port->active) return true;
  return !local.has_gid_in(local.device->gids(*port));
}

std::string Connection::advice(ibv_wc_status status, const LocalEnd& local) {
  const Result<verbs::PortState> port = local.device->query_port(local.nic.port);
  if (port && !port->active) return "the port of " + local.nic.device_name + " is down: look at its cable";
  return verbs::hint(status);
}

Error Connection::describe_failure(const ibv_wc& completion, const QpLink& qp_link) const {
  char text[768];
  std::snprintf(
      text, sizeof text,
      "failure peer=%s (%s) nic=%s gid=%s qp=%u->%u op=%s status=\"%s\" vendor_err=0x%x conn_age=%" PRId64 "ms: %s",
      to_text(qp_link.peer().address.address).c_str(), qp_link.peer().nic.c_str(),
      qp_link.local().nic.device_name.c_str(), verbs::to_text(qp_link.local().gid.gid).c_str(), qp_link.pair().number(),
      qp_link.peer().qp_number, direction_name(), ibv_wc_status_str(completion.status), completion.vendor_err,
      (now_ns() - qp_link.joined_ns()) / 1'000'000, advice(completion.status, qp_link.local()).c_str());
  return {.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = text, .os_errno = 0};
}

const Error& Connection::keep_failure(Error error) {
  if (!failed()) {
    MESHBED_LOG(is_closed_there() ? LogLevel::kInfo : LogLevel::kWarn, "%s", error.text.c_str());
    failure_ = std::move(error);
    impaired_ = true;
    ended();
  }
  return *failure_;
}

const Error& Connection::fail(Error error) {
  const bool first = !failed();
  const Error& kept = keep_failure(std::move(error));
  if (first) {
    qp_link_->abort();
    qp_link_lost();
  }
  return kept;
}

void Connection::suspend(Error why, LogLevel level) {
  if (impaired()) return;
  MESHBED_LOG(level,
              "%s; it waits %" PRId64
              " s for another path, or for this one to come back (NCCL_MESH_FAILOVER_TIMEOUT_SEC)",
              why.text.c_str(), settings_.failover_ms / 1000);
  suspension_ = std::move(why);
  impaired_ = true;
  suspended_ns_ = attended_ns_ = now_ns();
  // A path on which the connection is resumed repeatedly without progress does not work. A sender that suspends at INFO
  // leaves a working path for a better one: this does not count, even if nothing was sent because the other end was
  // absent.
  const bool leaves = sends() && level == LogLevel::kInfo;
  if (!leaves) fruitless_ = resumed_ > 0 && operations_ == operations_then_ ? fruitless_ + 1 : 0;
  if (leaves || fruitless_ < kFruitlessMost) give_up_ = Deadline::after_ms_or_never(settings_.failover_ms);
  qp_link_->abort();
  qp_link_lost();
}

void Connection::listen_to_silence() {
  if (++empty_polls_ % kPollsBetweenClocks != 0) return;
  const std::int64_t now = now_ns();
  if (!silence_.has_begun()) silence_.begin(now, next_group());
  if (silence_.is_due(now)) probe();
}

void Connection::go_on(LogLevel level) {
  end_silence();
  ++resumed_;
  operations_then_ = operations_;
  suspension_.reset();
  impaired_ = false;
  MESHBED_LOG(level, "%s: taken up again after %" PRId64 " ms", ends_text().c_str(),
              (now_ns() - suspended_ns_) / 1'000'000);
}

/// Only the time in which a path was searched for counts.
void Connection::allow_for_absence() {
  const std::int64_t now = now_ns(), away = now - attended_ns_ - kAttentiveNs;
  if (away > 0) give_up_.put_off(away);
  attended_ns_ = now;
}

Result<void> Connection::attend() {
  if (!failed() && suspended()) {
    allow_for_absence();
    const std::optional<bool> longer = give_up_.passed() ? waits_longer() : true;
    if (!longer) {
      Turn::pass();
    } else if (!*longer) {
      Error error = suspension();
      error.text += "; it could not be taken up again within " + std::to_string(settings_.failover_ms / 1000) +
                    " s (NCCL_MESH_FAILOVER_TIMEOUT_SEC)";
      if (const std::string what = obstacle(); !what.empty()) error.text += ": " + what;
      fail(std::move(error));
    } else {
      if (give_up_.passed()) give_up_ = Deadline::after_ms_or_never(settings_.failover_ms);
      resume();
    }
  }
  if (failed()) return failure();
  return ok();
}

Result<Request*> Connection::not_now() {
  if (impaired()) {
    if (auto attended = attend(); !attended) return attended.error();
  }
  return nullptr;
}

/// Returns false if the request is late and the connection has failed.
bool Connection::in_time(Request& request) {
  if (settings_.operation_timeout_ns == 0 || request.reported) return true;
  const std::int64_t waited_ns = now_ns() - request.posted_ns;
  if (waited_ns < settings_.operation_timeout_ns) return true;
  request.reported = true;
  std::string text = ends_text() + ": a " + direction_name() + " has not completed for " +
                     std::to_string(waited_ns / 1'000'000'000) + " s (NCCL_MESH_TIMEOUT_SEC), " +
                     std::to_string(pool_.in_use()) + " requests are outstanding";
  if (!settings_.fatal_on_timeout) {
    MESHBED_WARN("%s", text.c_str());
    return true;
  }
  fail({.code = ErrorCode::kTimeout, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0});
  return false;
}

std::vector<Request*> Connection::unfinished() {
  std::vector<Request*> requests;
  pool_.for_each_in_use([&](Request& request) {
    if (!request.done && !request.flushes) requests.push_back(&request);
  });
  std::sort(requests.begin(), requests.end(), [](const Request* one, const Request* other) {
    return std::pair(one->group, one->part) < std::pair(other->group, other->part);
  });
  return requests;
}

void Connection::finish(Request& request, std::uint64_t bytes) {
  request.done = true;
  end_events(request, true);
  end_silence();
  ++operations_;
  bytes_ += bytes;
  qp_link_->carry(bytes);
  if (request.memory != nullptr) std::exchange(request.memory, nullptr)->drop();
}

bool Connection::post_failed(const char* queue, int error) {
  fail({.code = ErrorCode::kSystem,
        .scope = Scope::kQueuePair,
        .text = ends_text() + ": the " + queue + " queue refuses work: " + std::strerror(error),
        .os_errno = error});
  return false;
}

bool Connection::post_probe(std::uint64_t work_id) {
  ibv_send_wr work = verbs::write_request(
      {.id = work_id, .flags = IBV_SEND_SIGNALED, .remote_address = peer().memory_address, .rkey = peer().memory_rkey});
  return post_send(work);
}

}  // namespace meshbed::net
