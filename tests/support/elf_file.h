#pragma once
// ElfFile: what a shared object on disk says of itself: for tests of what a library shows and needs.

#include <map>
#include <set>
#include <string>

namespace meshbed::test {

struct ElfFile {
  std::map<std::string, unsigned> shown;  // defined dynamic symbols, with their types (STT_FUNC, ...)
  std::set<std::string> needed;           // DT_NEEDED
  std::string soname;                     // DT_SONAME

  /// Empty where there is no such file.
  static ElfFile read(const std::string& path);
};

/// What any of our libraries may need beside what it says: libc's own.
bool is_libc(const std::string& library);

}  // namespace meshbed::test
