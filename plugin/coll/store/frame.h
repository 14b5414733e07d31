#pragma once
// Frame: the store's wire format. Every length is checked against the received bytes and the allowed maximum.
//
// clang-format off
//   kHello      C->S  the client's identity, see below
//   kWelcome    S->C  empty
//   kRefused    S->C  text: this client cannot be served
//   kSet        C->S  key and value, see below
//   kGet        C->S  key
//   kValue      S->C  value: the reply to kGet (once it is set) and to kBarrier (once all ranks have arrived)
//   kBarrier    C->S  timeout_ms u32
//   kExpired    S->C  text: the missing ranks
//   kFail       C->S  text: this communicator is broken
//   kFailed     S->C  the first such text, to every rank
//   kBye        C->S  empty: this connection ends on purpose
// If the job has a key (job_key.h), a client begins with kProve, and its hello carries a proof:
//   kProve      C->S  nonce u8[16]
//   kChallenge  S->C  nonce u8[16]
//   kHello      C->S  as above, then proof u8[32]
//   kWelcome    S->C  proof u8[32]
//
// Layout of a frame: little-endian, sizes in bytes.
//   offset  size  name         meaning
//        0     4  body_bytes   size of the body
//        4     1  type         FrameType
//        5     3  zero         0
//        8     4  request      chosen by the client; the reply repeats it
//       12     *  body         by type
// Layout of a hello's body: little-endian, sizes in bytes.
//   offset  size  name         meaning
//        0     8  magic        "MMSHCOLL"
//        8     4  version      1
//       12     4  world        number of ranks
//       16     4  rank         the client's rank
//       20     4  channels     number of channels
//       24     4  steps        messages in flight
//       28     4  choice       hash of the choice of algorithms
//       32     8  slice_bytes  largest slice
// Layout of a kSet's body: little-endian, sizes in bytes.
//   offset  size  name         meaning
//        0     4  key_bytes    size of the key
//        4     *  key_value    the key, then the value
// clang-format on

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshbed::coll {

enum class FrameType : std::uint8_t {
  kHello = 1,
  kWelcome,
  kRefused,
  kSet,
  kGet,
  kValue,
  kBarrier,
  kExpired,
  kFail,    // rank to rank 0: the communicator is broken; request is the rank that failed plus one (0: itself), or
            // kAbortedBit: a caller aborted it
  kFailed,  // rank 0 to all: request is the rank that failed plus one, to that rank the reporting one; kAbortedBit
  kBye,
  kWaits,    // rank to rank 0: it has waited for others for long, first for rank u32 (kNoPeer: for none in particular),
             // and its last calls (signature.h); with an empty body: it waits no longer
  kRebuild,  // rank to rank 0: it goes on with the ranks that ask within u32 ms; the reply is a kValue with a u32 for
             // each
  // The reply is a kValue: a bit for each rank that waits, and as many bytes of bits for those that have left; with a
  // rank u32 in the request: u32 for each rank of the chain of waits.
  kWhoWaits,
  kProve,      // the first frame of a client that knows the job's key
  kChallenge,  // the reply
};

/// In kWaits.
inline constexpr std::uint32_t kNoPeer = ~0U;
/// In the request of kFailed: an abort, not a failure.
inline constexpr std::uint32_t kAbortedBit = 1U << 31U;

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kFrameBodyBytesMax = 8192;
inline constexpr std::size_t kIntroductionBytesMax = 128;  // of the bodies of kProve and kHello

struct Frame {
  FrameType type{};
  std::uint32_t request = 0;  // chosen by the client; the reply repeats it
  std::string body;
};

/// A rank's settings, which must equal rank 0's: both ends of a connection derive their slices from them.
struct Identity {
  std::uint32_t world = 0, rank = 0, channels = 0, steps = 0;
  std::uint32_t choice = 0;  // hash of the choice of algorithms and of its inputs
  std::uint64_t slice_bytes = 0;
};

std::string encode(const Frame& frame);
/// Takes the first whole frame from the front of `buffer`; nullopt: it is not complete yet. `broken` is set if the
/// bytes cannot be a frame (unknown type, length over the limit).
std::optional<Frame> take_frame(std::string* buffer, bool* broken);

std::string encode_hello(const Identity& identity);
std::optional<Identity> decode_hello(std::string_view body);
std::string encode_pair(std::string_view key, std::string_view value);
bool decode_pair(std::string_view body, std::string* key, std::string* value);
std::string encode_u32(std::uint32_t value);
std::optional<std::uint32_t> decode_u32(std::string_view body);

}  // namespace meshbed::coll
