// ld and st of vectors and of .b128. PTX ISA 9.0, 5.4.2 and 9.7.9; the accesses that a vector is: 8.2.2.
#include "sim/cuda/ptx/vector/vector.h"

#include <algorithm>
#include <atomic>

#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/vector/single_access.h"

namespace meshbed::sim::ptx {

namespace {

/// The vectors of all lanes, side by side: what memory is read into and written from, each vector at once.
struct Staged {
  static constexpr std::uint32_t kMostBytes = 32;
  alignas(16) std::byte bytes[kLanes * kMostBytes];
};

/// From and to a vector's registers, element by element. Elements and registers of T.
template <typename T>
void to_registers(Warp& warp, std::uint32_t place, const Staged& staged, std::uint32_t stride, std::uint32_t offset,
                  std::uint32_t lanes) {
  auto* words = lanes_at<T>(warp, place);
  each_of(lanes, [&](std::uint32_t lane) { words[lane] = value_at<T>(staged.bytes + lane * stride + offset); });
}

template <typename T>
void from_registers(const Warp& warp, std::uint32_t place, Staged& staged, std::uint32_t stride, std::uint32_t offset,
                    std::uint32_t lanes) {
  const auto* words = lanes_at<T>(warp, place);
  each_of(lanes, [&](std::uint32_t lane) {
    const T word = words[lane];
    std::memcpy(staged.bytes + lane * stride + offset, &word, sizeof word);
  });
}

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

}  // namespace

void load_vector(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const bool is_strong = (in.flags & kFlagStrong) != 0;
  const Reach reach = is_strong ? reach_of(warp, in, lanes) : Reach::kNear;
  if (reach == Reach::kNotYet) return;
  Access access;
  const std::uint32_t element = in.b, bytes = element * in.count;
  if (!resolve(warp, in, lanes, bytes, false, access)) return;
  note_race(warp, in, lanes, bytes, false, access);
  const auto& places = warp.frame->function->vectors[in.extra];
  if (!is_strong && is_four_words(in, lanes)) return load_four_words(warp, places, access);
  Staged staged;
  each_of(lanes, [&](std::uint32_t lane) { copy_once(staged.bytes + lane * bytes, access.at[lane], bytes); });
  if (is_strong) std::atomic_thread_fence(std::memory_order_acquire);
  for (std::uint32_t at = 0; at < in.count; ++at) {
    if (places[at] == kNowhere) continue;
    const std::uint32_t offset = at * element;
    if (element == 4 && in.d_bytes == 4) {
      to_registers<std::uint32_t>(warp, places[at], staged, bytes, offset, lanes);
      continue;
    }
    if (element == 8 && in.d_bytes == 8) {
      to_registers<std::uint64_t>(warp, places[at], staged, bytes, offset, lanes);
      continue;
    }
    std::byte* d = place_at(warp, places[at]);
    each_active(lanes, [&](std::uint32_t lane) {
      const std::byte* from = staged.bytes + lane * bytes + offset;
      if (in.d_bytes == 16) {
        std::memcpy(d + std::size_t{lane} * 16, from, 16);
        return;
      }
      std::uint64_t value = 0;
      std::memcpy(&value, from, element < 8 ? element : 8);
      write_lane(d, in.d_bytes, lane, filled(in, value, element));
    });
  }
  if (!is_strong || access.space == Space::kLocal) return;
  // What was loaded, not what stands there now: a write between the two would be missed by the next poll.
  std::uint64_t where = 0, seen = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    where = poll_hash(where, reinterpret_cast<std::uintptr_t>(access.at[lane]));
    for (std::uint32_t at = 0; at < bytes; at += 8) {
      std::uint64_t value = 0;
      std::memcpy(&value, staged.bytes + lane * bytes + at, std::min(8U, bytes - at));
      seen = poll_hash(seen, value);
    }
  });
  if (reach == Reach::kFar) return note_far_poll(warp, in, lanes, where, seen);
  note_poll(warp, in, lanes, where, seen);
}

void store_vector(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  Access access;
  const std::uint32_t element = in.b, bytes = element * in.count;
  if (!resolve(warp, in, lanes, bytes, true, access)) return;
  note_race(warp, in, lanes, bytes, true, access);
  if ((in.flags & kFlagStrong) != 0) std::atomic_thread_fence(std::memory_order_release);
  const auto& places = warp.frame->function->vectors[in.extra];
  bool changed = false;
  if (is_four_words(in, lanes)) {
    changed = store_four_words(warp, places, access);
  } else {
    Staged staged;
    for (std::uint32_t at = 0; at < in.count; ++at) {
      const std::uint32_t offset = at * element;
      if (element == 4 && in.d_bytes == 4) {
        from_registers<std::uint32_t>(warp, places[at], staged, bytes, offset, lanes);
        continue;
      }
      if (element == 8 && in.d_bytes == 8) {
        from_registers<std::uint64_t>(warp, places[at], staged, bytes, offset, lanes);
        continue;
      }
      const std::byte* from = place_at(warp, places[at]);
      each_active(lanes, [&](std::uint32_t lane) {
        std::memcpy(staged.bytes + lane * bytes + offset, from + std::size_t{lane} * in.d_bytes, element);
      });
    }
    each_of(lanes, [&](std::uint32_t lane) {
      const std::byte* from = staged.bytes + lane * bytes;
      changed = changed || std::memcmp(access.at[lane], from, bytes) != 0;
      copy_once(access.at[lane], from, bytes);
    });
  }
  if (changed && access.space != Space::kLocal) ++warp.grid->changes;
}

}  // namespace meshbed::sim::ptx
