#pragma once
// Meeting: how two processes of a host set up a link. Service thread only; nothing here waits.
//
//   receiver  listens at an abstract Unix address; the handle contains it, the host's boot id and a random number
//   sender    connects, sends that number, its ring, its bell, and the number's address in its memory
//   receiver  reads the number there, as it will read every message, and sends its bell, or the kernel's refusal

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/local/link.h"

namespace meshbed::local {

/// What the receiver's listen() writes and the sender's connect() reads: 128 bytes, the rest zeros.
struct Handle {
  std::uint64_t magic = 0;
  std::uint64_t secret = 0;
  std::uint64_t attempt = 0;  // the connecting side's own: which of its attempts this is; 0: none yet
  char boot_id[40] = {};
  char address[24] = {};
  std::uint64_t address_bytes = 0;
};
static_assert(sizeof(Handle) <= nccl::kHandleBytes);

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> open(std::shared_ptr<PollBackoff> poll_backoff, Handle* handle);
  /// nullptr: no sender yet.
  Result<std::unique_ptr<LocalLink>> accept();

 private:
  Listener(UnixSocket socket, std::uint64_t secret, std::shared_ptr<PollBackoff> poll_backoff)
      : socket_(std::move(socket)), secret_(secret), poll_backoff_(std::move(poll_backoff)) {}
  Result<std::unique_ptr<LocalLink>> answer(UnixSocket guest, Letter letter, std::span<const char> text);

  UnixSocket socket_;
  std::uint64_t secret_;
  std::shared_ptr<PollBackoff> poll_backoff_;
  std::vector<UnixSocket> guests_;  // clients that have not introduced themselves, the oldest first
};

/// One communicator's attempts to connect.
class Connecting {
 public:
  explicit Connecting(std::shared_ptr<PollBackoff> poll_backoff) : poll_backoff_(std::move(poll_backoff)) {}
  /// Begins or goes on with the attempt that `handle` is about. nullptr: not yet.
  Result<std::unique_ptr<LocalLink>> go_on(Handle& handle);
  const std::shared_ptr<PollBackoff>& poll_backoff() const { return poll_backoff_; }

 private:
  struct Attempt {
    UnixSocket socket;
    SharedMemory ring;
    std::uint64_t secret;  // the receiver reads it here
  };
  Result<void> begin(Handle& handle);

  std::shared_ptr<PollBackoff> poll_backoff_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::unique_ptr<Attempt>> attempts_;
  std::uint64_t last_attempt_ = 0;
};

}  // namespace meshbed::local
