#pragma once
// What must be known of a module's kernels before any of them is launched, and stands in their bodies alone; kept in
// files, so that the next process that loads the same text need not read the bodies that it does not call.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshbed::sim::ptx {

/// A variable (index in ModuleText::symbols) at that offset of a block's shared memory.
struct SharedPlace {
  std::uint32_t symbol = 0, offset = 0;
};

struct KernelLayout {
  std::uint32_t shared_bytes = 0, local_bytes = 0, registers = 0;  // as in KernelInfo
  std::vector<SharedPlace> shared{};
};

struct ProgramLayout {
  std::uint32_t functions = 0, symbols = 0;     // how many the text has
  std::vector<std::uint32_t> with_variables{};  // functions whose bodies declare variables of the module's
  std::vector<KernelLayout> kernels{};          // in the order of Module::kernels()
};

/// Of each text 128 bits and its length.
using TextsKey = std::vector<std::uint64_t>;

/// nullopt: there is none of this text and this build of the simulator, or the file is broken. `folder` empty: none.
std::optional<ProgramLayout> find_layout(const std::string& folder, const TextsKey& texts);
/// Keeps the newest 64. Where no file can be written the text is read whole again the next time.
void keep_layout(const std::string& folder, const TextsKey& texts, const ProgramLayout& layout);

}  // namespace meshbed::sim::ptx
