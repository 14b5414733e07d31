#include "sim/host/load/elf_image.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace meshbed::sim {

std::uintptr_t page_bytes() {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}
std::uintptr_t page_down(std::uintptr_t value) { return value & ~(page_bytes() - 1); }
std::uintptr_t page_up(std::uintptr_t value) { return page_down(value + page_bytes() - 1); }

Needs needs_of(std::span<const std::byte> file) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(file.data());
  const auto* programs = reinterpret_cast<const ElfW(Phdr)*>(file.data() + header->e_phoff);
  const std::span all(programs, header->e_phnum);
  std::size_t strings = 0;  // in memory, then in the file
  std::vector<std::size_t> names, paths;
  for (const ElfW(Phdr) & program : all) {
    if (program.p_type != PT_DYNAMIC || program.p_offset + program.p_filesz > file.size()) continue;
    const auto* entries = reinterpret_cast<const ElfW(Dyn)*>(file.data() + program.p_offset);
    for (std::size_t index = 0; index < program.p_filesz / sizeof(*entries); ++index) {
      if (entries[index].d_tag == DT_STRTAB) strings = entries[index].d_un.d_ptr;
      if (entries[index].d_tag == DT_NEEDED) names.push_back(entries[index].d_un.d_val);
      if (entries[index].d_tag == DT_RUNPATH || entries[index].d_tag == DT_RPATH) {
        paths.push_back(entries[index].d_un.d_val);
      }
    }
  }
  const auto holder = std::find_if(all.begin(), all.end(), [&](const ElfW(Phdr) & program) {
    return program.p_type == PT_LOAD && strings >= program.p_vaddr && strings < program.p_vaddr + program.p_filesz;
  });
  Needs needs;
  if (holder == all.end()) return needs;
  strings = strings - holder->p_vaddr + holder->p_offset;
  const auto* text = reinterpret_cast<const char*>(file.data());
  const auto text_at = [&](std::size_t place) {
    const std::size_t begin = std::min(strings + place, file.size());
    return std::string(text + begin, ::strnlen(text + begin, file.size() - begin));
  };
  for (const std::size_t name : names) {
    needs.names.push_back(text_at(name));
    needs.places.push_back(strings + name);
  }
  if (!paths.empty()) needs.run_path = text_at(paths.back());
  return needs;
}

ElfImage::ElfImage(void* handle) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) throw std::runtime_error(::dlerror());
  map_ = map;
  read_program_headers();
  read_dynamic_section();
}

void ElfImage::read_program_headers() {
  // The first segment maps the file from its start, ELF header included; l_addr is what its addresses are relative to.
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(map_->l_addr);
  const auto* first = reinterpret_cast<const ElfW(Phdr)*>(map_->l_addr + header->e_phoff);
  for (const ElfW(Phdr)* program = first; program != first + header->e_phnum; ++program) {
    const std::uintptr_t begin = page_down(map_->l_addr + program->p_vaddr);
    if (program->p_type == PT_LOAD) {
      // File-backed pages only: what lies beyond p_filesz is anonymous memory.
      const std::uintptr_t end = page_up(map_->l_addr + program->p_vaddr + program->p_filesz);
      segments_.push_back({.address = reinterpret_cast<std::byte*>(begin),
                           .size_bytes = end - begin,
                           .file_offset = page_down(program->p_offset),
                           .writable = (program->p_flags & PF_W) != 0,
                           .executable = (program->p_flags & PF_X) != 0});
    } else if (program->p_type == PT_GNU_RELRO) {
      // The loader protects whole pages within the range, hence downwards at its end (glibc _dl_protect_relro).
      const std::uintptr_t end = page_down(map_->l_addr + program->p_vaddr + program->p_memsz);
      relro_ = {.address = reinterpret_cast<std::byte*>(begin), .size_bytes = end > begin ? end - begin : 0};
    }
  }
}

void ElfImage::read_dynamic_section() {
  for (const ElfW(Dyn)* entry = map_->l_ld; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_STRTAB:
        strings_ = reinterpret_cast<const char*>(entry->d_un.d_ptr);
        break;
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
        break;
      case DT_JMPREL:
        plt_.first = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        plt_.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_RELA:
        other_.first = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
        break;
      case DT_RELASZ:
        other_.count = entry->d_un.d_val / sizeof(ElfW(Rela));
        break;
      case DT_TEXTREL:
        text_relocations_ = true;
        break;
      case DT_FLAGS:
        text_relocations_ = text_relocations_ || (entry->d_un.d_val & DF_TEXTREL) != 0;
        break;
      default:
        break;
    }
  }
}

bool ElfImage::holds(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= segments_.front().address && byte < segments_.back().address + segments_.back().size_bytes;
}

void ElfImage::each_import(const std::function<void(void** slot, const char* name)>& visit) const {
  for (const Relocations& relocations : {plt_, other_}) {
    for (std::size_t index = 0; index < relocations.count; ++index) {
      const ElfW(Rela)& relocation = relocations.first[index];
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
      const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(relocation.r_info)];
      auto** slot = reinterpret_cast<void**>(map_->l_addr + relocation.r_offset);
      if (symbol.st_shndx != SHN_UNDEF && holds(*slot)) continue;
      visit(slot, strings_ + symbol.st_name);
    }
  }
}

void ElfImage::each_copied_variable(const std::function<void(const CopiedVariable&)>& visit) const {
  for (std::size_t index = 0; index < other_.count; ++index) {
    const ElfW(Rela)& relocation = other_.first[index];
    if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_COPY) continue;
    const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(relocation.r_info)];
    visit({.place = reinterpret_cast<void*>(map_->l_addr + relocation.r_offset),
           .size_bytes = symbol.st_size,
           .name = strings_ + symbol.st_name});
  }
}

void ElfImage::each_reference(std::string_view name, const std::function<void(void** slot)>& visit) const {
  for (std::size_t index = 0; index < other_.count; ++index) {
    const ElfW(Rela)& relocation = other_.first[index];
    const auto type = ELF64_R_TYPE(relocation.r_info);
    if (type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
    if (strings_ + symbols_[ELF64_R_SYM(relocation.r_info)].st_name != name) continue;
    visit(reinterpret_cast<void**>(map_->l_addr + relocation.r_offset));
  }
}

}  // namespace meshbed::sim
