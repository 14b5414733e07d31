// Textures and surfaces by their objects' handles: tex, tld4, suld.b, sust.b. PTX ISA 9.7.10 and 9.7.11; which texels a
// fetch reads and how it mixes them: CUDA C++ Programming Guide 13.0, appendix "Texture Fetching". What that leaves
// open (weights between levels, the table of sRGB) is as an H200 does it.
//
// Cost: a lane at a time; a linear fetch of n dimensions reads 2^n texels, between two levels twice as many.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/half.h"
#include "sim/cuda/ptx/lanes.h"

namespace meshbed::sim::ptx {

namespace {

enum class Shape : std::uint8_t { k1D, k2D, k3D, kLayered1D, kLayered2D, kCube };
constexpr std::uint8_t kFlagWholeNumbers = 0x10;  // coordinates are integers
constexpr std::uint8_t kFlagLevel = 0x20;         // behind the coordinates stands the level
constexpr std::uint8_t kFlagGradients = 0x40;     // or its two gradients, a number for each axis
enum class Outside : std::uint8_t { kTrap, kClamp, kZero };

using Texel = std::array<std::uint32_t, 4>;

/// What bytes of sRGB are, linear: IEC 61966-2-1's function, rounded to 8 bits behind the first one that is set and to
/// 2^-14, but for some entries, which an H200 has one step lower or higher.
const std::array<float, 256>& linear_of_srgb() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (std::size_t index = 0; index < values.size(); ++index) {
      const double share = static_cast<double>(index) / 255;
      const double exact = share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
      int exponent = 0;
      std::frexp(exact, &exponent);
      double steps = std::floor(std::ldexp(exact, -std::max(exponent - 8, -14)) + 0.5);
      for (const std::size_t lower : {32, 65, 68, 70, 97, 249, 250, 251}) steps -= index == lower ? 1 : 0;
      for (const std::size_t higher : {33, 66, 184, 186, 252, 253}) steps += index == higher ? 1 : 0;
      values[index] = static_cast<float>(std::ldexp(steps, std::max(exponent - 8, -14)));
    }
    return values;
  }();
  return table;
}

std::uint32_t channel_of(const Texture& texture, const std::byte* at, bool is_srgb) {
  std::uint32_t raw = 0;
  std::memcpy(&raw, at, texture.channel_bytes);
  float value = 0;
  const std::uint32_t bits = texture.channel_bytes * 8U;
  if (texture.format == Texture::Format::kFloat) {
    if (texture.channel_bytes == 4) return raw;
    value = float_of_half(static_cast<std::uint16_t>(raw));
  } else {
    const bool is_signed = texture.format == Texture::Format::kSigned;
    const auto number = is_signed ? static_cast<std::int32_t>(raw << (32 - bits)) >> (32 - bits) : 0;
    if (!texture.reads_normalized || bits > 16) return is_signed ? static_cast<std::uint32_t>(number) : raw;
    const float most = static_cast<float>((1U << (is_signed ? bits - 1 : bits)) - 1);
    value = is_signed ? std::max(static_cast<float>(number) / most, -1.0F) : static_cast<float>(raw) / most;
    if (is_srgb) value = linear_of_srgb()[raw];
  }
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

/// Index along an axis; -1: beyond the edge, where the border's colour is.
std::int64_t along(std::int64_t index, std::uint64_t size, Texture::Address mode, bool normalized) {
  const auto count = static_cast<std::int64_t>(size);
  if (index >= 0 && index < count) return index;
  if (mode == Texture::Address::kBorder) return -1;
  if (normalized && mode == Texture::Address::kWrap) return (index % count + count) % count;
  if (normalized && mode == Texture::Address::kMirror) {
    const std::int64_t folded = (index % (2 * count) + 2 * count) % (2 * count);
    return folded < count ? folded : 2 * count - 1 - folded;
  }
  return index < 0 ? 0 : count - 1;
}

struct Place {
  std::array<std::int64_t, 3> at{};  // x, y, and z or the layer; -1: beyond the edge
};

Texel texel_at(const Texture& texture, const Place& place) {
  Texel texel{};
  if (place.at[0] < 0 || place.at[1] < 0 || place.at[2] < 0) {
    std::memcpy(texel.data(), texture.border.data(), sizeof texel);
    return texel;
  }
  const std::uint64_t element = std::uint64_t{texture.channels} * texture.channel_bytes;
  const std::byte* from = texture.bytes + static_cast<std::uint64_t>(place.at[2]) * texture.slice_bytes +
                          static_cast<std::uint64_t>(place.at[1]) * texture.row_bytes +
                          static_cast<std::uint64_t>(place.at[0]) * element;
  for (std::uint32_t channel = 0; channel < texture.channels; ++channel) {
    const std::byte* at = from + std::size_t{channel} * texture.channel_bytes;
    texel[channel] = channel_of(texture, at, texture.srgb && channel < 3);
  }
  return texel;
}

std::int64_t whole(float value) {
  constexpr float kFar = 1e9F;  // further than any texture; and what is no number is texel 0
  return value == value ? static_cast<std::int64_t>(std::floor(std::clamp(value, -kFar, kFar))) : 0;
}

/// How coordinates of that level are counted: in texels, or from 0 to 1.
std::array<float, 3> scale_of(const Texture& texture) {
  if (!texture.normalized_coordinates) return {1, 1, 1};
  return {static_cast<float>(texture.width), static_cast<float>(texture.height), static_cast<float>(texture.depth)};
}

/// `axes` coordinates; `layer` where the third is none.
Texel sampled(const Texture& texture, std::array<float, 3> at, std::uint32_t axes, std::int64_t layer) {
  const std::array<std::uint64_t, 3> size{texture.width, texture.height, texture.depth};
  const std::array<float, 3> scale = scale_of(texture);
  for (std::uint32_t axis = 0; axis < axes; ++axis) at[axis] *= scale[axis];
  const auto index = [&](std::uint32_t axis, std::int64_t value) {
    return along(value, size[axis], texture.address[axis], texture.normalized_coordinates);
  };
  if (!texture.linear) {
    Place place{{0, 0, layer}};
    for (std::uint32_t axis = 0; axis < axes; ++axis) place.at[axis] = index(axis, whole(at[axis]));
    return texel_at(texture, place);
  }
  // Between the centres of texels; a weight has 8 bits behind its point.
  std::array<std::int64_t, 3> low{};
  std::array<float, 3> weight{};
  for (std::uint32_t axis = 0; axis < axes; ++axis) {
    const float shifted = at[axis] - 0.5F;
    low[axis] = whole(shifted);
    weight[axis] = std::floor((shifted - std::floor(shifted)) * 256.0F + 0.5F) / 256.0F;
  }
  std::array<float, 4> sum{};
  for (std::uint32_t corner = 0; corner < 1U << axes; ++corner) {
    Place place{{0, 0, layer}};
    float share = 1;
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const bool upper = (corner >> axis & 1U) != 0;
      share *= upper ? weight[axis] : 1 - weight[axis];
      place.at[axis] = index(axis, low[axis] + (upper ? 1 : 0));
    }
    if (share == 0) continue;
    const Texel texel = texel_at(texture, place);
    for (std::size_t channel = 0; channel < 4; ++channel) {
      float value = 0;
      std::memcpy(&value, &texel[channel], sizeof value);
      sum[channel] += share * value;
    }
  }
  Texel texel;
  std::memcpy(texel.data(), sum.data(), sizeof texel);
  return texel;
}

/// The same of a mipmapped array: `level` as the texture's bias and bounds leave it.
Texel sampled_at(const Texture& texture, const std::array<float, 3>& at, std::uint32_t axes, std::int64_t layer,
                 float level) {
  if (texture.smaller.empty()) return sampled(texture, at, axes, layer);
  const auto last = static_cast<float>(texture.smaller.size());
  level = std::max(std::min(level, texture.level_most), texture.level_least);
  level = level > 0 ? std::min(level, last) : 0;  // and what is no number is level 0
  const auto whole_level = [&](float number) -> const Texture& {
    const auto index = static_cast<std::size_t>(number);
    return index == 0 ? texture : texture.smaller[index - 1];
  };
  const bool mixes = texture.mixes_levels && (texture.format == Texture::Format::kFloat || texture.reads_normalized);
  if (!mixes) return sampled(whole_level(std::floor(level + 0.5F)), at, axes, layer);
  const float low = std::floor(level), weight = std::floor((level - low) * 256) / 256;
  Texel texel = sampled(whole_level(low), at, axes, layer);
  if (weight == 0) return texel;
  const Texel other = sampled(whole_level(low + 1), at, axes, layer);
  for (std::size_t channel = 0; channel < texel.size(); ++channel) {
    float one = 0, two = 0;
    std::memcpy(&one, &texel[channel], sizeof one);
    std::memcpy(&two, &other[channel], sizeof two);
    one = (1 - weight) * one + weight * two;
    std::memcpy(&texel[channel], &one, sizeof one);
  }
  return texel;
}

/// The face that a direction meets, and where on it, from 0 to 1.
std::uint32_t face_of(std::array<float, 3>& at) {
  const auto [x, y, z] = at;
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  std::uint32_t face = 0;
  float along_s = 0, along_t = 0, major = 0;
  if (ax >= ay && ax >= az) {
    face = x >= 0 ? 0 : 1;
    major = ax;
    along_s = x >= 0 ? -z : z;
    along_t = -y;
  } else if (ay >= az) {
    face = y >= 0 ? 2 : 3;
    major = ay;
    along_s = x;
    along_t = y >= 0 ? z : -z;
  } else {
    face = z >= 0 ? 4 : 5;
    major = az;
    along_s = z >= 0 ? x : -x;
    along_t = -y;
  }
  at = {(along_s / major + 1) / 2, (along_t / major + 1) / 2, 0};
  return face;
}

std::uint32_t axes_of(Shape shape) {
  return shape == Shape::k1D || shape == Shape::kLayered1D ? 1 : shape == Shape::k3D ? 3 : 2;
}

const Texture* find_texture(Warp& warp, const Instruction& in, std::uint32_t lane, std::uint64_t handle,
                            const char* what) {
  const Texture* found = warp.grid->memory->texture(handle);
  if (found == nullptr)
    fail(warp, in, lane, Fault::Kind::kAddress, std::to_string(handle) + " is no " + what + " object");
  return found;
}

/// Calls act(lane, texture) for the lanes whose handle at in.a is a texture's.
template <typename Act>
void each_texture(Warp& warp, const Instruction& in, std::uint32_t lanes, const Act& act) {
  const auto* handles = lanes_at<std::uint64_t>(warp, in.a);
  const Texture* texture = nullptr;
  std::uint64_t known = 0;
  each_active(lanes, [&](std::uint32_t lane) {
    if (texture == nullptr || handles[lane] != known) {
      known = handles[lane];
      texture = find_texture(warp, in, lane, known, "texture");
      if (texture == nullptr) return;
    }
    warp.grid->counts.global_bytes_read += std::uint64_t{texture->channels} * texture->channel_bytes;
    act(lane, *texture);
  });
}

/// The level that the instruction asks for: by itself, or so that a step along the gradients is about a texel's.
template <typename Number>
float level_of(const Instruction& in, const Texture& texture, std::uint32_t axes, const Number& number) {
  if ((in.flags & kFlagLevel) != 0) return number(0) + texture.level_bias;
  if ((in.flags & kFlagGradients) == 0) return 0;
  const std::array<float, 3> scale = scale_of(texture);
  float longest = 0;
  for (std::uint32_t gradient = 0; gradient < 2; ++gradient) {
    float square = 0;
    for (std::uint32_t axis = 0; axis < axes; ++axis) {
      const float step = number(gradient * axes + axis) * scale[axis];
      square += step * step;
    }
    longest = std::max(longest, square);
  }
  return longest > 0 ? std::log2(longest) / 2 + texture.level_bias : 0;
}

/// a: the handle; b: vector of the coordinates and what stands behind them; extra: vector of the result; kind: Shape.
void fetch(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto& coordinates = warp.frame->function->vectors[in.b];
  const auto& results = warp.frame->function->vectors[in.extra];
  const auto shape = static_cast<Shape>(in.kind);
  const bool layered = shape == Shape::kLayered1D || shape == Shape::kLayered2D;
  const std::uint32_t axes = axes_of(shape), given = shape == Shape::kCube ? 3 : axes;
  each_texture(warp, in, lanes, [&](std::uint32_t lane, const Texture& texture) {
    const auto word = [&](std::size_t at) { return lanes_at<std::uint32_t>(warp, coordinates[at])[lane]; };
    const std::size_t first = layered ? 1 : 0;
    const auto in_depth = [&](std::int64_t layer) {
      return std::clamp<std::int64_t>(layer, 0, static_cast<std::int64_t>(texture.depth) - 1);
    };
    std::int64_t layer = layered ? in_depth(static_cast<std::int32_t>(word(0))) : 0;
    Texel texel{};
    if ((in.flags & kFlagWholeNumbers) != 0) {
      Place place{{0, 0, layer}};
      const std::array<std::uint64_t, 3> size{texture.width, texture.height, texture.depth};
      bool inside = true;
      for (std::uint32_t axis = 0; axis < axes; ++axis) {
        place.at[axis] = static_cast<std::int32_t>(word(first + axis));
        inside = inside && place.at[axis] >= 0 && static_cast<std::uint64_t>(place.at[axis]) < size[axis];
      }
      if (inside) texel = texel_at(texture, place);
    } else {
      const auto number = [&](std::size_t at) { return lanes_at<float>(warp, coordinates[first + at])[lane]; };
      std::array<float, 3> at{};
      for (std::uint32_t axis = 0; axis < given; ++axis) at[axis] = number(axis);
      if (shape == Shape::kCube) layer = in_depth(face_of(at));  // the texture may be no cube
      const float level = level_of(in, texture, axes, [&](std::size_t behind) { return number(given + behind); });
      texel = sampled_at(texture, at, axes, layer, level);
    }
    for (std::size_t channel = 0; channel < results.size(); ++channel) {
      if (results[channel] != kNowhere) lanes_at<std::uint32_t>(warp, results[channel])[lane] = texel[channel];
    }
  });
}

/// tld4: channel c of the four texels that a linear fetch would mix, from below on the left against the clock.
void gather(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto& coordinates = warp.frame->function->vectors[in.b];
  const auto& results = warp.frame->function->vectors[in.extra];
  each_texture(warp, in, lanes, [&](std::uint32_t lane, const Texture& texture) {
    const std::array<float, 3> scale = scale_of(texture);
    const std::array<std::uint64_t, 2> size{texture.width, texture.height};
    std::array<std::int64_t, 2> low{};
    for (std::size_t axis = 0; axis < 2; ++axis)
      low[axis] = whole(lanes_at<float>(warp, coordinates[axis])[lane] * scale[axis] - 0.5F);
    constexpr std::array<std::array<std::int64_t, 2>, 4> kCorners{{{0, 1}, {1, 1}, {1, 0}, {0, 0}}};
    for (std::size_t corner = 0; corner < results.size(); ++corner) {
      Place place{};
      for (std::size_t axis = 0; axis < 2; ++axis) {
        place.at[axis] = along(low[axis] + kCorners[corner][axis], size[axis], texture.address[axis],
                               texture.normalized_coordinates);
      }
      if (results[corner] != kNowhere)
        lanes_at<std::uint32_t>(warp, results[corner])[lane] = texel_at(texture, place)[in.c];
    }
  });
}

/// suld.b and sust.b: the first coordinate is in bytes. c: bytes of an element; count: elements; e: Outside; d_bytes:
/// of a register.
template <bool kStore>
void surface(Warp& warp, const Instruction& in, std::uint32_t lanes) {
  const auto& coordinates = warp.frame->function->vectors[in.b];
  const auto& values = warp.frame->function->vectors[in.extra];
  const auto shape = static_cast<Shape>(in.kind);
  const bool layered = shape == Shape::kLayered1D || shape == Shape::kLayered2D;
  const std::uint32_t axes = axes_of(shape), element = in.c;
  const auto outside = static_cast<Outside>(in.e);
  const auto* handles = lanes_at<std::uint64_t>(warp, in.a);
  each_active(lanes, [&](std::uint32_t lane) {
    const Texture* texture = find_texture(warp, in, lane, handles[lane], "surface");
    if (texture == nullptr) return;
    const std::int64_t bytes = std::int64_t{element} * in.count;
    const std::uint64_t row = texture->width * texture->channels * texture->channel_bytes;
    const std::array<std::int64_t, 3> most{static_cast<std::int64_t>(row) - bytes,
                                           static_cast<std::int64_t>(texture->height) - 1,
                                           static_cast<std::int64_t>(texture->depth) - 1};
    if (most[0] < 0) {  // no place of the row has room for it, with any rule for accesses outside
      fail(warp, in, lane, Fault::Kind::kAddress,
           "an access of " + std::to_string(bytes) + " bytes to a surface whose rows have " + std::to_string(row));
      return;
    }
    std::array<std::int64_t, 3> at{};
    for (std::uint32_t axis = 0; axis < axes; ++axis)
      at[axis] = lanes_at<std::int32_t>(warp, coordinates[(layered ? 1 : 0) + axis])[lane];
    if (layered) at[2] = lanes_at<std::int32_t>(warp, coordinates[0])[lane];
    bool inside = true;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (at[axis] >= 0 && at[axis] <= most[axis]) continue;
      inside = false;
      at[axis] = std::clamp<std::int64_t>(at[axis], 0, most[axis]);
    }
    if (!inside && outside == Outside::kTrap) {
      fail(warp, in, lane, Fault::Kind::kAddress, "an access outside of the surface");
      return;
    }
    std::byte* place = texture->bytes + static_cast<std::uint64_t>(at[2]) * texture->slice_bytes +
                       static_cast<std::uint64_t>(at[1]) * texture->row_bytes + at[0];
    const bool zero = !inside && outside == Outside::kZero;
    for (std::uint32_t index = 0; index < in.count; ++index) {
      if (values[index] == kNowhere) continue;
      std::byte* value = place_at(warp, values[index]);
      if constexpr (kStore) {
        const std::uint64_t word = read_lane(value, in.d_bytes, lane);
        if (!zero) std::memcpy(place + std::size_t{index} * element, &word, element);
      } else {
        std::uint64_t word = 0;
        if (!zero) std::memcpy(&word, place + std::size_t{index} * element, element);
        write_lane(value, in.d_bytes, lane, word);
      }
    }
    (kStore ? warp.grid->counts.global_bytes_written : warp.grid->counts.global_bytes_read) +=
        static_cast<std::uint64_t>(bytes);
    if (kStore) ++warp.grid->changes;
  });
}

bool take_shape(Decoder& decoder, Shape& shape) {
  for (const auto& [name, value] : {std::pair{"1d", Shape::k1D},
                                    {"2d", Shape::k2D},
                                    {"3d", Shape::k3D},
                                    {"a1d", Shape::kLayered1D},
                                    {"a2d", Shape::kLayered2D},
                                    {"cube", Shape::kCube}}) {
    if (!decoder.take(name)) continue;
    shape = value;
    return true;
  }
  return false;
}

std::vector<Operand> parts_of(const Operand& operand) {
  return operand.kind == Operand::Kind::kVector ? operand.parts : std::vector<Operand>{operand};
}

/// [handle, {coordinates}]: the handle's place in `a`, the vector of the coordinates and of what is `behind` them in
/// `b`.
void take_coordinates(Decoder& decoder, const Operand& from, Shape shape, Type type,
                      const std::vector<Operand>& behind = {}) {
  if (from.kind != Operand::Kind::kAddress || from.parts.size() != 2)
    decoder.refuse("[handle, {coordinates}] is expected");
  if (!decoder.is_register(from.parts[0])) decoder.unsupported("a texture by its name");
  decoder.in.a = decoder.source(from.parts[0], Type::kB64);
  const std::vector<Operand> parts = parts_of(from.parts[1]);
  const bool layered = shape == Shape::kLayered1D || shape == Shape::kLayered2D;
  const std::uint32_t needed = (layered ? 1 : 0) + (shape == Shape::kCube ? 3 : axes_of(shape));
  if (parts.size() < needed) decoder.refuse(std::to_string(needed) + " coordinates are expected");
  std::vector<std::uint32_t> places;
  for (std::uint32_t at = 0; at < needed; ++at)
    places.push_back(decoder.source(parts[at], layered && at == 0 ? Type::kB32 : type));
  for (const Operand& one : behind) places.push_back(decoder.source(one, type));
  decoder.in.b = decoder.vector_places(places);
}

/// The vector in `extra`.
void take_values(Decoder& decoder, const Operand& operand, Type type, bool written) {
  const std::vector<Operand> parts = parts_of(operand);
  if (operand.kind == Operand::Kind::kPair) decoder.unsupported("a predicate of residency");
  if (parts.size() != decoder.in.count) decoder.refuse("the vector has another number of parts");
  std::vector<std::uint32_t> places;
  for (const Operand& part : parts) {
    if (written && part.kind == Operand::Kind::kSink) {
      places.push_back(kNowhere);
      continue;
    }
    std::uint8_t width = 0;
    places.push_back(written ? decoder.destination(part, type, &width) : decoder.source(part, type, &width));
    decoder.in.d_bytes = width;
  }
  decoder.in.extra = decoder.vector_places(places);
}

/// .level or .grad, if the texture may have levels: their operands, after the coordinates.
std::vector<Operand> take_level(Decoder& decoder, Shape shape) {
  const bool by_level = decoder.take("level"), by_gradients = !by_level && decoder.take("grad");
  if (!by_level && !by_gradients) {
    decoder.take("base");
    return {};
  }
  if (by_level) {
    decoder.in.flags |= kFlagLevel;
    return {decoder.operand(2)};
  }
  if (shape == Shape::kCube) decoder.unsupported("the gradients of a cube");
  decoder.in.flags |= kFlagGradients;
  std::vector<Operand> numbers;
  for (const std::size_t gradient : {2, 3}) {
    const std::vector<Operand> parts = parts_of(decoder.operand(gradient));
    if (parts.size() < axes_of(shape)) decoder.refuse("a gradient has a number for each axis");
    numbers.insert(numbers.end(), parts.begin(), parts.begin() + axes_of(shape));
  }
  return numbers;
}

}  // namespace

bool decode_texture(Decoder& decoder) {
  const std::string_view opcode = decoder.statement->opcode;
  const bool load = opcode == "suld", store = opcode == "sust";
  if (opcode != "tex" && opcode != "tld4" && !load && !store) return false;
  Instruction& in = decoder.in;
  Shape shape{};
  if (!take_shape(decoder, shape)) return false;  // what is left traps where it is executed
  in.kind = static_cast<std::uint8_t>(shape);
  in.count = decoder.vector_width();
  const Type type = decoder.type();
  if (opcode == "tex") {
    const std::vector<Operand> level = take_level(decoder, shape);
    const Type coordinates = decoder.type();
    if (in.count != 4 || bytes_of(type) != 4 || bytes_of(coordinates) != 4) decoder.unsupported("this form");
    if (coordinates != Type::kF32) in.flags |= kFlagWholeNumbers;
    take_values(decoder, decoder.operand(0), type, true);
    take_coordinates(decoder, decoder.operand(1), shape, coordinates, level);
    in.run = fetch;
    return true;
  }
  if (opcode == "tld4") {
    in.c = decoder.take("r") ? 0 : decoder.take("g") ? 1 : decoder.take("b") ? 2 : decoder.take("a") ? 3 : 4;
    const Type coordinates = decoder.type();
    const bool is_vector = decoder.operand(0).kind == Operand::Kind::kVector;
    if (in.c == 4 || in.count != 4 || !is_vector || shape != Shape::k2D || bytes_of(type) != 4 ||
        coordinates != Type::kF32)
      decoder.unsupported("this form");
    take_values(decoder, decoder.operand(0), type, true);
    take_coordinates(decoder, decoder.operand(1), shape, coordinates);
    in.run = gather;
    return true;
  }
  if (!decoder.take("b") || shape == Shape::kCube) decoder.unsupported("this form");
  in.e = static_cast<std::uint32_t>(decoder.take("clamp")  ? Outside::kClamp
                                    : decoder.take("zero") ? Outside::kZero
                                                           : Outside::kTrap);
  decoder.take("trap");
  decoder.skip_modifiers();
  in.c = bytes_of(type);
  take_values(decoder, decoder.operand(load ? 0 : 1), type, load);
  take_coordinates(decoder, decoder.operand(load ? 1 : 0), shape, Type::kB32);
  in.run = load ? surface<false> : surface<true>;
  return true;
}

}  // namespace meshbed::sim::ptx
