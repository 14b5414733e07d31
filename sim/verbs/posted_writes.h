#pragma once
// PostedWrites: bytes that an adapter has written towards a GPU and that have not arrived yet.
//
// On PCIe a write is posted: it is not acknowledged, and it may be delayed. An adapter reports a message by another
// write, the completion, which goes to host memory. The two separate at the first switch, and the completion does not
// show that the bytes have reached the GPU. Writes with the relaxed-ordering bit may also pass one another. A read of
// that GPU by the same adapter flushes them: a read request passes no posted write, with any bits (PCI Express Base
// Specification, section 2.4.1, the table of ordering rules). That is why NCCL reads a word of a buffer before the GPU
// does (net_ib's iflush).
//
// The model: each piece of a write lands at a time of its own, drawn between now and kMostPs later; a region that was
// registered without relaxed ordering keeps the order of its adapter's writes. A read of a GPU's memory by the same
// adapter, for an RDMA read or as the source of a message, first lands all that this adapter has written to that GPU.
// Writes to host memory land at once: there the completion follows the bytes.
// kMostPs is not measured: it is longer than the round trip of a read, so that a missing flush is detected.
//
// Nomenclature: piece - what lands at one moment, at most kPieceBytes and never over a multiple of that, so that lines
// of 128 bytes stay whole. Cost: one event and one copy a piece, of GPU memory alone.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/prng.h"
#include "sim/engine/world.h"
#include "sim/verbs/memory.h"

namespace meshbed::sim::verbs {

inline bool is_device(const Span& span) { return span.region != nullptr && span.region->device != nullptr; }

class PostedWrites {
 public:
  static constexpr Picoseconds kMostPs = 50 * kPicosecondsPerMicrosecond;
  static constexpr std::uint64_t kPieceBytes = 4096;

  explicit PostedWrites(World& world);

  /// `adapter` writes the bytes of `target`.
  void post(models::PortRef adapter, const Span& target, const char* bytes);
  /// `adapter` reads `source`; nothing where that is host memory.
  void pushed_by_read(models::PortRef adapter, const Span& source);
  /// The buffer goes, or a registration of it: an adapter lets go of memory when it is done with it.
  void finish(const DeviceBuffer& buffer);

  void set_most(Picoseconds most_ps) { most_ps_ = most_ps; }
  std::size_t under_way() const { return pieces_.size(); }

 private:
  struct Piece {
    models::PortRef adapter;
    std::shared_ptr<DeviceBuffer> buffer;
    char* target = nullptr;
    std::vector<char> bytes;
  };
  static void due(void* self, std::uint64_t number);
  static void land(const Piece& piece);
  template <typename Condition>
  void land_where(const Condition& holds);
  Picoseconds moment_of(models::PortRef adapter, bool relaxed);

  World& world_;
  Picoseconds most_ps_ = kMostPs;
  Prng dice_;
  std::map<std::uint64_t, Piece> pieces_;                // in the order of their posting
  std::map<models::PortRef, Picoseconds> last_ordered_;  // when the latest piece in order lands
  std::uint64_t next_ = 0;
};

}  // namespace meshbed::sim::verbs
