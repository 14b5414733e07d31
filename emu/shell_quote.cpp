#include "emu/shell_quote.h"

#include <algorithm>
#include <cctype>

namespace meshbed::emu {

std::string shell_quote(const std::string& text) {
  // Nothing but the quote itself means anything between single quotes: it is closed, escaped and opened anew.
  std::string quoted = "'";
  for (const char one : text) {
    if (one == '\'') {
      quoted += "'\\''";
    } else {
      quoted += one;
    }
  }
  return quoted + "'";
}

std::string shell_command(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char one) { return std::tolower(one); });
  return text;
}

bool is_variable_name(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char one) { return one < 128 && (std::isalnum(one) != 0 || one == '_'); });
}

}  // namespace meshbed::emu
