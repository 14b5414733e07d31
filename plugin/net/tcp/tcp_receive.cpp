#include "plugin/net/tcp/tcp_receive.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/process/memory.h"

namespace meshbed::net {

TcpReceiveConnection::~TcpReceiveConnection() {
  for (std::uint64_t slot = 0; slot < ring_.size(); ++slot) release(slot);
}

Result<Request*> TcpReceiveConnection::post(std::span<const ReceivePart> parts) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return nullptr;
  }
  if (!failed() && !has_room(parts.size())) progress();
  if (failed()) return failure();
  if (auto fine = check_arguments(parts); !fine) return fine.error();
  if (!has_room(parts.size())) return nullptr;
  // There is a free request, and room in the ring and for the announcements: the receive can be posted.

  Request& request = take_request();
  request.parts = static_cast<std::uint8_t>(parts.size());
  request.group = next_entry_;
  for (std::size_t index = 0; index < parts.size(); ++index) {
    begin_event(request, parts[index].event,
                {.index = index, .size_bytes = parts[index].size_bytes, .tag = parts[index].tag});
    announce(parts[index], index, request);
  }
  write_out();
  return &request;
}

bool TcpReceiveConnection::has_room(std::size_t parts) const {
  return !pool_.empty() && next_entry_ - oldest_entry_ + parts <= kRingEntries &&
         out_.size() - (out_end_ - out_begin_) >= parts * kTcpFrameBytes;
}

Result<void> TcpReceiveConnection::check_arguments(std::span<const ReceivePart> parts) {
  const char* problem = parts.empty() || parts.size() > kMaxGroup ? "has a part count beyond 1..8" : nullptr;
  for (const ReceivePart& part : parts) {
    if (part.size_bytes == 0) continue;
    if (part.memory == nullptr) {
      problem = "has no registered memory";
    } else if (!part.memory->covers(part.data, part.size_bytes)) {
      problem = "leaves its registered memory";
    }
  }
  if (problem == nullptr) return ok();
  Error error =
      describe(ErrorCode::kInvalidArgument, "a receive of " + std::to_string(parts.size()) + " parts " + problem);
  error.scope = Scope::kRequest;
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

void TcpReceiveConnection::announce(const ReceivePart& part, std::size_t position, Request& request) {
  const auto capacity = static_cast<std::uint32_t>(std::min<std::size_t>(part.size_bytes, kMaxMessageBytes));
  put_frame({.type = TcpFrameType::kAnnounce,
             .part = static_cast<std::uint8_t>(position),
             .parts = request.parts,
             .number = next_entry_,
             .length_bytes = capacity,
             .tag = part.tag});
  if (part.memory != nullptr) part.memory->hold();
  at(next_entry_++) = {.data = static_cast<std::uint8_t*>(part.data),
                       .capacity_bytes = capacity,
                       .tag = part.tag,
                       .arrived = false,
                       .memory = part.memory,
                       .request = &request};
}

/// Returns false if there is no room for it.
bool TcpReceiveConnection::put_frame(const TcpFrame& frame) {
  if (out_.size() - out_end_ < kTcpFrameBytes) {
    std::memmove(out_.data(), out_.data() + out_begin_, out_end_ - out_begin_);
    out_end_ -= std::exchange(out_begin_, 0);
  }
  if (out_.size() - out_end_ < kTcpFrameBytes) return false;
  encode_frame(frame, std::span<std::uint8_t, kTcpFrameBytes>(out_.data() + out_end_, kTcpFrameBytes));
  out_end_ += kTcpFrameBytes;
  return true;
}

bool TcpReceiveConnection::write_out() {
  if (out_begin_ == out_end_) return false;
  const std::size_t bytes = write(std::span(out_).subspan(out_begin_, out_end_ - out_begin_), {});
  out_begin_ += bytes;
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
  return bytes > 0;
}

void TcpReceiveConnection::progress() {
  const bool wrote = write_out();
  const bool read = read_some();
  if (wrote || read) note_life();
  if (!read) settle();
  if (!wrote && !read) note_silence();
}

bool TcpReceiveConnection::read_some() {
  bool any = false;
  for (int call = 0; call < kCallsAtOnce && !failed(); ++call) {
    if (in_body_ && at(body_entry_).memory != nullptr && at(body_entry_).memory->is_released()) {
      fail(describe(ErrorCode::kInvalidArgument, "memory was deregistered while a receive into it was under way"));
      break;
    }
    const std::size_t bytes = read(body_rest(), std::span(head_).subspan(head_bytes_));
    if (bytes == 0) break;
    any = true;
    take_bytes(bytes);
  }
  return any;
}

std::span<std::uint8_t> TcpReceiveConnection::body_rest() {
  if (!in_body_) return {};
  return {at(body_entry_).data + body_bytes_, body_length_bytes_ - body_bytes_};
}

void TcpReceiveConnection::take_bytes(std::size_t bytes) {
  if (in_body_) {
    const std::size_t of_body = std::min(bytes, body_length_bytes_ - body_bytes_);
    body_bytes_ += of_body;
    bytes -= of_body;
    if (body_bytes_ < body_length_bytes_) return;
    end_message();
  }
  head_bytes_ += bytes;
  if (head_bytes_ < kTcpFrameBytes) return;
  head_bytes_ = 0;
  const auto frame = decode_frame(head_);
  if (!frame) return fail_peer(frame.error().text);
  take_in(*frame);
}

void TcpReceiveConnection::take_in(const TcpFrame& frame) {
  switch (frame.type) {
    case TcpFrameType::kData:
      return begin_message(frame);
    case TcpFrameType::kHello:
      return;
    case TcpFrameType::kRefuse:
      fail(describe(ErrorCode::kRemote, "the peer's message of " + counted(frame.length_bytes, "byte") +
                                            " is longer than this receive; the connection ends here"));
      return;
    case TcpFrameType::kAnnounce:
      break;
  }
  fail_peer("an announcement, but it only sends here");
}

void TcpReceiveConnection::begin_message(const TcpFrame& frame) {
  if (frame.number < oldest_entry_ || frame.number >= next_entry_) return fail_peer("a message that nothing waits for");
  const Awaited& slot = at(frame.number);
  // Groups are served in order.
  const bool in_turn = slot.request->group == oldest_entry_ && !slot.arrived &&
                       frame.number - slot.request->group == frame.part && frame.parts == slot.request->parts;
  if (!in_turn || frame.tag != slot.tag) return fail_peer("a message out of turn");
  if (frame.length_bytes > slot.capacity_bytes) {
    return fail_peer(counted(frame.length_bytes, "byte") + " for a receive of " + std::to_string(slot.capacity_bytes));
  }
  in_body_ = true;
  body_entry_ = frame.number;
  body_bytes_ = 0;
  body_length_bytes_ = frame.length_bytes;
  if (body_length_bytes_ == 0) end_message();
}

void TcpReceiveConnection::end_message() {
  in_body_ = false;
  Awaited& slot = at(body_entry_);
  Request& request = *slot.request;
  slot.arrived = true;
  request.sizes[body_entry_ - request.group] = static_cast<std::uint32_t>(body_length_bytes_);
  std::uint64_t bytes = 0;
  for (std::uint64_t part = 0; part < request.parts; ++part) {
    if (!at(request.group + part).arrived) return;
    bytes += request.sizes[part];
  }
  for (std::uint64_t part = 0; part < request.parts; ++part) release(request.group + part);
  oldest_entry_ += request.parts;
  finish(request, bytes);
}

void TcpReceiveConnection::release(std::uint64_t entry) {
  if (at(entry).memory != nullptr) std::exchange(at(entry).memory, nullptr)->drop();
}

}  // namespace meshbed::net
