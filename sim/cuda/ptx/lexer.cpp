#include "sim/cuda/ptx/lexer.h"

#include <cstdlib>
#include <cstring>

#include "sim/cuda/ptx/syntax.h"

namespace meshbed::sim::ptx {

namespace {

bool starts_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return starts_word(c) || is_digit(c); }

int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

Token Lexer::take() {
  const Token taken = now_;
  advance();
  return taken;
}

bool Lexer::take_mark(char mark) {
  if (!is_mark(mark)) return false;
  advance();
  return true;
}

void Lexer::expect(char mark) {
  if (take_mark(mark)) return;
  throw Refusal(now_.line, std::string("'") + mark + "' expected before '" + std::string(now_.text) + "'");
}

std::string_view Lexer::expect_name(const char* what) {
  if (now_.kind != Token::Kind::kName) {
    throw Refusal(now_.line, std::string(what) + " expected before '" + std::string(now_.text) + "'");
  }
  return take().text;
}

void Lexer::skip_statement() {
  while (now_.kind != Token::Kind::kEnd && !is_mark(';')) advance();
  take_mark(';');
}

void Lexer::skip_braces(const std::string& what) {
  const std::uint32_t begin = now_.line;
  int depth = 1;
  while (at_ < text_.size() && text_[at_] != '\0') {
    const char c = text_[at_];
    if (c == '/' && is_comment()) {
      skip_blank();
      continue;
    }
    if (c == '"') {
      string();
      continue;
    }
    ++at_;
    if (c == '\n') ++line_;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) {
      advance();
      return;
    }
  }
  throw Refusal(begin, what + ": '}' missing at the end of the text");
}

void Lexer::skip_line() {
  const std::uint32_t line = now_.line;
  while (now_.kind != Token::Kind::kEnd && now_.line == line) advance();
}

void Lexer::skip_blank() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v') {
      ++at_;
    } else if (c == '/' && text_.substr(at_, 2) == "//") {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '/' && text_.substr(at_, 2) == "/*") {
      at_ += 2;
      while (at_ < text_.size() && text_.substr(at_, 2) != "*/") {
        if (text_[at_] == '\n') ++line_;
        ++at_;
      }
      at_ = at_ + 2 < text_.size() ? at_ + 2 : text_.size();
    } else {
      return;
    }
  }
}

void Lexer::number() {
  const std::size_t begin = at_;
  const std::string_view start = text_.substr(at_, 2);
  if (start == "0f" || start == "0F" || start == "0d" || start == "0D") {
    const std::size_t digits = start[1] == 'f' || start[1] == 'F' ? 8 : 16;
    std::uint64_t bits = 0;
    std::size_t count = 0;
    for (at_ += 2; at_ < text_.size() && digit_of(text_[at_]) < 16; ++at_, ++count) {
      bits = bits << 4U | static_cast<std::uint64_t>(digit_of(text_[at_]));
    }
    if (count != digits)
      throw Refusal(line_, "'" + std::string(text_.substr(begin, at_ - begin)) + "' is not a number");
    now_.kind = digits == 8 ? Token::Kind::kFloat32 : Token::Kind::kFloat64;
    now_.value = bits;
  } else {
    int base = 10;
    if (start == "0x" || start == "0X")
      base = 16, at_ += 2;
    else if (start == "0b" || start == "0B")
      base = 2, at_ += 2;
    else if (text_[at_] == '0')
      base = 8;
    const std::size_t first = at_;
    std::size_t end = at_;
    while (end < text_.size() && digit_of(text_[end]) < (base == 16 ? 16 : 10)) ++end;
    const bool point = end < text_.size() && text_[end] == '.' && end + 1 < text_.size() && is_digit(text_[end + 1]);
    const bool exponent = base != 16 && end < text_.size() && (text_[end] == 'e' || text_[end] == 'E');
    if (base != 16 && base != 2 && (point || exponent)) {
      while (end < text_.size() &&
             (is_digit(text_[end]) || text_[end] == '.' || text_[end] == 'e' || text_[end] == 'E' ||
              ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] == 'e' || text_[end - 1] == 'E')))) {
        ++end;
      }
      const double value = std::strtod(std::string(text_.substr(begin, end - begin)).c_str(), nullptr);
      now_.kind = Token::Kind::kFloat64;
      std::memcpy(&now_.value, &value, sizeof value);
      at_ = end;
    } else {
      std::uint64_t value = 0;
      for (; at_ < end; ++at_) {
        const int digit = digit_of(text_[at_]);
        if (digit >= base)
          throw Refusal(line_, "'" + std::string(text_.substr(begin, end - begin)) + "' is not a number");
        value = value * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit);
      }
      if (at_ == first) throw Refusal(line_, "a number ends after its prefix");
      if (at_ < text_.size() && text_[at_] == 'U') ++at_;
      now_.kind = Token::Kind::kInteger;
      now_.value = value;
    }
  }
  if (at_ < text_.size() && in_word(text_[at_])) {
    throw Refusal(line_, "'" + std::string(text_.substr(begin, at_ + 1 - begin)) + "' is not a number");
  }
  now_.text = text_.substr(begin, at_ - begin);
}

void Lexer::string() {
  ++at_;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size() || text_[at_] != '"') throw Refusal(line_, "a string without its end");
  ++at_;
}

void Lexer::advance() {
  skip_blank();
  now_ = Token{};
  now_.line = line_;
  if (at_ >= text_.size() || text_[at_] == '\0') {
    at_ = text_.size();
    now_.text = "the end of the text";
    return;
  }
  const std::size_t begin = at_;
  const char c = text_[at_];
  if (starts_word(c)) {
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    now_.kind = Token::Kind::kName;
    now_.text = text_.substr(begin, at_ - begin);
  } else if (is_digit(c)) {
    number();
  } else if (c == '.' && at_ + 1 < text_.size() && in_word(text_[at_ + 1])) {
    ++at_;
    while (at_ < text_.size() && (in_word(text_[at_]) || text_.substr(at_, 2) == "::")) {
      at_ += text_[at_] == ':' ? 2 : 1;
    }
    now_.kind = Token::Kind::kDotted;
    now_.text = text_.substr(begin + 1, at_ - begin - 1);
  } else if (c == '"') {
    string();
    now_.kind = Token::Kind::kString;
    now_.text = text_.substr(begin + 1, at_ - begin - 2);
  } else {
    ++at_;
    now_.kind = Token::Kind::kMark;
    now_.text = text_.substr(begin, 1);
  }
}

}  // namespace meshbed::sim::ptx
