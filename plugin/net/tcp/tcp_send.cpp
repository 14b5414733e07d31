#include "plugin/net/tcp/tcp_send.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/process/memory.h"

namespace meshbed::net {
namespace {

/// Bytes that one call copies into the kernel at most, so that it takes about 100 us at most.
constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20U;

}  // namespace

Result<Request*> TcpSendConnection::post(const SendArguments& send) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return nullptr;
  }
  if (failed()) return failure();
  int part = pool_.empty() ? -1 : find_part(send.tag);
  if (part < 0) {
    // This call may yield: simulated time passes until the peer announces a receive.
    progress();
    if (failed()) return failure();
    part = pool_.empty() ? -1 : find_part(send.tag);
    if (part < 0) {
      // The receiver has closed, and never announces one.
      if (lost() && !is_announced(send.tag)) settle();
      if (failed()) return failure();
      refused_ = {.tag = send.tag, .size_bytes = send.size_bytes};
      return nullptr;
    }
  }
  if (auto fine = check_arguments(send); !fine) return fine.error();
  const std::uint64_t entry = group_ + static_cast<std::uint32_t>(part);
  if (send.size_bytes > at(entry).capacity_bytes) return refuse_oversized(send, entry);
  // There is a receive and a free request: the message can be sent.

  Request& request = take_request();
  request.sizes[0] = static_cast<std::uint32_t>(send.size_bytes);
  request.group = entry;
  request.data = send.data;
  if (send.memory != nullptr) {
    send.memory->hold();
    request.memory = send.memory;
  }
  begin_event(request, send.event, {.index = 0, .size_bytes = send.size_bytes, .tag = send.tag});
  refused_.reset();
  messages_[posted_++ % messages_.size()] = &request;
  finish_part(static_cast<std::uint32_t>(part));
  write_some();
  return &request;
}

bool TcpSendConnection::group_stands() { return group_ < announced_ && group_ + at(group_).parts <= announced_; }

bool TcpSendConnection::is_announced(int tag) {
  for (std::uint64_t entry = group_; entry < announced_; ++entry) {
    const bool served = entry - group_ < kMaxGroup && (matched_ >> (entry - group_) & 1U) != 0;
    if (!served && at(entry).tag == tag) return true;
  }
  return false;
}

int TcpSendConnection::find_part(int tag) {
  if (!group_stands()) return -1;
  for (std::uint32_t part = 0; part < at(group_).parts; ++part) {
    if ((matched_ >> part & 1U) == 0 && at(group_ + part).tag == tag) return static_cast<int>(part);
  }
  return -1;
}

void TcpSendConnection::finish_part(std::uint32_t part) {
  matched_ |= 1U << part;
  if (std::popcount(matched_) < at(group_).parts) return;
  group_ += at(group_).parts;
  matched_ = 0;
}

Result<void> TcpSendConnection::check_arguments(const SendArguments& send) {
  const char* problem = nullptr;
  if (send.size_bytes > kMaxMessageBytes) {
    problem = "is longer than 1 GiB, the largest message";
  } else if (send.size_bytes > 0 && send.memory == nullptr) {
    problem = "has no registered memory";
  } else if (send.size_bytes > 0 && !send.memory->covers(send.data, send.size_bytes)) {
    problem = "leaves its registered memory";
  } else {
    return ok();
  }
  Error error = describe(ErrorCode::kInvalidArgument, "a send of " + counted(send.size_bytes, "byte") + " " + problem);
  error.scope = Scope::kRequest;
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

Result<Request*> TcpSendConnection::refuse_oversized(const SendArguments& send, std::uint64_t entry) {
  // The peer must not wait for ever: its receive fails when this arrives. It follows the earlier messages.
  if (written_ < posted_ || control_left_ > 0) {
    progress();
    if (failed()) return failure();
    if (written_ < posted_ || control_left_ > 0) return nullptr;
  }
  const Announced& slot = at(entry);
  encode_frame({.type = TcpFrameType::kRefuse,
                .part = slot.part,
                .parts = slot.parts,
                .number = entry,
                .length_bytes = std::min<std::uint64_t>(send.size_bytes, kMaxMessageBytes),
                .tag = slot.tag},
               control_);
  control_left_ = kTcpFrameBytes;
  write_control();
  return keep_failure(describe(ErrorCode::kInvalidArgument,
                               "a send of " + counted(send.size_bytes, "byte") + " meets a receive of " +
                                   counted(slot.capacity_bytes, "byte") + " (tag " + std::to_string(send.tag) +
                                   "): nothing is cut off, the connection ends here"));
}

void TcpSendConnection::progress() {
  const bool wrote = write_some();
  const bool read = read_some();
  if (wrote || read) note_life();
  // The frames that were read may have made room for a waiting message.
  if (read && written_ < posted_) write_some();
  // A receiver that has closed still accepts what it announced; post() reports an error for more than that.
  if (!read && !can_write()) settle();
  if (!wrote && !read) note_silence();
}

void TcpSendConnection::greet() {
  const bool silent = control_left_ == 0 && !begun_ && written_ == posted_;
  if (!silent) return;  // the data in flight serves as a probe
  encode_frame({.type = TcpFrameType::kHello}, control_);
  control_left_ = kTcpFrameBytes;
  write_control();
}

/// True: control_ is written.
bool TcpSendConnection::write_control() {
  if (control_left_ > 0) control_left_ -= write(std::span(control_).last(control_left_), {});
  return control_left_ == 0;
}

bool TcpSendConnection::write_some() {
  bool any = false;
  for (int call = 0; call < kCallsAtOnce && written_ < posted_; ++call) {
    if (!begun_) begin_message();
    if (!begun_) return any;
    const Request& request = *messages_[written_ % messages_.size()];
    if (request.memory != nullptr && request.memory->is_released()) {
      fail(describe(ErrorCode::kInvalidArgument, "memory was deregistered while a send of it was under way"));
      return any;
    }
    const auto* data = static_cast<const std::uint8_t*>(request.data);
    const std::size_t left = request.sizes[0] - body_sent_;
    const std::size_t bytes = write(std::span(head_).subspan(head_sent_),
                                    {left > 0 ? data + body_sent_ : nullptr, std::min(left, kBytesAtOnce)});
    if (bytes == 0) return any;
    any = true;
    take_written(bytes);
  }
  if (written_ == posted_) write_control();
  return any;
}

/// Prepares the header of the next message; leaves begun_ false if it cannot begin.
void TcpSendConnection::begin_message() {
  if (!write_control()) return;
  const Request& request = *messages_[written_ % messages_.size()];
  const Announced& slot = at(request.group);
  encode_frame({.type = TcpFrameType::kData,
                .part = slot.part,
                .parts = slot.parts,
                .number = request.group,
                .length_bytes = request.sizes[0],
                .tag = slot.tag},
               head_);
  head_sent_ = body_sent_ = 0;
  begun_ = true;
}

void TcpSendConnection::take_written(std::size_t bytes) {
  const std::size_t of_head = std::min(bytes, kTcpFrameBytes - head_sent_);
  head_sent_ += of_head;
  body_sent_ += bytes - of_head;
  Request& request = *messages_[written_ % messages_.size()];
  if (head_sent_ < kTcpFrameBytes || body_sent_ < request.sizes[0]) return;
  begun_ = false;
  ++written_;
  finish(request, request.sizes[0]);
}

bool TcpSendConnection::read_some() {
  bool any = false;
  for (int call = 0; call < kCallsAtOnce; ++call) {
    const std::size_t room = arrived_.size() - arrived_bytes_;
    const std::size_t bytes = read(std::span(arrived_).last(room), {});
    if (bytes == 0) break;
    any = true;
    arrived_bytes_ += bytes;
    std::size_t used = 0;
    for (; arrived_bytes_ - used >= kTcpFrameBytes; used += kTcpFrameBytes) {
      const auto frame =
          decode_frame(std::span<const std::uint8_t, kTcpFrameBytes>(arrived_.data() + used, kTcpFrameBytes));
      if (!frame) {
        fail_peer(frame.error().text);
        return any;
      }
      take_in(*frame);
      if (failed()) return any;
    }
    std::memmove(arrived_.data(), arrived_.data() + used, arrived_bytes_ - used);
    arrived_bytes_ -= used;
    if (bytes < room) break;  // there was no more
  }
  return any;
}

void TcpSendConnection::take_in(const TcpFrame& frame) {
  switch (frame.type) {
    case TcpFrameType::kAnnounce:
      return take_announcement(frame);
    case TcpFrameType::kHello:
      return;
    case TcpFrameType::kData:
    case TcpFrameType::kRefuse:
      break;
  }
  fail_peer("a message, but it only receives here");
}

void TcpSendConnection::take_announcement(const TcpFrame& frame) {
  // Every part after the first follows the previous one.
  const Announced& before = at(announced_ - 1);
  const bool follows = frame.part == 0 ? announced_ == 0 || before.part + 1 == before.parts
                                       : announced_ > 0 && frame.part == before.part + 1 && frame.parts == before.parts;
  if (frame.number != announced_ || !follows) return fail_peer("an announcement out of turn");
  // Announcements of messages that are not written yet keep their slots.
  const std::uint64_t oldest = written_ < posted_ ? messages_[written_ % messages_.size()]->group : group_;
  if (announced_ - std::min(oldest, group_) >= kRingEntries) return fail_peer("more announcements than fit");
  at(announced_++) = {.capacity_bytes = static_cast<std::uint32_t>(frame.length_bytes),
                      .tag = frame.tag,
                      .part = frame.part,
                      .parts = frame.parts};
}

}  // namespace meshbed::net
