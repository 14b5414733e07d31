#include "tests/support/elf_file.h"

#include <elf.h>

#include <cstdio>
#include <vector>

namespace meshbed::test {
namespace {

std::vector<char> bytes_of(const std::string& path) {
  std::vector<char> bytes;
  if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
    char block[65536];
    for (std::size_t count; (count = std::fread(block, 1, sizeof block, file)) > 0;) {
      bytes.insert(bytes.end(), block, block + count);
    }
    std::fclose(file);
  }
  return bytes;
}

template <typename T>
const T* at(const std::vector<char>& file, std::size_t offset) {
  return reinterpret_cast<const T*>(file.data() + offset);
}

const Elf64_Shdr* section(const std::vector<char>& file, unsigned type) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  for (int index = 0; index < header->e_shnum; ++index) {
    const auto* candidate = at<Elf64_Shdr>(file, header->e_shoff + index * sizeof(Elf64_Shdr));
    if (candidate->sh_type == type) return candidate;
  }
  return nullptr;
}

const char* linked_strings(const std::vector<char>& file, const Elf64_Shdr& user) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  return file.data() + at<Elf64_Shdr>(file, header->e_shoff + user.sh_link * sizeof(Elf64_Shdr))->sh_offset;
}

}  // namespace

ElfFile ElfFile::read(const std::string& path) {
  ElfFile result;
  const std::vector<char> file = bytes_of(path);
  if (file.size() <= sizeof(Elf64_Ehdr)) return result;
  if (const Elf64_Shdr* symbols = section(file, SHT_DYNSYM)) {
    const char* names = linked_strings(file, *symbols);
    for (std::size_t index = 1; index < symbols->sh_size / sizeof(Elf64_Sym); ++index) {
      const auto* symbol = at<Elf64_Sym>(file, symbols->sh_offset + index * sizeof(Elf64_Sym));
      if (symbol->st_shndx != SHN_UNDEF) result.shown[names + symbol->st_name] = ELF64_ST_TYPE(symbol->st_info);
    }
  }
  if (const Elf64_Shdr* dynamic = section(file, SHT_DYNAMIC)) {
    const char* names = linked_strings(file, *dynamic);
    for (std::size_t index = 0; index < dynamic->sh_size / sizeof(Elf64_Dyn); ++index) {
      const auto* entry = at<Elf64_Dyn>(file, dynamic->sh_offset + index * sizeof(Elf64_Dyn));
      if (entry->d_tag == DT_NEEDED) result.needed.insert(names + entry->d_un.d_val);
      if (entry->d_tag == DT_SONAME) result.soname = names + entry->d_un.d_val;
    }
  }
  return result;
}

bool is_libc(const std::string& library) {
  return library == "libc.so.6" || library == "libm.so.6" || library.rfind("ld-linux", 0) == 0;
}

}  // namespace meshbed::test
