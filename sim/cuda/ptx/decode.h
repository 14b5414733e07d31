#pragma once
// Statements to instructions. Each class of opcodes has a source that decodes and runs it; what it needs is here.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cuda/ptx/program.h"

namespace meshbed::sim::ptx {

inline constexpr std::uint8_t kModeDown = 1, kModeUp = 2, kModeZero = 3, kModeRounding = 3, kModeSaturate = 4;
inline constexpr std::uint8_t kFlagBranch = 1;   // `immediate` is a label until the function is whole
inline constexpr std::uint8_t kFlagNegateC = 2;  // the predicate at c is negated
inline constexpr std::uint8_t kFlagStrong = 4;   // volatile, relaxed, acquire: may be a poll
inline constexpr std::uint8_t kFlagParity = 8;   // of an mbarrier

/// One statement that is being decoded. Every modifier must be taken, otherwise the statement is refused.
class Decoder {
 public:
  Decoder(const Program& program, Function& function, const BodyText& body)
      : program(program), function(function), text(*function.text), body(body) {}

  const Program& program;
  Function& function;
  const FunctionText& text;
  const BodyText& body;
  const Statement* statement = nullptr;
  Instruction in;

  void begin(const Statement& now);
  /// As after begin(), for the next that may know the statement.
  void give_back() {
    if (has_taken_) begin(*statement);
  }
  /// Puts the instruction at the end of the code; refuses what was not understood.
  void end();

  [[noreturn]] void refuse(const std::string& why) const;       // a mistake of the text
  [[noreturn]] void unsupported(const std::string& why) const;  // "ld.global.foo: why"

  bool take(std::string_view modifier);
  bool has(std::string_view modifier) const;
  /// The next type among the modifiers; refuses the statement without one.
  Type type();
  Type type_or_none();
  /// .v2 is 2; without one: 1.
  std::uint8_t vector_width();
  /// .global and the like; false: none is named.
  bool take_space(Space& space);
  /// .rn and the like, as a mode; integer rounding (.rni) too.
  bool rounding(std::uint8_t& mode);
  /// The first modifier that was not taken and is not one of those that all kinds of instructions share; empty: none.
  std::string_view unusual_modifier() const;
  void skip_modifiers();  // cache hints and what else has no meaning here

  std::size_t operand_count() const { return statement->operands.size(); }
  const Operand& operand(std::size_t index) const;
  void expect_operands(std::size_t least, std::size_t most) const;

  /// The place of a value of that type: a register of that width, or a constant. With `register_bytes` a wider register
  /// is accepted, and its width is stored there.
  std::uint32_t source(const Operand& from, Type type, std::uint8_t* register_bytes = nullptr);
  std::uint32_t destination(const Operand& to, Type type, std::uint8_t* register_bytes = nullptr);
  std::uint32_t predicate_source(const Operand& from, bool& negated);
  std::uint32_t predicate_destination(const Operand& to);
  bool is_register(const Operand& operand) const { return operand.kind == Operand::Kind::kRegister; }
  Type register_type(const Operand& operand) const { return body.registers[operand.reg]; }
  /// The usual operands and no others: `result`, then the sources, in a, b, c and e.
  void operands(Type result, std::initializer_list<Type> sources);
  void operands(Type type, std::size_t sources);  // all of one type
  /// [base + offset]: place of the base in `in.a`, its width in `in.a_bytes`, the offset in `in.immediate`, the space
  /// and kAddressX in `in.kind`.
  void address(const Operand& from, Space space);
  std::uint32_t constant(std::uint64_t value, std::uint32_t bytes);
  std::uint32_t address_constant(const Symbol& symbol, std::int64_t addend, std::uint32_t bytes);
  std::uint32_t temporary(std::uint32_t bytes);
  std::uint32_t vector_places(const std::vector<std::uint32_t>& places);
  std::uint32_t target(const Operand& label) const;  // label's number; a position when the function is whole

 private:
  std::vector<bool> taken_;
  bool has_taken_ = false;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> constants_;
};

// Kinds of addresses (Instruction::kind of ld, st, atom ...).
inline constexpr std::uint8_t kAddressPlace = 0;  // a register or a constant
inline constexpr std::uint8_t kAddressFrame = 1;  // local memory of the frame

/// false: not one of these opcodes.
bool decode_integer(Decoder& decoder);
bool decode_bits(Decoder& decoder);
bool decode_float(Decoder& decoder);
bool decode_half(Decoder& decoder);
bool decode_compare(Decoder& decoder);
bool decode_move(Decoder& decoder);
bool decode_convert(Decoder& decoder);
bool decode_memory(Decoder& decoder);
bool decode_atomic(Decoder& decoder);
bool decode_control(Decoder& decoder);
bool decode_call(Decoder& decoder);
bool decode_exchange(Decoder& decoder);
bool decode_barrier(Decoder& decoder);
bool decode_async(Decoder& decoder);
bool decode_cluster(Decoder& decoder);
bool decode_texture(Decoder& decoder);

/// A handler for hints, and for what a machine that does one access after the other has done already.
void no_effect(Warp& warp, const Instruction& in, std::uint32_t lanes);
/// An instruction that ends the kernel with that text when it is executed.
void decode_trap(Decoder& decoder, const std::string& why);
/// Kind of a function that the interpreter itself does (vprintf ...); -1: none.
int builtin_named(std::string_view name);
/// Reads a special register (%tid.x).
void decode_special(Decoder& decoder, const std::string& name, std::uint32_t place, std::uint32_t bytes);
/// The address of a variable in the frame's local memory.
void emit_local_address(Decoder& decoder, std::uint32_t offset, std::uint32_t place, std::uint32_t bytes);

}  // namespace meshbed::sim::ptx
