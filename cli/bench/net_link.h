#pragma once
// NetLink: a connection over a net plugin's table, and the cost of a message on it. Rank 1 sends, rank 0 receives.
//
// It makes the calls of NCCL's proxy: up to kDepth sends under way, each tested until it is done. The receiver of a
// stream posts as many receives ahead as NCCL's table allows, because perftest's memory is open from the start. Both
// ends spin, as perftest's do, except the receiver of a stream: perftest runs no process there, and this one rests
// when nothing has arrived for a while.

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

  /// `count` messages of that size; at rank 1 the bytes per second, from the first accepted send to the last
  /// completion.
  Result<double> stream(std::uint64_t size_bytes, std::uint64_t count);
  /// `count` messages, one at a time; at rank 0 the time of each, in ns, from the posting of its receive to its
  /// arrival: a clear-to-send one way and the data the other way.
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
  /// Tests the oldest request once.
  Result<bool> finished(void* request, std::uint64_t size_bytes);
  Result<void> checked(int code, std::uint64_t warns_before) const;

  MetalHost& host_;
  std::unique_ptr<coll::Transport> transport_;
  std::vector<unsigned char> buffer_;
  Picoseconds first_posted_ps_ = 0;  // of the latest transfer; the accepted attempt
  void* listen_ = nullptr;
  void* comm_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace meshbed::testbed
