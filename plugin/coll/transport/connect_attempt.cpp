#include "plugin/coll/transport/connect_attempt.h"

#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::coll {
namespace {

// First character of every value: it went well (the rest is data), or it did not (the rest is the reason).
constexpr char kGood = '+', kBad = '!';
// Keys' first letters: handle; outcome of the sender's connect; outcome of the receiver's accept.
constexpr char kHandle = 'h', kConnect = 'c', kAccept = 'a';

}  // namespace

ConnectAttempt::ConnectAttempt(const ConnectContext& context, const Edge& edge, std::uint32_t number)
    : context_(context), edge_(edge), number_(number) {}

ConnectAttempt::ConnectAttempt(ConnectAttempt&& other) noexcept
    : context_(other.context_),
      edge_(other.edge_),
      number_(other.number_),
      state_(other.state_),
      listen_comm_(other.listen_comm_),
      comm_(other.comm_),
      handle_(std::move(other.handle_)),
      handle_request_(other.handle_request_),
      peer_request_(other.peer_request_),
      peer_ready_(other.peer_ready_),
      published_(other.published_),
      warns_before_(other.warns_before_) {
  other.listen_comm_ = other.comm_ = nullptr;
}

ConnectAttempt::~ConnectAttempt() {
  if (listen_comm_ != nullptr) context_.net.close_listen(listen_comm_);
  if (comm_ == nullptr) return;
  if (edge_.direction == Direction::kSend) {
    context_.net.close_send(comm_);
  } else {
    context_.net.close_receive(comm_);
  }
}

void* ConnectAttempt::release() {
  void* comm = comm_;
  comm_ = nullptr;
  return comm;
}

std::string ConnectAttempt::key(char kind) const {
  const bool sends = edge_.direction == Direction::kSend;
  const int sender = sends ? context_.rank : edge_.peer, receiver = sends ? edge_.peer : context_.rank;
  return std::string(1, kind) + "/" + std::to_string(sender) + "/" + std::to_string(receiver) + "/" +
         std::to_string(edge_.channel) + "/" + std::to_string(number_);
}

std::string ConnectAttempt::name() const {
  const int device = context_.device_of(edge_);
  return std::string(edge_.direction == Direction::kSend ? "connection to rank " : "connection from rank ") +
         std::to_string(edge_.peer) + ", channel " + std::to_string(edge_.channel) + " (device " +
         std::to_string(device) + ")";
}

Result<void> ConnectAttempt::publish(char kind, const std::string& text) {
  // A reason may be long; the frame is not.
  return context_.store.set(key(kind), text.substr(0, kFrameBodyBytesMax / 2));
}

Error ConnectAttempt::refuse(const std::string& reason) {
  published_ = true;
  const auto notified = publish(edge_.direction == Direction::kSend ? kConnect : kAccept, kBad + reason);
  const std::string problem = notified ? "" : " (and the peer could not be notified: " + notified.error().text + ")";
  return {ErrorCode::kUnreachable, Scope::kQueuePair, "no " + name() + ": " + reason + problem};
}

void ConnectAttempt::abandon(const std::string& reason) {
  if (state_ == State::kDone || published_) return;
  // A peer that waits for a handle also watches the outcome from the start.
  refuse(reason);
}

Result<bool> ConnectAttempt::step() {
  if (state_ == State::kStart) return start();
  auto looked = look_at_peer();
  if (!looked) return looked.error();
  if (state_ == State::kAwaitHandle) return await_handle();
  if (polls_plugin()) return poll_plugin();
  return await_peer();
}

Result<bool> ConnectAttempt::start() {
  warns_before_ = warn_count();
  auto watched = context_.store.begin_get(key(edge_.direction == Direction::kSend ? kAccept : kConnect));
  if (!watched) return watched.error();
  peer_request_ = *watched;
  if (edge_.direction == Direction::kSend) {
    auto asked = context_.store.begin_get(key(kHandle));
    if (!asked) return asked.error();
    handle_request_ = *asked;
    state_ = State::kAwaitHandle;
    return true;
  }
  std::string handle(nccl::kHandleBytes, '\0');
  const int device = context_.device_of(edge_);
  const int code = context_.net.listen(device, handle.data(), &listen_comm_);
  if (code != nccl::kNcclSuccess) return refuse("listen: " + explain_net_error(code, warns_before_));
  auto published = publish(kHandle, kGood + handle);
  if (!published) return published.error();
  state_ = State::kAccepting;
  return true;
}

Result<bool> ConnectAttempt::await_handle() {
  auto value = context_.store.take(handle_request_);
  if (!value) return false;
  if (value->size() != 1 + nccl::kHandleBytes || value->front() != kGood) {
    return refuse("rank " + std::to_string(edge_.peer) + " published a handle of the wrong size");
  }
  handle_ = value->substr(1);
  warns_before_ = warn_count();
  state_ = State::kConnecting;
  return true;
}

Result<bool> ConnectAttempt::poll_plugin() {
  const bool sends = edge_.direction == Direction::kSend;
  const int device = context_.device_of(edge_);
  const int code =
      sends ? context_.net.connect(device, handle_.data(), &comm_) : context_.net.accept(listen_comm_, &comm_);
  if (code != nccl::kNcclSuccess) {
    return plugin_refused(sends ? "connect" : "accept", code);
  }
  if (comm_ == nullptr) return false;
  if (!sends) {  // as NCCL: the listener lives for one connection
    context_.net.close_listen(listen_comm_);
    listen_comm_ = nullptr;
  }
  published_ = true;
  auto published = publish(sends ? kConnect : kAccept, std::string(1, kGood));
  if (!published) return published.error();
  state_ = State::kAwaitPeer;
  return true;
}

Error ConnectAttempt::plugin_refused(const char* call, int code) {
  // A peer that gave up first closes its end; its own reason, if it has arrived, is better than the error that we see.
  auto polled = context_.store.poll(0);
  if (polled) {
    if (auto looked = look_at_peer(); !looked) return looked.error();
    if (context_.store.failure()) return {ErrorCode::kRemote, Scope::kJob, *context_.store.failure()};
  }
  return refuse(std::string(call) + ": " + explain_net_error(code, warns_before_));
}

Result<bool> ConnectAttempt::await_peer() {
  if (!peer_ready_) return false;
  state_ = State::kDone;
  return true;
}

Result<void> ConnectAttempt::look_at_peer() {
  if (peer_ready_) return ok();
  const auto outcome = context_.store.take(peer_request_);
  if (!outcome) return ok();
  if (outcome->empty() || outcome->front() != kGood) {
    published_ = true;  // the peer has given up and needs no outcome
    // A rank that leaves with the whole job refuses as well, and its refusal may be read together with the job's
    // failure.
    if (context_.store.failure()) return Error{ErrorCode::kRemote, Scope::kJob, *context_.store.failure()};
    return Error{ErrorCode::kUnreachable, Scope::kQueuePair,
                 "no " + name() + ": peer rank " + std::to_string(edge_.peer) +
                     " refused: " + (outcome->empty() ? std::string("no reason") : outcome->substr(1))};
  }
  peer_ready_ = true;
  return ok();
}

std::string ConnectAttempt::waiting_for() const {
  const std::string peer = "rank " + std::to_string(edge_.peer);
  switch (state_) {
    case State::kStart:
    case State::kAwaitHandle:
      return "no " + name() + ": " + peer + " has not listened (has it called this operation?)";
    case State::kConnecting:
      return "no " + name() + ": the net plugin has been connecting";
    case State::kAccepting:
      return "no " + name() + ": the peer has not connected to our listener";
    case State::kAwaitPeer:
    case State::kDone:
      break;
  }
  return "no " + name() + ": " + peer + " has not confirmed it";
}

}  // namespace meshbed::coll
