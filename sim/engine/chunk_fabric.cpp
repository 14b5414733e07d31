// The chunk fabric: links serve chunks of the transfers that wait, in turn.
//
// Nomenclature: hop - one link of a transfer's path; chunk - at most kChunkBytes of one transfer; service - the time in
// which a link sends a chunk; window - how far a hop may run ahead of the next one (a switch's buffer for the transfer,
// returned by credits: nothing is lost, and a transfer that is held up further on does not hold up others here).
// Links serve the transfers that have a chunk for them in turn, one chunk each: max-min sharing, a chunk coarse.
// Adapters take turns packet by packet, which small messages feel: a transfer of one packet therefore waits for no more
// than the packet that is on the wire, not for its chunk, and where such transfers queue, they and single packets of
// the others go alternately.
// A transfer that has all its links to itself goes in one piece over all of them at once, cutting through, at the rate
// of its slowest link; when another transfer comes to one of its links, the piece ends at each link's next packet
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
// One packet of the largest path MTU, 4096 bytes, with room for its headers.
constexpr std::uint64_t kLargestPacketBytes = 4352;
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
  bool is_packet() const { return wire_bytes <= kLargestPacketBytes; }
};

/// Hops that wait for a link, the first come first.
class Line {
 public:
  bool empty() const { return first_ == nullptr; }
  void clear() { first_ = last_ = nullptr; }
  void join(Hop& hop) {
    hop.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &hop;
    last_ = &hop;
  }
  Hop* take() {
    Hop* hop = first_;
    first_ = hop->next;
    if (first_ == nullptr) last_ = nullptr;
    return hop;
  }

 private:
  Hop* first_ = nullptr;
  Hop* last_ = nullptr;
};

struct Server {  // of a link
  Line packets;  // transfers of one packet
  Line chunks;   // the others
  bool packet_was_last = false;
  Hop* serving = nullptr;
  bool in_one_piece = false;
  Picoseconds start_ps = 0;  // of the service
  Picoseconds end_ps = 0;
  std::uint64_t service_bytes = 0;  // of a chunk; unused in one piece
  std::uint64_t generation = 0;     // a service that was changed leaves a stale event behind

  bool nobody_waits() const { return packets.empty() && chunks.empty(); }
  void join(Hop& hop) {
    hop.engaged = true;
    (hop.transfer->is_packet() ? packets : chunks).join(hop);
  }
  /// The next in turn: a packet and a chunk alternately.
  Hop* take() {
    const bool packet = chunks.empty() || (!packets.empty() && !packet_was_last);
    packet_was_last = packet;
    return (packet ? packets : chunks).take();
  }
};

class ChunkFabric final : public Fabric {
 public:
  ChunkFabric(Timeline& timeline, Network& network)
      : timeline_(timeline), network_(network), usage_(network), servers_(network.links().size()) {
    timeline.never_hold(&ChunkFabric::service_due);
  }

  void transfer(const Path& path, std::uint64_t wire_bytes, std::uint64_t, EventFunction done, void* self,
                std::uint64_t argument) override {
    MESHBED_CHECK(wire_bytes > 0);
    MESHBED_CHECK(path.links.size() <= kHopsMax);
    for (const int link : path.links) {
      if (server(link).in_one_piece) break_up(*server(link).serving->transfer);
    }
    usage_.begin(path, wire_bytes, timeline_.now());
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

  void set_rate(int link, std::uint64_t rate_bps) override {
    if (server(link).in_one_piece) break_up(*server(link).serving->transfer);
    network_.links()[static_cast<std::size_t>(link)].shaped_bps = rate_bps;
  }

 private:
  static constexpr unsigned kLinkBits = 24;

  Server& server(int link) { return servers_[static_cast<std::size_t>(link)]; }
  const Server& server(int link) const { return servers_[static_cast<std::size_t>(link)]; }
  static int link_of(const Hop& hop) { return hop.transfer->path->links[hop.index]; }
  std::uint64_t rate(int link) const { return network_.links()[static_cast<std::size_t>(link)].shaped_bps; }

  /// What a hop may send now, and when the last of it has come in.
  struct Supply {
    std::uint64_t bytes = 0;
    Picoseconds arrival_ps = 0;
  };

  /// At most `limit` bytes that have arrived, or are arriving, cutting through. A hop may wait for arriving bytes only
  /// if that delays no other flow (`may_hold`); otherwise it starts late enough not to wait.
  Supply supply_of(const Hop& hop, std::uint64_t limit, bool may_hold) const {
    const Transfer& transfer = *hop.transfer;
    const std::uint64_t sent = hop.sent_bytes;
    const Picoseconds now = timeline_.now();
    const bool last = hop.index + 1 == transfer.hop_count();
    if (!last && sent >= transfer.hops[hop.index + 1].sent_bytes + kWindowBytes) return {};
    if (hop.index == 0) return {std::min(transfer.wire_bytes - sent, limit), now};
    const Hop& before = transfer.hops[hop.index - 1];
    const Server& feeding = server(link_of(before));
    const std::uint64_t coming = before.sent_bytes + (feeding.serving == &before ? feeding.service_bytes : 0);
    if (coming <= sent) return {};
    const std::uint64_t bytes = std::min(coming - sent, limit);
    if (sent + bytes <= before.sent_bytes) return {bytes, now};
    const Picoseconds arrival = feeding.end_ps - wire_time_ps(coming - sent - bytes, rate(link_of(before)));
    if (may_hold || arrival <= now + wire_time_ps(bytes, rate(link_of(hop)))) return {bytes, arrival};
    return {before.sent_bytes > sent ? before.sent_bytes - sent : 0, now};
  }

  /// The hop has something to send, or soon will have.
  void engage(Hop& hop) {
    Server& joined = server(link_of(hop));
    joined.join(hop);
    if (joined.serving != nullptr && hop.transfer->is_packet() && !joined.serving->transfer->is_packet()) {
      cut(*joined.serving->transfer, joined.serving->index);
    }
    serve(link_of(hop));
  }
  void engage_if_supplied(Hop& hop) {
    if (!hop.engaged && supply_of(hop, kChunkBytes, true).bytes > 0) engage(hop);
  }

  /// Starts the next service on an idle link.
  void serve(int link) {
    Server& idle = server(link);
    while (idle.serving == nullptr && !idle.nobody_waits()) {
      Hop& hop = *idle.take();
      Transfer& transfer = *hop.transfer;
      const auto& links = transfer.path->links;
      if (std::all_of(links.begin(), links.end(), [&](int each) { return usage_.active(each) == 1; })) {
        serve_in_one_piece(transfer);
        return;
      }
      const std::uint64_t limit = idle.packets.empty() ? kChunkBytes : kLargestPacketBytes;
      const Supply supply = supply_of(hop, limit, idle.nobody_waits());
      if (supply.bytes == 0) {  // what comes in will engage it again
        hop.engaged = false;
        continue;
      }
      idle.serving = &hop;
      idle.start_ps = timeline_.now();
      idle.service_bytes = supply.bytes;
      end_service_at(std::max(supply.arrival_ps, timeline_.now() + wire_time_ps(supply.bytes, rate(link))), link);
      if (hop.index + 1 < transfer.hop_count()) engage_if_supplied(transfer.hops[hop.index + 1]);
    }
  }

  void end_service_at(Picoseconds when, int link) {
    Server& busy = server(link);
    busy.end_ps = when;
    const std::uint64_t argument = (++busy.generation << kLinkBits) | static_cast<std::uint64_t>(link);
    timeline_.at(when, busy.serving->transfer->path->source.node, &ChunkFabric::service_due, this, argument);
  }

  /// Each hop sends all that it has not sent, from now on (or from the start of the service it is in); what waits in
  /// lines on these links is this transfer alone.
  void serve_in_one_piece(Transfer& transfer) {
    Picoseconds end = timeline_.now();
    for (std::size_t index = 0; index < transfer.hop_count(); ++index) {
      Hop& hop = transfer.hops[index];
      Server& each = server(link_of(hop));
      if (each.serving == nullptr) each.start_ps = timeline_.now();
      each.packets.clear();
      each.chunks.clear();
      each.serving = &hop;
      each.in_one_piece = true;
      ++each.generation;
      hop.engaged = true;
      const std::uint64_t left = transfer.wire_bytes - hop.sent_bytes;
      end = std::max(end, each.start_ps + wire_time_ps(left, rate(link_of(hop))));
    }
    end_service_at(end, transfer.path->links.front());
  }

  /// How far hop has come with what it is sending.
  std::uint64_t position_of(const Hop& hop) const {
    const int link = link_of(hop);
    const Server& busy = server(link);
    const auto flown = static_cast<__int128_t>(timeline_.now() - busy.start_ps) * rate(link) /
                       (8 * static_cast<__int128_t>(kPicosecondsPerSecond));
    const std::uint64_t planned = busy.in_one_piece ? hop.transfer->wire_bytes : hop.sent_bytes + busy.service_bytes;
    return std::min(hop.sent_bytes + static_cast<std::uint64_t>(flown), planned);
  }

  static std::uint64_t packet_boundary(std::uint64_t position) {
    return (position + kLargestPacketBytes - 1) / kLargestPacketBytes * kLargestPacketBytes;
  }

  /// The service of `hop` ends at `boundary`, which is not before `position`, and not before `earliest`.
  void end_service_at_boundary(Hop& hop, std::uint64_t position, std::uint64_t boundary, Picoseconds earliest) {
    const int link = link_of(hop);
    server(link).in_one_piece = false;
    server(link).service_bytes = boundary - hop.sent_bytes;
    end_service_at(std::max(earliest, timeline_.now() + wire_time_ps(boundary - position, rate(link))), link);
  }

  /// Another transfer has come to a link of `transfer`, which goes in one piece: each hop goes on to its own next
  /// packet boundary. A hop before a slower one is as far ahead of it as its window allows.
  void break_up(Transfer& transfer) {
    const std::size_t count = transfer.hop_count();
    std::array<std::uint64_t, kHopsMax> position{};
    for (std::size_t index = 0; index < count; ++index) {
      position[index] = position_of(transfer.hops[index]);
      if (index > 0) position[index] = std::min(position[index], position[index - 1]);
    }
    for (std::size_t index = count - 1; index > 0; --index) {
      const std::uint64_t ahead = std::max(position[index] + kWindowBytes, transfer.hops[index - 1].sent_bytes);
      position[index - 1] = std::min(position[index - 1], ahead);
    }
    for (std::size_t index = 0; index < count; ++index) {
      const std::uint64_t boundary = std::min(packet_boundary(position[index]), transfer.wire_bytes);
      const bool cuts_through = index > 0 && boundary > position[index - 1];
      const Picoseconds earliest = cuts_through ? server(link_of(transfer.hops[index - 1])).end_ps : timeline_.now();
      end_service_at_boundary(transfer.hops[index], position[index], boundary, earliest);
    }
  }

  /// A message of one packet has come to the link that serves a chunk of hop `from`: the chunk ends at the next packet
  /// boundary, and so does what later hops are sending of the same bytes.
  void cut(Transfer& transfer, std::size_t from) {
    std::uint64_t boundary = packet_boundary(position_of(transfer.hops[from]));
    for (std::size_t index = from; index < transfer.hop_count(); ++index) {
      Hop& hop = transfer.hops[index];
      const Server& busy = server(link_of(hop));
      if (busy.serving != &hop || hop.sent_bytes + busy.service_bytes <= boundary) return;
      const Picoseconds earliest = index > from ? server(link_of(transfer.hops[index - 1])).end_ps : timeline_.now();
      end_service_at_boundary(hop, std::min(position_of(hop), boundary), boundary, earliest);
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
      note_load(link, transfer.wire_bytes - server(link).serving->sent_bytes);
      server(link).serving = nullptr;
      server(link).in_one_piece = false;
    }
    finish(transfer);
  }

  void service_ended(int link) {
    Server& ended = server(link);
    Hop& hop = *std::exchange(ended.serving, nullptr);
    Transfer& transfer = *hop.transfer;
    note_load(link, ended.service_bytes);
    hop.sent_bytes += ended.service_bytes;
    hop.engaged = false;
    if (transfer.hops[transfer.hop_count() - 1].sent_bytes == transfer.wire_bytes) {
      finish(transfer);
    } else {
      // This hop, the next (a chunk has come) and the one before (a credit has come) may have something to send now.
      const std::size_t from = hop.index == 0 ? 0 : hop.index - 1;
      const std::size_t to = std::min(hop.index + 1, transfer.hop_count() - 1);
      for (std::size_t index = from; index <= to; ++index) {
        engage_if_supplied(transfer.hops[index]);
      }
    }
    serve(link);
  }

  void note_load(int link, std::uint64_t bytes) {
    network_.links()[static_cast<std::size_t>(link)].load.add(server(link).start_ps, timeline_.now(), bytes);
  }

  void finish(Transfer& transfer) {
    usage_.end(*transfer.path, transfer.wire_bytes, timeline_.now());
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

  Timeline& timeline_;
  Network& network_;
  LinkUsage usage_;
  std::vector<Server> servers_;
  std::deque<Transfer> pool_;
  std::vector<Transfer*> free_;
};

}  // namespace

std::unique_ptr<Fabric> make_chunk_fabric(Timeline& timeline, Network& network) {
  return std::make_unique<ChunkFabric>(timeline, network);
}

}  // namespace meshbed::sim
