#include "cli/world/loaded_nccl.h"

#include "cli/scenario/nccl/library.h"
#include "sim/host/host.h"

namespace meshbed::cli {

LoadedNccl loaded_nccl(const sim::World& world, const std::string& file) {
  for (const auto& process : world.processes()) {
    void* library = sim::loaded_by(*process, file);
    if (library == nullptr) continue;
    LoadedNccl loaded{.file = file, .version = "unknown", .sha256 = sim::loaded_sha256(file)};
    int code = 0;
    auto* version = reinterpret_cast<int (*)(int*)>(sim::symbol_of(library, "ncclGetVersion"));
    if (version != nullptr && version(&code) == 0) loaded.version = nccl_version_text(code);
    return loaded;
  }
  return {};
}

}  // namespace meshbed::cli
