#pragma once
// A list of folders as the dynamic linker has it (ld.so(8)): with colons, and $ORIGIN for the folder of the file that
// has it.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshbed {

/// In order. An empty one is the working folder; an empty list has none.
inline std::vector<std::string> search_folders(std::string_view list, std::string_view origin) {
  std::vector<std::string> folders;
  if (list.empty()) return folders;
  for (std::size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = list.find(':', begin);
    std::string folder(list.substr(begin, end - begin));
    for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
      for (std::size_t at = folder.find(word); at != std::string::npos; at = folder.find(word, at + origin.size())) {
        folder.replace(at, word.size(), origin);
      }
    }
    folders.push_back(folder.empty() ? "." : std::move(folder));
  }
  return folders;
}

}  // namespace meshbed
