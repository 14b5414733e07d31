#pragma once
// A circuit through this node: pieces from entry to exit, clear-to-sends and credits from exit to entry. Belongs to the
// relay service's thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/base/log.h"
#include "plugin/net/process/state.h"
#include "plugin/net/relay/relay_entry.h"
#include "plugin/net/relay/relay_exit.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class Circuit {
 public:
  struct Parts {
    std::uint64_t number = 0;
    std::string name;  // for the log: both neighbours
    std::unique_ptr<RelayEntry> entry;
    std::unique_ptr<RelayExit> exit;
    Socket upstream;    // control connection to the previous node
    Socket downstream;  // to the next node: a relay, or the receiver, which sends only END
    bool to_receiver = false;
  };
  explicit Circuit(Parts parts);
  ~Circuit();

  /// There may be work.
  bool has_news() const { return !over_ && (stirred_ || parts_.entry->has_news() || parts_.exit->has_news()); }
  /// Moves pieces and clear-to-sends as far as possible; returns true if something moved (replies to probes do not
  /// count). The rest waits for completions.
  bool progress();
  /// Call it every RelayEnd::kLookPauseMs: probes neighbours that have been silent for long.
  void listen_to_silence();
  /// Reads both control connections; call it when poll(2) finds one readable.
  void look_at_controls();
  /// Delivered and closed, or broken: destroy it.
  bool over() const { return over_; }
  CircuitState state();
  std::array<int, 2> descriptors() const { return {parts_.upstream.descriptor(), parts_.downstream.descriptor()}; }

 private:
  bool move_pieces();
  bool move_announcements();
  void look_upstream();
  void look_downstream();
  /// Sends the reason to the previous node and ends.
  void break_off(const std::string& why, LogLevel level = LogLevel::kWarn);
  void finish();

  Parts parts_;
  MessageReader upstream_reader_, downstream_reader_;
  std::uint64_t next_ = 0;               // piece to be forwarded
  std::optional<std::uint64_t> end_at_;  // number of pieces, once the sender has sent END
  // Ends of messages that were passed on and not confirmed: a sender has at most 256 and a few marks in flight.
  std::array<std::uint64_t, 2 * kRingEntries> ends_{};
  std::uint64_t ends_in_ = 0, ends_out_ = 0;
  std::uint64_t bytes_ = 0;
  Deadline closed_there_;  // set once the receiver has closed
  bool stirred_ = false;   // a control connection has brought something
  bool over_ = false;
};

}  // namespace meshbed::net
