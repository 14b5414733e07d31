#pragma once
// The parser of one text, but for the bodies of its functions, which it passes over (parse.cpp), or of one such body
// (parse_body.cpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cuda/ptx/lexer.h"
#include "sim/cuda/ptx/syntax.h"

namespace meshbed::sim::ptx {

class Parser {
 public:
  /// Of the module's last text.
  explicit Parser(ModuleText& module)
      : module_(module), lexer_(module.texts.back()), declarations_(module.declarations.back()) {}
  /// Of a function's body.
  Parser(ModuleText& module, FunctionText& function)
      : module_(module),
        lexer_(module.texts[function.part], function.body),
        declarations_(module.declarations[function.part]),
        function_(&function),
        end_(function.body.at + 1) {}
  void run();
  BodyText body();

 private:
  struct Range {
    std::uint32_t first = 0, count = 0;  // `%r<23>`: registers first to first + count - 1
  };
  struct Scope {
    std::map<std::string, std::uint32_t, std::less<>> registers;
    std::map<std::string, Range, std::less<>> ranges;
    std::map<std::string, Symbol*, std::less<>> symbols;
    std::map<std::string, std::uint32_t, std::less<>> labels;
    std::map<std::string, std::string, std::less<>> unknown;  // registers and ranges -> their type, which is not known
    int parent = -1;
  };
  struct LabelUse {
    std::uint32_t label = 0;
    int scope = 0;
    std::string name;
    std::uint32_t line = 0;
  };

  /// Parentheses and lists within others: not deeper than any program has them, so that no text ends our stack.
  struct Depth {
    Depth(int& depth, std::uint32_t line) : depth(depth) {
      if (++depth > 64) throw Refusal(line, "parentheses within parentheses: too many");
    }
    ~Depth() { --depth; }
    int& depth;
  };

  /// The words before a directive: the linkage of its name.
  struct Linkage {
    bool external = false, visible = false, weak = false;
    bool own() const { return !external && !visible && !weak; }
  };

  // parse.cpp
  void directive();
  Symbol* known(std::string_view name, const Linkage& linkage);  // declared before; nullptr: not
  void declare(Symbol& symbol, const Linkage& linkage);
  void note(Symbol& symbol);
  Symbol* declared(std::string_view name) const;  // in this text; nullptr: not
  Symbol variable_head(Space space);              // type, alignment, name and size: `.align 4 .b8 name[16]`
  void module_variable(Space space, const Linkage& linkage);
  bool defines_again(Symbol& symbol, const Symbol& head, const Linkage& linkage, std::uint32_t line);
  void initialiser(VariableText& variable);
  void initial_list(VariableText& variable, std::uint64_t& at, std::uint32_t element);
  void initial_value(VariableText& variable, std::uint64_t at, std::uint32_t element);
  void function(bool entry, const Linkage& linkage);
  std::vector<Symbol> parameter_list(bool registers_too);
  void performance(FunctionText& function);
  std::int64_t constant();
  std::int64_t constant_term();
  std::array<std::uint32_t, 3> three();

  // parse_body.cpp
  void block();
  void registers();
  void local_variable(Space space);
  Symbol* inner_variable(Symbol&& head);
  void statement();
  void label(std::string_view name);
  void operands(Statement& into);
  Operand operand();
  Operand plain_operand();
  Operand named(std::string name, std::uint32_t line);
  void address(Operand& into);
  const Symbol* find_symbol(std::string_view name) const;
  int find_register(std::string_view name) const;
  std::string type_not_known(std::string_view name) const;
  std::uint32_t new_label();
  void resolve_labels();

  ModuleText& module_;
  Lexer lexer_;
  Declarations& declarations_;                       // of this text
  std::map<std::string, Symbol*, std::less<>> own_;  // names that no other text knows -> what the texts before call so
  FunctionText* function_ = nullptr;                 // whose body it is
  std::size_t end_ = SIZE_MAX;                       // what is declared from there on is not known yet
  BodyText body_;
  std::size_t inner_ = 0;      // how many of the body's FunctionText::inner were met
  std::vector<Scope> scopes_;  // of the function
  int scope_ = -1;
  int depth_ = 0;
  std::vector<LabelUse> uses_;
};

}  // namespace meshbed::sim::ptx
