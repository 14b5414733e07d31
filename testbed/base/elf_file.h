#pragma once
// ElfFile: the contents of a 64-bit program or shared object that describe it: its needed libraries, its exports, its
// sections. Nothing is loaded. Headers may be corrupt: no byte outside the file is read.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed {

class ElfFile {
 public:
  /// Throws std::runtime_error where `bytes` is no 64-bit ELF file ("not a 64-bit ELF file"), or its headers point
  /// beyond its end ("its headers are broken").
  explicit ElfFile(std::string bytes);
  static bool begins(std::string_view bytes);

  const std::vector<std::string>& needed() const { return needed_; }  // DT_NEEDED, in order
  const std::string& soname() const { return soname_; }               // empty: none
  const std::string& run_path() const { return run_path_; }           // DT_RUNPATH, or DT_RPATH; empty: none
  /// Names of functions and variables that others can use.
  const std::set<std::string>& exported() const { return exported_; }
  /// Names that it asks others for.
  const std::set<std::string>& imported() const { return imported_; }
  /// The bytes of each section with this name, as long as this object.
  std::vector<std::string_view> sections(std::string_view name) const;
  std::string_view bytes() const { return bytes_; }

 private:
  template <typename Part>
  Part part_at(std::uint64_t offset) const;
  std::string_view range_at(std::uint64_t offset, std::uint64_t size_bytes) const;
  std::string text_at(std::uint64_t offset) const;
  void read_sections();
  void read_dynamic();

  struct Section {
    std::string name;
    std::string_view content;
  };

  std::string bytes_;
  std::vector<Section> sections_;
  std::vector<std::string> needed_;
  std::string soname_, run_path_;
  std::set<std::string> exported_, imported_;
};

}  // namespace meshbed::testbed
