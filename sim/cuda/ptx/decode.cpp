#include "sim/cuda/ptx/decode.h"

#include <algorithm>
#include <set>

#include "plugin/base/log.h"
#include "sim/cuda/ptx/isa/words.h"

namespace meshbed::sim::ptx {

namespace {

constexpr std::uint32_t kMostFrameBytes = 1U << 28U;

bool decode_known(Decoder& decoder) {
  // In the order of how often programs use them.
  static constexpr bool (*kAll[])(Decoder&) = {decode_integer,  decode_memory,  decode_move,    decode_float,
                                               decode_compare,  decode_control, decode_bits,    decode_convert,
                                               decode_exchange, decode_barrier, decode_atomic,  decode_call,
                                               decode_half,     decode_async,   decode_cluster, decode_texture};
  for (const auto decode : kAll) {
    if (decode(decoder)) return true;
    decoder.give_back();
  }
  return false;
}

/// What is PTX and not implemented traps where it is executed; what is not PTX is refused.
void decode_statement(Decoder& decoder) {
  const Statement& statement = *decoder.statement;
  const std::size_t before = decoder.function.code.size();
  std::string why = statement.unread;
  try {
    if (why.empty() && decode_known(decoder)) return decoder.end();
  } catch (const Refusal& refusal) {
    const std::string_view unusual = decoder.unusual_modifier();
    if (!refusal.unsupported && unusual.empty()) throw;
    why = refusal.unsupported
              ? refusal.what()
              : "opcode " + spelled(statement) + ": modifier ." + std::string(unusual) + " is not implemented";
  }
  if (!is_opcode(statement.opcode) && !decoder.program.text->is_newer)
    decoder.refuse("PTX ISA 9.0 has no such instruction");
  if (why.empty()) why = "opcode " + spelled(statement) + " is not implemented";
  decoder.function.code.resize(before);
  decoder.begin(statement);
  decode_trap(decoder, why);
  decoder.end();
}

void place_registers(Function& function, const std::vector<Type>& registers) {
  std::uint32_t at = 0;
  function.register_place.resize(registers.size());
  for (const std::uint32_t bytes : {16U, 8U, 4U, 2U}) {  // the widest first: every array is aligned to its element
    for (std::size_t index = 0; index < registers.size(); ++index) {
      if (bytes_of(registers[index]) != bytes) continue;
      function.register_place[index] = at;
      at += registers[index] == Type::kPred ? 4 : bytes * kLanes;
    }
    at = rounded_up(at, 64);
  }
  if (at > kMostFrameBytes) throw Refusal(function.text->line, function.name + ": too many registers");
  function.frame_bytes = at;
  for (const Type type : registers)
    function.register_words += type == Type::kPred ? 0 : std::max(1U, bytes_of(type) / 4);
}

void decode_function(Program& program, Function& function) {
  const BodyText text = parse_body(*program.text, *function.text);
  static_cast<Code&>(function) = {};
  place_registers(function, text.registers);
  function.local_bytes = rounded_up(text.local_bytes, 16);
  Decoder decoder(program, function, text);
  std::vector<std::uint32_t> start(text.statements.size() + 1);
  for (std::size_t index = 0; index < text.statements.size(); ++index) {
    start[index] = static_cast<std::uint32_t>(function.code.size());
    decoder.begin(text.statements[index]);
    decode_statement(decoder);
  }
  start.back() = static_cast<std::uint32_t>(function.code.size());
  // What runs off the end returns.
  Statement last;
  last.line = text.statements.empty() ? function.text->line : text.statements.back().line;
  last.opcode = "ret";
  decoder.begin(last);
  decode_statement(decoder);
  const auto position = [&](std::uint32_t label) {
    const std::int64_t at = text.labels[label];
    return at < 0 ? start.back() : start[static_cast<std::size_t>(at)];
  };
  for (Instruction& in : function.code) {
    if ((in.flags & kFlagBranch) != 0) in.immediate = position(static_cast<std::uint32_t>(in.immediate));
  }
  for (const auto& table : text.targets) {
    auto& made = function.targets.emplace_back();
    for (const std::uint32_t label : table) made.push_back(position(label));
  }
}

/// Shared variables that the kernel and all that it may call name, one after the other.
void lay_out(Program& program, Kernel& kernel, KernelInfo& info) {
  std::set<int> reached;
  std::vector<int> open{static_cast<int>(kernel.function)};
  std::vector<const Symbol*> shared;
  std::uint32_t deepest = 0;
  while (!open.empty()) {
    const int now = open.back();
    open.pop_back();
    if (!reached.insert(now).second) continue;
    const Function& function = program.functions[static_cast<std::size_t>(now)];
    deepest += function.local_bytes;
    for (const Symbol* symbol : function.shared) {
      if (std::find(shared.begin(), shared.end(), symbol) == shared.end()) shared.push_back(symbol);
    }
    open.insert(open.end(), function.callees.begin(), function.callees.end());
    if (!function.calls_indirectly) continue;
    for (std::size_t index = 0; index < program.functions.size(); ++index) {
      if (!program.functions[index].text->entry) open.push_back(static_cast<int>(index));
    }
  }
  const std::uint32_t line = program.functions[kernel.function].text->line;
  std::uint64_t at = 0;
  const auto place = [&](const Symbol* symbol) {
    at = rounded_up(at, symbol->align);
    kernel.shared_offsets[symbol] = static_cast<std::uint32_t>(at);
  };
  for (const Symbol* symbol : shared) {
    if (symbol->unsized || symbol->external) continue;
    place(symbol);
    at += symbol->bytes;
    if (at > (1U << 24U)) throw Refusal(line, info.name + ": too much shared memory");
  }
  std::uint32_t align = 1;
  for (const Symbol* symbol : shared) {
    if (symbol->unsized || symbol->external) align = std::max(align, symbol->align);
  }
  at = rounded_up(at, align);
  for (const Symbol* symbol : shared) {
    if (symbol->unsized || symbol->external) kernel.shared_offsets[symbol] = static_cast<std::uint32_t>(at);
  }
  info.static_shared_bytes = static_cast<std::uint32_t>(at);
  info.local_bytes = deepest;
}

/// Errors contain the text that the function is in.
template <typename Work>
void in_text_of(const FunctionText& text, const Work& work) {
  try {
    work();
  } catch (Refusal& refusal) {
    refusal.part = text.part;
    throw;
  }
}

/// All but what the layout needs.
void drop_code(Function& function) {
  Code kept;
  kept.local_bytes = function.local_bytes;
  kept.callees = std::move(function.callees);
  kept.shared = std::move(function.shared);
  kept.calls_indirectly = function.calls_indirectly;
  kept.register_words = function.register_words;
  static_cast<Code&>(function) = std::move(kept);
}

void list_functions(Program& program) {
  for (FunctionText& one : program.text->functions) {
    program.function_index[&one] = static_cast<int>(program.functions.size());
    Function& function = program.functions.emplace_back();
    function.index = program.functions.size() - 1;
    function.name = one.name;
    function.text = &one;
    function.builtin = one.defined ? -1 : builtin_named(one.name);
    for (const Symbol* formal : one.formals) function.argument_offsets.push_back(formal->offset);
    if (function.builtin >= 0) function.local_bytes = rounded_up(one.local_bytes, 16);
    function.is_ready = !one.defined;  // there is nothing to decode
  }
}

/// Reads the text without the bodies.
void list_kernels(Program& program) {
  for (const Function& function : program.functions) {
    if (!function.text->entry || !function.text->defined) continue;
    program.kernels.emplace_back().function = function.index;
    KernelInfo& info = program.kernel_infos.emplace_back();
    info.name = function.name;
    info.required_block = function.text->required_block;
    info.max_threads = function.text->max_threads;
    info.required_cluster = function.text->required_cluster;
    info.max_cluster_blocks = function.text->max_cluster_blocks;
    info.blocks_are_clusters = function.text->blocks_are_clusters;
    info.parameter_bytes = function.text->parameter_bytes;
    for (const Symbol* formal : function.text->formals) {
      info.parameters.push_back({formal->offset, static_cast<std::uint32_t>(formal->bytes), formal->align});
    }
  }
}

void list_variables(Program& program) {
  for (const VariableText& one : program.text->variables) {
    VariableInfo& info = program.variable_infos.emplace_back();
    info.name = one.symbol->name;
    info.bytes = one.symbol->bytes;
    info.align = one.symbol->align;
    info.constant = one.symbol->space == Space::kConst;
    info.managed = one.symbol->managed;
  }
}

}  // namespace

void decode_program(Program& program, bool keeps_code) {
  list_functions(program);
  for (Function& function : program.functions) {
    if (!function.text->defined) continue;
    in_text_of(*function.text, [&] { decode_function(program, function); });
    function.is_ready = keeps_code;
    if (!keeps_code) drop_code(function);
  }
  list_kernels(program);
  for (std::size_t index = 0; index < program.kernels.size(); ++index) {
    Kernel& kernel = program.kernels[index];
    KernelInfo& info = program.kernel_infos[index];
    const Function& function = program.functions[kernel.function];
    info.registers = std::min(16U + function.register_words / 4, function.text->max_registers);
    in_text_of(*function.text, [&] { lay_out(program, kernel, info); });
  }
  list_variables(program);
}

ProgramLayout layout_of(const Program& program) {
  std::map<const Symbol*, std::uint32_t> number;
  for (const Symbol& symbol : program.text->symbols) number.emplace(&symbol, static_cast<std::uint32_t>(number.size()));
  ProgramLayout layout{.functions = static_cast<std::uint32_t>(program.functions.size()),
                       .symbols = static_cast<std::uint32_t>(number.size())};
  for (const Function& function : program.functions) {
    if (!function.text->inner.empty()) layout.with_variables.push_back(static_cast<std::uint32_t>(function.index));
  }
  for (std::size_t index = 0; index < program.kernels.size(); ++index) {
    const KernelInfo& info = program.kernel_infos[index];
    KernelLayout& kernel = layout.kernels.emplace_back();
    kernel.shared_bytes = info.static_shared_bytes;
    kernel.local_bytes = info.local_bytes;
    kernel.registers = info.registers;
    for (const auto& [symbol, offset] : program.kernels[index].shared_offsets) {
      kernel.shared.push_back({.symbol = number.at(symbol), .offset = offset});
    }
  }
  return layout;
}

bool decode_program(Program& program, const ProgramLayout& layout) {
  list_functions(program);
  list_kernels(program);
  if (layout.functions != program.functions.size() || layout.kernels.size() != program.kernels.size()) return false;
  for (const std::uint32_t index : layout.with_variables) {
    if (index >= program.functions.size() || ready_function(program, index) == nullptr) return false;
  }
  const auto& symbols = program.text->symbols;
  if (layout.symbols != symbols.size()) return false;
  for (std::size_t index = 0; index < program.kernels.size(); ++index) {
    const KernelLayout& kernel = layout.kernels[index];
    KernelInfo& info = program.kernel_infos[index];
    info.static_shared_bytes = kernel.shared_bytes;
    info.local_bytes = kernel.local_bytes;
    info.registers = kernel.registers;
    for (const SharedPlace& one : kernel.shared) {
      if (one.symbol >= symbols.size() || one.offset > kernel.shared_bytes) return false;
      program.kernels[index].shared_offsets[&symbols[one.symbol]] = one.offset;
    }
  }
  list_variables(program);
  return true;
}

const Function* ready_function(Program& program, std::size_t index) {
  Function& function = program.functions[index];
  if (function.is_ready.load(std::memory_order_acquire)) return &function;
  const std::lock_guard hold(program.lock);
  if (function.is_ready.load(std::memory_order_relaxed)) return &function;
  try {
    decode_function(program, function);
  } catch (const Refusal& refusal) {
    MESHBED_WARN("%s:%u: %s", program.place.c_str(), refusal.line, refusal.what());
    return nullptr;
  }
  function.is_ready.store(true, std::memory_order_release);
  return &function;
}

std::uint64_t address_of(const Program& program, const Kernel* kernel, const Symbol& symbol,
                         const std::vector<std::uint64_t>& variables) {
  if (symbol.function != nullptr) {
    return kFunctionWindow + 16 * static_cast<std::uint64_t>(program.function_index.at(symbol.function));
  }
  if (symbol.space == Space::kShared) {
    if (kernel == nullptr) return 0;
    const auto found = kernel->shared_offsets.find(&symbol);
    return found == kernel->shared_offsets.end() ? 0 : found->second;
  }
  const auto index = static_cast<std::size_t>(symbol.variable);
  return index < variables.size() ? variables[index] : 0;
}

}  // namespace meshbed::sim::ptx
