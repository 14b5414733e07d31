#include "sim/verbs/posted_writes.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>

#include "sim/verbs/system.h"

namespace meshbed::sim {
namespace verbs {
namespace {

constexpr std::uint64_t kDiceSalt = 0x9c1e;  // this room's own numbers

}  // namespace

PostedWrites::PostedWrites(World& world) : world_(world), dice_(mix64(world.options().seed ^ kDiceSalt)) {}

Picoseconds PostedWrites::moment_of(models::PortRef adapter, bool relaxed) {
  const auto range = static_cast<std::uint64_t>(std::max<Picoseconds>(most_ps_, 1));
  const Picoseconds moment_ps = world_.now() + 1 + static_cast<Picoseconds>(dice_.next() % range);
  if (relaxed) return moment_ps;
  Picoseconds& last_ps = last_ordered_[adapter];
  last_ps = std::max(last_ps, moment_ps);
  return last_ps;
}

void PostedWrites::post(models::PortRef adapter, const Span& target, const char* bytes) {
  const bool relaxed = (target.region->access & IBV_ACCESS_RELAXED_ORDERING) != 0;
  for (std::uint64_t done = 0; done < target.length;) {
    const auto at = reinterpret_cast<std::uint64_t>(target.bytes) + done;
    const std::uint64_t length = std::min<std::uint64_t>(target.length - done, kPieceBytes - at % kPieceBytes);
    pieces_[next_] = {.adapter = adapter,
                      .buffer = target.region->device,
                      .target = target.bytes + done,
                      .bytes = {bytes + done, bytes + done + length}};
    world_.at(moment_of(adapter, relaxed), adapter.node, due, this, next_++);
    done += length;
  }
}

void PostedWrites::land(const Piece& piece) { std::memcpy(piece.target, piece.bytes.data(), piece.bytes.size()); }

void PostedWrites::due(void* self, std::uint64_t number) {
  auto& writes = *static_cast<PostedWrites*>(self);
  const auto found = writes.pieces_.find(number);
  if (found == writes.pieces_.end()) return;  // pushed by a read
  land(found->second);
  Process& gpu = found->second.buffer->owner;
  writes.pieces_.erase(found);
  deliver(system(), gpu);
}

template <typename Condition>
void PostedWrites::land_where(const Condition& holds) {
  for (auto at = pieces_.begin(); at != pieces_.end();) {
    if (!holds(at->second)) {
      ++at;
      continue;
    }
    land(at->second);
    at = pieces_.erase(at);
  }
}

void PostedWrites::pushed_by_read(models::PortRef adapter, const Span& source) {
  if (!is_device(source)) return;
  const Process* gpu = &source.region->device->owner;
  land_where([&](const Piece& piece) { return piece.adapter == adapter && &piece.buffer->owner == gpu; });
}

void PostedWrites::finish(const DeviceBuffer& buffer) {
  land_where([&](const Piece& piece) { return piece.buffer.get() == &buffer; });
}

}  // namespace verbs

void set_posted_write_delay(Picoseconds most_ps) { verbs::system().posted_writes.set_most(most_ps); }

}  // namespace meshbed::sim
