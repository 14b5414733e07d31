#pragma once
// LinkUsage: the book that a fabric keeps of its links, for the proof at the end of a run.

#include <cstdint>
#include <vector>

#include "sim/engine/network.h"

namespace meshbed::sim {

class LinkUsage {
 public:
  explicit LinkUsage(Network& network) : network_(network), entries_(network.links().size()) {}

  void begin(const Path& path, std::uint64_t wire_bytes, Picoseconds now) {
    for (const int index : path.links) {
      Entry& entry = entries_[static_cast<std::size_t>(index)];
      if (entry.active++ == 0) entry.since_ps = now;
      link(index).bytes_in += wire_bytes;
      link(index).bytes_under_way += wire_bytes;
    }
  }

  void end(const Path& path, std::uint64_t wire_bytes, Picoseconds now) {
    for (const int index : path.links) {
      Entry& entry = entries_[static_cast<std::size_t>(index)];
      // Up to now, though others may still be under way: the run may end before they do.
      link(index).busy_ps += now - entry.since_ps;
      entry.since_ps = now;
      --entry.active;
      link(index).bytes_out += wire_bytes;
      link(index).bytes_under_way -= wire_bytes;
    }
  }

  int active(int index) const { return entries_[static_cast<std::size_t>(index)].active; }

 private:
  struct Entry {
    int active = 0;            // transfers under way on the link
    Picoseconds since_ps = 0;  // busy since then, and not counted yet
  };
  Link& link(int index) { return network_.links()[static_cast<std::size_t>(index)]; }

  Network& network_;
  std::vector<Entry> entries_;
};

}  // namespace meshbed::sim
