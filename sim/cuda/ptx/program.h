#pragma once
// A module made ready to run: functions as arrays of compact instructions, each with the function that does it.
//
// Nomenclature: a frame holds the registers of one activation of a function for the 32 lanes of a warp, register by
// register (structure of arrays): 32 values side by side, so that an instruction is one loop. A predicate is one
// 32-bit mask of lanes. A place is an offset in the frame, or, with kPoolBit, in the function's pool: its constants,
// each 32 times over. Cost: 4 to 256 bytes a register and warp.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cuda/ptx/cache/layout.h"
#include "sim/cuda/ptx/machine.h"
#include "sim/cuda/ptx/syntax.h"

namespace meshbed::sim::ptx {

inline constexpr std::uint32_t kLanes = 32;
inline constexpr std::uint32_t kPoolBit = 0x80000000U;
inline constexpr std::uint32_t kNowhere = 0x7fffffffU;

// Windows of the generic space: where no address of a 47-bit process lies.
inline constexpr unsigned kWindowShift = 44;
inline constexpr std::uint64_t kSharedWindow = std::uint64_t{8} << kWindowShift;
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{9} << kWindowShift;
inline constexpr std::uint64_t kParamWindow = std::uint64_t{10} << kWindowShift;
inline constexpr std::uint64_t kFunctionWindow = std::uint64_t{11} << kWindowShift;  // function n: + 16 n

inline constexpr std::uint64_t kWorkspaceWindow = std::uint64_t{12} << kWindowShift;  // of a cooperative grid
inline constexpr std::uint32_t kWorkspaceBytes = 256;
// Shared memory that a block has beside its own, and its address: far away, so that no program reaches it by mistake.
inline constexpr std::uint32_t kReservedBytes = 1024, kReservedShared = 1U << 20U;

struct Warp;
struct Instruction;
struct Function;
/// Does one instruction for the lanes of the mask.
using Handler = void (*)(Warp&, const Instruction&, std::uint32_t lanes);

struct Instruction {
  Handler run = nullptr;
  Handler inner = nullptr;  // what `run` wraps: rounding, saturation
  std::uint32_t d = kNowhere, a = kNowhere, b = kNowhere, c = kNowhere;
  std::uint32_t e = kNowhere;          // a fourth source, or a second destination
  std::uint32_t predicate = kNowhere;  // place of a mask
  std::int64_t immediate = 0;          // offset of an address, target of a branch, or as the handler uses it
  std::uint32_t line = 0;
  std::uint32_t extra = 0;           // index in Function's side tables, or as the handler uses it
  std::uint32_t predicate_flip = 0;  // ~0: negated
  std::uint8_t flops = 0, kind = 0;
  std::uint8_t d_bytes = 0, a_bytes = 0;  // widths of registers, where they may differ from the operation's
  std::uint8_t space = 0;
  std::uint8_t count = 1;  // elements of a vector
  std::uint8_t modes = 0;  // kModeRoundX, kModeSaturate
  std::uint8_t flags = 0;
};

/// A value of the pool that is an address, known when the kernel starts.
struct PoolAddress {
  std::uint32_t place = 0, bytes = 8;
  const Symbol* symbol = nullptr;
  std::int64_t addend = 0;
};

/// One argument or result of a call: from or to the caller's register or local memory.
struct CallValue {
  std::uint32_t place = kNowhere;  // register or pool; kNowhere: local memory
  std::uint32_t local_offset = 0;  // in the caller's frame
  std::uint32_t bytes = 0, register_bytes = 0;
};

struct Call {
  int function = -1;  // index in Program::functions; -1: indirect
  std::vector<CallValue> arguments, results;
};

/// What a body was made into.
struct Code {
  std::vector<Instruction> code;
  std::uint32_t frame_bytes = 0, local_bytes = 0;
  std::vector<std::uint32_t> register_place;
  std::vector<std::byte> pool;
  std::vector<PoolAddress> addresses;
  std::vector<Call> calls;
  std::vector<std::vector<std::uint32_t>> targets;  // of brx.idx
  std::vector<std::vector<std::uint32_t>> vectors;  // places of vector operands
  std::vector<std::string> names;                   // what is not implemented, of each instruction that traps
  std::uint32_t carry = kNowhere;                   // place of the condition code, where one is used
  // For the layout of a kernel that may call it:
  std::vector<int> callees;
  std::vector<const Symbol*> shared;  // shared variables that it names
  bool calls_indirectly = false;
  std::uint32_t register_words = 0;
};

struct Function : Code {
  std::string name;
  FunctionText* text = nullptr;
  std::size_t index = 0;                        // in Program::functions
  int builtin = -1;                             // vprintf and the like: kind of it
  std::vector<std::uint32_t> argument_offsets;  // of a builtin
  std::atomic<bool> is_ready = false;           // its Code is there: for good
};

struct Kernel {
  std::size_t function = 0;
  std::map<const Symbol*, std::uint32_t> shared_offsets;
};

struct Program {
  std::string place;  // for messages
  std::unique_ptr<ModuleText> text;
  std::deque<Function> functions;
  std::map<const FunctionText*, int> function_index;
  std::vector<Kernel> kernels;  // beside Module::kernels()
  std::vector<KernelInfo> kernel_infos;
  std::vector<VariableInfo> variable_infos;
  std::mutex lock;  // of what a function becomes when it is made ready
};

/// Of what parse_text() read. Throws Refusal.
/// `keeps_code` false: every body was looked at, and is decoded again when it is needed (ready_function).
void decode_program(Program& program, bool keeps_code);

/// The same with `layout` instead of the bodies: only bodies that declare variables of the module are read. Returns
/// false if the layout is of another text.
bool decode_program(Program& program, const ProgramLayout& layout);
ProgramLayout layout_of(const Program& program);

/// A function whose code is needed now; it is decoded if it was not before. nullptr: its body cannot be read, and the
/// reason is logged. By any thread.
const Function* ready_function(Program& program, std::size_t index);

/// The address of a function's symbol, a variable's (by `variables`, index of Module::variables()) or a shared
/// variable's offset for that kernel.
std::uint64_t address_of(const Program& program, const Kernel* kernel, const Symbol& symbol,
                         const std::vector<std::uint64_t>& variables);

}  // namespace meshbed::sim::ptx
