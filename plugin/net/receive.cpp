#include "plugin/net/receive.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "plugin/base/log.h"
#include "plugin/net/memory.h"
#include "plugin/net/sessions.h"

namespace meshbed::net {
namespace {

/// Clear-to-send writes are signalled this often: seldom enough to be free, often enough to drain the send queue.
constexpr std::uint64_t kSignalEvery = 32;
constexpr std::uint32_t kSendDepth = kRingEntries + 2 * kSignalEvery;
constexpr std::uint32_t kInlineBytes = 2 * sizeof(ClearToSend);

}  // namespace

ReceiveConnection::ReceiveConnection(std::unique_ptr<Leg> leg, const ConnectionSettings& settings)
    : Connection(kKind, std::move(leg), settings) {}

ReceiveConnection::~ReceiveConnection() {
  if (sessions_ != nullptr) sessions_->remove(session_);
  release_parts(0, kRingSlots);
}

LegShape ReceiveConnection::shape_on(const verbs::Device& device) {
  const auto limit = static_cast<std::uint32_t>(device.attributes().max_qp_wr);
  return {.depths = {.sends = std::min(kSendDepth, limit),
                     .receives = std::min(kRingEntries, limit),
                     .inline_bytes = kInlineBytes},
          .memory_bytes = kRingBytes};
}

Result<std::unique_ptr<ReceiveConnection>> ReceiveConnection::create(LocalEnd local,
                                                                     const ConnectionSettings& settings) {
  const LegShape shape = shape_on(*local.device);
  auto leg = Leg::open(std::move(local), settings.leg, shape);
  if (!leg) return leg.error();
  std::unique_ptr<ReceiveConnection> receive(new ReceiveConnection(std::move(*leg), settings));
  receive->depth_ = shape.depths.sends;
  return receive;
}

Result<Request*> ReceiveConnection::post(std::span<const ReceivePart> parts) {
  const Turn turn(*this);
  if (!turn) {
    Turn::pass();
    return nullptr;
  }
  if (!impaired() && !has_room(parts.size())) poll();
  if (impaired()) {
    if (auto attended = attend(); !attended) return attended.error();
    return nullptr;
  }
  if (auto fine = check_arguments(parts); !fine) return fine.error();
  if (!has_room(parts.size())) return nullptr;
  // A free request, room in the ring and in both queues: from here on the receive happens.

  Request& request = take_request();
  request.parts = static_cast<std::uint8_t>(parts.size());
  request.group = next_entry_;
  if (!await(request)) return failure();
  const std::uint32_t slot = slot_of(next_entry_);
  stage(parts, slot);
  if (!announce(slot, parts.size())) return failure();
  next_entry_ += parts.size();
  return &request;
}

bool ReceiveConnection::has_room(std::size_t parts) const {
  return !pool_.empty() && next_entry_ - oldest_entry_ + parts <= kRingEntries && announced_ - announced_done_ < depth_;
}

Result<void> ReceiveConnection::check_arguments(std::span<const ReceivePart> parts) {
  const char* problem = parts.empty() || parts.size() > kMaxGroup ? "has a part count beyond 1..8" : nullptr;
  for (const ReceivePart& part : parts) {
    if (part.size_bytes == 0) continue;
    if (part.memory == nullptr) {
      problem = "has no registered memory";
    } else if (part.memory->device() != &home()) {
      problem = "has memory that is registered on another device";
    } else if (!part.memory->covers(part.data, part.size_bytes)) {
      problem = "leaves its registered memory";
    } else if (part.memory->on(device()) == nullptr) {
      problem = "cannot be registered on the device that the connection goes on over";
    }
  }
  if (problem == nullptr) return ok();
  Error error{.code = ErrorCode::kInvalidArgument,
              .scope = Scope::kRequest,
              .text = ends_text() + ": a receive of " + std::to_string(parts.size()) + " parts " + problem,
              .os_errno = 0};
  MESHBED_WARN("%s", error.text.c_str());
  return error;
}

void ReceiveConnection::stage(std::span<const ReceivePart> parts, std::uint32_t slot) {
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const ReceivePart& part = parts[index];
    ClearToSend& entry = ring().as<ClearToSend>()[slot + index];
    entry.address = reinterpret_cast<std::uintptr_t>(part.data);
    entry.rkey = part.memory != nullptr ? part.memory->on(device())->rkey() : 0;
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

bool ReceiveConnection::announce(std::uint32_t slot, std::size_t parts) {
  const auto bytes = static_cast<std::uint32_t>(parts * sizeof(ClearToSend));
  const std::uint64_t offset = slot * sizeof(ClearToSend);
  ibv_sge entries{.addr = ring().address() + offset, .length = bytes, .lkey = ring().lkey()};
  ibv_send_wr work{};
  ++announced_;
  work.wr_id = RequestPool::kControlBit | announced_;
  work.sg_list = &entries;
  work.num_sge = 1;
  // A relay sleeps until its completion queue wakes it.
  work.opcode = peer().wants_notice ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  work.send_flags = flag_if(announced_ % kSignalEvery == 0, IBV_SEND_SIGNALED) |
                    flag_if(bytes <= pair().inline_bytes(), IBV_SEND_INLINE);
  work.wr.rdma.remote_addr = peer().memory_address + offset;
  work.wr.rdma.rkey = peer().memory_rkey;
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
  if (!take_sizes(*request, ntohl(completion.imm_data))) return;
  release_parts(slot_of(request->group), request->parts);
  oldest_entry_ += request->parts;
  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < request->parts; ++part) bytes += request->sizes[part];
  finish(*request, bytes);
}

bool ReceiveConnection::take_sizes(Request& request, std::uint32_t immediate) {
  if (immediate == kRefusedSize) {
    fail({.code = ErrorCode::kRemote,
          .scope = Scope::kQueuePair,
          .text = ends_text() + ": the peer's message is longer than this receive; the connection ends here",
          .os_errno = 0});
    return false;
  }
  const ClearToSend* entries = ring().as<ClearToSend>() + slot_of(request.group);
  const std::uint32_t* records = ring().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t) + slot_of(request.group);
  for (std::size_t part = 0; part < request.parts; ++part) {
    request.sizes[part] = request.parts == 1 ? immediate : records[part];
    if (request.sizes[part] > entries[part].capacity_bytes) {
      fail({.code = ErrorCode::kRemote,
            .scope = Scope::kQueuePair,
            .text = ends_text() + ": the peer reports " + std::to_string(request.sizes[part]) +
                    " bytes in a receive of " + std::to_string(entries[part].capacity_bytes),
            .os_errno = 0});
      return false;
    }
  }
  return true;
}

void ReceiveConnection::release_parts(std::uint32_t slot, std::size_t parts) {
  for (std::size_t index = slot; index < slot + parts; ++index) {
    if (memories_[index] != nullptr) std::exchange(memories_[index], nullptr)->drop();
  }
}

}  // namespace meshbed::net
