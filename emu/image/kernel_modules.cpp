#include "emu/image/kernel_modules.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace meshbed::emu {
namespace {

[[noreturn]] void fail_elf() { throw std::runtime_error("it is no kernel module: no 64-bit ELF file with a .modinfo"); }

template <typename T>
T read_at(std::string_view elf, std::uint64_t at) {
  T value;
  if (at > elf.size() || elf.size() - at < sizeof value) fail_elf();
  std::memcpy(&value, elf.data() + at, sizeof value);
  return value;
}

std::string_view range(std::string_view elf, std::uint64_t start, std::uint64_t size) {
  if (start > elf.size() || size > elf.size() - start) fail_elf();
  return elf.substr(start, size);
}

/// Strings "key=value", each closed by a zero.
std::string_view module_info_section(std::string_view elf) {
  const auto header = read_at<Elf64_Ehdr>(elf, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) fail_elf();
  const auto section = [&](unsigned index) {
    return read_at<Elf64_Shdr>(elf, header.e_shoff + std::uint64_t{index} * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names_section = section(header.e_shstrndx);
  const std::string_view names = range(elf, names_section.sh_offset, names_section.sh_size);
  for (unsigned index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr one = section(index);
    if (one.sh_name > names.size()) fail_elf();
    const std::string_view name = names.substr(one.sh_name);
    if (name.substr(0, name.find('\0')) == ".modinfo") return range(elf, one.sh_offset, one.sh_size);
  }
  fail_elf();
}

}  // namespace

ModuleInfo read_module_info(std::string_view elf) {
  constexpr std::string_view kDepends = "depends=";
  constexpr std::string_view kAlias = "alias=";
  ModuleInfo info;
  std::string_view rest = module_info_section(elf);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.substr(0, kAlias.size()) == kAlias) info.aliases.emplace_back(line.substr(kAlias.size()));
    if (line.substr(0, kDepends.size()) != kDepends) continue;
    std::istringstream names{std::string(line.substr(kDepends.size()))};
    for (std::string name; std::getline(names, name, ',');) {
      if (!name.empty()) info.depends.push_back(module_name(name));
    }
  }
  return info;
}

std::string module_name(const std::string& path) {
  const auto slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  name.resize(std::min(name.size(), name.find(".ko")));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

KernelModules KernelModules::from_dependency_text(const std::string& text) {
  KernelModules modules;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos || colon == 0) {
      throw std::runtime_error(fmt::format("modules.dep: '{}' is not 'PATH: PATH ...'", line));
    }
    ModuleInfo info;
    std::istringstream needs(line.substr(colon + 1));
    for (std::string path; needs >> path;) info.depends.push_back(module_name(path));
    modules.add(line.substr(0, colon), info);
  }
  return modules;
}

void KernelModules::add(const std::string& path, const ModuleInfo& info) { modules_[module_name(path)] = {path, info}; }

struct KernelModules::Walk {
  std::vector<std::string> paths;       // in load order
  std::set<std::string> done;           // names in `paths`
  std::vector<std::string> on_the_way;  // names whose needs are being visited
};

void KernelModules::visit(const std::string& name, const std::string& needed_by, Walk& walk) const {
  if (walk.done.count(name) != 0 || built_in_.count(name) != 0) return;
  const auto found = modules_.find(name);
  if (found == modules_.end()) {
    throw std::runtime_error(
        fmt::format("the kernel has no module {}{}", name, needed_by.empty() ? "" : ", which " + needed_by + " needs"));
  }
  if (std::find(walk.on_the_way.begin(), walk.on_the_way.end(), name) != walk.on_the_way.end()) {
    throw std::runtime_error(fmt::format("the modules {} and {} need each other", name, needed_by));
  }
  walk.on_the_way.push_back(name);
  for (const std::string& need : found->second.info.depends) visit(need, name, walk);
  walk.on_the_way.pop_back();
  walk.done.insert(name);
  walk.paths.push_back(found->second.path);
}

std::vector<std::string> KernelModules::load_order(const std::vector<std::string>& wanted) const {
  Walk walk;
  for (const std::string& name : wanted) visit(module_name(name), "", walk);
  return walk.paths;
}

std::string KernelModules::dependency_text(const std::vector<std::string>& paths) const {
  std::string text;
  for (const std::string& path : paths) {
    // A reader of modules.dep loads a line from its end: all modules that the module needs, with their own needs last.
    std::vector<std::string> order = load_order({module_name(path)});
    text += order.back() + ":";
    for (auto need = order.rbegin() + 1; need != order.rend(); ++need) text += " " + *need;
    text += "\n";
  }
  return text;
}

std::string KernelModules::alias_text(const std::vector<std::string>& paths) const {
  std::string text;
  for (const std::string& path : paths) {
    const std::string name = module_name(path);
    for (const std::string& alias : modules_.at(name).info.aliases) text += fmt::format("alias {} {}\n", alias, name);
  }
  return text;
}

}  // namespace meshbed::emu
