#include "plugin/coll/store/frame.h"

#include <cstddef>

namespace meshbed::coll {
namespace {

constexpr std::uint64_t kMagic = 0x4c4c4f4348534d4dULL;  // "MMSHCOLL"
constexpr std::uint32_t kProtocolVersion = 1;
constexpr std::size_t kHelloBytes = 40;

void put(std::string* out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
}

// `offset + bytes` lies within `in`: the callers checked its length.
std::uint64_t get(std::string_view in, std::size_t offset, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(in[offset + i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string out;
  out.reserve(kFrameHeaderBytes + frame.body.size());
  put(&out, frame.body.size(), 4);
  put(&out, static_cast<std::uint8_t>(frame.type), 4);  // the three zero bytes included
  put(&out, frame.request, 4);
  return out + frame.body;
}

std::optional<Frame> take_frame(std::string* buffer, bool* broken) {
  if (buffer->size() < kFrameHeaderBytes) return std::nullopt;
  const std::uint64_t body_bytes = get(*buffer, 0, 4), type = get(*buffer, 4, 4);
  if (body_bytes > kFrameBodyBytesMax || type < static_cast<std::uint64_t>(FrameType::kHello) ||
      type > static_cast<std::uint64_t>(FrameType::kChallenge)) {
    *broken = true;
    return std::nullopt;
  }
  if (buffer->size() < kFrameHeaderBytes + body_bytes) return std::nullopt;
  Frame frame{static_cast<FrameType>(type), static_cast<std::uint32_t>(get(*buffer, 8, 4)),
              buffer->substr(kFrameHeaderBytes, body_bytes)};
  buffer->erase(0, kFrameHeaderBytes + body_bytes);
  return frame;
}

std::string encode_hello(const Identity& identity) {
  std::string out;
  put(&out, kMagic, 8);
  put(&out, kProtocolVersion, 4);
  put(&out, identity.world, 4);
  put(&out, identity.rank, 4);
  put(&out, identity.channels, 4);
  put(&out, identity.steps, 4);
  put(&out, identity.choice, 4);
  put(&out, identity.slice_bytes, 8);
  return out;
}

std::optional<Identity> decode_hello(std::string_view body) {
  if (body.size() != kHelloBytes || get(body, 0, 8) != kMagic || get(body, 8, 4) != kProtocolVersion) {
    return std::nullopt;
  }
  Identity identity;
  identity.world = static_cast<std::uint32_t>(get(body, 12, 4));
  identity.rank = static_cast<std::uint32_t>(get(body, 16, 4));
  identity.channels = static_cast<std::uint32_t>(get(body, 20, 4));
  identity.steps = static_cast<std::uint32_t>(get(body, 24, 4));
  identity.choice = static_cast<std::uint32_t>(get(body, 28, 4));
  identity.slice_bytes = get(body, 32, 8);
  return identity;
}

std::string encode_pair(std::string_view key, std::string_view value) {
  std::string out;
  put(&out, key.size(), 4);
  out.append(key);
  out.append(value);
  return out;
}

bool decode_pair(std::string_view body, std::string* key, std::string* value) {
  if (body.size() < 4) return false;
  const std::uint64_t key_bytes = get(body, 0, 4);
  if (key_bytes > body.size() - 4) return false;
  *key = body.substr(4, key_bytes);
  *value = body.substr(4 + key_bytes);
  return true;
}

std::string encode_u32(std::uint32_t value) {
  std::string out;
  put(&out, value, 4);
  return out;
}

std::optional<std::uint32_t> decode_u32(std::string_view body) {
  if (body.size() != 4) return std::nullopt;
  return static_cast<std::uint32_t>(get(body, 0, 4));
}

}  // namespace meshbed::coll
