#include "plugin/coll/store/large_value.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plugin/coll/store/frame.h"

namespace meshbed::coll {
namespace {

constexpr std::size_t kPieceBytes = kFrameBodyBytesMax - 192;  // the rest is the key's

std::string piece_key(const std::string& key, std::size_t piece) { return key + "." + std::to_string(piece); }

}  // namespace

Result<void> set_large(StoreClient& store, const std::string& key, const std::string& value) {
  const std::size_t pieces = std::max<std::size_t>(1, (value.size() + kPieceBytes - 1) / kPieceBytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    std::string part = value.substr(piece * kPieceBytes, kPieceBytes);
    if (piece == 0) part = encode_u32(static_cast<std::uint32_t>(pieces)) + part;
    auto set = store.set(piece_key(key, piece), part);
    if (!set) return set;
  }
  return ok();
}

Result<std::string> get_large(StoreClient& store, const std::string& key, Deadline deadline,
                              const StoreClient::WaitLimits& limits) {
  auto first = store.get(piece_key(key, 0), deadline, limits);
  if (!first) return first.error();
  const auto pieces = decode_u32(std::string_view(*first).substr(0, sizeof(std::uint32_t)));
  if (!pieces) return Error{ErrorCode::kRemote, Scope::kJob, "the value of '" + key + "' has no number of pieces"};
  std::string value = first->substr(sizeof(std::uint32_t));
  for (std::size_t piece = 1; piece < *pieces; ++piece) {
    auto next = store.get(piece_key(key, piece), deadline, limits);
    if (!next) return next.error();
    value += *next;
  }
  return value;
}

}  // namespace meshbed::coll
