#pragma once
// sources: the project's own sources as text, for tests of what stands in them.

#include <cstddef>
#include <string>
#include <vector>

namespace meshbed::test {

struct Source {
  std::string path;  // seen from the root: "sim/engine/world.h"
  std::string text;
};

/// The files of these folders with these extensions, by path.
std::vector<Source> sources(const std::vector<std::string>& folders,
                            const std::vector<std::string>& extensions = {".h", ".cpp"});
std::vector<Source> product_sources();

/// Text without comments and string literals (rest unchanged, line numbers kept), so that prose may say what code may
/// not. Raw strings are not used in the project's product code.
std::string code_of(const std::string& text);

/// Where in it: "PATH:LINE".
std::string place(const Source& source, std::size_t at);

/// What stands between this prefix and the next `end`, on one line: the names in #include lines.
std::vector<std::string> quoted_after(const std::string& text, const std::string& prefix, char end);

/// What it includes of the project, as written.
std::vector<std::string> project_includes(const std::string& text);

}  // namespace meshbed::test
