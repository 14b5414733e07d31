#include "plugin/local/link.h"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "plugin/local/refusal.h"

namespace meshbed::local {
namespace {

// What became of a message; an errno of process_vm_readv() is positive.
constexpr int kTaken = 0, kTooLong = -1, kOtherTag = -2;

// A look at the peer's socket is a system call: so many tests in vain go by without one.
constexpr std::uint32_t kVainTestsPerLook = 64;

}  // namespace

struct Slot {
  std::uint64_t address = 0, size_bytes = 0;
  std::int32_t tag = 0, outcome = kTaken;
};

struct Ring {
  alignas(64) std::atomic<std::uint64_t> posted;
  std::atomic<std::uint32_t> sender_closed;
  alignas(64) std::atomic<std::uint64_t> taken;
  std::atomic<std::uint32_t> receiver_closed;
  alignas(64) std::array<Slot, nccl::kMaxRequests> slots;
};

Result<SharedMemory> create_ring() { return create_shared(sizeof(Ring)); }
Result<SharedMemory> map_ring(Descriptor descriptor) { return map_shared(std::move(descriptor), sizeof(Ring)); }

LocalLink::LocalLink(Side side, SharedMemory ring, Peer peer, std::shared_ptr<PollBackoff> poll_backoff)
    : side_(side),
      memory_(std::move(ring)),
      ring_(*static_cast<Ring*>(memory_.begin.get())),
      peer_(std::move(peer)),
      poll_backoff_(std::move(poll_backoff)) {}

LocalLink::~LocalLink() {
  (side_ == Side::kSends ? ring_.sender_closed : ring_.receiver_closed).store(1);
  for (const Request& request : requests_) {
    if (request.under_way) poll_backoff_->request_ends();
  }
  peer_.doorbell.ring();
}

Result<Request*> LocalLink::post(void* data, std::size_t size_bytes, int tag) {
  if (side_ == Side::kSends && size_bytes > kMessageBytesMax) {
    return refuse(ErrorCode::kInvalidArgument, "a message of " + std::to_string(size_bytes) + " bytes: at most " +
                                                   std::to_string(kMessageBytesMax) + " go at once");
  }
  Request& request = request_of(posted_);
  if (request.under_way) return nullptr;
  request = {.link = this,
             .number = posted_++,
             .data = static_cast<char*>(data),
             .size_bytes = size_bytes,
             .tag = tag,
             .under_way = true};
  poll_backoff_->request_begins();
  if (side_ == Side::kSends) {
    ring_.slots[request.number % ring_.slots.size()] = {
        .address = reinterpret_cast<std::uint64_t>(data), .size_bytes = size_bytes, .tag = tag, .outcome = kTaken};
    ring_.posted.store(posted_, std::memory_order_release);
    peer_.doorbell.ring();
  }
  return &request;
}

bool LocalLink::settled(const Request& request) const {
  return ring_.taken.load(std::memory_order_acquire) > request.number;
}

Result<std::optional<std::size_t>> LocalLink::test(Request& request) {
  if (side_ == Side::kReceives) {
    while (!settled(request) && ring_.posted.load(std::memory_order_acquire) > ring_.taken.load()) take();
  }
  if (!settled(request)) {
    if (++vain_ % kVainTestsPerLook == 0 && peer_.socket.is_gone()) {
      // What it did before its end counts.
      const bool did = side_ == Side::kSends ? settled(request) : ring_.posted.load() > ring_.taken.load();
      if (!did) return peer_is_gone();
    }
    poll_backoff_->test_was_in_vain();
    return std::optional<std::size_t>();
  }
  const Slot& slot = ring_.slots[request.number % ring_.slots.size()];
  if (slot.outcome != kTaken) return failure(request);
  request.under_way = false;
  poll_backoff_->request_ends();
  return std::optional<std::size_t>(slot.size_bytes);
}

void LocalLink::take() {
  const std::uint64_t number = ring_.taken.load();
  Slot& slot = ring_.slots[number % ring_.slots.size()];
  const Request& request = request_of(number);
  slot.outcome = slot.tag != request.tag                ? kOtherTag
                 : slot.size_bytes > request.size_bytes ? kTooLong
                                                        : read(request, slot.address, slot.size_bytes);
  ring_.taken.store(number + 1, std::memory_order_release);
  peer_.doorbell.ring();
}

int LocalLink::read(const Request& request, std::uint64_t address, std::size_t size_bytes) const {
  for (std::size_t done = 0; done < size_bytes;) {
    const iovec to{request.data + done, size_bytes - done};
    const iovec from{reinterpret_cast<void*>(address + done), size_bytes - done};
    const ssize_t count = process_vm_readv(peer_.process, &to, 1, &from, 1, 0);
    if (count <= 0) return count < 0 ? errno : EFAULT;
    done += static_cast<std::size_t>(count);
  }
  // Its number may be another process's once it has ended, and by then its socket has.
  return peer_.socket.is_gone() ? ESRCH : kTaken;
}

Error LocalLink::failure(const Request& request) const {
  const Slot& slot = ring_.slots[request.number % ring_.slots.size()];
  const std::string message = "message " + std::to_string(request.number) + " of " + std::to_string(slot.size_bytes) +
                              " bytes with tag " + std::to_string(slot.tag) + ", " + who() + ": ";
  if (slot.outcome == ESRCH) return peer_is_gone();
  if (slot.outcome == kTooLong) {
    return refuse(ErrorCode::kInvalidArgument, message + "longer than what it was to be received in");
  }
  if (slot.outcome == kOtherTag) {
    return refuse(ErrorCode::kInvalidArgument, message + "a receive with another tag is before it");
  }
  return refuse(ErrorCode::kSystem, message + "its receiver cannot read it: " + text_of_errno(slot.outcome));
}

Error LocalLink::peer_is_gone() const {
  const bool closed = (side_ == Side::kSends ? ring_.receiver_closed : ring_.sender_closed).load() != 0;
  return refuse(ErrorCode::kRemote,
                who() + (closed ? " has closed this connection" : " is gone: it ended or was killed"));
}

std::string LocalLink::who() const {
  return (side_ == Side::kSends ? "the receiver, process " : "the sender, process ") + std::to_string(peer_.process);
}

}  // namespace meshbed::local
