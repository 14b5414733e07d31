#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sim/cuda/ptx/parser.h"

namespace meshbed::sim::ptx {

namespace {

constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 34U;
constexpr std::uint32_t kMostParameterBytes = 1U << 20U;
constexpr double kKnownVersion = 9.0;
constexpr std::uint32_t kSmRegisters = 65536;  // what the threads of a block share

/// A kernel that declares the threads of its blocks gets at most the registers that let them all run.
void limit_registers(FunctionText& function, const std::array<std::uint32_t, 3>& block) {
  const std::uint64_t threads = std::clamp<std::uint64_t>(std::uint64_t{block[0]} * block[1] * block[2], 1, 1024);
  // In steps of 8, and whole warps.
  const auto most = static_cast<std::uint32_t>(kSmRegisters / rounded_up(threads, 32) / 8 * 8);
  function.max_registers = std::min(function.max_registers, most);
}

}  // namespace

void parse_text(std::string text, ModuleText& module) {
  module.texts.push_back(std::move(text));
  module.declarations.emplace_back();
  try {
    Parser(module).run();
  } catch (Refusal& refusal) {
    refusal.part = module.texts.size() - 1;
    throw;
  }
}

void Parser::run() {
  while (lexer_.now().kind != Token::Kind::kEnd) directive();
  for (const auto& [name, before] : own_) {
    if (before == nullptr) {
      module_.names.erase(name);
    } else {
      module_.names[name] = before;
    }
  }
}

Symbol* Parser::known(std::string_view name, const Linkage& linkage) {
  const auto found = module_.names.find(name);
  if (found == module_.names.end()) return nullptr;
  const bool is_others = declarations_.find(name) == declarations_.end();
  if (is_others && linkage.own()) return nullptr;
  if (!linkage.own()) {
    const auto own = own_.find(name);
    if (own != own_.end()) own_.erase(own);
  }
  note(*found->second);
  return found->second;
}

void Parser::declare(Symbol& symbol, const Linkage& linkage) {
  symbol.external = linkage.external;
  symbol.weak = linkage.weak;
  Symbol*& place = module_.names[symbol.name];
  if (linkage.own()) own_.emplace(symbol.name, place);
  place = &symbol;
  note(symbol);
}

void Parser::note(Symbol& symbol) {
  declarations_.try_emplace(symbol.name, Declaration{.symbol = &symbol, .from = lexer_.position()});
}

Symbol* Parser::declared(std::string_view name) const {
  const auto found = declarations_.find(name);
  return found == declarations_.end() || found->second.from > end_ ? nullptr : found->second.symbol;
}

void Parser::directive() {
  if (lexer_.take_mark(';')) return;
  if (lexer_.now().kind == Token::Kind::kMark && lexer_.is_mark('@')) {
    lexer_.skip_line();  // `@@DWARF` of old texts
    return;
  }
  Linkage linkage;
  for (;;) {
    const Token word = lexer_.take();
    if (word.kind != Token::Kind::kDotted) {
      throw Refusal(word.line, "a directive expected, not '" + std::string(word.text) + "'");
    }
    const std::string_view name = word.text;
    if (name == "extern") {
      linkage.external = true;
    } else if (name == "visible") {
      linkage.visible = true;
    } else if (name == "weak" || name == "common") {
      linkage.weak = true;
    } else if (name == "version" || name == "address_size") {
      const Token value = lexer_.take();
      if (name == "version")
        module_.is_newer = module_.is_newer || std::strtod(std::string(value.text).c_str(), nullptr) > kKnownVersion;
      if (name == "address_size" && value.text != "64") {
        throw Refusal(word.line, ".address_size " + std::string(value.text) + ": addresses have 64 bits here", true);
      }
      return;
    } else if (name == "target") {
      lexer_.expect_name("the target");
      while (lexer_.take_mark(',')) lexer_.take();
      return;
    } else if (name == "file" || name == "loc") {
      lexer_.skip_line();
      return;
    } else if (name == "section") {
      while (lexer_.now().kind != Token::Kind::kEnd && !lexer_.is_mark('{')) lexer_.take();
      lexer_.skip_braces(".section");
      return;
    } else if (name == "pragma" || name == "alias") {
      lexer_.skip_statement();
      return;
    } else if (name == "global" || name == "const" || name == "shared") {
      module_variable(name == "global" ? Space::kGlobal : name == "const" ? Space::kConst : Space::kShared, linkage);
      return;
    } else if (name == "entry" || name == "func") {
      function(name == "entry", linkage);
      return;
    } else {
      throw Refusal(word.line, "directive ." + std::string(name) + " is not implemented", true);
    }
  }
}

Symbol Parser::variable_head(Space space) {
  Symbol symbol;
  symbol.space = space;
  std::uint32_t vector = 1;
  bool pointee = false;  // `.ptr .global .align 4`: of what the parameter points at
  symbol.type = Type::kNone;
  symbol.align = 0;
  while (lexer_.now().kind == Token::Kind::kDotted) {
    const Token word = lexer_.take();
    if (word.text == "align") {
      const std::int64_t align = constant();
      if (align < 1 || align > 4096 || (align & (align - 1)) != 0)
        throw Refusal(word.line, ".align must be a power of two");
      if (!pointee) symbol.align = static_cast<std::uint32_t>(align);
    } else if (word.text == "attribute") {
      lexer_.expect('(');
      while (!lexer_.is_mark(')') && lexer_.now().kind != Token::Kind::kEnd) {
        if (lexer_.take().text == "managed") symbol.managed = true;
      }
      lexer_.expect(')');
    } else if (word.text == "v2") {
      vector = 2;
    } else if (word.text == "v4") {
      vector = 4;
    } else if (word.text == "ptr" || word.text == "global" || word.text == "shared" || word.text == "const" ||
               word.text == "local" || word.text == "param") {
      pointee = true;
    } else if (type_named(word.text) != Type::kNone) {
      symbol.type = type_named(word.text);
    } else {
      symbol.opaque = true;
    }
  }
  if (symbol.opaque && symbol.type == Type::kNone) symbol.type = Type::kB64;
  if (symbol.type == Type::kNone) throw Refusal(lexer_.line(), "a variable without a type");
  const std::uint64_t element = std::uint64_t{bytes_of(symbol.type)} * vector;
  if (symbol.align == 0) symbol.align = static_cast<std::uint32_t>(element);
  symbol.name = lexer_.expect_name("a variable's name");
  std::uint64_t count = 1;
  while (lexer_.take_mark('[')) {
    if (lexer_.take_mark(']')) {
      symbol.unsized = true;
      count = 0;
      continue;
    }
    const std::int64_t size = constant();
    lexer_.expect(']');
    if (size < 0 || static_cast<std::uint64_t>(size) > kLargestVariable)
      throw Refusal(lexer_.line(), "a size of " + std::to_string(size));
    if (size > 0 && count > kLargestVariable / static_cast<std::uint64_t>(size))
      throw Refusal(lexer_.line(), symbol.name + " is too large");
    count *= static_cast<std::uint64_t>(size);
  }
  symbol.bytes = count * element;
  return symbol;
}

/// A variable that was declared before, whose declaration `head` is another one. Whether this one is its definition.
bool Parser::defines_again(Symbol& symbol, const Symbol& head, const Linkage& linkage, std::uint32_t line) {
  if (symbol.space != head.space) throw Refusal(line, symbol.name + " is declared as something else before");
  symbol.align = std::max(symbol.align, head.align);
  symbol.managed = symbol.managed || head.managed;
  if (!symbol.external) {
    if (linkage.external || linkage.weak) return false;
    if (!symbol.weak) throw Refusal(line, symbol.name + " is defined twice");
  }
  if (!linkage.external || head.bytes != 0) {
    symbol.type = head.type;
    symbol.bytes = head.bytes;
    symbol.unsized = head.unsized;
  }
  symbol.external = linkage.external;
  symbol.weak = linkage.weak;
  return true;
}

void Parser::module_variable(Space space, const Linkage& linkage) {
  do {
    Symbol head = variable_head(space);
    const std::uint32_t line = lexer_.line();
    Symbol* symbol = known(head.name, linkage);
    bool defines = true;
    if (symbol != nullptr) {
      if (symbol->function != nullptr) throw Refusal(line, head.name + " is declared as something else before");
      defines = defines_again(*symbol, head, linkage, line);
    } else {
      symbol = &module_.symbols.emplace_back(head);
      declare(*symbol, linkage);
      if (space != Space::kShared) {
        symbol->variable = static_cast<int>(module_.variables.size());
        module_.variables.push_back({symbol, {}, {}});
      }
    }
    VariableText skipped{&head, {}, {}};
    const bool has_values = defines && symbol->variable >= 0;
    VariableText& variable = has_values ? module_.variables[static_cast<std::size_t>(symbol->variable)] : skipped;
    variable.initial.clear();  // a weak definition's
    variable.relocations.clear();
    if (head.opaque && lexer_.is_mark('=')) return lexer_.skip_statement();  // `.samplerref x = {...}`
    if (lexer_.take_mark('=')) {
      if (symbol->variable < 0) throw Refusal(line, symbol->name + ": shared memory has no initial value");
      initialiser(variable);
    }
  } while (lexer_.take_mark(','));
  lexer_.expect(';');
}

void Parser::initialiser(VariableText& variable) {
  const std::uint32_t element = std::max(1U, bytes_of(variable.symbol->type));
  std::uint64_t at = 0;
  if (lexer_.is_mark('{')) {
    initial_list(variable, at, element);
  } else {
    initial_value(variable, at, element);
    at = element;
  }
  if (variable.symbol->unsized) variable.symbol->bytes = at, variable.symbol->unsized = false;
  if (at > variable.symbol->bytes) throw Refusal(lexer_.line(), variable.symbol->name + " has more values than places");
}

void Parser::initial_list(VariableText& variable, std::uint64_t& at, std::uint32_t element) {
  const Depth depth(depth_, lexer_.line());
  lexer_.expect('{');
  while (!lexer_.is_mark('}')) {
    if (lexer_.is_mark('{')) {
      initial_list(variable, at, element);
    } else {
      initial_value(variable, at, element);
      at += element;
    }
    if (!lexer_.take_mark(',')) break;
  }
  lexer_.expect('}');
}

void Parser::initial_value(VariableText& variable, std::uint64_t at, std::uint32_t element) {
  const std::uint32_t line = lexer_.line();
  if (!variable.symbol->unsized && at + element > variable.symbol->bytes) {
    throw Refusal(line, variable.symbol->name + " has more values than places");
  }
  if (at + element > kLargestVariable) throw Refusal(line, variable.symbol->name + " is too large");
  if (element > 8) throw Refusal(line, variable.symbol->name + ": values of 128 bits are not implemented", true);
  Relocation relocation;
  relocation.offset = at;
  relocation.bytes = element;
  std::uint64_t value = 0;
  const bool sign = lexer_.take_mark('-');
  Token word = lexer_.now();
  if (word.kind == Token::Kind::kFloat32 || word.kind == Token::Kind::kFloat64) {
    lexer_.take();
    value = word.value;
    if (word.kind == Token::Kind::kFloat64 && element == 4) {
      double wide = 0;
      std::memcpy(&wide, &value, sizeof wide);
      const float narrow = static_cast<float>(wide);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &narrow, sizeof bits);
      value = bits;
    }
    if (sign) value ^= std::uint64_t{1} << (element * 8U - 1U);
  } else if (word.kind == Token::Kind::kInteger) {
    value = static_cast<std::uint64_t>(constant());
    if (sign) value = 0 - value;
    if (lexer_.take_mark('(')) {  // 0xff00(name): one byte of the address
      while (relocation.shift < 64 && (value >> relocation.shift & 0xffU) != 0xffU) relocation.shift += 8;
      if (relocation.shift == 64) throw Refusal(line, "0xff and its multiples by 256 choose a byte of an address");
      word = lexer_.take();
      relocation.symbol = declared(word.text);
      if (relocation.symbol == nullptr) throw Refusal(word.line, "unknown name '" + std::string(word.text) + "'");
      if (lexer_.take_mark('+')) relocation.addend = constant();
      lexer_.expect(')');
    }
  } else {
    const std::string_view name = lexer_.expect_name("a value");
    const bool generic = name == "generic" && lexer_.take_mark('(');
    const std::string_view target = generic ? lexer_.expect_name("a variable's name") : name;
    relocation.symbol = declared(target);
    if (relocation.symbol == nullptr) throw Refusal(line, "unknown name '" + std::string(target) + "'");
    if (lexer_.is_mark('+') || lexer_.is_mark('-')) relocation.addend = constant();
    if (generic) lexer_.expect(')');
    if (lexer_.is_mark('+') || lexer_.is_mark('-')) relocation.addend += constant();
  }
  if (relocation.symbol != nullptr) {
    variable.relocations.push_back(relocation);
    return;
  }
  if (variable.initial.size() < at + element) variable.initial.resize(at + element);
  std::memcpy(variable.initial.data() + at, &value, element);
}

std::int64_t Parser::constant_term() {
  const Depth depth(depth_, lexer_.line());
  if (lexer_.take_mark('-')) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(constant_term()));
  if (lexer_.take_mark('+')) return constant_term();
  if (lexer_.take_mark('~')) return ~constant_term();
  if (lexer_.take_mark('(')) {
    const std::int64_t value = constant();
    lexer_.expect(')');
    return value;
  }
  const Token word = lexer_.take();
  if (word.kind == Token::Kind::kName && word.text == "WARP_SZ") return 32;
  if (word.kind != Token::Kind::kInteger) {
    throw Refusal(word.line, "a number expected, not '" + std::string(word.text) + "'");
  }
  return static_cast<std::int64_t>(word.value);
}

std::int64_t Parser::constant() {
  std::uint64_t value = static_cast<std::uint64_t>(constant_term());
  for (;;) {
    if (lexer_.take_mark('+'))
      value += static_cast<std::uint64_t>(constant_term());
    else if (lexer_.take_mark('-'))
      value -= static_cast<std::uint64_t>(constant_term());
    else if (lexer_.take_mark('*'))
      value *= static_cast<std::uint64_t>(constant_term());
    else
      return static_cast<std::int64_t>(value);
  }
}

std::array<std::uint32_t, 3> Parser::three() {
  std::array<std::uint32_t, 3> all{1, 1, 1};
  for (std::size_t at = 0; at < 3; ++at) {
    all[at] = static_cast<std::uint32_t>(constant());
    if (!lexer_.take_mark(',')) break;
  }
  return all;
}

std::vector<Symbol> Parser::parameter_list(bool registers_too) {
  std::vector<Symbol> all;
  lexer_.expect('(');
  while (!lexer_.is_mark(')')) {
    const Token word = lexer_.take();
    if (word.text != "param" && !(registers_too && word.text == "reg")) {
      throw Refusal(word.line, ".param expected before '" + std::string(word.text) + "'");
    }
    Symbol symbol = variable_head(Space::kParam);
    symbol.formal = true;
    if (word.text == "reg") {
      if (symbol.type == Type::kPred || symbol.bytes != bytes_of(symbol.type))
        throw Refusal(word.line, symbol.name + ": a parameter in a register is one number", true);
      symbol.type = type_in_register(symbol.type);
      symbol.bytes = bytes_of(symbol.type);
      symbol.reg = 0;
    }
    all.push_back(std::move(symbol));
    if (!lexer_.take_mark(',')) break;
  }
  lexer_.expect(')');
  return all;
}

void Parser::performance(FunctionText& function) {
  while (lexer_.now().kind == Token::Kind::kDotted) {
    const Token word = lexer_.take();
    if (word.text == "reqntid") {
      function.required_block = three();
      limit_registers(function, function.required_block);
    } else if (word.text == "maxntid") {
      const auto all = three();
      const std::uint64_t threads = std::uint64_t{all[0]} * all[1] * all[2];
      function.max_threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(threads, 1024));
      limit_registers(function, all);
    } else if (word.text == "maxnreg") {
      const std::int64_t most = constant();
      if (most < 1) throw Refusal(word.line, ".maxnreg of " + std::to_string(most));
      function.max_registers = static_cast<std::uint32_t>(std::min<std::int64_t>(most, function.max_registers));
    } else if (word.text == "minnctapersm" || word.text == "maxnctapersm" || word.text == "abi_preserve" ||
               word.text == "abi_preserve_control") {
      constant();
    } else if (word.text == "reqnctapercluster") {
      function.required_cluster = three();
    } else if (word.text == "maxclusterrank") {
      function.max_cluster_blocks = static_cast<std::uint32_t>(constant());
    } else if (word.text == "blocksareclusters") {
      function.blocks_are_clusters = true;
    } else if (word.text == "pragma") {
      lexer_.skip_statement();
    } else if (word.text == "noreturn" || word.text == "explicitcluster" || word.text == "unique") {
      continue;
    } else {
      throw Refusal(word.line, "directive ." + std::string(word.text) + " is not implemented", true);
    }
  }
}

void Parser::function(bool entry, const Linkage& linkage) {
  const std::uint32_t line = lexer_.line();
  while (lexer_.is_dotted("attribute")) {
    lexer_.take();
    while (lexer_.now().kind != Token::Kind::kEnd && !lexer_.is_mark(')')) lexer_.take();
    lexer_.expect(')');
  }
  std::vector<Symbol> returns;
  if (lexer_.is_mark('(')) returns = parameter_list(true);
  const std::string name(lexer_.expect_name("a function's name"));
  std::vector<Symbol> formals;
  if (lexer_.is_mark('(')) formals = parameter_list(!entry);
  FunctionText* made = nullptr;
  if (const Symbol* before = known(name, linkage); before != nullptr) {
    made = before->function;
    if (made == nullptr || made->entry != entry) throw Refusal(line, name + " is declared as something else before");
  } else {
    made = &module_.functions.emplace_back();
    Symbol& symbol = module_.symbols.emplace_back();
    symbol.name = name;
    symbol.function = made;
    declare(symbol, linkage);
  }
  made->name = name;
  made->entry = entry;
  performance(*made);
  const bool defines = lexer_.is_mark('{');
  if (made->defined) {
    if (!defines) {
      lexer_.take_mark(';');
      return;
    }
    if (!linkage.weak) throw Refusal(line, name + " is defined twice");
    lexer_.skip_braces(name);  // of an inline function or a template each text has one: the first stays
    return;
  }
  made->line = line;
  made->part = module_.texts.size() - 1;
  made->symbols.clear();
  made->returns.clear();
  made->formals.clear();
  std::uint32_t offset = 0;
  const auto adopt = [&](std::vector<Symbol>& from, std::vector<Symbol*>& into) {
    for (Symbol& one : from) {
      Symbol* symbol = &made->symbols.emplace_back(std::move(one));
      offset = rounded_up(offset, symbol->align);
      symbol->offset = offset;
      if (symbol->bytes > 65536) throw Refusal(line, name + ": parameter " + symbol->name + " is too large");
      offset += static_cast<std::uint32_t>(symbol->bytes);
      if (offset > kMostParameterBytes) throw Refusal(line, name + ": too many bytes of parameters");
      into.push_back(symbol);
    }
  };
  adopt(formals, made->formals);
  if (entry) made->parameter_bytes = offset;
  adopt(returns, made->returns);
  if (!entry) made->local_bytes = offset;
  if (defines) {
    made->defined = true;
    made->body = lexer_.mark_place();
    lexer_.skip_braces(name);
  } else {
    lexer_.take_mark(';');
  }
}

}  // namespace meshbed::sim::ptx
