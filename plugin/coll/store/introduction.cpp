#include "plugin/coll/store/introduction.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace meshbed::coll {
namespace {

constexpr const char* kOtherJob =
    "it is of another job: its key is not this job's (an id of an earlier start, or not the same for all ranks)";

/// A frame at this stage is small, and it is the first of its connection or the reply to one that was read: it fits the
/// socket's buffer unless the client does not read.
bool send_whole(int descriptor, const std::string& bytes) {
  return ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

Error dropped(std::string why, int error_number = 0) {
  return {ErrorCode::kRemote, Scope::kRequest, std::move(why), error_number};
}

}  // namespace

Result<bool> StoreIntroduction::advance(int descriptor) {
  for (;;) {
    bool broken = false;
    while (const auto frame = take_frame(&received_, &broken)) {
      const auto done = handle(descriptor, *frame);
      if (!done || *done) return done;
    }
    // No introduction is longer than this.
    if (broken || received_.size() > kFrameHeaderBytes + kIntroductionBytesMax) {
      return dropped("it does not speak the store's protocol");
    }
    std::array<char, 256> chunk{};
    const ssize_t count = ::recv(descriptor, chunk.data(), chunk.size(), 0);
    if (count == 0) return dropped("it closed the connection before it introduced itself", ECONNRESET);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
    if (count < 0) return dropped(std::string("connection lost: ") + std::strerror(errno), ECONNRESET);
    received_.append(chunk.data(), static_cast<std::size_t>(count));
    untouched_ = false;
  }
}

Result<bool> StoreIntroduction::handle(int descriptor, const Frame& frame) {
  if (frame.type == FrameType::kProve) return challenge(descriptor, frame);
  if (frame.type == FrameType::kHello) return check_hello(descriptor, frame);
  return dropped("it did not introduce itself");
}

Result<bool> StoreIntroduction::challenge(int descriptor, const Frame& frame) {
  if (!key_) return refuse(descriptor, "it has a job key and this job has none: set the same for all ranks, or none");
  if (frame.body.size() != kNonceBytes || !rank_nonce_.empty()) return dropped("its nonce is not one");
  rank_nonce_ = frame.body;
  auto nonce = draw_nonce();
  if (!nonce) return nonce.error();
  server_nonce_ = std::move(*nonce);
  if (!send_whole(descriptor, encode({FrameType::kChallenge, 0, server_nonce_}))) return dropped("it does not read");
  return false;
}

Result<bool> StoreIntroduction::check_hello(int descriptor, const Frame& frame) {
  const std::size_t proof_bytes = key_ ? kProofBytes : 0;
  if (frame.body.size() < proof_bytes) return dropped("its hello is too short");
  const std::string hello = frame.body.substr(0, frame.body.size() - proof_bytes);
  const auto identity = decode_hello(hello);
  if (!identity) {
    // A hello that is whole without a proof comes from a rank that has no key.
    if (key_ && decode_hello(frame.body)) return refuse(descriptor, "it has no job key and this job has one");
    return dropped("its hello is not one of this version");
  }
  if (key_) {
    const bool knows =
        !server_nonce_.empty() &&
        are_equal(frame.body.substr(hello.size()), key_->proof(JobKey::Side::kRank, rank_nonce_, server_nonce_, hello));
    if (!knows) return refuse(descriptor, kOtherJob);
    welcome_ = key_->proof(JobKey::Side::kServer, rank_nonce_, server_nonce_, hello);
  }
  identity_ = *identity;
  return true;
}

Error StoreIntroduction::refuse(int descriptor, const std::string& why) const {
  (void)send_whole(descriptor, encode({FrameType::kRefused, 0, why}));  // a client that has gone needs no reason
  return dropped(why);
}

}  // namespace meshbed::coll
