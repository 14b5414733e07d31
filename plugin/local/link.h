#pragma once
// LocalLink: one direction between two processes of a host. Messages match in order; nothing is copied but once.
//
// The sender writes the message's address into a ring in shared memory. The receiver copies the message from the
// sender's memory into its own (process_vm_readv(2)) when it tests the receive: so the bytes are in the caches of the
// processor that needs them next. Then it counts the message as taken, and the sender's request is done.
//
//   Ring, on its own pages:   posted  slot[posted % 32] is written before   sender only
//                             taken   its outcome is written before         receiver only
//                             closed  by each end, in order
//
// It has no thread: work happens only during calls. The end of its socket shows that a peer is gone.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/local/poll_backoff.h"
#include "plugin/local/unix_socket.h"
#include "plugin/nccl/net_abi.h"

namespace meshbed::local {

/// Most bytes of one message: test() returns the size as an int.
inline constexpr std::size_t kMessageBytesMax = std::size_t{1} << 30U;

struct Ring;
/// For the side that makes a link, the sender.
Result<SharedMemory> create_ring();
Result<SharedMemory> map_ring(Descriptor descriptor);

/// One end's view of its peer.
struct Peer {
  UnixSocket socket;  // for its end alone
  int process = 0;
  Doorbell doorbell;
};

class LocalLink;

struct Request {
  LocalLink* link = nullptr;
  std::uint64_t number = 0;  // of the link's, from 0
  char* data = nullptr;
  std::size_t size_bytes = 0;
  int tag = 0;
  bool under_way = false;
};

class LocalLink {
 public:
  enum class Side : std::uint8_t { kSends, kReceives };
  LocalLink(Side side, SharedMemory ring, Peer peer, std::shared_ptr<PollBackoff> poll_backoff);
  /// With requests under way or not; the peer's next test of one fails.
  ~LocalLink();
  LocalLink(const LocalLink&) = delete;
  LocalLink& operator=(const LocalLink&) = delete;

  Side side() const { return side_; }
  /// nullptr: 32 are under way.
  Result<Request*> post(void* data, std::size_t size_bytes, int tag);
  /// The message's size if it is done, which ends the request. nullopt: not yet; after several such results a call
  /// takes up to a millisecond. kRemote: the peer has closed, or its process is gone.
  Result<std::optional<std::size_t>> test(Request& request);

 private:
  Request& request_of(std::uint64_t number) { return requests_[number % requests_.size()]; }
  bool settled(const Request& request) const;
  /// Reads the next message out of the peer's memory.
  void take();
  int read(const Request& request, std::uint64_t address, std::size_t size_bytes) const;
  Error failure(const Request& request) const;
  Error peer_is_gone() const;
  std::string who() const;

  const Side side_;
  const SharedMemory memory_;
  Ring& ring_;
  const Peer peer_;
  const std::shared_ptr<PollBackoff> poll_backoff_;
  std::array<Request, nccl::kMaxRequests> requests_;
  std::uint64_t posted_ = 0;
  std::uint32_t vain_ = 0;
};

}  // namespace meshbed::local
