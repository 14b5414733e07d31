#include "plugin/net/rdma/receive.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/link/sessions.h"
#include "plugin/net/process/memory.h"

namespace meshbed::net {
namespace {

constexpr std::uint32_t kReceiveSendDepth = kRingEntries + 2 * ReceiveConnection::kSignalEvery;
constexpr std::uint32_t kReceiveInlineBytes = 2 * sizeof(ClearToSend);
constexpr std::uint64_t kFirstEntryBytes = 4096;

}  // namespace

ReceiveConnection::ReceiveConnection(std::unique_ptr<QpLink> qp_link, const ConnectionSettings& settings)
    : Connection(kKind, std::move(qp_link), settings) {}

ReceiveConnection::~ReceiveConnection() {
  if (process_ != nullptr) process_->sessions().remove(session_, served());
  flushers_.clear();  // before the memory that they may be reading
  release_parts(0, kRingSlots);
}

void ReceiveConnection::keep_first_control(Socket socket) {
  in_turn([&] {
    if (!was_taken_up() && is_relayed()) control_ = std::move(socket);
  });
}

void ReceiveConnection::keep_control(Socket socket) {
  taken_up_.store(true, std::memory_order_relaxed);
  control_.close();
  if (is_relayed()) control_ = std::move(socket);
}

void ReceiveConnection::closing() {
  if (!control_.is_open()) return;
  // Messages that have arrived but were not polled do not count as served: no caller will learn of them.
  MessageWriter writer;
  writer.start({.type = WireType::kEnd, .cookie = session_, .end = {}, .reason = "", .route = {}, .pieces = served()});
  // If END cannot be written, the end of the control connection shows that we are gone.
  (void)writer.write(control_);
}

QpLinkShape ReceiveConnection::shape_on(const verbs::Device& device) {
  const auto limit = static_cast<std::uint32_t>(device.attributes().max_qp_wr);
  return {.depths = {.sends = std::min(kReceiveSendDepth, limit),
                     .receives = std::min(kRingEntries, limit),
                     .inline_bytes = kReceiveInlineBytes},
          .memory_bytes = kRingBytes,
          .may_be_striped = true};
}

Result<std::unique_ptr<ReceiveConnection>> ReceiveConnection::create(LocalEnd local,
                                                                     const ConnectionSettings& settings) {
  const QpLinkShape shape = shape_on(*local.device);
  auto qp_link = QpLink::open(std::move(local), settings.qp_link, shape);
  if (!qp_link) return qp_link.error();
  std::unique_ptr<ReceiveConnection> receive(new ReceiveConnection(std::move(*qp_link), settings));
  receive->depth_ = shape.depths.sends;
  return receive;
}

Result<Request*> ReceiveConnection::post(std::span<const ReceivePart> parts) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return nullptr;
  }
  bool room = has_room(parts.size());
  if (!room && !impaired()) {
    poll();
    room = has_room(parts.size());
  }
  if (impaired()) return not_now();
  if (const char* problem = problem_with(parts)) return refuse(parts, problem);
  if (!room) return nullptr;
  if (needs_flusher(parts)) {
    if (auto opened = open_flushers(); !opened) return fail(opened.error());
  }
  // There is a free request and room in the ring and in both queues: the receive can be posted.

  Request& request = take_request();
  request.parts = static_cast<std::uint8_t>(parts.size());
  request.group = next_entry_;
  if (!await(request)) return failure();
  const std::uint32_t slot = slot_of(next_entry_);
  stage(parts, slot);
  const bool has_keys = rails_ != 0 && stage_keys(parts, slot);
  // One write covers one contiguous part of the ring, and entries with keys are not mixed with entries without.
  if (holds_back() && (slot < slot_of(told_entry_) || has_keys != staged_keys_) && !announce_staged()) return failure();
  staged_keys_ = has_keys;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    begin_event(request, parts[part].event,
                {.index = part, .size_bytes = parts[part].size_bytes, .tag = parts[part].tag});
  }
  next_entry_ += parts.size();
  if (may_hold_back()) {
    hold_back();
  } else if (!announce_staged()) {
    return failure();
  }
  return &request;
}

bool ReceiveConnection::has_room(std::size_t parts) const {
  return !pool_.empty() && next_entry_ - oldest_entry_ + parts <= kRingEntries &&
         announced_ - announced_done_ + kWritesOfReceive <= depth_;
}

const char* ReceiveConnection::problem_with(std::span<const ReceivePart> parts) {
  if (parts.empty() || parts.size() > kMaxGroup) return "has a part count beyond 1..8";
  for (const ReceivePart& part : parts) {
    if (part.size_bytes == 0) continue;
    if (part.memory == nullptr) return "has no registered memory";
    if (part.memory->device() != &home()) return "has memory that is registered on another device";
    if (!part.memory->covers(part.data, part.size_bytes)) return "leaves its registered memory";
    if (part.memory->on(device()) == nullptr) {
      return "cannot be registered on the device that the connection goes on over";
    }
  }
  return nullptr;
}

Error ReceiveConnection::refuse(std::span<const ReceivePart> parts, const char* problem) {
  Error error{.code = ErrorCode::kInvalidArgument,
              .scope = Scope::kRequest,
              .text = ends_text() + ": a receive of " + std::to_string(parts.size()) + " parts " + problem,
              .os_errno = 0};
  for (const ReceivePart& part : parts) {
    if (part.memory == nullptr || part.memory->device() != &home() || part.memory->on(device()) != nullptr) continue;
    error.code = ErrorCode::kSystem;  // not the caller's fault
    error.text += ": " + part.memory->problem_on(device());
  }
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

void ReceiveConnection::stage(std::span<const ReceivePart> parts, std::uint32_t slot) {
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const ReceivePart& part = parts[index];
    ClearToSend& entry = ring().as<ClearToSend>()[slot + index];
    entry.address = reinterpret_cast<std::uintptr_t>(part.data);
    entry.rkey = part.memory != nullptr && part.size_bytes > 0 ? part.memory->on(device())->rkey() : 0;
    entry.capacity_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(part.size_bytes, kMaxMessageBytes));
    entry.tag = part.tag;
    entry.count = static_cast<std::uint16_t>(parts.size());
    entry.position = static_cast<std::uint16_t>(index);
    entry.sequence = sequence_of(next_entry_ + index);
    if (part.memory != nullptr) {
      part.memory->hold();
      memories_[slot + index] = part.memory;
    }
  }
}

/// Writes the staged bytes of our ring to the same offset in the sender's.
bool ReceiveConnection::write_to_sender(std::uint64_t offset, std::size_t size_bytes) {
  const auto bytes = static_cast<std::uint32_t>(size_bytes);
  ibv_sge staged{.addr = ring().address() + offset, .length = bytes, .lkey = ring().lkey()};
  ++announced_;
  ibv_send_wr work =
      verbs::write_request({.id = RequestPool::kControlBit | announced_,
                            // A relay sleeps until its completion queue wakes it.
                            .opcode = peer().wants_notice ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                            .flags = flag_if(announced_ % kSignalEvery == 0, IBV_SEND_SIGNALED) |
                                     flag_if(bytes <= pair().inline_bytes(), IBV_SEND_INLINE),
                            .piece = &staged,
                            .remote_address = peer().memory_address + offset,
                            .rkey = peer().memory_rkey});
  return post_send(work);
}

/// Posts the receive for the immediate value that will end the request.
bool ReceiveConnection::await(const Request& request) {
  ibv_recv_wr work{};
  work.wr_id = request.work_id();
  if (!post_receive(work)) return false;
  ++awaited_;
  return true;
}

void ReceiveConnection::completed(const ibv_wc& completion) {
  if ((completion.wr_id & RequestPool::kControlBit) != 0) {
    announced_done_ = completion.wr_id & ~RequestPool::kControlBit;
    return;
  }
  --awaited_;
  Request* request = pool_.find(completion.wr_id);
  if (request == nullptr) return;  // it ended with the connection
  if (request->group >= told_entry_) {
    disbelieve("the peer ended a receive that was not announced to it");
    return;
  }
  RailsOfParts rails{};
  if (!take_sizes(*request, ntohl(completion.imm_data), rails)) return;
  if (ledger_ == nullptr) {
    complete(*request);
    return;
  }
  ledger_->add(*request, rails);
  complete_what_is_there();
}

void ReceiveConnection::complete(Request& request) {
  const std::size_t parts = request.parts;
  release_parts(slot_of(request.group), parts);
  oldest_entry_ += parts;
  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < parts; ++part) bytes += request.sizes[part];
  entry_bytes_ = std::min<std::uint64_t>(request.sizes[0], 2 * entry_bytes_ + kFirstEntryBytes);
  finish(request, bytes);
}

bool ReceiveConnection::take_sizes(Request& request, std::uint32_t immediate, RailsOfParts& rails) {
  if (immediate == kRefusedSize) {
    return disbelieve("the peer's message is longer than this receive; the connection ends here");
  }
  const ClearToSend* entries = ring().as<ClearToSend>() + slot_of(request.group);
  const std::uint32_t* records = ring().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t) + slot_of(request.group);
  const std::size_t parts = request.parts;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::uint32_t record = parts == 1 ? immediate : records[part];
    const bool striped = (record & kStripedSize) != 0;
    request.sizes[part] = record & ~kStripedSize;
    if (striped) rails[part] = rails_of(request, part);
    if (request.sizes[part] > entries[part].capacity_bytes) {
      return disbelieve(request.sizes[part], entries[part].capacity_bytes);
    }
    if (striped && rails[part] == 0) {
      return disbelieve("the peer striped a message over rails that this receive does not have");
    }
  }
  return true;
}

bool ReceiveConnection::disbelieve(const char* problem) {
  fail({.code = ErrorCode::kRemote, .scope = Scope::kQueuePair, .text = ends_text() + ": " + problem, .os_errno = 0});
  return false;
}

bool ReceiveConnection::disbelieve(std::uint32_t size_bytes, std::uint32_t capacity_bytes) {
  const std::string problem =
      "the peer reports " + counted(size_bytes, "byte") + " in a receive of " + std::to_string(capacity_bytes);
  return disbelieve(problem.c_str());
}

void ReceiveConnection::release_parts(std::uint32_t slot, std::size_t parts) {
  for (std::size_t index = slot; index < slot + parts; ++index) {
    if (memories_[index] != nullptr) std::exchange(memories_[index], nullptr)->drop();
  }
}

}  // namespace meshbed::net
