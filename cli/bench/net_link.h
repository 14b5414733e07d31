#pragma once
// NetLink: a net plugin's table from one rank to another, and what a message costs on it. Rank 1 sends, rank 0
// receives.
//
// Driven as NCCL's proxy drives it: up to kDepth sends under way, each tested until it is done. The receiver of a
// stream posts as many receives ahead as NCCL's table allows, for perftest's has its memory open from the start. Both
// ends spin, as perftest's do, but for the receiver of a stream: perftest has nobody there, and this one rests when
// nothing has come for a while.

#include <cstdint>
#include <memory>
#include <vector>

#include "plugin/coll/transport/transport.h"
#include "plugin/nccl/net_abi.h"
#include "testbed/world/metal_host.h"

namespace meshbed::testbed {

class NetLink {
 public:
  static constexpr std::uint64_t kDepth = 8;  // NCCL_STEPS
  static constexpr std::uint64_t kReceivesAhead = nccl::kMaxRequests;

  /// Connects over device 0 of both ranks and registers a buffer of `largest_bytes` at each; both ranks call it.
  static Result<std::unique_ptr<NetLink>> open(MetalHost& host, const std::string& plugin, std::uint64_t largest_bytes);
  ~NetLink();
  NetLink(const NetLink&) = delete;
  NetLink& operator=(const NetLink&) = delete;

  /// The verbs device that this rank uses.
  const std::string& device() const { return transport_->devices().front().name; }

  /// `count` messages of that size; at rank 1 the bytes per second, from the first send that is taken to the last
  /// completion.
  Result<double> stream(std::uint64_t size_bytes, std::uint64_t count);
  /// `count` messages, one at a time; at rank 0 how long each took, in ns, from the posting of its receive to its being
  /// there: a clear-to-send one way and the data the other way.
  Result<std::vector<std::int64_t>> one_by_one(std::uint64_t size_bytes, std::uint64_t count);

 private:
  NetLink(MetalHost& host, std::unique_ptr<coll::Transport> transport, std::uint64_t largest_bytes);
  bool sends() const { return host_.rank() == 1; }
  Result<void> connect();
  struct Transfer {
    std::uint64_t size_bytes = 0, count = 0, depth = kDepth;
    bool rests = false;
    std::vector<std::int64_t>* times_ns = nullptr;  // of each message; nullptr: not wanted
  };
  Result<void> transfer(const Transfer& wanted);
  Result<bool> post(std::uint64_t size_bytes, void** request);
  /// One look at the oldest request.
  Result<bool> finished(void* request, std::uint64_t size_bytes);
  Result<void> checked(int code, std::uint64_t warns_before) const;

  MetalHost& host_;
  std::unique_ptr<coll::Transport> transport_;
  std::vector<unsigned char> buffer_;
  Picoseconds first_posted_ps_ = 0;  // of the latest transfer; the try that was taken
  void* listen_ = nullptr;
  void* comm_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace meshbed::testbed
