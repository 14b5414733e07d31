#include "plugin/net/circuit.h"

#include <cinttypes>

#include "plugin/base/log.h"

namespace meshbed::net {

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
  bool moved = parts_.entry->progress() > 0;
  moved = parts_.exit->progress() > 0 || moved;
  moved = move_announcements() || moved;
  moved = move_pieces() || moved;
  if (parts_.entry->broken()) {
    break_off(parts_.entry->what_broke().text);
  } else if (parts_.exit->broken()) {
    break_off(parts_.exit->what_broke().text);
  } else if (end_at_ && next_ >= *end_at_ && parts_.exit->idle() && !handed_over_) {
    hand_over();
  }
  return moved || over_;
}

void Circuit::arm() {
  if (over_) return;
  parts_.entry->arm();
  parts_.exit->arm();
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
  while (next_ < parts_.entry->arrived() && parts_.exit->can_forward()) {
    PieceHeader& piece = parts_.entry->piece(next_);
    ++piece.hops;
    if (!parts_.exit->forward(piece)) break;
    ++next_;
    bytes_ += piece.payload_bytes;
    moved = true;
  }
  parts_.entry->release_up_to(parts_.exit->forwarded());
  return moved;
}

void Circuit::look_at_controls() {
  if (!over_ && parts_.upstream.is_open()) look_upstream();
  if (!over_ && parts_.downstream.is_open()) look_downstream();
}

void Circuit::look_upstream() {
  auto message = upstream_reader_.read(parts_.upstream);
  if (message && !*message) return;
  if (message && (*message)->type == WireType::kEnd) end_at_ = (*message)->pieces;
  if (!message) {
    // The sender's end is gone. What it handed over before still counts; it has arrived, or never will.
    parts_.entry->progress();
    if (!end_at_) end_at_ = parts_.entry->arrived();
    parts_.upstream.close();
  }
}

void Circuit::look_downstream() {
  auto message = downstream_reader_.read(parts_.downstream);
  if (message && !*message) return;
  if (handed_over_ && (!message || (*message)->type == WireType::kEnd)) {
    // Its END says that all of it is delivered; without one nobody knows, and nobody is told anything.
    over_ = true;
    if (message) finish();
    return;
  }
  break_off(message ? (*message)->reason : message.error().text);
}

void Circuit::break_off(const std::string& why) {
  over_ = true;
  MESHBED_WARN("relay: circuit %s broke: %s", parts_.name.c_str(), why.c_str());
  MessageWriter writer;
  writer.start({.type = WireType::kRefuse, .cookie = parts_.number, .end = {}, .reason = why});
  // Where it cannot be told, the end of the control connection tells it.
  if (parts_.upstream.is_open()) (void)writer.write(parts_.upstream);
}

void Circuit::hand_over() {
  handed_over_ = true;
  // A receiver that is next has everything: its adapter said so.
  parts_.downstream.is_open() ? send_end(parts_.downstream) : finish();
}

void Circuit::finish() {
  over_ = true;
  if (parts_.upstream.is_open()) send_end(parts_.upstream);
}

void Circuit::send_end(Socket& socket) {
  MessageWriter writer;
  writer.start(
      {.type = WireType::kEnd, .cookie = parts_.number, .end = {}, .reason = "", .route = {}, .pieces = next_});
  // Where it cannot be told, the end of the control connection follows.
  (void)writer.write(socket);
}

}  // namespace meshbed::net
