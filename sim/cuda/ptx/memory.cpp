// Loads and stores: ld, ldu, st, prefetch, and the fences. PTX ISA 9.7.9 and 9.7.13.
#include <atomic>
#include <cstring>

#include "sim/cuda/ptx/access.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/lanes.h"
#include "sim/cuda/ptx/vector/single_access.h"
#include "sim/cuda/ptx/vector/vector.h"

namespace meshbed::sim::ptx {

namespace {

/// Loads one element of type T into registers of type D (sign or zero above).
template <typename T, typename D>
void load(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const Reach reach = (in.flags & kFlagStrong) != 0 ? reach_of(warp, in, lanes) : Reach::kNear;
  if (reach == Reach::kNotYet) return;
  Access access;
  if (!resolve_pattern(warp, in, lanes, sizeof(T), false, access)) return;
  note_race(warp, in, lanes, sizeof(T), false, access);
  auto* d = lanes_at<D>(warp, in.d);
  if ((in.flags & kFlagStrong) != 0) {
    if (access.pattern == Access::Pattern::kSame) {
      const D value = static_cast<D>(load_once<T>(access.first));
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) d[lane] = value;
    } else {
      each_of(lanes, [&](std::uint32_t lane) { d[lane] = static_cast<D>(load_once<T>(access.of(lane, sizeof(T)))); });
    }
  } else if (access.pattern == Access::Pattern::kRow) {
    if constexpr (sizeof(T) == sizeof(D)) {
      std::memcpy(d, access.first, sizeof(T) * kLanes);
    } else {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane)
        d[lane] = static_cast<D>(value_at<T>(access.first + lane * sizeof(T)));
    }
  } else if (access.pattern == Access::Pattern::kSame) {
    const D value = static_cast<D>(value_at<T>(access.first));
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) d[lane] = value;
  } else {
    each_of(lanes, [&](std::uint32_t lane) { d[lane] = static_cast<D>(value_at<T>(access.at[lane])); });
  }
  if ((in.flags & kFlagStrong) == 0) return;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (access.space == Space::kLocal) return;
  std::uint64_t places = 0, seen = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    places += poll_part(reinterpret_cast<std::uintptr_t>(access.of(lane, sizeof(T))), lane);
    seen += poll_part(static_cast<std::uint64_t>(d[lane]), lane);
  });
  if (reach == Reach::kNear) return note_poll(warp, in, lanes, places, seen);
  std::uint64_t word = 0;
  const T first = static_cast<T>(d[std::countr_zero(lanes)]);
  std::memcpy(&word, &first, sizeof first);
  note_far_word(warp, in, lanes, sizeof first, word);
  note_far_poll(warp, in, lanes, places, seen);
}

template <typename T, typename S>
void store(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  Access access;
  if (!resolve_pattern(warp, in, lanes, sizeof(T), true, access)) return;
  note_race(warp, in, lanes, sizeof(T), true, access);
  if ((in.flags & kFlagStrong) != 0) std::atomic_thread_fence(std::memory_order_release);
  const auto* b = lanes_at<S>(warp, in.b);
  T changed = 0;
  const auto put = [&](std::uint32_t lane, std::byte* to) {
    const T before = value_at<T>(to);
    const T value = static_cast<T>(b[lane]);
    changed = static_cast<T>(changed | (before ^ value));
    std::memcpy(to, &value, sizeof value);
  };
  if ((in.flags & kFlagStrong) != 0) {
    each_of(lanes, [&](std::uint32_t lane) {
      std::byte* const to = access.of(lane, sizeof(T));
      const T value = static_cast<T>(b[lane]);
      changed = static_cast<T>(changed | (load_once<T>(to) ^ value));
      store_once(to, value);
    });
  } else if (access.pattern == Access::Pattern::kRow) {
    if constexpr (sizeof(T) == sizeof(S)) {
      if (std::memcmp(access.first, b, sizeof(T) * kLanes) != 0) changed = 1;
      std::memcpy(access.first, b, sizeof(T) * kLanes);
    } else {
      for (std::uint32_t lane = 0; lane < kLanes; ++lane) put(lane, access.first + lane * sizeof(T));
    }
  } else if (access.pattern == Access::Pattern::kSame) {
    put(kLanes - 1, access.first);  // one of them is the last
  } else {
    each_of(lanes, [&](std::uint32_t lane) { put(lane, access.at[lane]); });
  }
  if (changed != 0 && access.space != Space::kLocal) ++warp.grid->changes;
}

/// A kernel's parameter by its offset: the same for all lanes.
template <typename D>
void load_parameter(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  if (lanes == 0) return;
  const auto& parameters = warp.grid->request.parameters;
  const std::uint32_t bytes = in.b;
  const std::uint64_t offset = *lanes_at<std::uint64_t>(warp, in.a) + static_cast<std::uint64_t>(in.immediate);
  if (offset > parameters.size() || bytes > parameters.size() - offset) {
    resolve_one(warp, in, static_cast<std::uint32_t>(std::countr_zero(lanes)), Space::kParam, offset, bytes, false);
    return;
  }
  std::uint64_t raw = 0;
  std::memcpy(&raw, parameters.data() + offset, bytes);
  const D value = static_cast<D>(filled(in, raw, bytes));
  auto* d = lanes_at<D>(warp, in.d);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = value; });
}

template <typename T>
Handler load_into(std::uint32_t register_bytes) {
  // A signed element fills a wider register with its sign.
  constexpr bool kSign = std::is_signed_v<T>;
  switch (register_bytes) {
    case 2:
      if constexpr (sizeof(T) <= 2) return load<T, std::conditional_t<kSign, std::int16_t, std::uint16_t>>;
      return nullptr;
    case 4:
      if constexpr (sizeof(T) <= 4) return load<T, std::conditional_t<kSign, std::int32_t, std::uint32_t>>;
      return nullptr;
    case 8:
      return load<T, std::conditional_t<kSign, std::int64_t, std::uint64_t>>;
    default:
      return nullptr;
  }
}

Handler load_handler(Type type, std::uint32_t register_bytes) {
  const bool sign = is_signed(type);
  switch (bytes_of(type)) {
    case 1:
      return sign ? load_into<std::int8_t>(register_bytes) : load_into<std::uint8_t>(register_bytes);
    case 2:
      return sign ? load_into<std::int16_t>(register_bytes) : load_into<std::uint16_t>(register_bytes);
    case 4:
      return sign ? load_into<std::int32_t>(register_bytes) : load_into<std::uint32_t>(register_bytes);
    default:
      return load_into<std::uint64_t>(register_bytes);
  }
}

template <typename T>
Handler store_from(std::uint32_t register_bytes) {
  switch (register_bytes) {
    case 2:
      if constexpr (sizeof(T) <= 2) return store<T, std::uint16_t>;
      return nullptr;
    case 4:
      if constexpr (sizeof(T) <= 4) return store<T, std::uint32_t>;
      return nullptr;
    case 8:
      return store<T, std::uint64_t>;
    default:
      return nullptr;
  }
}

Handler store_handler(std::uint32_t bytes, std::uint32_t register_bytes) {
  return bytes == 1   ? store_from<std::uint8_t>(register_bytes)
         : bytes == 2 ? store_from<std::uint16_t>(register_bytes)
         : bytes == 4 ? store_from<std::uint32_t>(register_bytes)
                      : store_from<std::uint64_t>(register_bytes);
}

Space take_space_of(Decoder& decoder) {
  Space space = Space::kGeneric;
  if (!decoder.take_space(space) && decoder.take("param::func")) space = Space::kParam;
  return space;
}

/// The meaning of order is that of a machine that does one access after the other: all are kept.
void take_order(Decoder& decoder) {
  for (const char* order : {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}) {
    if (decoder.take(order) && std::string_view(order) != "release") decoder.in.flags |= kFlagStrong;
  }
  for (const char* weak : {"weak", "cta", "gpu", "sys", "cluster"}) decoder.take(weak);
  decoder.skip_modifiers();
}

void decode_load(Decoder& decoder) {
  Instruction& in = decoder.in;
  take_order(decoder);
  const Space space = take_space_of(decoder);
  in.count = decoder.vector_width();
  const Type type = decoder.type();
  const std::uint32_t bytes = bytes_of(type);
  decoder.expect_operands(2, 3);  // the third: a cache policy
  decoder.address(decoder.operand(1), space);
  const Operand& to = decoder.operand(0);
  in.b = bytes;
  if (is_signed(type)) in.flags |= kFlagSigned;
  if (type == Type::kPred) decoder.refuse("a predicate is not in memory");
  if (to.kind == Operand::Kind::kVector || type == Type::kB128) {
    std::vector<std::uint32_t> places;
    in.d_bytes = 0;
    const std::vector<Operand> one{to};
    const std::vector<Operand>& parts = to.kind == Operand::Kind::kVector ? to.parts : one;
    if (parts.size() != in.count) decoder.refuse("the vector has another number of parts");
    for (const Operand& part : parts) {
      if (part.kind == Operand::Kind::kSink) {
        places.push_back(kNowhere);
        continue;
      }
      std::uint8_t width = 0;
      places.push_back(decoder.destination(part, type, &width));
      if (in.d_bytes != 0 && in.d_bytes != width) decoder.refuse("the parts have different widths");
      in.d_bytes = width;
    }
    in.extra = decoder.vector_places(places);
    in.run = load_vector;
    return;
  }
  if (in.count != 1) decoder.refuse("a vector is expected");
  in.d = decoder.destination(to, type, &in.d_bytes);
  const bool uniform = in.space == static_cast<std::uint8_t>(Space::kParam) &&
                       decoder.operand(1).parts[0].kind == Operand::Kind::kSymbol;
  if (uniform) {
    in.run = in.d_bytes == 2   ? load_parameter<std::uint16_t>
             : in.d_bytes == 4 ? load_parameter<std::uint32_t>
                               : load_parameter<std::uint64_t>;
  } else {
    in.run = load_handler(type, in.d_bytes);
  }
  if (in.run == nullptr) decoder.unsupported("this type");
}

void decode_store(Decoder& decoder) {
  Instruction& in = decoder.in;
  if (decoder.has("release")) in.flags |= kFlagStrong;
  take_order(decoder);
  const Space space = take_space_of(decoder);
  in.count = decoder.vector_width();
  const Type type = decoder.type();
  decoder.expect_operands(2, 3);
  decoder.address(decoder.operand(0), space);
  if (in.space == static_cast<std::uint8_t>(Space::kConst)) decoder.refuse("constant memory cannot be written");
  const Operand& from = decoder.operand(1);
  if (from.kind == Operand::Kind::kVector || type == Type::kB128) {
    std::vector<std::uint32_t> places;
    const std::vector<Operand> one{from};
    const std::vector<Operand>& parts = from.kind == Operand::Kind::kVector ? from.parts : one;
    if (parts.size() != in.count) decoder.refuse("the vector has another number of parts");
    for (const Operand& part : parts) {
      std::uint8_t width = 0;
      places.push_back(decoder.source(part, type, &width));
      if (!decoder.is_register(part)) {  // constants: as wide as the registers beside them
        for (const Operand& other : parts) {
          if (!decoder.is_register(other)) continue;
          width = static_cast<std::uint8_t>(bytes_of(decoder.register_type(other)));
          if (width <= 8 && part.kind == Operand::Kind::kInteger) {
            places.back() = decoder.constant(static_cast<std::uint64_t>(part.value), width);
          }
          break;
        }
      }
      if (in.d_bytes != 0 && in.d_bytes != width) decoder.refuse("the parts have different widths");
      in.d_bytes = width;
    }
    in.b = bytes_of(type);
    in.extra = decoder.vector_places(places);
    in.run = store_vector;
    return;
  }
  if (in.count != 1) decoder.refuse("a vector is expected");
  const bool bytewise = bytes_of(type) == 1 && !decoder.is_register(from);
  in.b = decoder.source(from, bytewise ? Type::kB16 : type, &in.d_bytes);
  in.run = store_handler(bytes_of(type), in.d_bytes);
  if (in.run == nullptr) decoder.unsupported("this type");
}

template <std::memory_order kOrder>
void fence(Warp&, const Instruction&, std::uint32_t lanes) {
  if (lanes != 0) std::atomic_thread_fence(kOrder);
}

void load_zero(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  auto* d = lanes_at<std::uint64_t>(warp, in.d);
  each_lane(warp, lanes, [=](std::uint32_t lane) { d[lane] = 0; });
}

}  // namespace

bool decode_memory(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  if (opcode == "ld" || opcode == "ldu") {
    decode_load(decoder);
  } else if (opcode == "st") {
    decode_store(decoder);
  } else if (opcode == "membar" || opcode == "fence") {
    // The accesses of the device are done one after the other, in the order of the text. A thread of the host sees them
    // in that order too, but for a store before a load (x86-64), or with what is to order them (arm64).
    const bool is_sequential = opcode == "membar" || decoder.has("sc");
    for (const char* word : {"cta",
                             "gl",
                             "gpu",
                             "sys",
                             "cluster",
                             "sc",
                             "acq_rel",
                             "acquire",
                             "release",
                             "proxy",
                             "alias",
                             "async",
                             "async.global",
                             "async::generic",
                             "global",
                             "shared::cta",
                             "shared::cluster",
                             "mbarrier_init",
                             "tensormap::generic",
                             "sync_restrict::shared::cta",
                             "sync_restrict::shared::cluster"}) {
      decoder.take(word);
    }
    decoder.in.run = is_sequential ? fence<std::memory_order_seq_cst> : fence<std::memory_order_acq_rel>;
  } else if (opcode == "prefetch" || opcode == "prefetchu" || opcode == "applypriority" || opcode == "discard" ||
             opcode == "griddepcontrol" || opcode == "setmaxnreg") {
    for (const char* word : {"global", "local", "L1", "L2", "const", "param", "tensormap", "wait", "launch_dependents",
                             "inc", "dec", "sync", "aligned", "u32"})
      decoder.take(word);
    decoder.skip_modifiers();
    decoder.in.run = no_effect;
  } else if (opcode == "createpolicy") {
    // A policy is a hint; its value, 0 here, has no effect.
    for (const std::string_view modifier : decoder.statement->modifiers) decoder.take(modifier);
    decoder.in.a = decoder.constant(0, 8);
    decoder.in.d = decoder.destination(decoder.operand(0), Type::kB64);
    decoder.in.run = load_zero;
  } else {
    return false;
  }
  return true;
}

}  // namespace meshbed::sim::ptx
