#pragma once
// PTX text as it stands on the page: types, symbols, operands and statements, with names resolved to registers and
// symbols and nothing decided about what an opcode means. Source: PTX ISA 9.0, sections 4 to 6 and 11.
//
// Made by parse.cpp from the words of lexer.h, read by decode.cpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/cuda/ptx/lexer.h"

namespace meshbed::sim::ptx {

/// The error that Module::parse returns as an Error: the line and what is wrong there. Never leaves the library.
class Refusal : public std::runtime_error {
 public:
  Refusal(std::uint32_t line, const std::string& text, bool unsupported = false)
      : std::runtime_error(text), line(line), unsupported(unsupported) {}
  std::uint32_t line;
  std::size_t part = 0;  // which of the texts that are linked
  bool unsupported;      // known to be PTX, or unknown; else a mistake of the text
};

/// The next multiple of `align`.
template <typename T>
constexpr T rounded_up(T value, std::type_identity_t<T> align) {
  return (value + align - 1) / align * align;
}

enum class Type : std::uint8_t {
  kNone,
  kPred,
  kB8,
  kU8,
  kS8,
  kB16,
  kU16,
  kS16,
  kF16,
  kBf16,
  kB32,
  kU32,
  kS32,
  kF32,
  kF16x2,
  kBf16x2,
  kTf32,
  kB64,
  kU64,
  kS64,
  kF64,
  kB128,
};

/// kNone: no type is called that (".global").
Type type_named(std::string_view dotted);
std::uint32_t bytes_of(Type type);  // predicates: 4, a mask of lanes
bool is_signed(Type type);
bool is_integer(Type type);        // bits and integers
Type type_in_register(Type type);  // what holds it: no register has 8 bits

enum class Space : std::uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam, kReg };

/// The registers that the machine itself writes, by what stands in them.
enum class Special : std::uint8_t {
  kTid,
  kNtid,
  kCtaid,
  kNctaid,
  kLane,
  kWarp,
  kWarps,
  kSm,
  kSms,
  kZero,
  kOne,
  kClock,
  kClockHigh,
  kTimer,
  kTimerHigh,
  kMaskEq,
  kMaskLe,
  kMaskLt,
  kMaskGe,
  kMaskGt,
  kDynamicShared,
  kTotalShared,
  kReservedShared,
  kReservedEnd,
  kClusterId,
  kClusterCount,
  kClusterCtaid,
  kClusterNctaid,
  kClusterRank,
  kClusterSize,
  kExplicitCluster,
  kWorkspaceHigh,
  kWorkspaceLow,
  kOther,  // PTX has it, and nothing here models it
  kNone,   // no register is called that
};

/// "%tid": without ".x".
Special special_named(std::string_view name);

struct FunctionText;

/// A variable, a parameter or a function.
struct Symbol {
  std::string name;
  Space space = Space::kGlobal;
  Type type = Type::kB8;
  std::uint64_t bytes = 0;
  std::uint32_t align = 1;
  bool external = false, managed = false;
  bool weak = false;                 // another definition may stand in its place
  bool unsized = false;              // `x[]`: dynamic shared memory
  bool opaque = false;               // `.global .texref x`: of a type that nothing here knows
  bool formal = false;               // a parameter or the result of the function that it stands in
  std::uint32_t offset = 0;          // kParam of a kernel, kLocal and the other kParam: in the frame's local memory
  int variable = -1;                 // index of Module::variables()
  int reg = -1;                      // a formal in a register (`.reg .u32 %a`)
  FunctionText* function = nullptr;  // a function's name
};

/// An address in an initialiser: at `offset`, `bytes` wide, the symbol's address + addend, shifted right for one byte
/// of it (`0xff00(name)`).
struct Relocation {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 8, shift = 0;
  const Symbol* symbol = nullptr;
  std::int64_t addend = 0;
};

struct Operand {
  enum class Kind : std::uint8_t {
    kRegister,
    kInteger,
    kFloat32,  // value: its bits
    kFloat64,
    kSymbol,   // + value
    kSpecial,  // name: "%tid.x"
    kAddress,  // parts[0] + value, in brackets; parts[1..]: what else stands there
    kVector,   // {a, b}
    kList,     // (a, b)
    kPair,     // d|p
    kLabel,    // value: label
    kSink,     // _
  } kind = Kind::kSink;
  bool negated = false;  // !%p
  std::uint32_t reg = 0;
  std::int64_t value = 0;
  const Symbol* symbol = nullptr;
  std::string name;
  std::vector<Operand> parts;
};

struct Statement {
  std::uint32_t line = 0;
  std::string_view opcode;
  std::vector<std::string_view> modifiers;  // without the dot
  std::vector<Operand> operands;
  int predicate = -1;  // register
  bool predicate_negated = false;
  std::string unread;  // why its operands were not read; empty: they were
};

/// "ld.global.f32"
std::string spelled(const Statement& statement);

/// The prototype in an indirect call: bytes of each argument and result.
struct Prototype {
  std::vector<Symbol> returns, formals;
};

/// What stands between a function's braces.
struct BodyText {
  std::vector<Type> registers;
  std::deque<Symbol> symbols;  // in its local memory
  std::vector<Statement> statements;
  std::vector<std::int64_t> labels;                 // statement index of each; -1: not met
  std::vector<std::vector<std::uint32_t>> targets;  // .branchtargets: labels of each table
  std::map<std::uint32_t, std::uint32_t> table_of;  // label of the table -> index in targets
  std::map<std::uint32_t, Prototype> prototypes;    // label -> prototype
  std::uint32_t local_bytes = 0;                    // with the parameters of calls
};

struct FunctionText {
  std::string name;
  bool entry = false, defined = false;
  std::uint32_t line = 0;
  std::size_t part = 0;          // which of the texts that are linked
  Lexer::Place body{};           // of its opening brace
  std::vector<Symbol*> inner{};  // variables that the body declares and all blocks or grids share, once it was read
  std::vector<Symbol*> returns, formals;
  std::deque<Symbol> symbols;  // those
  std::array<std::uint32_t, 3> required_block{};
  std::uint32_t max_threads = 1024;
  std::array<std::uint32_t, 3> required_cluster{};
  std::uint32_t max_cluster_blocks = 0;
  bool blocks_are_clusters = false;
  std::uint32_t max_registers = 255;                   // of a thread: .maxnreg, and what .maxntid and .reqntid leave
  std::uint32_t parameter_bytes = 0, local_bytes = 0;  // local: of `symbols`
};

struct VariableText {
  Symbol* symbol = nullptr;
  std::vector<std::byte> initial;
  std::vector<Relocation> relocations;
};

/// A name in one text: what it stands for, from where on (Lexer::position()).
struct Declaration {
  Symbol* symbol = nullptr;
  std::size_t from = 0;
};
using Declarations = std::map<std::string, Declaration, std::less<>>;

struct ModuleText {
  bool is_newer = false;                  // than PTX ISA 9.0: it may have instructions that no list here has
  std::deque<std::string> texts;          // what the views point into: one, or those that are linked
  std::deque<Declarations> declarations;  // of each
  std::deque<Symbol> symbols;
  std::map<std::string, Symbol*, std::less<>> names;
  std::deque<FunctionText> functions;
  std::vector<VariableText> variables;  // those in global and constant memory
};

/// Adds a text to the module, as a linker does: what it shows (.visible, .weak, .common) and what it asks for (.extern)
/// has one name in all texts; the rest is its own. Bodies of functions are left for parse_body(). Throws Refusal.
void parse_text(std::string text, ModuleText& module);
/// What stands in the body of a function that is defined. The variables in it become the module's when it is read for
/// the first time. Throws Refusal.
BodyText parse_body(ModuleText& module, FunctionText& function);

}  // namespace meshbed::sim::ptx
