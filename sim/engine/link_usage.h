#pragma once
// LinkUsage: the book that a fabric keeps of its links, for the proof at the end of a run.

#include <algorithm>
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
    for (std::size_t at = path.sent; at < path.links.size(); ++at) offer(path, path.links[at]);
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
    for (std::size_t at = path.sent; at < path.links.size(); ++at) withdraw(path, path.links[at]);
  }

  int active(int index) const { return entries_[static_cast<std::size_t>(index)].active; }

 private:
  /// Who sends into a receiver's link: the sender's first link, its narrowest rate, and how many transfers.
  struct Sender {
    int link = -1;
    std::uint64_t rate_bps = 0;
    int transfers = 0;
  };
  struct Entry {
    int active = 0;               // transfers under way on the link
    Picoseconds since_ps = 0;     // busy since then, and not counted yet
    std::vector<Sender> senders;  // of a receiver's link
  };

  /// A sender divides its rate among its transfers, wherever they go, as an adapter takes turns between queue pairs.
  /// Looked at whenever one begins: at such times it is most, but for a sender whose others end first.
  void offer(const Path& path, int index) {
    std::vector<Sender>& senders = entries_[static_cast<std::size_t>(index)].senders;
    const int first = path.links.front();
    auto own = std::find_if(senders.begin(), senders.end(), [&](const Sender& each) { return each.link == first; });
    if (own == senders.end()) {
      std::uint64_t rate_bps = link(first).shaped_bps;
      for (std::size_t at = 1; at < path.sent; ++at) rate_bps = std::min(rate_bps, link(path.links[at]).shaped_bps);
      own = senders.insert(senders.end(), {.link = first, .rate_bps = rate_bps});
    }
    ++own->transfers;
    std::uint64_t offered_bps = 0;
    for (const Sender& each : senders) {
      offered_bps +=
          each.rate_bps / static_cast<std::uint64_t>(active(each.link)) * static_cast<std::uint64_t>(each.transfers);
    }
    link(index).offered_bps = std::max(link(index).offered_bps, offered_bps);
  }

  void withdraw(const Path& path, int index) {
    std::vector<Sender>& senders = entries_[static_cast<std::size_t>(index)].senders;
    const auto own = std::find_if(senders.begin(), senders.end(),
                                  [&](const Sender& each) { return each.link == path.links.front(); });
    if (--own->transfers > 0) return;
    *own = senders.back();
    senders.pop_back();
  }

  Link& link(int index) { return network_.links()[static_cast<std::size_t>(index)]; }

  Network& network_;
  std::vector<Entry> entries_;
};

}  // namespace meshbed::sim
