#include <algorithm>
#include <cstring>

#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/isa/words.h"

namespace meshbed::sim::ptx {

namespace {

bool is_hint(std::string_view name) {
  static constexpr std::string_view kAll[] = {"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt"};
  return std::find(std::begin(kAll), std::end(kAll), name) != std::end(kAll) || name.substr(0, 2) == "L1" ||
         name.substr(0, 2) == "L2" || name == "unified" || name == "level::eviction_priority";
}

double wide_value(const Operand& from) {
  if (from.kind == Operand::Kind::kFloat32) {
    float narrow = 0;
    std::memcpy(&narrow, &from.value, sizeof narrow);
    return narrow;
  }
  double wide = 0;
  std::memcpy(&wide, &from.value, sizeof wide);
  return wide;
}

}  // namespace

void Decoder::begin(const Statement& now) {
  statement = &now;
  taken_.assign(now.modifiers.size(), false);
  has_taken_ = false;
  in = Instruction{};
  in.line = now.line;
  if (now.predicate >= 0) {
    in.predicate = function.register_place[static_cast<std::size_t>(now.predicate)];
    in.predicate_flip = now.predicate_negated ? ~0U : 0U;
  }
}

void Decoder::end() {
  for (std::size_t index = 0; index < taken_.size(); ++index) {
    if (!taken_[index]) {
      throw Refusal(statement->line,
                    "opcode " + spelled(*statement) + ": modifier ." + std::string(statement->modifiers[index]) +
                        " is not implemented",
                    true);
    }
  }
  if (in.run != nullptr) function.code.push_back(in);
}

void Decoder::refuse(const std::string& why) const { throw Refusal(statement->line, spelled(*statement) + ": " + why); }

void Decoder::unsupported(const std::string& why) const {
  throw Refusal(statement->line, "opcode " + spelled(*statement) + ": " + why + " is not implemented", true);
}

bool Decoder::has(std::string_view modifier) const {
  return std::find(statement->modifiers.begin(), statement->modifiers.end(), modifier) != statement->modifiers.end();
}

bool Decoder::take(std::string_view modifier) {
  for (std::size_t index = 0; index < taken_.size(); ++index) {
    if (!taken_[index] && statement->modifiers[index] == modifier) return taken_[index] = has_taken_ = true;
  }
  return false;
}

Type Decoder::type_or_none() {
  for (std::size_t index = 0; index < taken_.size(); ++index) {
    const Type type = type_named(statement->modifiers[index]);
    if (taken_[index] || type == Type::kNone) continue;
    taken_[index] = has_taken_ = true;
    return type;
  }
  return Type::kNone;
}

Type Decoder::type() {
  const Type found = type_or_none();
  if (found == Type::kNone) refuse("a type is missing");
  return found;
}

std::uint8_t Decoder::vector_width() {
  for (const std::uint8_t width : {2, 4, 8}) {
    if (take("v" + std::to_string(width))) return width;
  }
  return 1;
}

bool Decoder::take_space(Space& space) {
  static constexpr std::pair<const char*, Space> kAll[] = {
      {"global", Space::kGlobal},      {"shared::cta", Space::kShared}, {"shared::cluster", Space::kShared},
      {"shared", Space::kShared},      {"local", Space::kLocal},        {"const", Space::kConst},
      {"param::entry", Space::kParam}, {"param", Space::kParam}};
  for (const auto& [name, value] : kAll) {
    if (!take(name)) continue;
    space = value;
    return true;
  }
  return false;
}

std::string_view Decoder::unusual_modifier() const {
  for (std::size_t index = 0; index < taken_.size(); ++index) {
    const std::string_view modifier = statement->modifiers[index];
    if (!taken_[index] && !is_usual_modifier(modifier) && !is_hint(modifier)) return modifier;
  }
  return {};
}

bool Decoder::rounding(std::uint8_t& mode) {
  mode = 0;
  for (const char* nearest : {"rn", "rni"}) {
    if (take(nearest)) return true;
  }
  for (const auto& [name, value] : {std::pair{"rz", kModeZero},
                                    {"rzi", kModeZero},
                                    {"rm", kModeDown},
                                    {"rmi", kModeDown},
                                    {"rp", kModeUp},
                                    {"rpi", kModeUp}}) {
    if (!take(name)) continue;
    mode = value;
    return true;
  }
  return false;
}

void Decoder::skip_modifiers() {
  const bool all = in.run == nullptr && statement->operands.empty();
  for (std::size_t index = 0; index < taken_.size(); ++index) {
    if (all || is_hint(statement->modifiers[index])) taken_[index] = true;
  }
}

const Operand& Decoder::operand(std::size_t index) const {
  if (index >= statement->operands.size()) refuse("operand " + std::to_string(index + 1) + " is missing");
  return statement->operands[index];
}

void Decoder::expect_operands(std::size_t least, std::size_t most) const {
  if (operand_count() < least || operand_count() > most) {
    refuse(std::to_string(operand_count()) + " operands, " + std::to_string(least) + " expected");
  }
}

std::uint32_t Decoder::constant(std::uint64_t value, std::uint32_t bytes) {
  if (bytes < 8) value &= (std::uint64_t{1} << (bytes * 8U)) - 1;
  const auto [known, fresh] = constants_.emplace(std::pair{bytes, value}, 0);
  if (!fresh) return known->second;
  auto& pool = function.pool;
  pool.resize(rounded_up(pool.size(), 16));
  const auto place = static_cast<std::uint32_t>(pool.size());
  const std::uint32_t wide = std::max(bytes, 1U);
  pool.resize(pool.size() + std::size_t{wide} * kLanes);
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    std::memcpy(pool.data() + place + std::size_t{lane} * wide, &value, std::min(wide, 8U));
  }
  if (pool.size() > (1U << 28U)) refuse("too many constants");
  return known->second = place | kPoolBit;
}

std::uint32_t Decoder::address_constant(const Symbol& symbol, std::int64_t addend, std::uint32_t bytes) {
  // The same variable with the same addend has one place: keyed beside the numbers by widths that no number has.
  const std::uint64_t key =
      reinterpret_cast<std::uintptr_t>(&symbol) * 31U + static_cast<std::uint64_t>(addend) * 2654435761U;
  const auto [known, fresh] = constants_.emplace(std::pair{bytes + 100U, key}, 0);
  if (!fresh) {
    for (const PoolAddress& one : function.addresses) {
      if ((one.place | kPoolBit) == known->second && one.symbol == &symbol && one.addend == addend)
        return known->second;
    }
  }
  auto& pool = function.pool;
  pool.resize(rounded_up(pool.size(), 16));
  const auto place = static_cast<std::uint32_t>(pool.size());
  pool.resize(pool.size() + std::size_t{bytes} * kLanes);
  function.addresses.push_back({place, bytes, &symbol, addend});
  if (symbol.space == Space::kShared && symbol.function == nullptr &&
      std::find(function.shared.begin(), function.shared.end(), &symbol) == function.shared.end()) {
    function.shared.push_back(&symbol);
  }
  if (symbol.function != nullptr && !symbol.function->entry) {
    function.callees.push_back(program.function_index.at(symbol.function));
  }
  return known->second = place | kPoolBit;
}

std::uint32_t Decoder::temporary(std::uint32_t bytes) {
  const std::uint32_t place = rounded_up(function.frame_bytes, 64);
  function.frame_bytes = place + bytes * kLanes;
  return place;
}

std::uint32_t Decoder::vector_places(const std::vector<std::uint32_t>& places) {
  function.vectors.push_back(places);
  return static_cast<std::uint32_t>(function.vectors.size() - 1);
}

std::uint32_t Decoder::source(const Operand& from, Type type, std::uint8_t* register_bytes) {
  const std::uint32_t bytes = bytes_of(type);
  switch (from.kind) {
    case Operand::Kind::kRegister: {
      const std::uint32_t width = bytes_of(register_type(from));
      if (register_type(from) == Type::kPred) refuse("a predicate where a value is expected");
      if (register_bytes != nullptr ? width < bytes : width != bytes) {
        refuse("a register of " + std::to_string(width * 8) + " bits where " + std::to_string(bytes * 8) +
               " are expected");
      }
      if (register_bytes != nullptr) *register_bytes = static_cast<std::uint8_t>(width);
      return function.register_place[from.reg];
    }
    case Operand::Kind::kInteger:
    case Operand::Kind::kFloat32:
    case Operand::Kind::kFloat64: {
      if (register_bytes != nullptr) *register_bytes = static_cast<std::uint8_t>(bytes);
      std::uint64_t bits = static_cast<std::uint64_t>(from.value);
      if (from.kind != Operand::Kind::kInteger && type == Type::kF64) {
        const double value = wide_value(from);
        std::memcpy(&bits, &value, sizeof bits);
      } else if (from.kind == Operand::Kind::kFloat64 && bytes == 4) {
        const float value = static_cast<float>(wide_value(from));
        std::uint32_t word = 0;
        std::memcpy(&word, &value, sizeof word);
        bits = word;
      } else if (from.kind == Operand::Kind::kInteger && (type == Type::kF32 || type == Type::kF64)) {
        const double value = static_cast<double>(from.value);
        const float narrow = static_cast<float>(value);
        bits = 0;
        if (type == Type::kF32)
          std::memcpy(&bits, &narrow, sizeof narrow);
        else
          std::memcpy(&bits, &value, sizeof value);
      }
      if (type == Type::kB128) refuse("a constant of 128 bits");
      return constant(bits, bytes);
    }
    case Operand::Kind::kSymbol: {
      if (register_bytes != nullptr) *register_bytes = static_cast<std::uint8_t>(bytes);
      if (bytes != 4 && bytes != 8) refuse("an address has 32 or 64 bits");
      const Symbol& symbol = *from.symbol;
      if (symbol.space == Space::kParam && symbol.formal && text.entry) {
        return constant(symbol.offset + static_cast<std::uint64_t>(from.value), bytes);
      }
      if (symbol.function == nullptr && (symbol.space == Space::kLocal || symbol.space == Space::kParam)) {
        const std::uint32_t place = temporary(bytes);
        const Instruction kept = in;
        in = Instruction{};
        in.line = kept.line;
        emit_local_address(*this, symbol.offset + static_cast<std::uint32_t>(from.value), place, bytes);
        function.code.push_back(in);
        in = kept;
        return place;
      }
      return address_constant(symbol, from.value, bytes);
    }
    case Operand::Kind::kSpecial: {
      if (register_bytes != nullptr) *register_bytes = static_cast<std::uint8_t>(bytes);
      const std::uint32_t place = temporary(bytes);
      const Instruction kept = in;
      in = Instruction{};
      in.line = kept.line;
      decode_special(*this, from.name, place, bytes);
      function.code.push_back(in);
      in = kept;
      return place;
    }
    default:
      refuse("an operand of this form is not expected here");
  }
}

std::uint32_t Decoder::destination(const Operand& to, Type type, std::uint8_t* register_bytes) {
  const std::uint32_t bytes = bytes_of(type);
  if (to.kind == Operand::Kind::kSink) {
    if (register_bytes != nullptr) *register_bytes = static_cast<std::uint8_t>(bytes);
    return temporary(bytes);
  }
  if (to.kind != Operand::Kind::kRegister) refuse("the destination must be a register");
  const std::uint32_t width = bytes_of(register_type(to));
  if (register_type(to) == Type::kPred) refuse("a predicate where a register is expected");
  if (register_bytes != nullptr ? width < bytes : width != bytes) {
    refuse("a register of " + std::to_string(width * 8) + " bits for a result of " + std::to_string(bytes * 8));
  }
  if (register_bytes != nullptr) *register_bytes = static_cast<std::uint8_t>(width);
  return function.register_place[to.reg];
}

void Decoder::operands(Type result, std::initializer_list<Type> sources) {
  expect_operands(sources.size() + 1, sources.size() + 1);
  std::uint32_t* const places[] = {&in.a, &in.b, &in.c, &in.e};
  std::size_t at = 0;
  for (const Type type : sources) {
    const std::uint32_t place = source(operand(at + 1), type);
    *places[at++] = place;
  }
  in.d = destination(operand(0), result);
}

void Decoder::operands(Type type, std::size_t sources) {
  if (sources == 1) return operands(type, {type});
  if (sources == 2) return operands(type, {type, type});
  operands(type, {type, type, type});
}

std::uint32_t Decoder::predicate_source(const Operand& from, bool& negated) {
  negated = from.negated;
  if (from.kind == Operand::Kind::kInteger) return constant(from.value != 0 ? ~std::uint64_t{0} : 0, 4);
  if (from.kind != Operand::Kind::kRegister || register_type(from) != Type::kPred) refuse("a predicate is expected");
  return function.register_place[from.reg];
}

std::uint32_t Decoder::predicate_destination(const Operand& to) {
  if (to.kind == Operand::Kind::kSink) return temporary(4);
  if (to.kind != Operand::Kind::kRegister || register_type(to) != Type::kPred) refuse("a predicate is expected");
  return function.register_place[to.reg];
}

void Decoder::address(const Operand& from, Space space) {
  if (from.kind != Operand::Kind::kAddress || from.parts.empty()) refuse("an address in brackets is expected");
  if (from.parts.size() > 1) unsupported("an address of this form");
  const Operand& base = from.parts[0];
  in.immediate = from.value;
  in.kind = kAddressPlace;
  in.space = static_cast<std::uint8_t>(space);
  in.a_bytes = 8;
  if (base.kind == Operand::Kind::kRegister) {
    in.a_bytes = static_cast<std::uint8_t>(bytes_of(register_type(base)));
    if (in.a_bytes != 4 && in.a_bytes != 8) refuse("an address has 32 or 64 bits");
    in.a = function.register_place[base.reg];
    if (space == Space::kParam && !text.entry) in.space = static_cast<std::uint8_t>(Space::kLocal);
    return;
  }
  if (base.kind == Operand::Kind::kInteger) {
    in.a = constant(static_cast<std::uint64_t>(base.value), 8);
    return;
  }
  if (base.kind != Operand::Kind::kSymbol) refuse("an address must begin with a register or a variable");
  const Symbol& symbol = *base.symbol;
  if (symbol.function != nullptr) refuse("a function's bytes cannot be read");
  if (symbol.space == Space::kParam && symbol.formal && text.entry) {
    in.space = static_cast<std::uint8_t>(Space::kParam);
    in.a = constant(symbol.offset, 8);
  } else if (symbol.space == Space::kLocal || symbol.space == Space::kParam) {
    in.space = static_cast<std::uint8_t>(Space::kLocal);
    in.kind = kAddressFrame;
    in.a = constant(0, 8);
    in.immediate += symbol.offset;
  } else {
    in.space = static_cast<std::uint8_t>(symbol.space);
    in.a = address_constant(symbol, 0, 8);
  }
}

std::uint32_t Decoder::target(const Operand& label) const {
  if (label.kind != Operand::Kind::kLabel) refuse("a label is expected");
  return static_cast<std::uint32_t>(label.value);
}

}  // namespace meshbed::sim::ptx
