#include "testbed/base/elf_file.h"

#include <elf.h>

#include <cstring>
#include <stdexcept>
#include <utility>

namespace meshbed::testbed {

bool ElfFile::begins(std::string_view bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

ElfFile::ElfFile(std::string bytes) : bytes_(std::move(bytes)) {
  if (!begins(bytes_) || bytes_.size() < sizeof(Elf64_Ehdr) || bytes_[EI_CLASS] != ELFCLASS64) {
    throw std::runtime_error("not a 64-bit ELF file");
  }
  read_sections();
  read_dynamic();
}

template <typename Part>
Part ElfFile::part_at(std::uint64_t offset) const {
  Part part{};
  std::memcpy(&part, range_at(offset, sizeof part).data(), sizeof part);
  return part;
}

std::string_view ElfFile::range_at(std::uint64_t offset, std::uint64_t size_bytes) const {
  if (offset > bytes_.size() || size_bytes > bytes_.size() - offset) throw std::runtime_error("its headers are broken");
  return std::string_view(bytes_).substr(offset, size_bytes);
}

std::string ElfFile::text_at(std::uint64_t offset) const {
  const std::string_view rest = std::string_view(bytes_).substr(range_at(offset, 0).data() - bytes_.data());
  return std::string(rest.substr(0, rest.find('\0')));
}

void ElfFile::read_sections() {
  const auto header = part_at<Elf64_Ehdr>(0);
  if (header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return;
  const auto section = [&](std::uint64_t index) {
    return part_at<Elf64_Shdr>(header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  for (std::uint64_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr one = section(index);
    const bool in_file = one.sh_type != SHT_NOBITS && one.sh_type != SHT_NULL;
    sections_.push_back(
        {text_at(names.sh_offset + one.sh_name), in_file ? range_at(one.sh_offset, one.sh_size) : std::string_view{}});
    if (one.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr texts = section(one.sh_link);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= one.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = part_at<Elf64_Sym>(one.sh_offset + at);
      std::set<std::string>& names_of_kind = symbol.st_shndx == SHN_UNDEF ? imported_ : exported_;
      names_of_kind.insert(text_at(texts.sh_offset + symbol.st_name));
    }
  }
}

/// By the program headers, which a file without section headers has, too.
void ElfFile::read_dynamic() {
  const auto header = part_at<Elf64_Ehdr>(0);
  std::vector<Elf64_Phdr> loads;
  Elf64_Phdr dynamic{};
  for (std::uint64_t index = 0; index < header.e_phnum; ++index) {
    const auto program = part_at<Elf64_Phdr>(header.e_phoff + index * sizeof(Elf64_Phdr));
    if (program.p_type == PT_LOAD) loads.push_back(program);
    if (program.p_type == PT_DYNAMIC) dynamic = program;
  }
  std::vector<Elf64_Dyn> entries;
  std::uint64_t strings = 0;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    entries.push_back(part_at<Elf64_Dyn>(dynamic.p_offset + at));
    if (entries.back().d_tag == DT_NULL) break;
    if (entries.back().d_tag == DT_STRTAB) strings = entries.back().d_un.d_ptr;
  }
  const auto text = [&](std::uint64_t offset) -> std::string {
    for (const Elf64_Phdr& load : loads) {
      if (strings < load.p_vaddr || strings - load.p_vaddr >= load.p_filesz) continue;
      return text_at(load.p_offset + (strings - load.p_vaddr) + offset);
    }
    throw std::runtime_error("its headers are broken");
  };
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NEEDED) needed_.push_back(text(entry.d_un.d_val));
    if (entry.d_tag == DT_SONAME) soname_ = text(entry.d_un.d_val);
    if (entry.d_tag == DT_RUNPATH || (entry.d_tag == DT_RPATH && run_path_.empty())) run_path_ = text(entry.d_un.d_val);
  }
}

std::vector<std::string_view> ElfFile::sections(std::string_view name) const {
  std::vector<std::string_view> found;
  for (const Section& section : sections_) {
    if (section.name == name) found.push_back(section.content);
  }
  return found;
}

}  // namespace meshbed::testbed
