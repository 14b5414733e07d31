#include "plugin/net/rdma/send.h"

#include <algorithm>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/direct_send_path.h"
#include "plugin/net/rdma/relayed_send_path.h"

namespace meshbed::net {
namespace {

constexpr const char* kUnregistered = "cannot be registered on the device that the connection goes on over";

}  // namespace

Result<std::unique_ptr<SendConnection>> SendConnection::create(LocalEnd local, const ConnectionSettings& settings) {
  const QpLinkShape shape = DirectSendPath::shape_on(*local.device);
  auto qp_link = QpLink::open(std::move(local), settings.qp_link, shape);
  if (!qp_link) return qp_link.error();
  std::unique_ptr<SendConnection> send(new SendConnection(std::move(*qp_link), settings));
  send->send_path_ = std::make_unique<DirectSendPath>(*send, settings.stripes);
  return send;
}

Result<std::unique_ptr<SendConnection>> SendConnection::create(LocalEnd local, const ConnectionSettings& settings,
                                                               const CircuitStart& circuit) {
  const QpLinkShape shape = RelayedSendPath::shape_on(*local.device);
  auto qp_link = QpLink::open(std::move(local), settings.qp_link, shape);
  if (!qp_link) return qp_link.error();
  std::unique_ptr<SendConnection> send(new SendConnection(std::move(*qp_link), settings));
  auto send_path = RelayedSendPath::create(*send, circuit);
  if (!send_path) return send_path.error();
  send->send_path_ = std::move(*send_path);
  return send;
}

void SendConnection::attach(Socket control) { static_cast<RelayedSendPath&>(*send_path_).attach(std::move(control)); }

Result<Request*> SendConnection::post(const SendArguments& send) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return nullptr;
  }
  const ClearToSend* slot = ready_slot(send.tag);
  if (slot == nullptr) {
    // This poll may yield: completions free requests, and simulated time passes until the peer's clear-to-send arrives.
    if (!impaired()) poll();
    slot = ready_slot(send.tag);
    if (slot == nullptr) {
      refused_ = {.tag = send.tag, .size_bytes = send.size_bytes};
      return not_now();
    }
  }
  if (const char* problem = problem_with(send)) {
    if (problem == kUnregistered && recovery_.goes_back_for(send)) return not_now();
    return refuse(send, problem);
  }
  const GroupSlot place = place_of(*slot);
  if (send.size_bytes > slot->capacity_bytes) return refuse_oversized(send, place);
  if (!send_path_->has_room(send.size_bytes)) {
    poll();
    return not_now();
  }
  // There is a receive, a free request and room in the send queue: the message can be sent.

  Request& request = take_request();
  request.sizes[0] = static_cast<std::uint32_t>(send.size_bytes);
  request.work_requests = 0;
  request.group = place.group;
  request.part = static_cast<std::uint8_t>(place.part);
  request.data = send.data;
  if (send.memory != nullptr) {
    send.memory->hold();
    request.memory = send.memory;
  }
  // Recorded even if this send path does not need it: the next one may.
  size_records(place.group)[place.part] = request.sizes[0];
  begin_event(request, send.event, {.index = 0, .size_bytes = send.size_bytes, .tag = send.tag});
  if (!send_path_->carry(send, place, request)) return not_now();
  end_silence();
  refused_.reset();
  finish_part(place.part);
  return &request;
}

const ClearToSend* SendConnection::ready_slot(int tag) {
  return impaired() || recovery_.holds_back() || pool_.empty() ? nullptr : find_slot(tag);
}

std::uint32_t SendConnection::parts_arrived(std::uint64_t group) {
  ClearToSend* first = first_slot(group);
  if (!has_arrived(first[0], group)) return 0;
  const std::uint32_t count = first[0].count;
  if (count < 1 || count > kMaxGroup) {
    fail({.code = ErrorCode::kRemote,
          .scope = Scope::kQueuePair,
          .text = ends_text() + ": the peer announced a receive of " + std::to_string(count) + " parts",
          .os_errno = 0});
    return 0;
  }
  for (std::uint32_t part = 1; part < count; ++part) {
    if (!has_arrived(first[part], group + part)) return 0;
  }
  return count;
}

bool SendConnection::see_group() {
  const std::uint32_t parts = parts_arrived(group_);
  if (parts == 0) return false;
  group_parts_ = parts;
  group_seen_ = true;
  return !recovery_.lacks_what_is_known() || recovery_.carry_what_is_known(group_, parts);
}

const ClearToSend* SendConnection::find_slot(int tag) {
  if (!group_seen_ && !see_group()) return nullptr;
  const ClearToSend* first = first_slot(group_);
  for (std::uint32_t part = 0; part < group_parts_; ++part) {
    if ((matched_ >> part & 1U) == 0 && first[part].tag == tag) return &first[part];
  }
  return nullptr;
}

const char* SendConnection::problem_with(const SendArguments& send) {
  if (send.size_bytes > kMaxMessageBytes) return "is longer than 1 GiB, the largest message";
  if (send.size_bytes > 0) {
    if (send.memory == nullptr) return "has no registered memory";
    if (send.memory->device() != &home()) return "has memory that is registered on another device";
    if (!send.memory->covers(send.data, send.size_bytes)) return "leaves its registered memory";
    if (send.memory->on(device()) == nullptr) return kUnregistered;
  }
  return send_path_->size_problem(send.size_bytes);
}

Error SendConnection::refuse(const SendArguments& send, const char* problem) {
  Error error{.code = ErrorCode::kInvalidArgument,
              .scope = Scope::kRequest,
              .text = ends_text() + ": a send of " + counted(send.size_bytes, "byte") + " " + problem,
              .os_errno = 0};
  if (problem == kUnregistered) {  // not the caller's fault
    error.code = ErrorCode::kSystem;
    error.text += ", and no other way is there: " + send.memory->problem_on(device());
  }
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

Result<Request*> SendConnection::refuse_oversized(const SendArguments& send, const GroupSlot& place) {
  std::string text = ends_text() + ": a send of " + counted(send.size_bytes, "byte") + " meets a receive of " +
                     counted(place.entry->capacity_bytes, "byte") + " (tag " + std::to_string(send.tag) +
                     "): nothing is cut off, the connection ends here";
  // The peer must not wait for ever: its receive fails when this arrives, so the queue pair stays up until close().
  if (!send_path_->carry_refusal(place)) return not_now();
  return keep_failure(
      {.code = ErrorCode::kInvalidArgument, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = 0});
}

GroupSlot SendConnection::place_of(const ClearToSend& slot) {
  return {.group = group_,
          .part = static_cast<std::uint32_t>(&slot - first_slot(group_)),
          .parts = group_parts_,
          .last = matched_parts_ + 1 == group_parts_,
          .entry = &slot};
}

void SendConnection::finish_part(std::uint32_t part) {
  matched_ |= 1U << part;
  if (++matched_parts_ < group_parts_) return;
  group_ += group_parts_;
  group_parts_ = 0;
  matched_ = matched_parts_ = 0;
  group_seen_ = false;
}

}  // namespace meshbed::net
