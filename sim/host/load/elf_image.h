#pragma once
// ElfImage: a loaded shared object as its program headers and its dynamic section describe it (System V ABI, AMD64
// supplement). Reads the memory of the object; owns nothing.

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::sim {

/// The kernel's page, and addresses or offsets rounded to it.
std::uintptr_t page_bytes();
std::uintptr_t page_down(std::uintptr_t value);
std::uintptr_t page_up(std::uintptr_t value);

/// A loadable segment, in whole pages.
struct Segment {
  std::byte* address = nullptr;
  std::size_t size_bytes = 0;
  std::uint64_t file_offset = 0;
  bool writable = false;
  bool executable = false;
};

/// What a shared object asks the loader for: names of others (DT_NEEDED), and where they are (DT_RUNPATH or DT_RPATH).
struct Needs {
  std::vector<std::string> names;
  std::vector<std::size_t> places;  // of the names, in the file
  std::string run_path;
};
/// From the bytes of its file, which begins with a whole ELF header and program headers.
Needs needs_of(std::span<const std::byte> file);

class ElfImage {
 public:
  /// `handle` is dlopen()'s. The object's file must begin with the page that its first segment maps, as linkers have
  /// it.
  explicit ElfImage(void* handle);

  const std::vector<Segment>& segments() const { return segments_; }
  /// Pages that the loader made read-only after relocation; size 0 where there are none.
  const Segment& relro() const { return relro_; }
  /// Relocations that change read-only segments (DT_TEXTREL).
  bool has_text_relocations() const { return text_relocations_; }

  /// Every slot that the loader fills with the address of another object's function or variable, with the symbol's
  /// name: R_X86_64_JUMP_SLOT, GLOB_DAT and 64 against symbols that are undefined here, or defined here too but bound
  /// elsewhere.
  void each_import(const std::function<void(void** slot, const char* name)>& visit) const;
  /// A program's own copies of other objects' variables (R_X86_64_COPY), which those objects do not know where the
  /// program was loaded as a library.
  struct CopiedVariable {
    void* place;
    std::size_t size_bytes;
    const char* name;
  };
  void each_copied_variable(const std::function<void(const CopiedVariable&)>& visit) const;
  /// Every slot with the address of a variable of this name, whether it is defined here or elsewhere.
  void each_reference(std::string_view name, const std::function<void(void** slot)>& visit) const;
  bool holds(const void* address) const;
  /// Where the loader has put what has this address in the file.
  std::byte* at(std::uintptr_t address) const { return reinterpret_cast<std::byte*>(map_->l_addr + address); }

 private:
  void read_program_headers();
  void read_dynamic_section();

  const link_map* map_ = nullptr;
  std::vector<Segment> segments_;
  Segment relro_;
  bool text_relocations_ = false;
  const char* strings_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  struct Relocations {
    const ElfW(Rela) * first = nullptr;
    std::size_t count = 0;
  };
  Relocations plt_, other_;
};

}  // namespace meshbed::sim
