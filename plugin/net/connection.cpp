#include "plugin/net/connection.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/clock.h"
#include "plugin/net/memory.h"

namespace meshbed::net {
namespace {

constexpr int kPollAtOnce = 16;
/// Empty polls that close() grants the device to flush what is posted.
constexpr int kDrainPolls = 2;

const char* direction(const Object& connection) { return connection.is(ObjectKind::kSend) ? "send" : "recv"; }

}  // namespace

Connection::Connection(ObjectKind kind, std::unique_ptr<Leg> leg, const ConnectionSettings& settings)
    : Object(kind), pool_(this), leg_(std::move(leg)), settings_(settings) {}

Connection::~Connection() {
  pool_.for_each_in_use([](Request& request) {
    if (request.memory != nullptr) request.memory->drop();
  });
}

Result<bool> Connection::test(Request& request, int* sizes) {
  if (!request.done) {
    if (failed()) return failure();
    poll();
  }
  if (!request.done) {
    if (failed()) return failure();
    if (auto late = check_lateness(request)) return *late;
    return false;
  }
  if (sizes != nullptr) {
    for (std::size_t part = 0; part < request.parts; ++part) sizes[part] = static_cast<int>(request.sizes[part]);
  }
  pool_.give_back(request);
  return true;
}

void Connection::close() {
  const std::size_t unfinished = pool_.in_use();
  closing();
  leg_->abort();
  // Flushed work is no failure now; nothing is logged for it.
  if (!failed())
    failure_ = Error{.code = ErrorCode::kClosed, .scope = Scope::kQueuePair, .text = "closed", .os_errno = 0};
  for (int empty = 0; unfinished > 0 && empty < kDrainPolls;) {
    if (poll() <= 0) ++empty;
  }
  MESHBED_INFO("connection-summary transport=rdma direction=%s peer=%s nic=%s ops=%" PRIu64 " bytes=%" PRIu64
               " unfinished=%zu errors=%d",
               direction(*this), to_text(peer().address.address).c_str(), local().nic.device_name.c_str(), operations_,
               bytes_, unfinished, failed() && failure().code != ErrorCode::kClosed ? 1 : 0);
}

int Connection::poll() {
  ibv_wc found[kPollAtOnce];
  const int count = completions().poll(found);
  for (int index = 0; index < count; ++index) handle(found[index]);
  if (count < 0) {
    fail({.code = ErrorCode::kSystem,
          .scope = Scope::kQueuePair,
          .text = ends_text() + ": the completion queue cannot be polled any more",
          .os_errno = 0});
  }
  polled(count);
  return count;
}

void Connection::handle(const ibv_wc& completion) {
  if (completion.status == IBV_WC_SUCCESS) {
    completed(completion);
  } else if (!failed()) {
    fail(describe_failure(completion));
  }
}

/// What the person in front of the machine should look at.
std::string Connection::advice(ibv_wc_status status) const {
  const Result<verbs::PortState> port = device().query_port(local().nic.port);
  if (port && !port->active) return "the port of " + local().nic.device_name + " is down: is its cable in?";
  return verbs::hint(status);
}

Error Connection::describe_failure(const ibv_wc& completion) const {
  char text[768];
  std::snprintf(text, sizeof text,
                "failure peer=%s (%s) nic=%s gid=%s qp=%u->%u op=%s status=\"%s\" vendor_err=0x%x conn_age=%" PRId64
                "ms: %s",
                to_text(peer().address.address).c_str(), peer().nic.c_str(), local().nic.device_name.c_str(),
                verbs::to_text(local().gid.gid).c_str(), pair().number(), peer().qp_number, direction(*this),
                ibv_wc_status_str(completion.status), completion.vendor_err, (now_ns() - leg_->joined_ns()) / 1'000'000,
                advice(completion.status).c_str());
  return {.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = text, .os_errno = 0};
}

const Error& Connection::keep_failure(Error error) {
  if (!failed()) {
    MESHBED_WARN("%s", error.text.c_str());
    failure_ = std::move(error);
  }
  return *failure_;
}

const Error& Connection::fail(Error error) {
  const bool first = !failed();
  const Error& kept = keep_failure(std::move(error));
  if (first) leg_->abort();
  return kept;
}

std::optional<Error> Connection::check_lateness(Request& request) {
  if (settings_.operation_timeout_ns == 0 || request.reported) return std::nullopt;
  const std::int64_t waited_ns = now_ns() - request.posted_ns;
  if (waited_ns < settings_.operation_timeout_ns) return std::nullopt;
  request.reported = true;
  std::string text = ends_text() + ": a " + direction(*this) + " has not completed for " +
                     std::to_string(waited_ns / 1'000'000'000) + " s (NCCL_MESH_TIMEOUT_SEC), " +
                     std::to_string(pool_.in_use()) + " requests are outstanding";
  if (!settings_.fatal_on_timeout) {
    MESHBED_WARN("%s", text.c_str());
    return std::nullopt;
  }
  return fail({.code = ErrorCode::kTimeout, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0});
}

Request& Connection::take_request() {
  Request& request = pool_.take();
  if (settings_.operation_timeout_ns != 0) request.posted_ns = now_ns();
  return request;
}

void Connection::finish(Request& request, std::uint64_t bytes) {
  request.done = true;
  ++operations_;
  bytes_ += bytes;
  if (request.memory != nullptr) std::exchange(request.memory, nullptr)->drop();
}

bool Connection::post_send(ibv_send_wr& work, const verbs::QueuePair& pair) {
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(pair.raw(), &work, &refused);
  if (error == 0) return true;
  fail({.code = ErrorCode::kSystem,
        .scope = Scope::kQueuePair,
        .text = ends_text() + ": the send queue refuses work: " + std::strerror(error),
        .os_errno = error});
  return false;
}

bool Connection::post_receive(ibv_recv_wr& work, const verbs::QueuePair& pair) {
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(pair.raw(), &work, &refused);
  if (error == 0) return true;
  fail({.code = ErrorCode::kSystem,
        .scope = Scope::kQueuePair,
        .text = ends_text() + ": the receive queue refuses work: " + std::strerror(error),
        .os_errno = error});
  return false;
}

}  // namespace meshbed::net
