#pragma once
// The datagram by which the ranks of a communicator learn of each other before they choose algorithms. It carries the
// sender's identity, its cables, and whether it has seen all ranks. Only a tuner that was initialised for several nodes
// sends it. Every process passes it on when it receives it for the first time, so that it reaches all connected nodes.
//
// clang-format off
// Layout of a rank announcement: big-endian, sizes in bytes.
//   offset  size  name           meaning
//        0     4  magic          "MSHR"
//        4     1  version        2
//        5     1  stand          the stand; 0x80 is added if done
//        6     1  hops           hops travelled
//        7     1  hop_limit      hops allowed
//        8     4  rules          version of the tuner's rules
//       12     2  nodes          nodes of the communicator
//       14     4  ranks          ranks of the communicator
//       18     8  communicator   number of the communicator
//       26     8  node           identity of the node
//       34     4  process        number of the process
//       38     2  zero           0
//       40     4  sequence       of this process' announcements
//       44     2  ranks_here     ranks of this process
//       46     8  mesh           hash of the known mesh, if stand is yes
//       54     1  count          number of addresses
//       55     3  zero           0
//       58     *  addresses      as in a discovery message, without loads
//       -4     4  checksum       FNV-1a over all bytes before it
// clang-format on
// A datagram that does not match this layout is dropped: any host may send to a UDP port.

#include <cstdint>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/peer_address.h"
#include "plugin/net/wire/discovery_message.h"

namespace meshbed::net {

/// A process' stand in a cabling agreement (agreement_book.h). No is final, and so is a yes that is done.
enum class Stand : std::uint8_t {
  kHere = 0,    // present, still collecting announcements
  kYes = 1,     // the process knows all ranks and their cables; done: it knows that all others voted yes too
  kNo = 2,      // the process declines, also if it receives more later
  kDoubt = 3,   // voted yes, and the others are silent: it agrees only if another process has agreed
  kComing = 4,  // the process runs, but has no rank in the agreement yet: the others may wait for it
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
  std::uint32_t sequence = 0;  // of this process' rank announcements, so that each is passed on once
  std::uint16_t ranks_here = 0;
  Stand stand = Stand::kHere;
  bool done = false;       // the process has decided
  std::uint64_t mesh = 0;  // kYes: hash of the known mesh
  std::uint32_t rules = 0;
  std::uint8_t hops = 0;
  std::uint8_t hop_limit = 0;
  std::vector<PeerAddress> addresses;
  bool operator==(const RankAnnouncement&) const = default;
};

/// Version of the tuner's decision rules; processes with different rules never agree.
inline constexpr std::uint32_t kTunerRules = 2;

/// Addresses that do not fit are left out.
std::size_t encode_announcement(const RankAnnouncement& call,
                                std::span<std::uint8_t, kDiscoveryMessageLargestBytes> target);
Result<RankAnnouncement> decode_announcement(std::span<const std::uint8_t> source);

}  // namespace meshbed::net
