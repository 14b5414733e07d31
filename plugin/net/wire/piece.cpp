#include "plugin/net/wire/piece.h"

namespace meshbed::net {

const char* problem_of(const PieceHeader& header, std::uint64_t circuit, std::uint64_t sequence) {
  if (header.magic != kPieceMagic) return "a piece without its mark";
  if (header.circuit != circuit) return "a piece of another circuit";
  if (header.sequence != sequence) return "a piece out of order";
  if (header.hops >= header.hop_limit) return "a piece that has passed more relays than it may";
  if (header.parts < 1 || header.parts > kMaxGroup || header.part >= header.parts) return "a piece of no part";
  if (header.payload_bytes > kPieceBytes) return "a piece longer than its slot";
  if (header.message_bytes > kMaxMessageBytes || header.offset_bytes > header.message_bytes ||
      header.payload_bytes > header.message_bytes - header.offset_bytes) {
    return "a piece that leaves its message";
  }
  return nullptr;
}

}  // namespace meshbed::net
