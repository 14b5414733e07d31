#include "testbed/scenario/plugin_file.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <vector>

#include "plugin/coll/transport/transport.h"
#include "testbed/base/files.h"

namespace meshbed::testbed {
namespace {

/// The array of T that a header says to be there; empty where the file is shorter.
template <typename T>
std::vector<T> array_at(const std::string& bytes, std::uint64_t offset, std::uint64_t count) {
  if (offset > bytes.size() || count > (bytes.size() - offset) / sizeof(T)) return {};
  std::vector<T> entries(count);
  if (count > 0) std::memcpy(entries.data(), bytes.data() + offset, count * sizeof(T));
  return entries;
}

bool is_shared_object(const Elf64_Ehdr& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == EM_X86_64 && header.e_type == ET_DYN;
}

/// A program that may lie anywhere has the type of a shared object, and this mark.
bool is_program(const std::string& bytes, const std::vector<Elf64_Shdr>& sections) {
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNAMIC) continue;
    for (const auto& entry : array_at<Elf64_Dyn>(bytes, section.sh_offset, section.sh_size / sizeof(Elf64_Dyn))) {
      if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0) return true;
    }
  }
  return false;
}

bool is_table(const char* name) {
  for (int version = coll::kOldestNetVersion; version <= coll::kNewestNetVersion; ++version) {
    if (fmt::format("ncclNetPlugin_v{}", version) == name) return true;
  }
  return false;
}

/// nullopt: it does not say what it exports.
std::optional<bool> exports_table(const std::string& bytes, const std::vector<Elf64_Shdr>& sections) {
  std::optional<bool> found;
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    found = false;
    const std::uint64_t names = sections[section.sh_link].sh_offset;
    for (const auto& symbol : array_at<Elf64_Sym>(bytes, section.sh_offset, section.sh_size / sizeof(Elf64_Sym))) {
      const std::uint64_t name = names + symbol.st_name;
      // std::string ends in a zero, so that a name that is cut off ends with the file.
      if (symbol.st_shndx != SHN_UNDEF && name < bytes.size() && is_table(bytes.c_str() + name)) return true;
    }
  }
  return found;
}

}  // namespace

std::string require_plugin_file(const std::string& path) {
  namespace fs = std::filesystem;
  const auto refuse = [&path](const std::string& why) { throw std::runtime_error(path + ": " + why); };
  std::error_code problem;
  if (!fs::exists(path, problem)) refuse("there is no such file");
  if (fs::is_directory(path, problem)) refuse("it is a folder, no net plugin");
  if (!fs::is_regular_file(path, problem)) refuse("it is not a regular file");
  const std::string bytes = read_text_file(path);
  const auto headers = array_at<Elf64_Ehdr>(bytes, 0, 1);
  if (headers.empty() || !is_shared_object(headers.front())) refuse("it is not a shared object (ELF, x86-64)");
  const auto sections = array_at<Elf64_Shdr>(bytes, headers.front().e_shoff, headers.front().e_shnum);
  if (is_program(bytes, sections)) refuse("it is a program, no shared object");
  if (!exports_table(bytes, sections).value_or(true)) {
    refuse(fmt::format("it exports no ncclNetPlugin_v{} to v{}, so it is not a net plugin", coll::kOldestNetVersion,
                       coll::kNewestNetVersion));
  }
  return fs::absolute(path).string();
}

}  // namespace meshbed::testbed
