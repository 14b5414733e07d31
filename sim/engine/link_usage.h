#pragma once
// LinkUsage: the book that a fabric keeps of its links, for the proof at the end of a run.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/engine/network.h"

namespace meshbed::sim {

class LinkUsage {
 public:
  /// `adds_load`: to each link's load what it carried, evenly over the time for which it was busy. A fabric that knows
  /// more leaves it out and adds that itself.
  explicit LinkUsage(Network& network, bool adds_load = false)
      : network_(network), adds_load_(adds_load), entries_(network.links().size()) {}

  void begin(const Path& path, std::uint64_t wire_bytes, Picoseconds now) {
    for (const int index : path.links) {
      Entry& entry = entries_[static_cast<std::size_t>(index)];
      if (entry.active++ == 0) {
        entry.since_ps = entry.busy_from_ps = now;
        entry.busy_bytes = 0;
      }
      link(index).bytes_in += wire_bytes;
      link(index).bytes_under_way += wire_bytes;
    }
    for_each_shared(path, [&](int index) { note(path, index); });
    for (std::size_t at = path.sent; at < path.links.size(); ++at) offer(path.links[at]);
  }

  void end(const Path& path, std::uint64_t wire_bytes, Picoseconds now) {
    for (const int index : path.links) {
      Entry& entry = entries_[static_cast<std::size_t>(index)];
      // Up to now, though others may still be under way: the run may end before they do.
      link(index).busy_ps += now - entry.since_ps;
      entry.since_ps = now;
      entry.busy_bytes += wire_bytes;
      if (--entry.active == 0 && adds_load_) link(index).load.add(entry.busy_from_ps, now, entry.busy_bytes);
      link(index).bytes_out += wire_bytes;
      link(index).bytes_under_way -= wire_bytes;
    }
    for_each_shared(path, [&](int index) { withdraw(path, index); });
  }

  int active(int index) const { return entries_[static_cast<std::size_t>(index)].active; }

 private:
  /// A port that sends over a link: the port's own link, those before it that it shares (PCIe, QSFP port; -1: none),
  /// and how many transfers.
  struct Sender {
    int link = -1;
    std::array<int, 2> shared{-1, -1};
    int transfers = 0;
  };
  struct Entry {
    int active = 0;                // transfers under way on the link
    Picoseconds since_ps = 0;      // busy since then, and not counted yet
    Picoseconds busy_from_ps = 0;  // of the time without a pause that `since_ps` is in
    std::uint64_t busy_bytes = 0;  // of transfers that ended in it
    std::vector<Sender> senders;   // of a receiver's link, and of a shared one of a sender
  };

  std::vector<Sender>& senders(int index) { return entries_[static_cast<std::size_t>(index)].senders; }
  /// All but the sending port's own.
  template <typename Work>
  static void for_each_shared(const Path& path, const Work& work) {
    for (const int index : path.links) {
      if (index != port_of(path)) work(index);
    }
  }
  static int port_of(const Path& path) { return path.links[path.sent - 1]; }
  Sender* find(int index, int port) {
    std::vector<Sender>& all = senders(index);
    const auto own = std::find_if(all.begin(), all.end(), [port](const Sender& each) { return each.link == port; });
    return own == all.end() ? nullptr : &*own;
  }

  void note(const Path& path, int index) {
    Sender* own = find(index, port_of(path));
    if (own == nullptr) {
      own = &senders(index).emplace_back(Sender{.link = port_of(path)});
      for (std::size_t at = 0; at + 1 < path.sent; ++at) own->shared.at(at) = path.links[at];
    }
    ++own->transfers;
  }

  void withdraw(const Path& path, int index) {
    Sender* own = find(index, port_of(path));
    if (--own->transfers > 0) return;
    *own = senders(index).back();
    senders(index).pop_back();
  }

  /// What a port can send just now: ports that are busy behind one shared link divide it by their rates, where it
  /// carries less than these together.
  std::uint64_t rate_of(const Sender& sender) {
    std::uint64_t least_bps = link(sender.link).shaped_bps;
    for (const int shared : sender.shared) {
      if (shared < 0) continue;
      std::uint64_t together_bps = 0;
      for (const Sender& each : senders(shared)) together_bps += link(each.link).shaped_bps;
      const std::uint64_t shared_bps = link(shared).shaped_bps;
      if (together_bps <= shared_bps) continue;
      const __uint128_t product = static_cast<__uint128_t>(link(sender.link).shaped_bps) * shared_bps;
      least_bps = std::min(least_bps, static_cast<std::uint64_t>(product / together_bps));
    }
    return least_bps;
  }

  /// A port divides its rate among its transfers, wherever they go, as an adapter takes turns between queue pairs.
  /// Looked at whenever one begins: at such times it is most, but for a sender whose others end first.
  void offer(int index) {
    std::uint64_t offered_bps = 0;
    for (const Sender& each : senders(index)) {
      offered_bps +=
          rate_of(each) / static_cast<std::uint64_t>(active(each.link)) * static_cast<std::uint64_t>(each.transfers);
    }
    link(index).offered_bps = std::max(link(index).offered_bps, offered_bps);
  }

  Link& link(int index) { return network_.links()[static_cast<std::size_t>(index)]; }

  Network& network_;
  bool adds_load_;
  std::vector<Entry> entries_;
};

}  // namespace meshbed::sim
