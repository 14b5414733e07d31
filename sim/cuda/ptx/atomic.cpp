// Atomics: atom and red. PTX ISA 9.7.13.5 and 9.7.13.6. One lane after the other, in the order of lanes: one thread
// does all that a device does, so that every scope and order within it holds. Those of the system's scope (.sys) are
// the host's own atomics: its threads, and other ranks, work on the same words meanwhile.
#include <atomic>
#include <cmath>
#include <cstring>

#include "sim/cuda/ptx/access.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/half.h"
#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/race/race.h"

namespace meshbed::sim::ptx {

namespace {

enum class Atomic : std::uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor, kExch, kCas };

template <typename T>
T integer_atomic(Atomic op, T old, T b, T c) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Atomic::kAdd:
      return static_cast<T>(static_cast<U>(old) + static_cast<U>(b));
    case Atomic::kMin:
      return b < old ? b : old;
    case Atomic::kMax:
      return b > old ? b : old;
    case Atomic::kInc:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    case Atomic::kDec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case Atomic::kAnd:
      return old & b;
    case Atomic::kOr:
      return old | b;
    case Atomic::kXor:
      return old ^ b;
    case Atomic::kExch:
      return b;
    case Atomic::kCas:
      return old == b ? c : old;
  }
  return old;
}

template <typename T>
T number_atomic(Atomic op, T old, T b) {
  if (op == Atomic::kAdd) return made_canonical(old + b);
  if (op == Atomic::kMin) return std::fmin(old, b);
  if (op == Atomic::kMax) return std::fmax(old, b);
  return b;
}

template <typename F, typename U>
U float_atomic(Atomic op, U old, U b, U) {
  return std::bit_cast<U>(number_atomic(op, std::bit_cast<F>(old), std::bit_cast<F>(b)));
}
/// Sums of doubles: where both are NaNs in shared memory the old one stays, quiet; in global memory the operand's wins,
/// and a NaN is not made quiet. Measured on an H200 (tests/cuda/ptx/h200.txt).
template <bool kInGlobal>
std::uint64_t double_atomic(Atomic op, std::uint64_t old, std::uint64_t b, std::uint64_t) {
  constexpr std::uint64_t kQuiet = 0x0008000000000000U, kMade = 0xfff8000000000000U;
  const std::uint64_t made = float_atomic<double, std::uint64_t>(op, old, b, 0);
  const auto is_nan = [](std::uint64_t bits) { return (bits & 0x7fffffffffffffffU) > 0x7ff0000000000000U; };
  if (op != Atomic::kAdd || !is_nan(made)) return made;
  if (kInGlobal) return is_nan(b) ? b : is_nan(old) ? old : kMade;
  return is_nan(old) ? old | kQuiet : is_nan(b) ? b | kQuiet : kMade;
}
/// In global memory float sums flush subnormals, with any option of the module; in shared memory they do not. PTX ISA
/// 9.7.13.5; CUDA C++ Programming Guide, floating-point standard.
std::uint32_t global_float_atomic(Atomic op, std::uint32_t old, std::uint32_t b, std::uint32_t) {
  if (op != Atomic::kAdd) return float_atomic<float, std::uint32_t>(op, old, b, 0);
  const float sum = flushed(std::bit_cast<float>(old)) + flushed(std::bit_cast<float>(b));
  return std::bit_cast<std::uint32_t>(flushed(made_canonical(sum)));
}

/// One or two halves in a word.
template <typename T, bool kBrain>
T halves_atomic(Atomic op, T old, T b, T) {
  std::uint32_t made = 0;
  for (std::uint32_t at = 0; at < sizeof(T) / 2; ++at) {
    const auto left = static_cast<std::uint16_t>(old >> (at * 16));
    const auto right = static_cast<std::uint16_t>(b >> (at * 16));
    const float x = kBrain ? float_of_brain(left) : float_of_half(left);
    const float y = kBrain ? float_of_brain(right) : float_of_half(right);
    const double value = op == Atomic::kAdd   ? double{x} + double{y}
                         : op == Atomic::kMin ? std::fmin(x, y)
                                              : std::fmax(x, y);
    made |= std::uint32_t{kBrain ? brain_of(value) : half_of(value)} << (at * 16);
  }
  return static_cast<T>(made);
}

constexpr std::uint32_t kSystemScope = 0x100;  // beside the Atomic in Instruction::extra

Atomic operation_of(const Instruction& in) { return static_cast<Atomic>(in.extra & 0xff); }

/// Replaces the word by what `make` makes of it; what it was and what it became.
template <typename T, typename Make>
std::pair<T, T> replace_word(std::byte* at, bool by_host_atomic, Make make) {
  if (by_host_atomic) {
    // Its address is a multiple of its size, or the lane would have failed.
    const std::atomic_ref<T> word(*reinterpret_cast<T*>(at));
    T old = word.load(), made = make(old);
    while (!word.compare_exchange_weak(old, made)) made = make(old);
    return {old, made};
  }
  T old;
  std::memcpy(&old, at, sizeof old);
  const T made = make(old);
  std::memcpy(at, &made, sizeof made);
  return {old, made};
}

/// An atomic without a result is not waited for.
Reach reach_of_atomic(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  return in.d != kNowhere ? reach_of(warp, in, lanes) : Reach::kNear;
}

/// b: the operand; c: what .cas writes, or nowhere; d: the old value, or nowhere (red); extra: Atomic, and its scope.
template <typename T, T (*kCompute)(Atomic, T old, T b, T c), T (*kInGlobal)(Atomic, T old, T b, T c) = kCompute>
void atomic_words(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Reach reach = reach_of_atomic(warp, in, lanes);
  if (reach == Reach::kNotYet) return;
  Access access;
  if (!resolve(warp, in, lanes, sizeof(T), true, access)) return;
  warp.grid->counts.atomics += count_lanes(lanes);
  const auto* b = lanes_at<T>(warp, in.b);
  const auto* c = lanes_at<T>(warp, in.c == kNowhere ? in.b : in.c);
  const Atomic op = operation_of(in);
  const bool by_host_atomic = (in.extra & kSystemScope) != 0;
  const auto compute = access.space == Space::kGlobal ? kInGlobal : kCompute;
  bool changed = false;
  std::uint64_t places = 0, seen = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    if (warp.grid->races != nullptr) warp.grid->races->note_atomic(*warp.grid, access.at[lane]);
    const auto [old, made] =
        replace_word<T>(access.at[lane], by_host_atomic, [&](T now) { return compute(op, now, b[lane], c[lane]); });
    changed = changed || old != made;
    if (in.d != kNowhere) lanes_at<T>(warp, in.d)[lane] = old;
    places = poll_hash(places, reinterpret_cast<std::uintptr_t>(access.at[lane]));
    seen = poll_hash(seen, static_cast<std::uint64_t>(old));
  });
  if (changed)
    ++warp.grid->changes;
  else if (reach == Reach::kNear)
    note_poll(warp, in, lanes, places, seen);
}

/// red and atom of vectors of f32: `extra` as above, `e` the index of the vector of sources, d of destinations.
void atomic_vector(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  if (reach_of_atomic(warp, in, lanes) == Reach::kNotYet) return;
  Access access;
  if (!resolve(warp, in, lanes, 4U * in.count, true, access)) return;
  warp.grid->counts.atomics += count_lanes(lanes);
  const Function& function = *warp.frame->function;
  const Atomic op = operation_of(in);
  const bool by_host_atomic = (in.extra & kSystemScope) != 0;
  const auto compute = access.space == Space::kGlobal ? global_float_atomic : float_atomic<float, std::uint32_t>;
  each_active(lanes, [&](std::uint32_t lane) {
    for (std::uint32_t at = 0; at < in.count; ++at) {
      const std::uint32_t b = lanes_at<std::uint32_t>(warp, function.vectors[in.e][at])[lane];
      const std::uint32_t old =
          replace_word<std::uint32_t>(access.at[lane] + at * 4, by_host_atomic, [&](std::uint32_t now) {
            return compute(op, now, b, 0);
          }).first;
      if (in.d != kNowhere) lanes_at<std::uint32_t>(warp, function.vectors[in.d][at])[lane] = old;
    }
  });
  ++warp.grid->changes;
}

Handler atomic_handler(Type type) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return atomic_words<std::uint16_t, integer_atomic<std::uint16_t>>;
    case Type::kB32:
    case Type::kU32:
      return atomic_words<std::uint32_t, integer_atomic<std::uint32_t>>;
    case Type::kS32:
      return atomic_words<std::int32_t, integer_atomic<std::int32_t>>;
    case Type::kB64:
    case Type::kU64:
      return atomic_words<std::uint64_t, integer_atomic<std::uint64_t>>;
    case Type::kS64:
      return atomic_words<std::int64_t, integer_atomic<std::int64_t>>;
    case Type::kF32:
      return atomic_words<std::uint32_t, float_atomic<float, std::uint32_t>, global_float_atomic>;
    case Type::kF64:
      return atomic_words<std::uint64_t, double_atomic<false>, double_atomic<true>>;
    case Type::kF16:
      return atomic_words<std::uint16_t, halves_atomic<std::uint16_t, false>>;
    case Type::kBf16:
      return atomic_words<std::uint16_t, halves_atomic<std::uint16_t, true>>;
    case Type::kF16x2:
      return atomic_words<std::uint32_t, halves_atomic<std::uint32_t, false>>;
    case Type::kBf16x2:
      return atomic_words<std::uint32_t, halves_atomic<std::uint32_t, true>>;
    default:
      return nullptr;
  }
}

}  // namespace

bool decode_atomic(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  if (opcode != "atom" && opcode != "red") return false;
  Instruction& in = decoder.in;
  if (decoder.take("async")) decoder.unsupported(".async");
  for (const char* word : {"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "cluster", "noftz"})
    decoder.take(word);
  const bool of_system = decoder.take("sys");
  Space space = Space::kGeneric;
  if (decoder.take("global"))
    space = Space::kGlobal;
  else if (decoder.take("shared") || decoder.take("shared::cta") || decoder.take("shared::cluster"))
    space = Space::kShared;
  static constexpr std::pair<const char*, Atomic> kAll[] = {
      {"add", Atomic::kAdd},   {"min", Atomic::kMin}, {"max", Atomic::kMax}, {"inc", Atomic::kInc},
      {"dec", Atomic::kDec},   {"and", Atomic::kAnd}, {"or", Atomic::kOr},   {"xor", Atomic::kXor},
      {"exch", Atomic::kExch}, {"cas", Atomic::kCas}};
  Atomic op{};
  bool known = false;
  for (const auto& [name, value] : kAll) {
    if (known || !decoder.take(name)) continue;
    op = value;
    known = true;
  }
  if (!known) decoder.unsupported("this operation");
  in.count = decoder.vector_width();
  const Type type = decoder.type();
  decoder.skip_modifiers();
  in.extra = static_cast<std::uint32_t>(op) | (of_system ? kSystemScope : 0);
  const std::size_t first = opcode == "atom" ? 1 : 0;
  const std::size_t sources = op == Atomic::kCas ? 2 : 1;
  decoder.expect_operands(first + 1 + sources, first + 2 + sources);
  decoder.address(decoder.operand(first), space);
  if (in.count > 1) {
    if (type != Type::kF32 || op == Atomic::kCas) decoder.unsupported("a vector of this type");
    std::vector<std::uint32_t> from, to;
    if (decoder.operand(first + 1).parts.size() != in.count) decoder.refuse("a vector is expected");
    for (const Operand& part : decoder.operand(first + 1).parts) from.push_back(decoder.source(part, type));
    in.e = decoder.vector_places(from);
    if (first == 1) {
      if (decoder.operand(0).parts.size() != in.count) decoder.refuse("a vector is expected");
      for (const Operand& part : decoder.operand(0).parts) to.push_back(decoder.destination(part, type));
      in.d = decoder.vector_places(to);
    }
    in.run = atomic_vector;
    return true;
  }
  in.b = decoder.source(decoder.operand(first + 1), type);
  if (op == Atomic::kCas) in.c = decoder.source(decoder.operand(first + 2), type);
  if (first == 1) in.d = decoder.destination(decoder.operand(0), type);
  const bool number = !is_integer(type);
  if (number && op != Atomic::kAdd && op != Atomic::kMin && op != Atomic::kMax && op != Atomic::kExch) {
    decoder.unsupported("this type");
  }
  in.run = atomic_handler(type);
  if (in.run == nullptr) decoder.unsupported("this type");
  return true;
}

}  // namespace meshbed::sim::ptx
