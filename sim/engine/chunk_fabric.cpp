// The chunk fabric: links serve chunks of the transfers that wait, in turn.
//
// Nomenclature: first link - the source port's; chunk - at most kChunkBytes of one transfer; service - the time in
// which a first link sends one chunk. A first link serves its transfers in turn, a chunk each. A transfer that has all
// its links to itself is served in one piece; the piece is cut at the next chunk boundary when another transfer comes
// to one of its links. Later links on a path forward chunks first come, first served, cutting through: a chunk leaves
// one no earlier than its wire time after it began to come in, and no earlier than its last bit came in. Cost: one
// event a transfer where nothing is shared, one event a chunk elsewhere; nothing is allocated once warm.

#include <algorithm>
#include <deque>
#include <vector>

#include "plugin/base/check.h"
#include "sim/engine/fabric.h"
#include "sim/engine/link_usage.h"

namespace meshbed::sim {
namespace {

// 16 KiB at 100 Gb/s is 1.3 us: fairness is that coarse. Smaller chunks cost events in proportion.
constexpr std::uint64_t kChunkBytes = 16 * kKiB;

struct Transfer {
  const Path* path;
  std::uint64_t remaining_bytes;  // not yet served by the first link
  std::uint64_t wire_bytes;
  EventFunction done;
  void* self;
  std::uint64_t argument;
};

struct Server {  // of a first link
  std::deque<Transfer*> waiting;
  Transfer* serving = nullptr;
  std::uint64_t service_bytes = 0;
  Picoseconds service_start_ps = 0;
  std::uint64_t generation = 0;  // a service that was cut leaves a stale event behind
  Picoseconds free_ps = 0;       // as a later link: when the last chunk has left
  Transfer* alone = nullptr;     // the transfer in one piece that this link is part of
};

class ChunkFabric final : public Fabric {
 public:
  ChunkFabric(World& world, Network& network)
      : world_(world), network_(network), usage_(network), servers_(network.links().size()) {}

  void transfer(const Path& path, std::uint64_t wire_bytes, std::uint64_t, EventFunction done, void* self,
                std::uint64_t argument) override {
    MESHBED_CHECK(wire_bytes > 0);
    for (const int link : path.links) {
      if (Transfer* alone = server(link).alone) cut(*alone);
    }
    usage_.begin(path, wire_bytes, world_.now());
    Transfer* transfer = take();
    *transfer = {&path, wire_bytes, wire_bytes, done, self, argument};
    Server& first = server(path.links.front());
    first.waiting.push_back(transfer);
    if (first.serving == nullptr) serve(path.links.front());
  }

 private:
  Server& server(int link) { return servers_[static_cast<std::size_t>(link)]; }
  Picoseconds wire_time(int link, std::uint64_t bytes) const {
    return wire_time_ps(bytes, network_.links()[static_cast<std::size_t>(link)].rate_bps);
  }

  /// Starts the service of the next waiting transfer's chunk on a first link.
  void serve(int link) {
    Server& first = server(link);
    if (first.waiting.empty()) return;
    Transfer* transfer = first.waiting.front();
    first.waiting.pop_front();
    const auto& links = transfer->path->links;
    const bool alone = std::all_of(links.begin(), links.end(), [&](int each) {
      return usage_.active(each) == 1 && (each == link || server(each).free_ps <= world_.now());
    });
    if (alone) {
      for (const int each : links) server(each).alone = transfer;
    }
    first.serving = transfer;
    first.service_start_ps = world_.now();
    first.service_bytes = alone ? transfer->remaining_bytes : std::min(transfer->remaining_bytes, kChunkBytes);
    schedule_end(link);
  }

  void schedule_end(int link) {
    Server& first = server(link);
    const std::uint64_t generation = ++first.generation;
    world_.at(first.service_start_ps + wire_time(link, first.service_bytes), first.serving->path->source.node,
              &ChunkFabric::service_ended, this, (generation << kLinkBits) | static_cast<std::uint64_t>(link));
  }

  /// Another transfer has come to a link of `transfer`: its one piece ends at the next chunk boundary.
  void cut(Transfer& transfer) {
    for (const int each : transfer.path->links) server(each).alone = nullptr;
    const int link = transfer.path->links.front();
    Server& first = server(link);
    const Picoseconds elapsed = world_.now() - first.service_start_ps;
    const auto sent = static_cast<std::uint64_t>(static_cast<__int128_t>(elapsed) *
                                                 network_.links()[static_cast<std::size_t>(link)].rate_bps /
                                                 (8 * static_cast<__int128_t>(kPicosecondsPerSecond)));
    const std::uint64_t boundary = (sent / kChunkBytes + 1) * kChunkBytes;
    if (boundary >= first.service_bytes) return;
    first.service_bytes = boundary;
    schedule_end(link);
  }

  static void service_ended(void* self, std::uint64_t argument) {
    auto& fabric = *static_cast<ChunkFabric*>(self);
    const int link = static_cast<int>(argument & ((1ULL << kLinkBits) - 1));
    if (fabric.server(link).generation == argument >> kLinkBits) fabric.end_service(link);
  }

  void end_service(int link) {
    Server& first = server(link);
    Transfer* transfer = std::exchange(first.serving, nullptr);
    const std::uint64_t bytes = first.service_bytes;
    transfer->remaining_bytes -= bytes;
    const auto& links = transfer->path->links;
    Picoseconds begin = first.service_start_ps;
    Picoseconds end = world_.now();
    for (std::size_t hop = 1; hop < links.size(); ++hop) {
      Server& later = server(links[hop]);
      begin = std::max(begin, later.free_ps);
      end = std::max(end, begin + wire_time(links[hop], bytes));
      later.free_ps = end;
    }
    if (transfer->remaining_bytes > 0) {
      first.waiting.push_back(transfer);
    } else {
      for (const int each : links) {
        if (server(each).alone == transfer) server(each).alone = nullptr;
      }
      if (end == world_.now()) {
        finish(*transfer);
      } else {
        world_.at(end, transfer->path->source.node, &ChunkFabric::last_link_ended, this,
                  reinterpret_cast<std::uint64_t>(transfer));
      }
    }
    if (first.serving == nullptr) serve(link);
  }

  static void last_link_ended(void* self, std::uint64_t argument) {
    static_cast<ChunkFabric*>(self)->finish(*reinterpret_cast<Transfer*>(argument));
  }

  void finish(Transfer& transfer) {
    usage_.end(*transfer.path, transfer.wire_bytes, world_.now());
    const Transfer copy = transfer;
    free_.push_back(&transfer);
    copy.done(copy.self, copy.argument);
  }

  Transfer* take() {
    if (free_.empty()) return &pool_.emplace_back();
    Transfer* transfer = free_.back();
    free_.pop_back();
    return transfer;
  }

  static constexpr unsigned kLinkBits = 24;

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
