#include <algorithm>
#include <cstring>

#include "sim/cuda/ptx/parser.h"

namespace meshbed::sim::ptx {

namespace {

constexpr std::uint32_t kMostRegisters = 1U << 20U;
constexpr std::uint64_t kMostLocalVariable = 512U * 1024U;
constexpr int kDeepestScope = 200;

}  // namespace

BodyText parse_body(ModuleText& module, FunctionText& function) { return Parser(module, function).body(); }

BodyText Parser::body() {
  body_.local_bytes = function_->local_bytes;
  scopes_.emplace_back();
  scope_ = 0;
  for (auto* list : {&function_->formals, &function_->returns}) {
    for (Symbol* symbol : *list) {
      if (symbol->reg < 0) {
        scopes_[0].symbols[symbol->name] = symbol;
        continue;
      }
      symbol->reg = static_cast<int>(body_.registers.size());
      body_.registers.push_back(symbol->type);
      scopes_[0].registers[symbol->name] = static_cast<std::uint32_t>(symbol->reg);
    }
  }
  block();
  resolve_labels();
  return std::move(body_);
}

void Parser::block() {
  const std::uint32_t begin = lexer_.line();
  lexer_.expect('{');
  int depth = 0;
  while (!lexer_.is_mark('}') || depth > 0) {
    if (lexer_.now().kind == Token::Kind::kEnd) {
      throw Refusal(begin, function_->name + ": '}' missing at the end of the text");
    }
    if (lexer_.take_mark('{')) {
      if (++depth > kDeepestScope) throw Refusal(lexer_.line(), "blocks within blocks: too many");
      scopes_.emplace_back().parent = scope_;
      scope_ = static_cast<int>(scopes_.size()) - 1;
    } else if (lexer_.take_mark('}')) {
      --depth;
      scope_ = scopes_[static_cast<std::size_t>(scope_)].parent;
    } else {
      statement();
    }
  }
  lexer_.expect('}');
}

void Parser::registers() {
  Type type = Type::kNone;
  std::string unknown;  // `.v4`, or a type: instructions with such registers trap where they are executed
  while (lexer_.now().kind == Token::Kind::kDotted) {
    const Token word = lexer_.take();
    type = type_named(word.text);
    if (type == Type::kNone && unknown.empty()) unknown = word.text;
  }
  if (type == Type::kNone && unknown.empty()) throw Refusal(lexer_.line(), "registers without a type");
  type = type_in_register(type);
  Scope& scope = scopes_[static_cast<std::size_t>(scope_)];
  do {
    const std::string name(lexer_.expect_name("a register's name"));
    const auto first = static_cast<std::uint32_t>(body_.registers.size());
    std::uint64_t count = 1;
    if (!unknown.empty()) scope.unknown[name] = unknown;
    if (lexer_.take_mark('<')) {
      count = static_cast<std::uint64_t>(constant());
      lexer_.expect('>');
      if (count > kMostRegisters) throw Refusal(lexer_.line(), name + ": too many registers");
      if (!unknown.empty()) continue;
      scope.ranges[name] = {first, static_cast<std::uint32_t>(count)};
    } else if (unknown.empty()) {
      scope.registers[name] = first;
    } else {
      continue;
    }
    if (first + count > kMostRegisters) throw Refusal(lexer_.line(), name + ": too many registers");
    body_.registers.resize(first + count, type);
  } while (lexer_.take_mark(','));
  lexer_.expect(';');
}

void Parser::local_variable(Space space) {
  do {
    Symbol head = variable_head(space);
    Symbol* symbol = nullptr;
    if (space == Space::kLocal || space == Space::kParam) {
      symbol = &body_.symbols.emplace_back(std::move(head));
      const std::uint64_t begin = rounded_up(std::uint64_t{body_.local_bytes}, symbol->align);
      if (begin + symbol->bytes > kMostLocalVariable)
        throw Refusal(lexer_.line(), symbol->name + ": too much local memory");
      symbol->offset = static_cast<std::uint32_t>(begin);
      body_.local_bytes = static_cast<std::uint32_t>(begin + symbol->bytes);
    } else {
      symbol = inner_variable(std::move(head));
    }
    scopes_[static_cast<std::size_t>(scope_)].symbols[symbol->name] = symbol;
  } while (lexer_.take_mark(','));
  lexer_.expect(';');
}

/// A variable of the module's that only this body can name.
Symbol* Parser::inner_variable(Symbol&& head) {
  std::vector<Symbol*>& inner = function_->inner;
  const bool is_new = inner_ == inner.size();
  if (is_new) {
    inner.push_back(&module_.symbols.emplace_back(head));
    if (head.space != Space::kShared) {
      inner.back()->variable = static_cast<int>(module_.variables.size());
      module_.variables.push_back({inner.back(), {}, {}});
    }
  }
  Symbol* const symbol = inner[inner_++];
  if (head.space != Space::kShared && lexer_.take_mark('=')) {
    VariableText read_before{&head, {}, {}};
    initialiser(is_new ? module_.variables.back() : read_before);
  }
  return symbol;
}

void Parser::label(std::string_view name) {
  Scope& scope = scopes_[static_cast<std::size_t>(scope_)];
  const std::uint32_t line = lexer_.line();
  const auto [at, fresh] = scope.labels.emplace(std::string(name), 0);
  if (!fresh) throw Refusal(line, "label " + std::string(name) + " stands twice");
  at->second = new_label();
  const std::uint32_t label = at->second;
  body_.labels[label] = static_cast<std::int64_t>(body_.statements.size());
  if (lexer_.is_dotted("branchtargets")) {
    lexer_.take();
    auto& table = body_.targets.emplace_back();
    do {
      const Operand target = named(std::string(lexer_.expect_name("a label")), line);
      if (target.kind != Operand::Kind::kLabel) throw Refusal(line, ".branchtargets takes labels");
      table.push_back(static_cast<std::uint32_t>(target.value));
    } while (lexer_.take_mark(','));
    lexer_.expect(';');
    body_.table_of[label] = static_cast<std::uint32_t>(body_.targets.size() - 1);
  } else if (lexer_.is_dotted("callprototype")) {
    lexer_.take();
    Prototype prototype;
    if (lexer_.is_mark('(')) prototype.returns = parameter_list(true);
    lexer_.expect_name("_");
    if (lexer_.is_mark('(')) prototype.formals = parameter_list(true);
    lexer_.skip_statement();
    body_.prototypes[label] = std::move(prototype);
  } else if (lexer_.is_dotted("calltargets")) {
    lexer_.skip_statement();
  }
}

void Parser::statement() {
  if (lexer_.take_mark(';')) return;
  const Token first = lexer_.now();
  if (first.kind == Token::Kind::kDotted) {
    lexer_.take();
    if (first.text == "reg") return registers();
    if (first.text == "local") return local_variable(Space::kLocal);
    if (first.text == "param") return local_variable(Space::kParam);
    if (first.text == "shared") return local_variable(Space::kShared);
    if (first.text == "global") return local_variable(Space::kGlobal);
    if (first.text == "const") return local_variable(Space::kConst);
    if (first.text == "loc" || first.text == "file") return lexer_.skip_line();
    if (first.text == "pragma") return lexer_.skip_statement();
    throw Refusal(first.line, "directive ." + std::string(first.text) + " is not implemented", true);
  }
  Statement made;
  made.line = first.line;
  if (lexer_.take_mark('@')) {
    made.predicate_negated = lexer_.take_mark('!');
    const std::string name(lexer_.expect_name("a predicate"));
    made.predicate = find_register(name);
    if (made.predicate < 0) throw Refusal(first.line, "unknown register " + name);
    if (body_.registers[static_cast<std::size_t>(made.predicate)] != Type::kPred) {
      throw Refusal(first.line, name + " is no predicate");
    }
  }
  const Token opcode = lexer_.take();
  if (opcode.kind != Token::Kind::kName) {
    throw Refusal(opcode.line, "an opcode expected, not '" + std::string(opcode.text) + "'");
  }
  if (made.predicate < 0 && lexer_.take_mark(':')) return label(opcode.text);
  made.opcode = opcode.text;
  while (lexer_.now().kind == Token::Kind::kDotted) made.modifiers.push_back(lexer_.take().text);
  // Operands of opcodes that trap where they are executed may have forms that nothing here reads.
  static constexpr std::string_view kUnread[] = {"wgmma", "tcgen05", "tensormap", "multimem", "txq",
                                                 "sured", "suq",     "wmma",      "mma"};
  if (std::find(std::begin(kUnread), std::end(kUnread), made.opcode) != std::end(kUnread)) {
    made.unread = "opcode " + spelled(made) + " is not implemented";
    lexer_.skip_statement();
    body_.statements.push_back(std::move(made));
    return;
  }
  try {
    operands(made);
  } catch (const Refusal& refusal) {
    if (!refusal.unsupported) throw;
    made.operands.clear();
    made.unread = "opcode " + spelled(made) + ": " + refusal.what();
    lexer_.skip_statement();
    body_.statements.push_back(std::move(made));
    return;
  }
  if (!lexer_.is_mark(';')) {
    throw Refusal(lexer_.line(), "';' expected before '" + std::string(lexer_.now().text) + "'");
  }
  lexer_.take();
  body_.statements.push_back(std::move(made));
}

void Parser::operands(Statement& into) {
  while (!lexer_.is_mark(';')) {
    into.operands.push_back(operand());
    // `%r1.b0` of the video instructions.
    if (lexer_.now().kind == Token::Kind::kDotted)
      throw Refusal(lexer_.line(), "an operand with ." + std::string(lexer_.now().text) + " is not implemented", true);
    if (!lexer_.take_mark(',')) break;
  }
}

Operand Parser::operand() {
  Operand made = plain_operand();
  if (!lexer_.take_mark('|')) return made;
  Operand pair;
  pair.kind = Operand::Kind::kPair;
  pair.parts.push_back(std::move(made));
  pair.parts.push_back(plain_operand());
  return pair;
}

Operand Parser::plain_operand() {
  const Depth depth(depth_, lexer_.line());
  const Token word = lexer_.now();
  Operand made;
  if (lexer_.take_mark('!')) {
    made = plain_operand();
    made.negated = !made.negated;
    return made;
  }
  if (lexer_.take_mark('[')) {
    address(made);
    return made;
  }
  if (lexer_.is_mark('{') || lexer_.is_mark('(')) {
    const bool vector = lexer_.is_mark('{');
    lexer_.take();
    const char end = vector ? '}' : ')';
    made.kind = vector ? Operand::Kind::kVector : Operand::Kind::kList;
    while (!lexer_.is_mark(end)) {
      if (made.parts.size() > 1024) throw Refusal(word.line, "too many operands");
      if (lexer_.is_mark('{') || lexer_.is_mark('(')) throw Refusal(word.line, "an operand within an operand");
      made.parts.push_back(plain_operand());
      if (!lexer_.take_mark(',')) break;
    }
    lexer_.expect(end);
    return made;
  }
  if (word.kind == Token::Kind::kName && word.text != "WARP_SZ") {
    lexer_.take();
    std::string name(word.text);
    if (word.text[0] == '%' && lexer_.now().kind == Token::Kind::kDotted && lexer_.now().text.size() == 1) {
      name.append(".").append(lexer_.take().text);
    }
    made = named(std::move(name), word.line);
    if (made.kind == Operand::Kind::kSymbol && (lexer_.is_mark('+') || lexer_.is_mark('-'))) made.value = constant();
    return made;
  }
  const bool minus = lexer_.is_mark('-');
  if (minus || word.kind == Token::Kind::kFloat32 || word.kind == Token::Kind::kFloat64) {
    if (minus) lexer_.take();
    const Token number = lexer_.now();
    if (number.kind == Token::Kind::kFloat32 || number.kind == Token::Kind::kFloat64) {
      lexer_.take();
      const bool narrow = number.kind == Token::Kind::kFloat32;
      made.kind = narrow ? Operand::Kind::kFloat32 : Operand::Kind::kFloat64;
      made.value = static_cast<std::int64_t>(number.value ^ (minus ? std::uint64_t{1} << (narrow ? 31U : 63U) : 0));
      return made;
    }
    if (number.kind == Token::Kind::kName && number.text[0] == '%')
      throw Refusal(word.line, "a negated operand is not implemented", true);
    made.kind = Operand::Kind::kInteger;
    made.value = static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(constant_term()));
    return made;
  }
  made.kind = Operand::Kind::kInteger;
  made.value = constant();
  return made;
}

void Parser::address(Operand& into) {
  into.kind = Operand::Kind::kAddress;
  do {
    into.parts.push_back(plain_operand());
    Operand& base = into.parts.back();
    if (into.parts.size() == 1) {
      if (base.kind == Operand::Kind::kSymbol) {
        into.value = base.value;
        base.value = 0;
      } else if (base.kind == Operand::Kind::kRegister && (lexer_.is_mark('+') || lexer_.is_mark('-'))) {
        into.value = constant();
      }
    }
  } while (lexer_.take_mark(','));
  lexer_.expect(']');
}

Operand Parser::named(std::string name, std::uint32_t line) {
  Operand made;
  if (name == "_") return made;
  const int reg = find_register(name);
  if (reg >= 0) {
    made.kind = Operand::Kind::kRegister;
    made.reg = static_cast<std::uint32_t>(reg);
    return made;
  }
  if (const std::string unknown = type_not_known(name); !unknown.empty())
    throw Refusal(line, "a register of ." + unknown + " is not implemented", true);
  if (name[0] == '%') {
    if (special_named(std::string_view(name).substr(0, name.find('.'))) == Special::kNone)
      throw Refusal(line, "unknown register " + name);
    made.kind = Operand::Kind::kSpecial;
    made.name = std::move(name);
    return made;
  }
  const Symbol* symbol = find_symbol(name);
  if (symbol != nullptr) {
    if (symbol->opaque) throw Refusal(line, "variable " + name + " has a type that is not implemented", true);
    made.kind = Operand::Kind::kSymbol;
    made.symbol = symbol;
    return made;
  }
  made.kind = Operand::Kind::kLabel;
  made.value = new_label();
  uses_.push_back({static_cast<std::uint32_t>(made.value), scope_, std::move(name), line});
  return made;
}

int Parser::find_register(std::string_view name) const {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  for (int at = scope_; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
    const Scope& scope = scopes_[static_cast<std::size_t>(at)];
    const auto one = scope.registers.find(name);
    if (one != scope.registers.end()) return static_cast<int>(one->second);
    if (digits == name.size() || name.size() - digits > 8) continue;
    const auto range = scope.ranges.find(name.substr(0, digits));
    if (range == scope.ranges.end()) continue;
    std::uint32_t index = 0;
    for (const char c : name.substr(digits)) index = index * 10 + static_cast<std::uint32_t>(c - '0');
    if (index < range->second.count) return static_cast<int>(range->second.first + index);
  }
  return -1;
}

std::string Parser::type_not_known(std::string_view name) const {
  name = name.substr(0, name.find('.'));  // `%v.x`
  const std::string_view range = name.substr(0, name.find_last_not_of("0123456789") + 1);
  for (int at = scope_; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
    const auto& unknown = scopes_[static_cast<std::size_t>(at)].unknown;
    for (const std::string_view one : {name, range}) {
      if (const auto found = unknown.find(one); found != unknown.end()) return found->second;
    }
  }
  return {};
}

const Symbol* Parser::find_symbol(std::string_view name) const {
  for (int at = scope_; at >= 0; at = scopes_[static_cast<std::size_t>(at)].parent) {
    const auto found = scopes_[static_cast<std::size_t>(at)].symbols.find(name);
    if (found != scopes_[static_cast<std::size_t>(at)].symbols.end()) return found->second;
  }
  return declared(name);
}

std::uint32_t Parser::new_label() {
  body_.labels.push_back(-1);
  return static_cast<std::uint32_t>(body_.labels.size() - 1);
}

void Parser::resolve_labels() {
  for (const LabelUse& use : uses_) {
    int at = use.scope;
    bool found = false;
    for (; at >= 0 && !found; at = scopes_[static_cast<std::size_t>(at)].parent) {
      const auto label = scopes_[static_cast<std::size_t>(at)].labels.find(use.name);
      if (label == scopes_[static_cast<std::size_t>(at)].labels.end()) continue;
      found = true;
      body_.labels[use.label] = body_.labels[label->second];
      const auto table = body_.table_of.find(label->second);
      if (table != body_.table_of.end()) body_.table_of[use.label] = table->second;
      const auto prototype = body_.prototypes.find(label->second);
      if (prototype != body_.prototypes.end()) body_.prototypes[use.label] = prototype->second;
    }
    if (!found) throw Refusal(use.line, "unknown name '" + use.name + "'");
  }
}

}  // namespace meshbed::sim::ptx
