#pragma once
// DescriptorQueue: the queue between a rank's lanes and its proxy if each PUT and SIGNAL is passed as a descriptor in
// shared memory: the encodings and the queue of plugin/ring/queue, in the three common schemes.
//
//   gin    NCCL's GIN proxy: a queue for each peer; an entry is freed when its descriptor and all before it are
//          complete
//   fifo   MSCCL++'s port channel: one queue for all peers; an entry is freed when its trigger is posted
//   ibgda  a queue pair's own send queue, which lanes write for the NIC: one for each connection; freed as of gin
//
// The proxy sees a lane's writes later (Megakernel::doorbell_ps), in the order in which they were written; the NIC sees
// those before a doorbell, later likewise.

#include <cstdint>
#include <memory>
#include <optional>

#include "plugin/ring/abi/abi.h"

namespace meshbed::testbed {

/// A PUT, a SIGNAL, or a PUT with its SIGNAL: NCCL's ops 9 and 17 (put, signal increment or add), MSCCL++'s
/// TriggerData | TriggerFlag.
struct RingDescriptor {
  bool is_put = true, is_signal = false;
  ring::Word connection = 0;
  ring::Word space = 0, offset = 0, bytes = 0;  // of a PUT
  ring::Word message = 0;                       // of the connection, counted on from epoch to epoch

  bool operator==(const RingDescriptor&) const = default;
};

class DescriptorQueue {
 public:
  struct Taken {
    std::uint64_t position = 0;
    RingDescriptor what;
  };
  virtual ~DescriptorQueue() = default;

  // The lanes'.
  virtual bool has_room() const = 0;
  /// There is room. Returns the position.
  virtual std::uint64_t push(const RingDescriptor& what) = 0;
  // As NCCL's GIN and MSCCL++ do: reserved by fetch-and-add, then waited for.
  virtual std::uint64_t reserve() = 0;
  virtual bool is_free(std::uint64_t position) const = 0;
  virtual void write(std::uint64_t position, const RingDescriptor& what) = 0;
  /// Places that were reserved and that the queue does not have.
  virtual std::uint64_t overcommitted() const = 0;
  /// The proxy sees that descriptor from now on; of ibgda the NIC sees all up to it.
  virtual void show(std::uint64_t position) = 0;
  /// Of ibgda: where what the NIC sees ends.
  virtual std::uint64_t shown_end() const = 0;

  // The proxy's.
  /// The next that is seen, in its order; nothing: there is none.
  virtual std::optional<Taken> take() = 0;
  virtual void posted(std::uint64_t position) = 0;
  virtual void completed(std::uint64_t position) = 0;
};

inline constexpr int kGinDepthDefault = 256;   // 32 times the 8 receives of NCCL's IB plugin
inline constexpr int kFifoDepthDefault = 512;  // MSCCL++

/// `depth`: a power of two.
std::unique_ptr<DescriptorQueue> make_gin_queue(std::uint32_t depth);
std::unique_ptr<DescriptorQueue> make_fifo_queue(std::uint32_t depth);
/// `depth`: at most ring::kWqeRingMost.
std::unique_ptr<DescriptorQueue> make_ibgda_queue(std::uint32_t depth);

}  // namespace meshbed::testbed
