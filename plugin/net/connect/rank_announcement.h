#pragma once
// The datagram by which the ranks of a communicator learn of each other before they choose algorithms: who I am, which
// cables I have, and whether I have seen everybody. Sent only by a tuner that was initialised for several nodes; passed
// on by every process that hears it for the first time, so that it reaches all nodes that cables join.
//
// Layout, big-endian:
//   0  magic "MSHR" u32       12 nodes of the communicator u16   40 sequence u32         58 addresses, as in a
//   discovery message 4  version u8             14 ranks of the communicator u32   44 ranks here u16       end checksum
//   u32 (FNV-1a) 5  stand u8 (| 0x80: done) 18 communicator u64               46 mesh seen u64 6  hops travelled u8 26
//   node identity u64               54 addresses u8 7  hops allowed u8        34 process u32, zero u16           55
//   zero u8 x 3 8  rules u32
// A datagram that is not exactly this is dropped: anybody may send to a UDP port.

#include <cstdint>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/peer_address.h"
#include "plugin/net/wire/discovery_message.h"

namespace meshbed::net {

/// A process' stand in a cabling agreement. No is final, and so is a yes that is done.
enum class Stand : std::uint8_t {
  kHere = 0,    // looking for the others
  kYes = 1,     // I know all ranks and what cables they have, and do as the others do; done: all of them said so
  kNo = 2,      // I shall do without, whatever I still hear
  kDoubt = 3,   // I said yes, and no word came of others: I shall only agree with one who has done so already
  kComing = 4,  // no rank of mine is here yet, but I am: whoever waits may wait for it
};

/// A communicator as all of its ranks know it.
struct AgreementKey {
  std::uint64_t communicator = 0;
  std::uint32_t ranks = 0;
  std::uint16_t nodes = 0;
  bool operator==(const AgreementKey&) const = default;
};

struct RankAnnouncement {
  AgreementKey key;
  std::uint64_t node = 0;
  std::uint32_t process = 0;
  std::uint32_t sequence = 0;  // of this process' rank announcements, to pass each on once
  std::uint16_t ranks_here = 0;
  Stand stand = Stand::kHere;
  bool done = false;       // has decided: nothing that others say matters to it any more
  std::uint64_t mesh = 0;  // kYes: hash of what it knows
  std::uint32_t rules = 0;
  std::uint8_t hops = 0;
  std::uint8_t hop_limit = 0;
  std::vector<PeerAddress> addresses;
  bool operator==(const RankAnnouncement&) const = default;
};

/// How the plugin decides from what it knows; processes with other rules never agree.
inline constexpr std::uint32_t kTunerRules = 2;

/// What does not fit is left out.
std::size_t encode_announcement(const RankAnnouncement& call,
                                std::span<std::uint8_t, kDiscoveryMessageLargestBytes> target);
Result<RankAnnouncement> decode_announcement(std::span<const std::uint8_t> source);

}  // namespace meshbed::net
