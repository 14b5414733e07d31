#include "tests/support/sources.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace meshbed::test {

namespace fs = std::filesystem;

std::string code_of(const std::string& text) {
  std::string code = text;
  enum class State { kCode, kLine, kBlock, kString, kCharacter } state = State::kCode;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char now = text[at];
    const char next = at + 1 < text.size() ? text[at + 1] : '\0';
    const bool was_code = state == State::kCode;
    if (was_code) {
      if (now == '/' && next == '/') state = State::kLine;
      if (now == '/' && next == '*') state = State::kBlock;
      if (now == '"') state = State::kString;
      // An apostrophe after a digit separates digits.
      if (now == '\'' && (at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0))
        state = State::kCharacter;
      if (state != State::kCode) continue;
    }
    if (state == State::kCode) continue;
    const bool ends_string = (state == State::kString && now == '"') || (state == State::kCharacter && now == '\'');
    if ((state == State::kLine && now == '\n') || ends_string) {
      state = State::kCode;
      continue;
    }
    if (state == State::kBlock && now == '/' && at > 0 && text[at - 1] == '*') state = State::kCode;
    if ((state == State::kString || state == State::kCharacter) && now == '\\' && next != '\n') code[at++] = ' ';
    if (now != '\n') code[at] = ' ';
  }
  return code;
}

std::vector<Source> sources(const std::vector<std::string>& folders, const std::vector<std::string>& extensions) {
  std::vector<Source> found;
  const fs::path root = MESHBED_SOURCE_DIR;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      found.push_back(
          {fs::relative(entry.path(), root), {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
    }
  }
  std::sort(found.begin(), found.end(), [](const Source& left, const Source& right) { return left.path < right.path; });
  return found;
}

std::vector<Source> product_sources() { return sources({"plugin", "models", "sim", "emu", "testbed", "cli"}); }

std::string place(const Source& source, std::size_t at) {
  return source.path + ":" +
         std::to_string(1 +
                        std::count(source.text.begin(), source.text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// Far quicker than std::regex, which took most of the time that the checks of all sources took.
std::vector<std::string> quoted_after(const std::string& text, const std::string& prefix, char end) {
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
    at += prefix.size();
    const std::size_t stop = text.find_first_of(std::string("\n") + end, at);
    if (stop == std::string::npos) break;
    if (text[stop] == end && stop > at) found.push_back(text.substr(at, stop - at));
  }
  return found;
}

std::vector<std::string> project_includes(const std::string& text) { return quoted_after(text, "#include \"", '"'); }

}  // namespace meshbed::test
