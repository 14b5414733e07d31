#pragma once
// The words of PTX text. Source: PTX ISA 9.0, section 4.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meshbed::sim::ptx {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kName,    // identifiers, %registers, opcodes
    kDotted,  // .directive or .modifier; text without the dot
    kInteger,
    kFloat32,  // value: the bits
    kFloat64,
    kString,  // text without the quotes
    kMark,    // one character
  } kind = Kind::kEnd;
  std::string_view text;
  std::uint64_t value = 0;
  std::uint32_t line = 0;
};

/// Cuts text into words, one ahead. Throws Refusal.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }
  const Token& now() const { return now_; }
  Token take();
  bool is_mark(char mark) const { return now_.kind == Token::Kind::kMark && now_.text[0] == mark; }
  bool is_dotted(std::string_view name) const { return now_.kind == Token::Kind::kDotted && now_.text == name; }
  bool take_mark(char mark);
  void expect(char mark);
  std::string_view expect_name(const char* what);
  /// To behind the next ';' (nothing of the statement is looked at).
  void skip_statement();
  /// From an opening brace to behind its closing one.
  void skip_braces();
  /// To the end of the line (.loc, .file).
  void skip_line();
  std::uint32_t line() const { return now_.line; }

 private:
  void advance();
  void skip_blank();
  void number();
  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  Token now_;
};

}  // namespace meshbed::sim::ptx
