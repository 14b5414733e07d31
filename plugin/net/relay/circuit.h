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
    std::string name;  // for the log: from whom to whom
    std::unique_ptr<RelayEntry> entry;
    std::unique_ptr<RelayExit> exit;
    Socket upstream;    // control connection to the one before us
    Socket downstream;  // to the one after us: a relay, or the receiver, which only says when it closes
    bool to_receiver = false;
  };
  explicit Circuit(Parts parts);
  ~Circuit();

  /// There may be something to do.
  bool has_news() const { return !over_ && (stirred_ || parts_.entry->has_news() || parts_.exit->has_news()); }
  /// Moves what can be moved; true where something did (that neighbours answer is nothing). What is left waits for
  /// completions.
  bool progress();
  /// To be called every RelayEnd::kLookPauseMs: asks neighbours that have long been silent whether they are there.
  void listen_to_silence();
  /// Looks at both control connections; to be called when poll(2) finds one readable.
  void look_at_controls();
  /// Delivered and closed, or broken: to be destroyed.
  bool over() const { return over_; }
  CircuitState state();
  std::array<int, 2> descriptors() const { return {parts_.upstream.descriptor(), parts_.downstream.descriptor()}; }

 private:
  bool move_pieces();
  bool move_announcements();
  void look_upstream();
  void look_downstream();
  /// Tells the one before us why, and ends.
  void break_off(const std::string& why, LogLevel level = LogLevel::kWarn);
  void finish();

  Parts parts_;
  MessageReader upstream_reader_, downstream_reader_;
  std::uint64_t next_ = 0;               // piece to be forwarded
  std::optional<std::uint64_t> end_at_;  // pieces in all, once the sender has said so
  // Ends of messages that were handed on and not confirmed: a sender has at most 256 and a few marks under way.
  std::array<std::uint64_t, 2 * kRingEntries> ends_{};
  std::uint64_t ends_in_ = 0, ends_out_ = 0;
  std::uint64_t bytes_ = 0;
  Deadline closed_there_;  // the receiver has
  bool stirred_ = false;   // by what a control connection said
  bool over_ = false;
};

}  // namespace meshbed::net
