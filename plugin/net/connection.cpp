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

Connection::Connection(ObjectKind kind, LocalEnd local, const ConnectionSettings& settings)
    : Object(kind), pool_(this), local_(std::move(local)), settings_(settings) {}

Connection::~Connection() {
  pool_.for_each_in_use([](Request& request) {
    if (request.memory != nullptr) request.memory->drop();
  });
}

Result<void> Connection::open(const verbs::QueuePairDepths& depths, ibv_comp_channel* channel,
                              const verbs::QueuePairDepths* lane) {
  // Room for every work request, since in ERR each of them leaves a completion.
  std::uint32_t work_requests = depths.sends + depths.receives;
  if (lane != nullptr) work_requests += lane->sends + lane->receives;
  const int entries = static_cast<int>(work_requests) + 1;
  auto queue = verbs::CompletionQueue::create(device(), entries, channel);
  if (!queue) return queue.error();
  queue_ = std::move(*queue);
  auto pair = verbs::QueuePair::create(device(), *queue_, local_.nic.port, depths);
  if (!pair) return pair.error();
  pair_ = std::move(*pair);
  if (lane == nullptr) return ok();
  auto second = verbs::QueuePair::create(device(), *queue_, local_.nic.port, *lane);
  if (!second) return second.error();
  lane_ = std::move(*second);
  return ok();
}

WireEnd Connection::describe() const {
  WireEnd end;
  end.qp_number = pair_->number();
  end.lane_qp_number = lane_ ? lane_->number() : 0;
  end.psn = local_.psn;
  end.gid = local_.gid.gid;
  end.gid_type = local_.gid.type;
  end.mtu = local_.nic.mtu;
  end.max_recvs = static_cast<std::uint8_t>(kMaxGroup);
  end.address = local_.address;
  end.memory_entries = kRingEntries;
  end.node = local_.node;
  end.nic = local_.nic.device_name;
  describe_memory(end);
  return end;
}

Result<void> Connection::join(const WireEnd& peer, std::uint8_t mtu) {
  peer_ = peer;
  joined_ns_ = now_ns();
  verbs::QueuePairPath path;
  path.local_port = local_.nic.port;
  path.local_gid_index = local_.gid.index;
  path.local_psn = local_.psn;
  path.remote_gid = peer.gid;
  path.remote_qp_number = peer.qp_number;
  path.remote_psn = peer.psn;
  path.mtu = mtu;
  path.timeout = settings_.queue_pair_timeout;
  path.retries = settings_.queue_pair_retries;
  path.traffic_class = settings_.traffic_class;
  path.service_level = settings_.service_level;
  if (auto joined = pair_->connect(path); !joined) {
    Error error = joined.error();
    error.text = ends_text() + ": " + error.text + "; our subnet is " + subnet_text(local_.address);
    return error;
  }
  if (lane_) {
    path.remote_qp_number = peer.lane_qp_number;
    if (auto joined = lane_->connect(path); !joined) return joined;
  }
  MESHBED_INFO("%s %s: connected, GID %s (index %u, %s), path MTU %u", direction(*this), ends_text().c_str(),
               verbs::to_text(local_.gid.gid).c_str(), local_.gid.index, verbs::to_text(local_.gid.type),
               verbs::mtu_bytes(mtu));
  return ok();
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
  if (pair_) {
    pair_->abort();
    if (lane_) lane_->abort();
    // Flushed work is no failure now; nothing is logged for it.
    if (!failed())
      failure_ = Error{.code = ErrorCode::kClosed, .scope = Scope::kQueuePair, .text = "closed", .os_errno = 0};
    for (int empty = 0; unfinished > 0 && empty < kDrainPolls;) {
      if (poll() <= 0) ++empty;
    }
  }
  MESHBED_INFO("connection-summary transport=rdma direction=%s peer=%s nic=%s ops=%" PRIu64 " bytes=%" PRIu64
               " unfinished=%zu errors=%d",
               direction(*this), to_text(peer_.address.address).c_str(), local_.nic.device_name.c_str(), operations_,
               bytes_, unfinished, failed() && failure().code != ErrorCode::kClosed ? 1 : 0);
}

int Connection::poll() {
  ibv_wc completions[kPollAtOnce];
  const int count = queue_->poll(completions);
  for (int index = 0; index < count; ++index) handle(completions[index]);
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
  const Result<verbs::PortState> port = device().query_port(local_.nic.port);
  if (port && !port->active) return "the port of " + local_.nic.device_name + " is down: is its cable in?";
  return verbs::hint(status);
}

Error Connection::describe_failure(const ibv_wc& completion) const {
  char text[768];
  std::snprintf(text, sizeof text,
                "failure peer=%s (%s) nic=%s gid=%s qp=%u->%u op=%s status=\"%s\" vendor_err=0x%x conn_age=%" PRId64
                "ms: %s",
                to_text(peer_.address.address).c_str(), peer_.nic.c_str(), local_.nic.device_name.c_str(),
                verbs::to_text(local_.gid.gid).c_str(), pair_->number(), peer_.qp_number, direction(*this),
                ibv_wc_status_str(completion.status), completion.vendor_err, (now_ns() - joined_ns_) / 1'000'000,
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
  if (first) pair_->abort();
  if (first && lane_) lane_->abort();
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

std::string Connection::ends_text() const {
  return local_.nic.device_name + " " + to_text(local_.address.address) + " QP " + std::to_string(pair_->number()) +
         (is(ObjectKind::kSend) ? " -> " : " <- ") + peer_.nic + " " + to_text(peer_.address.address) + " QP " +
         std::to_string(peer_.qp_number);
}

}  // namespace meshbed::net
