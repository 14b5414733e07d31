#include "plugin/net/send.h"

#include <bit>

#include "plugin/base/log.h"
#include "plugin/net/memory.h"

namespace meshbed::net {

Result<Request*> SendConnection::post(const SendArguments& send) {
  if (failed()) return failure();
  const ClearToSend* slot = pool_.empty() ? nullptr : find_slot(send.tag);
  if (slot == nullptr) {
    // The one look that may yield: completions free requests, and time passes until the peer's clear-to-send comes.
    poll();
    if (failed()) return failure();
    slot = pool_.empty() ? nullptr : find_slot(send.tag);
    if (slot == nullptr) return failed() ? Result<Request*>(failure()) : Result<Request*>(nullptr);
  }
  if (auto fine = check_arguments(send); !fine) return fine.error();
  const Place place = place_of(*slot);
  if (send.size_bytes > slot->capacity_bytes) return refuse_oversized(send, place);
  if (!has_room(send.size_bytes)) {
    poll();
    return failed() ? Result<Request*>(failure()) : Result<Request*>(nullptr);
  }
  // There is a receive, a free request and room in the send queue: from here on the send happens.

  Request& request = take_request();
  request.sizes[0] = static_cast<std::uint32_t>(send.size_bytes);
  request.work_requests = 0;
  if (send.memory != nullptr) {
    send.memory->hold();
    request.memory = send.memory;
  }
  if (!carry(send, place, request)) return failure();
  finish_part(place.part);
  return &request;
}

const ClearToSend* SendConnection::find_slot(int tag) {
  ClearToSend* first = first_slot();
  if (group_parts_ == 0) {
    if (!has_arrived(first[0], group_)) return nullptr;
    const std::uint32_t count = first[0].count;
    if (count < 1 || count > kMaxGroup) {
      fail({.code = ErrorCode::kRemote,
            .scope = Scope::kQueuePair,
            .text = ends_text() + ": the peer announced a receive of " + std::to_string(count) + " parts",
            .os_errno = 0});
      return nullptr;
    }
    for (std::uint32_t part = 1; part < count; ++part) {
      if (!has_arrived(first[part], group_ + part)) return nullptr;
    }
    group_parts_ = count;
    matched_ = 0;
  }
  for (std::uint32_t part = 0; part < group_parts_; ++part) {
    if ((matched_ >> part & 1U) == 0 && first[part].tag == tag) return &first[part];
  }
  return nullptr;
}

Result<void> SendConnection::check_arguments(const SendArguments& send) {
  const char* problem = nullptr;
  if (send.size_bytes > kMaxMessageBytes) {
    problem = "is longer than 1 GiB, the largest message";
  } else if (send.size_bytes > 0 && send.memory == nullptr) {
    problem = "has no registered memory";
  } else if (send.size_bytes > 0 && send.memory->device() != &device()) {
    problem = "has memory that is registered on another device";
  } else if (send.size_bytes > 0 && !send.memory->covers(send.data, send.size_bytes)) {
    problem = "leaves its registered memory";
  } else {
    problem = size_problem(send.size_bytes);
    if (problem == nullptr) return ok();
  }
  Error error{.code = ErrorCode::kInvalidArgument,
              .scope = Scope::kRequest,
              .text = ends_text() + ": a send of " + std::to_string(send.size_bytes) + " bytes " + problem,
              .os_errno = 0};
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

Result<Request*> SendConnection::refuse_oversized(const SendArguments& send, const Place& place) {
  std::string text = ends_text() + ": a send of " + std::to_string(send.size_bytes) + " bytes meets a receive of " +
                     std::to_string(place.entry->capacity_bytes) + " bytes (tag " + std::to_string(send.tag) +
                     "): nothing is cut off, the connection ends here";
  // The peer must not wait for ever: its receive fails when this arrives, so the queue pair stays up until close().
  if (!carry_refusal(place)) return failure();
  return keep_failure(
      {.code = ErrorCode::kInvalidArgument, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0});
}

ClearToSend* SendConnection::first_slot() { return ring().as<ClearToSend>() + slot_of(group_); }

SendConnection::Place SendConnection::place_of(const ClearToSend& slot) {
  return {.group = group_,
          .part = static_cast<std::uint32_t>(&slot - first_slot()),
          .parts = group_parts_,
          .last = std::popcount(matched_) + 1 == static_cast<int>(group_parts_),
          .entry = &slot};
}

void SendConnection::finish_part(std::uint32_t part) {
  matched_ |= 1U << part;
  if (std::popcount(matched_) < static_cast<int>(group_parts_)) return;
  group_ += group_parts_;
  group_parts_ = 0;
}

}  // namespace meshbed::net
