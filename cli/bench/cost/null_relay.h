#pragma once
// Null relay: a circuit through the service of the real plugin file, over the null wire. The plugin in this process is
// the relay and the receiver; the sender is its code linked into this program, which gets the chain of relays
// instead of discovering it. The next messages begin when the previous ones are confirmed. The service sleeps before
// each of its steps (the clear-to-sends, the pieces, the confirmations) and is woken once for each, because this thread
// keeps the wire silent until all data has arrived. So the cost of a message does not depend on the relative speed of
// threads.

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
  /// Throws std::runtime_error if the circuit cannot be set up.
  NullRelay(const std::string& plugin, std::size_t message_bytes);
  ~NullRelay();
  NullRelay(const NullRelay&) = delete;
  NullRelay& operator=(const NullRelay&) = delete;

  /// One message from end to end, its bytes compared. Throws std::runtime_error if a call fails.
  void message(std::uint64_t number);
  /// That many messages at once, at most kBurstMost; only the number of their bytes is checked.
  void burst(std::size_t messages);
  /// The capacity of a relay's window: 16 pieces of 64 KiB.
  static constexpr std::size_t kBurstMost = 8;
  /// CPU time of the service's thread so far.
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

/// The function at which callgrind starts to count for a relay: libstdc++'s function that runs the service's thread.
/// The compiler may split a function of ours (`run() [clone .cold]`), and a jump between the parts would end the count.
inline constexpr const char* kServiceThread = "execute_native_thread_routine";

}  // namespace meshbed::cost
