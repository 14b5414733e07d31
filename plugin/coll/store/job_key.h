#pragma once
// Job key: 128 random bits that all ranks of a job share and no other process knows. The unique id carries them, or the
// launcher's variable does. A rank proves that it knows the key, and rank 0 proves it in return, by HMAC-SHA256 over a
// nonce of each side: the key itself is never sent, and a recorded proof is useless (docs/security.md).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/base/address.h"
#include "plugin/base/result.h"

namespace meshbed::coll {

/// "MESHBED_JOB_KEY": 32 hexadecimal digits, for jobs whose ranks meet at an address that a launcher gives.
inline constexpr char kJobKeyVariable[] = "MESHBED_JOB_KEY";

inline constexpr std::size_t kNonceBytes = 16, kProofBytes = 32;
/// As sent to the other side.
Result<std::string> draw_nonce();
/// Compares in a time that does not depend on where they differ.
bool are_equal(std::string_view left, std::string_view right);

class JobKey {
 public:
  static constexpr std::size_t kBytes = 16;
  static Result<JobKey> draw();
  /// 32 hexadecimal digits.
  static std::optional<JobKey> parse(std::string_view text);
  std::string text() const;

  /// The proving side: a proof of one side must not serve the other.
  enum class Side : char { kRank = 'r', kServer = 's' };
  /// kProofBytes over both nonces and the rank's hello.
  std::string proof(Side side, std::string_view rank_nonce, std::string_view server_nonce,
                    std::string_view hello) const;
  /// The key of a group of this job's ranks.
  JobKey derive(std::string_view name) const;
  /// A number that differs between jobs and does not reveal the key.
  std::uint64_t public_number() const;
  bool operator==(const JobKey&) const = default;

 private:
  std::string digest(std::string_view purpose, std::string_view text) const;
  std::array<std::uint8_t, kBytes> bytes_{};
};

/// Where ranks meet: "ADDRESS:PORT", or "ADDRESS:PORT/KEY" to admit only ranks of the job.
struct MeetingPlace {
  SocketAddress address;
  std::optional<JobKey> key{};
};
Result<MeetingPlace> parse_meeting_place(const std::string& text);
std::string to_text(const MeetingPlace& place);
/// Appends the key that kJobKeyVariable gives, if any, to an address that has none. `key`: its value.
Result<std::string> with_job_key(const std::string& place, const std::optional<std::string>& key);

}  // namespace meshbed::coll
