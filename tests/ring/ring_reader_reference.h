#pragma once
// The buffers of a ring read once more, from their specification alone (vyre's megakernel runtime, commit ca35047: slot
// 2.1, control 2.3, packed slots 2.4, debug log 2.5, IO queue 2.6, windows 2.7, telemetry 2.8, sketch 2.9) and in
// another way: byte by byte, into words of its own, with the numbers of the specification and none of plugin/ring's.
// For comparison with plugin/ring; strict, as the ancestor reads.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace meshbed::reference {

using Octets = std::vector<std::uint8_t>;

inline std::uint32_t word_at(const Octets& octets, std::size_t word) {
  std::uint32_t value = 0;
  for (std::size_t octet = 4; octet-- > 0;) value = value * 256 + octets.at(4 * word + octet);
  return value;
}

struct SlotWords {
  std::uint32_t status = 0, opcode = 0, tenant = 0;
  std::optional<std::uint32_t> priority;  // the older slot has none
  std::vector<std::uint32_t> args;        // 12, or 13 of the older slot
};

inline std::vector<SlotWords> read_slots(const Octets& ring, bool older) {
  std::vector<SlotWords> slots;
  for (std::size_t base = 0; 4 * base < ring.size(); base += 16) {
    SlotWords slot{word_at(ring, base), word_at(ring, base + 1), word_at(ring, base + 2), std::nullopt, {}};
    std::size_t next = base + 3;
    if (!older) slot.priority = word_at(ring, next++);
    while (next < base + 16) slot.args.push_back(word_at(ring, next++));
    slots.push_back(slot);
  }
  return slots;
}

struct ControlWords {
  bool shutdown = false;
  std::uint32_t done_count = 0, tenant_base = 0, epoch = 0, starvation = 0;
  std::map<std::uint32_t, std::uint32_t> metrics;  // those that are not 0
  std::vector<std::uint32_t> tenant_fairness = std::vector<std::uint32_t>(32, 0);
  std::vector<std::uint32_t> priority_fairness = std::vector<std::uint32_t>(5, 0);
  std::vector<std::uint32_t> priority_offsets = std::vector<std::uint32_t>(6, 0);
};

inline ControlWords read_control(const Octets& control, bool older) {
  ControlWords words;
  words.shutdown = word_at(control, 0) != 0;
  words.done_count = word_at(control, 1);
  words.tenant_base = word_at(control, 2);
  words.epoch = word_at(control, older ? 96 : 128);
  for (std::uint32_t op = 0; op < 32; ++op) {
    if (const std::uint32_t count = word_at(control, (older ? 64U : 96U) + op); count != 0) words.metrics[op] = count;
  }
  if (older) return words;
  for (std::size_t index = 0; index < 32; ++index) words.tenant_fairness[index] = word_at(control, 64 + index);
  for (std::size_t index = 0; index < 6; ++index) words.priority_offsets[index] = word_at(control, 129 + index);
  words.starvation = word_at(control, 135);
  for (std::size_t index = 0; index < 5; ++index) words.priority_fairness[index] = word_at(control, 136 + index);
  return words;
}

/// What stands behind the base and the tenant's number; the end of the buffer is no authority.
inline bool is_authorised(const Octets& control, std::uint32_t tenant) {
  const std::size_t at = std::size_t{word_at(control, 2)} + tenant;
  return 4 * at < control.size() && word_at(control, at) != 0;
}

struct Counts {
  std::map<std::uint32_t, std::uint64_t> statuses;  // 0 to 7; 8: any other
  std::uint64_t total = 0, queued = 0, idle_ppm = 0, density_bps = 0, occupancy_bps = 0, masked = 0;
  std::uint64_t tenant_total = 0, tenant_skew = 0, priority_total = 0;
};

inline Counts count(const std::vector<SlotWords>& slots, const Octets& control, const ControlWords& words) {
  Counts counts;
  for (const SlotWords& slot : slots) {
    ++counts.statuses[slot.status < 8 ? slot.status : 8];
    ++counts.total;
    if (slot.status != 0 && slot.status != 3) ++counts.queued;
    if (slot.status == 1 && !is_authorised(control, slot.tenant)) ++counts.masked;
  }
  if (counts.total > 0) {
    const std::uint64_t empty = counts.statuses[0];
    counts.idle_ppm = empty * 1'000'000 / counts.total;
    counts.density_bps = counts.queued * 10'000 / counts.total;
    counts.occupancy_bps = (counts.total - empty) * 10'000 / counts.total;
  }
  std::set<std::uint32_t> claims;
  for (const std::uint32_t one : words.tenant_fairness) {
    counts.tenant_total += one;
    if (one != 0) claims.insert(one);
  }
  if (!claims.empty()) counts.tenant_skew = *claims.rbegin() - *claims.begin();
  for (const std::uint32_t one : words.priority_fairness) counts.priority_total += one;
  return counts;
}

/// done delta, suspected stall; nothing: the ancestor stops since the count went back.
inline std::optional<std::pair<std::uint64_t, bool>> health(const ControlWords& before, const ControlWords& now,
                                                            Counts counts) {
  if (now.done_count < before.done_count) return std::nullopt;
  const std::uint64_t delta = now.done_count - before.done_count;
  return std::pair(delta, counts.queued > 0 && delta == 0 && counts.statuses[7] == 0);
}

struct Window {
  std::uint32_t tenant = 0;
  std::uint64_t required = 0, lookahead = 0;
  std::map<std::uint32_t, std::uint64_t> statuses;  // 1 to 7
};

/// By ticket and opcode.
inline std::map<std::pair<std::uint32_t, std::uint32_t>, Window> read_windows(
    const std::vector<SlotWords>& slots, const std::vector<std::uint32_t>& opcodes) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Window> windows;
  for (const SlotWords& slot : slots) {
    bool wanted = false;
    for (const std::uint32_t opcode : opcodes) wanted = wanted || opcode == slot.opcode;
    if (!wanted) continue;
    const auto key = std::pair(slot.args[0], slot.opcode);
    if (windows.count(key) == 0) windows[key].tenant = slot.tenant;
    Window& window = windows[key];
    if (slot.args[1] == 0) ++window.required;
    if (slot.args[1] == 1) ++window.lookahead;
    if (slot.status >= 1 && slot.status <= 7) ++window.statuses[slot.status];
  }
  return windows;
}

struct PackedOp {
  std::uint32_t opcode = 0, offset = 0;
  std::vector<std::uint32_t> args;  // three, by the host's layout; 0 behind the slot's end
  bool runs = false;
};
struct Packed {
  std::vector<PackedOp> ops;
  std::uint32_t argument_words = 0;
  bool beyond_kernel = false, misaligned = false, skips = false;
};

/// Nothing: the table does not fit the slot.
inline std::optional<Packed> read_packed(const SlotWords& slot) {
  std::vector<std::uint8_t> octets;
  for (const std::uint32_t word : slot.args) {
    for (int shift = 0; shift < 32; shift += 8) octets.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  const std::uint32_t count = octets[0];
  const auto table_words = [](std::uint32_t ops) { return (2 + 2 * ops) / 4 + ((2 + 2 * ops) % 4 != 0 ? 1 : 0); };
  if (table_words(count) > slot.args.size()) return std::nullopt;
  const std::uint32_t clamped = count > 4 ? 4 : count;
  Packed packed;
  packed.argument_words = octets[1];
  packed.beyond_kernel = count > 4;
  packed.misaligned = table_words(clamped) != table_words(count);
  for (std::uint32_t op = 0; op < count; ++op) {
    PackedOp one;
    one.opcode = octets.at(2 + 2 * op);
    one.offset = octets.at(3 + 2 * op);
    for (std::size_t at = table_words(count) + one.offset, end = at + 3; at < end; ++at) {
      one.args.push_back(at < slot.args.size() ? slot.args[at] : 0);
    }
    const bool fits = table_words(clamped) + one.offset + 3 <= slot.args.size();
    one.runs = op < clamped && fits;
    packed.skips = packed.skips || (op < clamped && !fits);
    packed.ops.push_back(one);
  }
  return packed;
}

/// Records of format, arg1, arg2, slot's word; nothing: the strict reader refuses.
inline std::optional<std::vector<std::vector<std::uint32_t>>> read_debug_log(const Octets& log) {
  const std::size_t capacity = (log.size() - 4) / 16;
  const std::uint32_t cursor = word_at(log, 0);
  if (cursor > 4 * capacity || cursor % 4 != 0) return std::nullopt;
  std::vector<std::vector<std::uint32_t>> records;
  for (std::size_t at = 1; at < 1 + std::size_t{cursor}; at += 4) {
    records.push_back({word_at(log, at), word_at(log, at + 1), word_at(log, at + 2), word_at(log, at + 3)});
  }
  return records;
}

/// Operation, source, destination, offset, bytes, status, tag.
using IoEntry =
    std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t>;
inline std::vector<IoEntry> read_io_queue(const Octets& queue) {
  std::vector<IoEntry> entries;
  for (std::size_t at = 0; at < std::size_t{64} * 8; at += 8) {
    const std::uint64_t offset = word_at(queue, at + 3) + (std::uint64_t{word_at(queue, at + 4)} << 32);
    entries.emplace_back(word_at(queue, at), word_at(queue, at + 1), word_at(queue, at + 2), offset,
                         word_at(queue, at + 5), word_at(queue, at + 6), word_at(queue, at + 7));
  }
  return entries;
}

/// Counters of a count-min sketch, row by row.
class Sketch {
 public:
  Sketch(std::uint64_t depth, std::uint64_t width) : depth_(depth), width_(width), counters(depth * width) {}
  void add(std::uint32_t key, std::uint64_t amount = 1) {
    for (std::uint64_t row = 0; row < depth_; ++row) {
      std::uint64_t x = (key ^ (row * 0x9e3779b97f4a7c15U)) + 0x9e3779b97f4a7c15U;
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
      counters[row * width_ + (x ^ (x >> 31)) % width_] += amount;
    }
  }

 private:
  std::uint64_t depth_, width_;

 public:
  std::vector<std::uint64_t> counters;
};

}  // namespace meshbed::reference
