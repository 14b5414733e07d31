#include "plugin/net/relay/circuit.h"

#include <cinttypes>
#include <utility>

#include "plugin/base/log.h"

namespace meshbed::net {

namespace {

/// A sender to a receiver that has closed gets REFUSE after this time, which is about the time of all retries; in an
/// orderly end the sender has closed by then.
constexpr std::int64_t kClosedMs = 10'000;

}  // namespace

Circuit::Circuit(Parts parts) : parts_(std::move(parts)) {
  MESHBED_INFO("relay: circuit %s: open", parts_.name.c_str());
}

Circuit::~Circuit() {
  parts_.entry->close();
  parts_.exit->close();
  MESHBED_INFO("relay: circuit %s: closed, %" PRIu64 " pieces, %" PRIu64 " bytes", parts_.name.c_str(), next_, bytes_);
}

bool Circuit::progress() {
  if (over_) return false;
  const int found = parts_.entry->progress() + parts_.exit->progress();
  bool moved = false;
  if (std::exchange(stirred_, false) || found > 0) {
    moved = move_announcements();
    moved = move_pieces() || moved;
  }
  // If everything has arrived from a sender that has closed, only an acknowledgement is lost that it does not wait for.
  const bool has_all = end_at_ && parts_.entry->arrived() >= *end_at_;
  if (parts_.entry->broken() && !has_all) {
    break_off(parts_.entry->what_broke().text);
  } else if (parts_.exit->broken() && !parts_.exit->is_closed_there()) {
    // A receiver that has closed does not acknowledge our last write: its deadline ends the wait.
    break_off(parts_.exit->what_broke().text);
  } else if (end_at_ && next_ >= *end_at_ && parts_.exit->idle()) {
    finish();
  }
  return moved;
}

CircuitState Circuit::state() {
  CircuitState state{.name = parts_.name,
                     .pieces = next_,
                     .bytes = bytes_,
                     .held = parts_.entry->arrived() - next_,
                     .credits = parts_.exit->room()};
  if (state.held > 0) {
    state.waits_for = "credits of " + parts_.exit->neighbour();
  } else if (ends_out_ < ends_in_) {
    state.waits_for = "the confirmation by " + parts_.exit->neighbour() + " that a message has arrived";
  }
  return state;
}

bool Circuit::move_announcements() {
  bool moved = false;
  while (parts_.entry->can_announce()) {
    const RelayExit::Announcement announcement = parts_.exit->next_announcement();
    if (announcement.entries == nullptr) break;
    if (!parts_.entry->announce(announcement.entries, announcement.first, announcement.parts)) break;
    parts_.exit->took(announcement);
    moved = true;
  }
  return moved;
}

bool Circuit::move_pieces() {
  bool moved = false;
  while (next_ < parts_.entry->arrived() && parts_.exit->can_forward() && ends_in_ - ends_out_ < ends_.size()) {
    PieceHeader& piece = parts_.entry->piece(next_);
    ++piece.hops;
    const bool ends_message = (piece.flags & kPieceEndsMessage) != 0;
    if (!parts_.exit->forward(piece)) break;
    if (ends_message) ends_[ends_in_++ % ends_.size()] = piece.sequence + 1;
    ++next_;
    bytes_ += piece.payload_bytes;
    moved = true;
  }
  parts_.entry->release_up_to(parts_.exit->forwarded());
  // Exactly one confirmation for each message, so that every run has the same number of writes.
  const std::uint64_t delivered = parts_.exit->delivered();
  while (ends_out_ < ends_in_ && ends_[ends_out_ % ends_.size()] <= delivered && parts_.entry->can_confirm()) {
    if (!parts_.entry->confirm(ends_[ends_out_++ % ends_.size()])) break;
    moved = true;
  }
  return moved;
}

void Circuit::listen_to_silence() {
  // An end that has closed does not reply, and need not.
  if (!end_at_) parts_.entry->listen_to_silence();
  if (!parts_.exit->is_closed_there()) parts_.exit->listen_to_silence();
  if (!over_ && closed_there_.passed()) break_off("the receiver has closed its end", LogLevel::kInfo);
  stirred_ = true;  // the write may have been refused
}

void Circuit::look_at_controls() {
  stirred_ = true;
  if (!over_ && parts_.upstream.is_open()) look_upstream();
  if (!over_ && parts_.downstream.is_open()) look_downstream();
}

void Circuit::look_upstream() {
  auto message = upstream_reader_.read(parts_.upstream);
  if (message && !*message) return;
  if (message && (*message)->type == WireType::kEnd) end_at_ = (*message)->pieces;
  if (!message) {
    // The sender's end is gone. The pieces that it has delivered before still count; no more will arrive.
    parts_.entry->wake();
    while (parts_.entry->has_news()) parts_.entry->progress();
    end_at_ = parts_.entry->arrived();
    parts_.upstream.close();
  }
}

void Circuit::look_downstream() {
  auto message = downstream_reader_.read(parts_.downstream);
  if (message && !*message) return;
  if (parts_.to_receiver) {
    if (message && (*message)->type == WireType::kEnd) {
      parts_.exit->closed_there((*message)->pieces);
      closed_there_ = Deadline::after_ms_or_never(kClosedMs);
    } else {
      parts_.downstream.close();  // without END the receiver's adapter is probed as before
    }
    return;
  }
  break_off(message ? (*message)->reason : message.error().text);
}

void Circuit::break_off(const std::string& why, LogLevel level) {
  over_ = true;
  MESHBED_LOG(level, "relay: circuit %s broke: %s", parts_.name.c_str(), why.c_str());
  MessageWriter writer;
  writer.start({.type = WireType::kRefuse, .cookie = parts_.number, .end = {}, .reason = why});
  // If REFUSE cannot be written, the end of the control connection shows it.
  if (parts_.upstream.is_open()) (void)writer.write(parts_.upstream);
}

void Circuit::finish() {
  over_ = true;
  if (!parts_.downstream.is_open() || parts_.to_receiver) return;
  MessageWriter writer;
  writer.start(
      {.type = WireType::kEnd, .cookie = parts_.number, .end = {}, .reason = "", .route = {}, .pieces = next_});
  // If END cannot be written, the end of the control connection follows.
  (void)writer.write(parts_.downstream);
}

}  // namespace meshbed::net
