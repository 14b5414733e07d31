// The chunk fabric: links serve chunks of the transfers that wait, in turn.
//
// Nomenclature: hop - one link of a transfer's path; chunk - at most kChunkBytes of one transfer; service - the time in
// which a link sends a chunk; window - how far a hop may run ahead of the next one (a switch's buffer for the transfer,
// returned by credits: nothing is lost, and a transfer that is held up further on does not hold up others here).
// Links serve the transfers that have a chunk for them in turn, one chunk each: max-min sharing, a chunk coarse.
// A transfer that has all its links to itself goes in one piece over all of them at once, cutting through, at the rate
// of its slowest link; when another transfer comes to one of its links, the piece ends at each link's next chunk
// boundary. Cost: one event a transfer where nothing is shared, one event a chunk and hop elsewhere; nothing is
// allocated once warm.

#include <algorithm>
#include <array>
#include <deque>
#include <vector>

#include "plugin/base/check.h"
#include "sim/engine/fabric.h"
#include "sim/engine/link_usage.h"

namespace meshbed::sim {
namespace {

// 16 KiB at 100 Gb/s is 1.3 us: fairness is that coarse. Smaller chunks cost events in proportion.
constexpr std::uint64_t kChunkBytes = 16 * kKiB;
constexpr std::uint64_t kWindowBytes = 4 * kChunkBytes;
constexpr std::size_t kHopsMax = 8;

struct Transfer;

struct Hop {
  Transfer* transfer = nullptr;
  std::size_t index = 0;
  std::uint64_t sent_bytes = 0;  // whole chunks that have left the link
  bool engaged = false;          // in service, or in the link's line
  Hop* next = nullptr;           // in the link's line
};

struct Transfer {
  const Path* path = nullptr;
  std::uint64_t wire_bytes = 0;
  EventFunction done = nullptr;
  void* self = nullptr;
  std::uint64_t argument = 0;
  std::array<Hop, kHopsMax> hops;

  std::size_t hop_count() const { return path->links.size(); }
  /// What hop `index` may send now: what has come in, less what has left, as far as the next hop's window allows.
  std::uint64_t sendable_bytes(std::size_t index) const {
    const std::uint64_t arrived = index == 0 ? wire_bytes : hops[index - 1].sent_bytes;
    const std::uint64_t sent = hops[index].sent_bytes;
    if (index + 1 < hop_count() && sent - hops[index + 1].sent_bytes >= kWindowBytes) return 0;
    return std::min(arrived - sent, kChunkBytes);
  }
};

struct Server {  // of a link
  Hop* first = nullptr;
  Hop* last = nullptr;
  Hop* serving = nullptr;
  bool in_one_piece = false;
  Picoseconds start_ps = 0;         // of the service
  std::uint64_t service_bytes = 0;  // of a chunk; unused in one piece
  std::uint64_t generation = 0;     // a service that was changed leaves a stale event behind

  void join(Hop& hop) {
    hop.engaged = true;
    hop.next = nullptr;
    (last != nullptr ? last->next : first) = &hop;
    last = &hop;
  }
  Hop* take() {
    Hop* hop = first;
    first = hop->next;
    if (first == nullptr) last = nullptr;
    return hop;
  }
};

class ChunkFabric final : public Fabric {
 public:
  ChunkFabric(World& world, Network& network)
      : world_(world), network_(network), usage_(network), servers_(network.links().size()) {}

  void transfer(const Path& path, std::uint64_t wire_bytes, std::uint64_t, EventFunction done, void* self,
                std::uint64_t argument) override {
    MESHBED_CHECK(wire_bytes > 0);
    MESHBED_CHECK(path.links.size() <= kHopsMax);
    for (const int link : path.links) {
      if (server(link).in_one_piece) cut(*server(link).serving->transfer);
    }
    usage_.begin(path, wire_bytes, world_.now());
    Transfer& transfer = take();
    transfer.path = &path;
    transfer.wire_bytes = wire_bytes;
    transfer.done = done;
    transfer.self = self;
    transfer.argument = argument;
    for (std::size_t index = 0; index < path.links.size(); ++index) {
      transfer.hops[index] = {.transfer = &transfer, .index = index};
    }
    engage(transfer.hops[0]);
  }

 private:
  static constexpr unsigned kLinkBits = 24;

  Server& server(int link) { return servers_[static_cast<std::size_t>(link)]; }
  static int link_of(const Hop& hop) { return hop.transfer->path->links[hop.index]; }
  std::uint64_t rate(int link) const { return network_.links()[static_cast<std::size_t>(link)].rate_bps; }

  void engage(Hop& hop) {
    server(link_of(hop)).join(hop);
    serve(link_of(hop));
  }

  /// Starts the next service on an idle link.
  void serve(int link) {
    Server& idle = server(link);
    if (idle.serving != nullptr || idle.first == nullptr) return;
    Hop& hop = *idle.take();
    Transfer& transfer = *hop.transfer;
    const auto& links = transfer.path->links;
    if (std::all_of(links.begin(), links.end(), [&](int each) { return usage_.active(each) == 1; })) {
      serve_in_one_piece(transfer);
      return;
    }
    const std::uint64_t bytes = transfer.sendable_bytes(hop.index);
    send_chunk(hop, bytes, world_.now());
  }

  /// The chunk goes on over later hops at the same time as long as their links are idle and it is next there: cutting
  /// through keeps a path full after another transfer's short visit to one of its links.
  void send_chunk(Hop& hop, std::uint64_t bytes, Picoseconds end) {
    const int link = link_of(hop);
    Server& each = server(link);
    each.serving = &hop;
    each.start_ps = world_.now();
    each.service_bytes = bytes;
    hop.engaged = true;
    end = std::max(end, world_.now() + wire_time_ps(bytes, rate(link)));
    end_service_at(end, link);
    if (hop.index + 1 == hop.transfer->hop_count()) return;
    Hop& next = hop.transfer->hops[hop.index + 1];
    const Server& later = server(link_of(next));
    const bool is_next = !next.engaged && next.sent_bytes == hop.sent_bytes;
    if (is_next && later.serving == nullptr && later.first == nullptr) send_chunk(next, bytes, end);
  }

  void end_service_at(Picoseconds when, int link) {
    Server& busy = server(link);
    const std::uint64_t argument = (++busy.generation << kLinkBits) | static_cast<std::uint64_t>(link);
    world_.at(when, busy.serving->transfer->path->source.node, &ChunkFabric::service_due, this, argument);
  }

  /// Each hop sends all that it has not sent, from now on (or from the start of the service it is in); what waits in
  /// lines on these links is this transfer alone.
  void serve_in_one_piece(Transfer& transfer) {
    Picoseconds end = world_.now();
    for (std::size_t index = 0; index < transfer.hop_count(); ++index) {
      Hop& hop = transfer.hops[index];
      Server& each = server(link_of(hop));
      if (each.serving == nullptr) each.start_ps = world_.now();
      each.first = each.last = nullptr;
      each.serving = &hop;
      each.in_one_piece = true;
      ++each.generation;
      hop.engaged = true;
      const std::uint64_t left = transfer.wire_bytes - hop.sent_bytes;
      end = std::max(end, each.start_ps + wire_time_ps(left, rate(link_of(hop))));
    }
    end_service_at(end, transfer.path->links.front());
  }

  /// Another transfer has come to a link of `transfer`: its one piece ends at the next chunk boundary of each link.
  void cut(Transfer& transfer) {
    std::uint64_t limit = transfer.wire_bytes;  // no hop is ahead of the one before
    for (std::size_t index = 0; index < transfer.hop_count(); ++index) {
      Hop& hop = transfer.hops[index];
      const int link = link_of(hop);
      Server& each = server(link);
      const auto flown = static_cast<__int128_t>(world_.now() - each.start_ps) * rate(link) /
                         (8 * static_cast<__int128_t>(kPicosecondsPerSecond));
      const std::uint64_t position = std::min<std::uint64_t>(hop.sent_bytes + static_cast<std::uint64_t>(flown), limit);
      const std::uint64_t boundary =
          std::min((position + kChunkBytes - 1) / kChunkBytes * kChunkBytes, transfer.wire_bytes);
      limit = position;
      each.in_one_piece = false;
      each.service_bytes = std::max(boundary, hop.sent_bytes) - hop.sent_bytes;
      end_service_at(world_.now() + wire_time_ps(boundary - std::min(boundary, position), rate(link)), link);
    }
  }

  static void service_due(void* self, std::uint64_t argument) {
    auto& fabric = *static_cast<ChunkFabric*>(self);
    const int link = static_cast<int>(argument & ((1ULL << kLinkBits) - 1));
    if (fabric.server(link).generation != argument >> kLinkBits) return;
    if (fabric.server(link).in_one_piece) {
      fabric.piece_ended(*fabric.server(link).serving->transfer);
    } else {
      fabric.service_ended(link);
    }
  }

  void piece_ended(Transfer& transfer) {
    for (const int link : transfer.path->links) {
      server(link).serving = nullptr;
      server(link).in_one_piece = false;
    }
    finish(transfer);
  }

  void service_ended(int link) {
    Server& ended = server(link);
    Hop& hop = *std::exchange(ended.serving, nullptr);
    Transfer& transfer = *hop.transfer;
    hop.sent_bytes += ended.service_bytes;
    hop.engaged = false;
    if (transfer.hops[transfer.hop_count() - 1].sent_bytes == transfer.wire_bytes) {
      finish(transfer);
    } else {
      // This hop, the next (a chunk has come) and the one before (a credit has come) may have something to send now.
      const std::size_t from = hop.index == 0 ? 0 : hop.index - 1;
      const std::size_t to = std::min(hop.index + 1, transfer.hop_count() - 1);
      for (std::size_t index = from; index <= to; ++index) {
        Hop& each = transfer.hops[index];
        if (!each.engaged && transfer.sendable_bytes(index) > 0) engage(each);
      }
    }
    serve(link);
  }

  void finish(Transfer& transfer) {
    usage_.end(*transfer.path, transfer.wire_bytes, world_.now());
    const EventFunction done = transfer.done;
    void* self = transfer.self;
    const std::uint64_t argument = transfer.argument;
    free_.push_back(&transfer);
    done(self, argument);
  }

  Transfer& take() {
    if (free_.empty()) return pool_.emplace_back();
    Transfer& transfer = *free_.back();
    free_.pop_back();
    return transfer;
  }

  World& world_;
  Network& network_;
  LinkUsage usage_;
  std::vector<Server> servers_;
  std::deque<Transfer> pool_;
  std::vector<Transfer*> free_;
};

}  // namespace

std::unique_ptr<Fabric> make_chunk_fabric(World& world, Network& network) {
  return std::make_unique<ChunkFabric>(world, network);
}

}  // namespace meshbed::sim
