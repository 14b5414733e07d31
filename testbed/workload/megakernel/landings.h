#pragma once
// RingLandings: the times at which a message's data and its flag become visible at the receiver, by the ordering that
// the transport guarantees ([workload.megakernel] ordering):
//
//   ordered    data, then flag: one queue pair that places writes in order, memory without relaxed ordering
//   unordered  the flag on arrival, the data up to unordered_delay later, drawn by the seed: as over EFA SRD, two queue
//              pairs, relaxed ordering or multipath. A slot that reads too early really reads the previous bytes; this
//              is recorded, and the ring ends as flag-before-data
//   counted    like unordered, with the remedy: the flag counts landed messages (write-with-immediate and a count), up
//              to the first message that has not landed
//
// With flags on separate queue pairs (flag_qp) no delay is drawn: data is late if the network delivers it after its
// flag.
//
// The net plugin writes the data at its arrival; until it lands, the previous bytes are restored. A landing is used
// once an epoch, so that nothing else writes to it meanwhile.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

class RingLandings {
 public:
  struct Setting {
    RankHost& host;
    const Megakernel& settings;
    const coll::SlotProgram& program;
    RingSpaces& spaces;
    RingKernel& kernel;
    std::uint64_t element_bytes = 0;
    std::uint64_t seed = 0;  // of this ring
  };
  explicit RingLandings(const Setting& setting);
  RingLandings(const RingLandings&) = delete;
  RingLandings& operator=(const RingLandings&) = delete;

  // The proxy's, in the order of a connection's messages.
  void posted(ring::Word connection);
  void arrived(ring::Word connection);
  /// Where flags have queue pairs of their own: the data of the next message; arrived() is its flag.
  void landed(ring::Word connection);

  /// A lane is about to do this operation of that slot.
  void use(ring::Word slot, ring::Word op, const ring::Word* args);
  /// The host reads the result: what has not landed is read too early.
  void end_epoch();
  /// The first read that came before its data; empty: none did.
  const std::string& stale() const { return stale_; }

 private:
  struct Late {
    ring::Word connection = 0;
    std::uint64_t number = 0;  // of its messages, over all epochs
    coll::Landing landing;
    Picoseconds lands_ps = 0;  // -1: not known yet
  };
  struct Connection {
    std::uint64_t posted = 0, arrived = 0, flagged = 0, landed_count = 0;
    std::deque<std::vector<std::byte>> before;  // of messages that are to arrive
    std::vector<std::uint64_t> landed;          // beyond `flagged`
  };

  const coll::Landing& landing_of(ring::Word connection, std::uint64_t number) const;
  std::byte* bytes_of(const coll::Landing& landing) const;
  void land(const Late& late, const std::vector<std::byte>& data);
  struct Reader {
    ring::Word slot = 0, op = 0;
  };
  void read(const Reader& reader, coll::Space space, std::uint64_t begin, std::uint64_t size_bytes);
  void note(const std::string& reader, const Late& late);

  RankHost& host_;
  const coll::SlotProgram& program_;
  RingSpaces& spaces_;
  RingKernel& kernel_;
  bool is_ordered_, counts_, has_flag_queues_;
  Picoseconds delay_ps_;
  std::uint64_t element_bytes_;
  Prng prng_;
  std::vector<Connection> connections_;  // that it receives on
  std::vector<Late> late_;               // there, and not landed
  std::string stale_;
};

}  // namespace meshbed::testbed
