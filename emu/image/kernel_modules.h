#pragma once
// KernelModules: the modules of a kernel that was unpacked and not installed, and what each needs loaded before it.
//
// Debian's package holds no modules.dep (its installation writes that), so dependencies are read from the modules' own
// .modinfo sections. Names are the kernel's: "crc32_generic" also where the file is crc32-generic.ko.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::emu {

struct ModuleInfo {
  std::vector<std::string> depends;  // names
  std::vector<std::string> aliases;  // what the kernel asks for when it wants this module
};

/// The information in a module file. Throws std::runtime_error if `elf` is not a 64-bit ELF file with a .modinfo.
ModuleInfo read_module_info(std::string_view elf);

/// "kernel/crypto/crc32-generic.ko.xz" -> "crc32_generic".
std::string module_name(const std::string& path);

class KernelModules {
 public:
  /// From the text of a modules.dep: lines "PATH: PATH PATH ...". Throws std::runtime_error on another line.
  static KernelModules from_dependency_text(const std::string& text);

  void add(const std::string& path, const ModuleInfo& info);
  /// One line of modules.builtin: the kernel has it, nothing to load.
  void add_built_in(const std::string& path) { built_in_.insert(module_name(path)); }

  /// The paths of `wanted` and of all that they need, each once and after what it needs. Throws std::runtime_error for
  /// a missing module, with the module that needs it, and for a cycle.
  std::vector<std::string> load_order(const std::vector<std::string>& wanted) const;
  /// The texts of modules.dep and modules.alias for these paths.
  std::string dependency_text(const std::vector<std::string>& paths) const;
  std::string alias_text(const std::vector<std::string>& paths) const;

 private:
  struct Module {
    std::string path;
    ModuleInfo info;
  };
  struct Walk;
  void visit(const std::string& name, const std::string& needed_by, Walk& walk) const;

  std::map<std::string, Module> modules_;
  std::set<std::string> built_in_;
};

}  // namespace meshbed::emu
