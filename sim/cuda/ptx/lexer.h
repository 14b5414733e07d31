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
  struct Place {
    std::size_t at = 0;
    std::uint32_t line = 1;
  };
  explicit Lexer(std::string_view text) : Lexer(text, Place()) {}
  /// Begins at that place of the text.
  Lexer(std::string_view text, Place from) : text_(text), at_(from.at), line_(from.line) { advance(); }
  const Token& now() const { return now_; }
  Token take();
  bool is_mark(char mark) const { return now_.kind == Token::Kind::kMark && now_.text[0] == mark; }
  bool is_dotted(std::string_view name) const { return now_.kind == Token::Kind::kDotted && now_.text == name; }
  bool take_mark(char mark);
  void expect(char mark);
  std::string_view expect_name(const char* what);
  /// To behind the next ';' (nothing of the statement is looked at).
  void skip_statement();
  /// From an opening brace to behind its closing one, without a look at what words there are. `what` is named where the
  /// text ends before.
  void skip_braces(const std::string& what);
  /// To the end of the line (.loc, .file).
  void skip_line();
  std::uint32_t line() const { return now_.line; }
  /// Of the mark that now() is.
  Place mark_place() const { return {.at = at_ - 1, .line = now_.line}; }
  /// Grows with each word.
  std::size_t position() const { return at_; }

 private:
  void advance();
  void skip_blank();
  void number();
  void string();
  bool is_comment() const { return text_.substr(at_, 2) == "//" || text_.substr(at_, 2) == "/*"; }
  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  Token now_;
};

}  // namespace meshbed::sim::ptx
