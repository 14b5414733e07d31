#pragma once
// Null relay: a circuit through the service of the real plugin file, over the null wire. The plugin in this process is
// the relay and the receiver; the sender is its code linked into this program, which is told of the chain instead of
// looking for it. The next messages begin when the ones before are confirmed: the service sleeps before each of its
// steps (the clear-to-sends, the pieces, the confirmations), and is woken once for each, as this thread keeps the wire
// silent until all is there. So what a message costs does not hang on which thread was faster.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/cost/null_plugin.h"
#include "plugin/net/rdma/send.h"
#include "plugin/net/transport.h"

namespace meshbed::cost {

class NullRelay {
 public:
  /// Throws std::runtime_error where the circuit does not come to stand.
  NullRelay(const std::string& plugin, std::size_t message_bytes);
  ~NullRelay();
  NullRelay(const NullRelay&) = delete;
  NullRelay& operator=(const NullRelay&) = delete;

  /// One message from end to end, its bytes compared. Throws std::runtime_error where a call fails.
  void message(std::uint64_t number);
  /// So many messages at once, kBurstMost at most; of their bytes only the number is looked at.
  void burst(std::size_t messages);
  /// What a relay's window takes at once: 16 pieces of 64 KiB.
  static constexpr std::size_t kBurstMost = 8;
  /// Of the service's thread, so far.
  std::int64_t service_cpu_ns() const;

 private:
  void connect();
  std::uint16_t ask_service_port(const net::Handle& receiver);

  NullPlugin plugin_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<net::SendConnection> sender_;
  net::Memory* source_memory_ = nullptr;
  void *listen_ = nullptr, *receive_ = nullptr, *target_handle_ = nullptr;
  std::vector<unsigned char> source_, target_;
  std::string service_times_;
};

/// What callgrind counts for a relay: what runs in the thread of a plugin's service, from libstdc++'s function on. The
/// compiler may split a function of ours (`run() [clone .cold]`), and a jump between the parts would end the count.
inline constexpr const char* kServiceThread = "execute_native_thread_routine";

}  // namespace meshbed::cost
