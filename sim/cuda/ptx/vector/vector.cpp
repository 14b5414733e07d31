// ld and st of vectors and of .b128. PTX ISA 9.0, 5.4.2 and 9.7.9; the accesses that a vector is: 8.2.2.
#include "sim/cuda/ptx/vector/vector.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <optional>

#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/vector/single_access.h"

namespace meshbed::sim::ptx {

namespace {

/// Vectors of all lanes, side by side, for forms that have no path of their own below.
struct Staged {
  static constexpr std::uint32_t kMostBytes = 32;
  alignas(16) std::byte bytes[kLanes * kMostBytes];
};

/// Rows of four words to columns.
void transpose(Quad (&quads)[4]) {
  const Quad low01 = __builtin_shufflevector(quads[0], quads[1], 0, 4, 1, 5);
  const Quad high01 = __builtin_shufflevector(quads[0], quads[1], 2, 6, 3, 7);
  const Quad low23 = __builtin_shufflevector(quads[2], quads[3], 0, 4, 1, 5);
  const Quad high23 = __builtin_shufflevector(quads[2], quads[3], 2, 6, 3, 7);
  quads[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  quads[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  quads[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  quads[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

/// The usual vector, four words to four registers, of a whole warp.
bool is_four_words(const Instruction& in, std::uint32_t lanes) {
  return lanes == kAllLanes && in.b == 4 && in.count == 4 && in.d_bytes == 4;
}

void load_four_words(Warp& warp, const std::vector<std::uint32_t>& places, const Access& access) {
  for (std::uint32_t lane = 0; lane < kLanes; lane += 4) {
    Quad quads[4];
    for (std::uint32_t at = 0; at < 4; ++at) quads[at] = load_once<Quad>(access.at[lane + at]);
    transpose(quads);
    for (std::uint32_t at = 0; at < 4; ++at) {
      if (places[at] != kNowhere) std::memcpy(place_at(warp, places[at]) + lane * 4, &quads[at], sizeof(Quad));
    }
  }
}

/// Whether it changed anything.
bool store_four_words(const Warp& warp, const std::vector<std::uint32_t>& places, const Access& access) {
  Quad changed{};
  for (std::uint32_t lane = 0; lane < kLanes; lane += 4) {
    Quad quads[4];
    for (std::uint32_t at = 0; at < 4; ++at)
      std::memcpy(&quads[at], place_at(warp, places[at]) + lane * 4, sizeof(Quad));
    transpose(quads);
    for (std::uint32_t at = 0; at < 4; ++at) {
      changed |= load_once<Quad>(access.at[lane + at]) ^ quads[at];
      store_once(access.at[lane + at], quads[at]);
    }
  }
  return (changed[0] | changed[1] | changed[2] | changed[3]) != 0;
}

/// Vectors that are one Whole each, to and from registers as wide as their parts.
template <typename Whole, typename Part>
void load_parts(Warp& warp, const std::vector<std::uint32_t>& places, const Access& access, std::uint32_t lanes) {
  constexpr std::size_t kParts = sizeof(Whole) / sizeof(Part);
  typename Aliased<Part>::type* to[kParts];
  typename Aliased<Part>::type unused[kLanes];
  for (std::size_t at = 0; at < kParts; ++at)
    to[at] = places[at] == kNowhere ? unused : lanes_at<Part>(warp, places[at]);
  each_of(lanes, [&](std::uint32_t lane) {
    const auto parts = std::bit_cast<std::array<Part, kParts>>(load_once<Whole>(access.at[lane]));
    for (std::size_t at = 0; at < kParts; ++at) to[at][lane] = parts[at];
  });
}

template <typename Whole, typename Part>
bool store_parts(const Warp& warp, const std::vector<std::uint32_t>& places, const Access& access,
                 std::uint32_t lanes) {
  constexpr std::size_t kParts = sizeof(Whole) / sizeof(Part);
  const typename Aliased<Part>::type* from[kParts];
  for (std::size_t at = 0; at < kParts; ++at) from[at] = lanes_at<Part>(warp, places[at]);
  Whole changed{};
  each_of(lanes, [&](std::uint32_t lane) {
    std::array<Part, kParts> parts;
    for (std::size_t at = 0; at < kParts; ++at) parts[at] = from[at][lane];
    const auto whole = std::bit_cast<Whole>(parts);
    changed |= load_once<Whole>(access.at[lane]) ^ whole;
    store_once(access.at[lane], whole);
  });
  const auto bits = std::bit_cast<std::array<Part, kParts>>(changed);
  return std::any_of(bits.begin(), bits.end(), [](Part part) { return part != 0; });
}

/// false: there is no path for this form.
bool load_quickly(Warp& warp, const Instruction& in, std::uint32_t lanes, const std::vector<std::uint32_t>& places,
                  const Access& access) {
  if (is_four_words(in, lanes)) {
    load_four_words(warp, places, access);
    return true;
  }
  if (in.b != in.d_bytes) return false;
  switch (in.b * 100U + in.count) {
    case 404:
      load_parts<Quad, std::uint32_t>(warp, places, access, lanes);
      return true;
    case 802:
      load_parts<Quad, std::uint64_t>(warp, places, access, lanes);
      return true;
    case 402:
      load_parts<std::uint64_t, std::uint32_t>(warp, places, access, lanes);
      return true;
    case 204:
      load_parts<std::uint64_t, std::uint16_t>(warp, places, access, lanes);
      return true;
    case 202:
      load_parts<std::uint32_t, std::uint16_t>(warp, places, access, lanes);
      return true;
    default:
      return false;
  }
}

/// The same; whether it changed anything.
std::optional<bool> store_quickly(const Warp& warp, const Instruction& in, std::uint32_t lanes,
                                  const std::vector<std::uint32_t>& places, const Access& access) {
  if (is_four_words(in, lanes)) return store_four_words(warp, places, access);
  if (in.b != in.d_bytes) return std::nullopt;
  switch (in.b * 100U + in.count) {
    case 404:
      return store_parts<Quad, std::uint32_t>(warp, places, access, lanes);
    case 802:
      return store_parts<Quad, std::uint64_t>(warp, places, access, lanes);
    case 402:
      return store_parts<std::uint64_t, std::uint32_t>(warp, places, access, lanes);
    case 204:
      return store_parts<std::uint64_t, std::uint16_t>(warp, places, access, lanes);
    case 202:
      return store_parts<std::uint32_t, std::uint16_t>(warp, places, access, lanes);
    default:
      return std::nullopt;
  }
}

void load_slowly(Warp& warp, const Instruction& in, std::uint32_t lanes, const std::vector<std::uint32_t>& places,
                 const Access& access) {
  const std::uint32_t element = in.b, bytes = element * in.count;
  Staged staged;
  each_active(lanes, [&](std::uint32_t lane) { copy_once(staged.bytes + lane * bytes, access.at[lane], bytes); });
  for (std::uint32_t at = 0; at < in.count; ++at) {
    if (places[at] == kNowhere) continue;
    std::byte* d = place_at(warp, places[at]);
    each_active(lanes, [&](std::uint32_t lane) {
      const std::byte* from = staged.bytes + lane * bytes + at * element;
      if (in.d_bytes == 16) {
        std::memcpy(d + std::size_t{lane} * 16, from, 16);
        return;
      }
      std::uint64_t value = 0;
      std::memcpy(&value, from, element < 8 ? element : 8);
      write_lane(d, in.d_bytes, lane, filled(in, value, element));
    });
  }
}

bool store_slowly(const Warp& warp, const Instruction& in, std::uint32_t lanes,
                  const std::vector<std::uint32_t>& places, const Access& access) {
  const std::uint32_t element = in.b, bytes = element * in.count;
  Staged staged;
  for (std::uint32_t at = 0; at < in.count; ++at) {
    const std::byte* from = place_at(warp, places[at]);
    each_active(lanes, [&](std::uint32_t lane) {
      std::memcpy(staged.bytes + lane * bytes + at * element, from + std::size_t{lane} * in.d_bytes, element);
    });
  }
  bool changed = false;
  each_active(lanes, [&](std::uint32_t lane) {
    const std::byte* from = staged.bytes + lane * bytes;
    changed = changed || std::memcmp(access.at[lane], from, bytes) != 0;
    copy_once(access.at[lane], from, bytes);
  });
  return changed;
}

/// What a poll sees: what was loaded, not what stands there by now, or the next one would miss a write between the two.
void note_vector_poll(Warp& warp, const Instruction& in, std::uint32_t lanes, const std::vector<std::uint32_t>& places,
                      const Access& access, Reach reach) {
  std::uint64_t where = 0, seen = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    where += poll_part(reinterpret_cast<std::uintptr_t>(access.at[lane]), lane);
    for (std::uint32_t at = 0; at < in.count; ++at) {
      if (places[at] == kNowhere) continue;
      const std::byte* from = place_at(warp, places[at]) + std::size_t{lane} * in.d_bytes;
      std::uint64_t value = read_lane(from, in.d_bytes, 0);
      // Words in pairs: the hashes are what a poll costs most.
      const std::uint64_t which = at * kLanes + lane;
      if (in.d_bytes == 4 && at + 1U < in.count && places[at + 1] != kNowhere)
        value |= read_lane(place_at(warp, places[++at]), 4, lane) << 32U;
      seen += poll_part(value, which);
      if (in.d_bytes == 16) seen += poll_part(read_lane(from + 8, 8, 0), ~which);
    }
  });
  if (reach == Reach::kFar) return note_far_poll(warp, in, lanes, where, seen);
  note_poll(warp, in, lanes, where, seen);
}

}  // namespace

void load_vector(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const bool is_strong = (in.flags & kFlagStrong) != 0;
  const Reach reach = is_strong ? reach_of(warp, in, lanes) : Reach::kNear;
  if (reach == Reach::kNotYet) return;
  Access access;
  const std::uint32_t bytes = in.b * in.count;
  if (!resolve(warp, in, lanes, bytes, false, access)) return;
  note_race(warp, in, lanes, bytes, false, access);
  const auto& places = warp.frame->function->vectors[in.extra];
  if (!load_quickly(warp, in, lanes, places, access)) load_slowly(warp, in, lanes, places, access);
  if (!is_strong) return;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (access.space != Space::kLocal) note_vector_poll(warp, in, lanes, places, access, reach);
}

void store_vector(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  Access access;
  const std::uint32_t bytes = in.b * in.count;
  if (!resolve(warp, in, lanes, bytes, true, access)) return;
  note_race(warp, in, lanes, bytes, true, access);
  if ((in.flags & kFlagStrong) != 0) std::atomic_thread_fence(std::memory_order_release);
  const auto& places = warp.frame->function->vectors[in.extra];
  const std::optional<bool> quick = store_quickly(warp, in, lanes, places, access);
  const bool changed = quick.has_value() ? *quick : store_slowly(warp, in, lanes, places, access);
  if (changed && access.space != Space::kLocal) ++warp.grid->changes;
}

}  // namespace meshbed::sim::ptx
