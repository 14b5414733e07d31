#include "plugin/base/name_list.h"

#include <algorithm>
#include <cstddef>

namespace meshbed {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool take_mark(std::string_view& text, char mark) {
  if (text.empty() || text.front() != mark) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

bool NameList::fits(std::string_view entry, std::string_view name) const {
  if (entry.empty()) return false;
  return whole_names ? name == entry : name.substr(0, entry.size()) == entry;
}

NameList read_name_list(std::string_view text) {
  NameList list;
  text = without_blanks(text);
  list.excludes = take_mark(text, '^');
  list.whole_names = take_mark(text, '=');
  if (without_blanks(text).empty()) return list;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    list.entries.push_back(without_blanks(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return list;
}

std::string name_list_problem(std::string_view text) {
  const NameList list = read_name_list(text);
  if (list.entries.empty()) return text.empty() ? "" : "it names nothing, and is taken as if it were empty";
  std::string problem;
  const auto add = [&problem](const std::string& what) { problem += (problem.empty() ? "" : "; ") + what; };
  for (std::size_t index = 0; index < list.entries.size(); ++index) {
    const std::string entry(list.entries[index]);
    if (entry.empty()) {
      add("element " + std::to_string(index + 1) + " is empty, and left out");
    } else if (entry.front() == '^' || entry.front() == '=') {
      add("the mark of \"" + entry + "\" counts at the beginning of the list only (^, =, or ^=): it fits no name");
    } else if (entry.find_first_of(kBlanks) != std::string::npos) {
      add("\"" + entry + "\" has a blank in it, and fits no name: commas separate names");
    }
  }
  const auto is_empty = [](std::string_view entry) { return entry.empty(); };
  if (std::all_of(list.entries.begin(), list.entries.end(), is_empty)) {
    add(list.excludes ? "nothing is left out" : "nothing is let in");
  }
  // Between names, or around all of them.
  std::size_t named = list.entries.size() - 1 + (list.excludes ? 1 : 0) + (list.whole_names ? 1 : 0);
  for (const std::string_view entry : list.entries) named += entry.size();
  if (named != text.size()) add("blanks around names do not count");
  return problem;
}

}  // namespace meshbed
