#pragma once
// Frame: the store's wire format. Little-endian, every length checked against what was received and what is allowed.
//
//   body_bytes u32 | type u8 | zero u8[3] | request u32 | body
//   kHello    C->S  magic u64, version u32, world u32, rank u32, channels u32, steps u32, choice u32, slice_bytes u64
//   kWelcome  S->C  -            kRefused S->C  text: this client cannot be served
//   kSet      C->S  key_bytes u32, key, value
//   kGet      C->S  key          kValue   S->C  value: answers kGet (once it is set) and kBarrier (once all are there)
//   kBarrier  C->S  timeout_ms u32             kExpired S->C  text: who is missing
//   kFail     C->S  text: this communicator is broken; kFailed S->C  the first such text, to every rank
//   kBye      C->S  -: the end of this connection is not an accident
//
// Where the job has a key (job_key.h) a client begins with kProve, and its hello carries a proof:
//   kProve    C->S  nonce u8[16]               kChallenge S->C nonce u8[16]
//   kHello    C->S  as above, proof u8[32]     kWelcome  S->C  proof u8[32]

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
            // kAbortedBit: somebody wanted it so
  kFailed,  // its answer to all: request is the rank that failed plus one, to that rank the one that told; kAbortedBit
  kBye,
  kWaits,    // rank to rank 0: it has waited for others for long, first for rank u32 (kNoPeer: for none in particular),
             // and its last calls (signature.h); with an empty body: no longer
  kRebuild,  // rank to rank 0: it goes on with whoever else asks within u32 ms; answered by kValue: u32 for each
  // Answered by kValue: a bit for each rank that waits, and as many bytes of bits for those that have left; with a rank
  // u32: u32 for each that is waited for in turn.
  kWhoWaits,
  kProve,      // a client that knows the job's key begins so
  kChallenge,  // its answer
};

/// Of kWaits.
inline constexpr std::uint32_t kNoPeer = ~0U;
/// Of kFailed's request: no failure, an abort.
inline constexpr std::uint32_t kAbortedBit = 1U << 31U;

inline constexpr std::size_t kFrameHeaderBytes = 12;
inline constexpr std::size_t kFrameBodyBytesMax = 8192;
inline constexpr std::size_t kIntroductionBytesMax = 128;  // of the bodies of kProve and kHello

struct Frame {
  FrameType type{};
  std::uint32_t request = 0;  // chosen by the client; comes back in the answer
  std::string body;
};

/// What every rank must have in common with rank 0, since both ends of a connection derive their slices from it.
struct Identity {
  std::uint32_t world = 0, rank = 0, channels = 0, steps = 0;
  std::uint32_t choice = 0;  // of algorithms, and what it goes by
  std::uint64_t slice_bytes = 0;
};

std::string encode(const Frame& frame);
/// Takes the first whole frame from the front of `buffer`; nullopt where it is not all there yet. `broken` is set where
/// the bytes cannot be ours (unknown type, length over the limit).
std::optional<Frame> take_frame(std::string* buffer, bool* broken);

std::string encode_hello(const Identity& identity);
std::optional<Identity> decode_hello(std::string_view body);
std::string encode_pair(std::string_view key, std::string_view value);
bool decode_pair(std::string_view body, std::string* key, std::string* value);
std::string encode_u32(std::uint32_t value);
std::optional<std::uint32_t> decode_u32(std::string_view body);

}  // namespace meshbed::coll
