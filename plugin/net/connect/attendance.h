#pragma once
// Who may still want a relay: the processes that asked for chains or were answered for, but for those that have said
// that they leave (LEAVE in discovery_message.h). A process that ends looks here whether somebody needs it: two of them
// that reach each other through it alone. Pure values.
//
// A way is a NIC of ours by which we hear of a process, as a bit. Questions go round on all cables, never through us
// and back to us: whoever is heard of by a way that another one is heard of by too reaches it without us.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/net/process/peer_address.h"

namespace meshbed::net {

class Attendance {
 public:
  /// Anybody may send to a UDP port: whoever comes when there are so many is not kept.
  static constexpr std::size_t kMost = 1024;

  struct Who {
    std::uint64_t node = 0;
    std::uint32_t process = 0;
    std::uint16_t circuit_port = 0;  // said in an answer alone
  };

  /// A question of its own came in, `query`, by so many ways with those by which it came before. It is there, even if
  /// it had left: it may have been initialized again.
  void asked(const Who& who, std::uint64_t query, std::uint64_t way);
  /// Its answer came in, to us or to be handed on. One who has left answers too, while its relay stays.
  void answered(const Who& who, std::uint64_t way, const std::vector<PeerAddress>& addresses);
  void left(const Who& who);
  /// Nobody ever asked: nobody need hear that we leave.
  bool is_empty() const { return members_.empty(); }
  /// There are two of different nodes that share no subnet and are heard of by different ways, among those that are
  /// `open`. Where an answer alone came this may be so with a way round; then we only wait a little longer. Cost: the
  /// square of those who are here, once they have no need.
  bool need_us(std::uint64_t open) const;
  /// Those who have not left may be there or not: they are to answer anew.
  void forget_present();

 private:
  struct Member {
    Who who;
    bool left = false;
    std::uint64_t query = 0, ways = 0;
    std::vector<PeerAddress> addresses;  // empty: not known
  };
  /// nullptr: there is no room.
  Member* member(const Who& who);
  static bool apart(const Member& one, const Member& other, std::uint64_t open);

  std::vector<Member> members_;
};

}  // namespace meshbed::net
