#include "plugin/coll/store/job_key.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include "plugin/base/random.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {
namespace {

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

const std::uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

}  // namespace

Result<std::string> draw_nonce() {
  std::array<std::uint8_t, kNonceBytes> bytes{};
  if (auto drawn = fill_unpredictable(bytes); !drawn) return drawn.error();
  return std::string(bytes.begin(), bytes.end());
}

bool are_equal(std::string_view left, std::string_view right) {
  return left.size() == right.size() && memeql_sec(left.data(), right.data(), left.size()) != 0;
}

Result<JobKey> JobKey::draw() {
  JobKey key;
  if (auto drawn = fill_unpredictable(key.bytes_); !drawn) return drawn.error();
  return key;
}

std::optional<JobKey> JobKey::parse(std::string_view text) {
  if (text.size() != 2 * kBytes) return std::nullopt;
  JobKey key;
  for (std::size_t at = 0; at < kBytes; ++at) {
    const int high = digit_of(text[2 * at]), low = digit_of(text[2 * at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key.bytes_[at] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return key;
}

std::string JobKey::text() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes_) {
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

std::string JobKey::digest(std::string_view purpose, std::string_view text) const {
  hmac_sha256_ctx context;
  hmac_sha256_set_key(&context, bytes_.size(), bytes_.data());
  // The zero byte keeps purpose and text apart.
  const std::uint8_t zero = 0;
  hmac_sha256_update(&context, purpose.size(), bytes_of(purpose));
  hmac_sha256_update(&context, 1, &zero);
  hmac_sha256_update(&context, text.size(), bytes_of(text));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> result{};
  hmac_sha256_digest(&context, result.size(), result.data());
  return {result.begin(), result.end()};
}

std::string JobKey::proof(Side side, std::string_view rank_nonce, std::string_view server_nonce,
                          std::string_view hello) const {
  std::string text(rank_nonce);
  text += server_nonce;
  text += hello;
  return digest(side == Side::kRank ? "meshbed rank" : "meshbed server", text);
}

JobKey JobKey::derive(std::string_view name) const {
  const std::string digested = digest("meshbed group", name);
  JobKey key;
  for (std::size_t at = 0; at < kBytes; ++at) key.bytes_[at] = static_cast<std::uint8_t>(digested[at]);
  return key;
}

std::uint64_t JobKey::public_number() const {
  const std::string digested = digest("meshbed job", {});
  std::uint64_t number = 0;
  for (std::size_t at = 0; at < sizeof number; ++at) number = number << 8U | static_cast<std::uint8_t>(digested[at]);
  return number;
}

Result<MeetingPlace> parse_meeting_place(const std::string& text) {
  const std::size_t slash = text.find('/');
  auto address = parse_address(text.substr(0, slash));
  if (!address) return address.error();
  MeetingPlace place{.address = *address};
  if (slash == std::string::npos) return place;
  place.key = JobKey::parse(std::string_view(text).substr(slash + 1));
  if (place.key) return place;
  return Error{ErrorCode::kInvalidArgument, Scope::kJob,
               "the job key behind \"" + text.substr(0, slash + 1) + "\" is not 32 hexadecimal digits"};
}

std::string to_text(const MeetingPlace& place) {
  return to_text(place.address) + (place.key ? "/" + place.key->text() : "");
}

Result<std::string> with_job_key(const std::string& place, const std::optional<std::string>& key) {
  if (!key || place.find('/') != std::string::npos) return place;
  if (JobKey::parse(*key)) return place + "/" + *key;
  return Error{ErrorCode::kInvalidArgument, Scope::kJob,
               std::string(kJobKeyVariable) + " is not 32 hexadecimal digits (openssl rand -hex 16 makes them)"};
}

}  // namespace meshbed::coll
