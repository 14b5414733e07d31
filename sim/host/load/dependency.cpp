#include "sim/host/load/dependency.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "plugin/base/search_path.h"
#include "sim/host/host_state.h"
#include "sim/host/load/loader.h"

namespace meshbed::sim {
namespace {

namespace fs = std::filesystem;

/// Of compilers and the C library: what they keep belongs to the operating-system thread or the process.
bool is_runtime(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kRuntimes{
      "libstdc++.so",  "libgcc_s.so", "libc++.so", "libc++abi.so", "libc.so",    "libm.so",
      "libpthread.so", "libdl.so",    "librt.so",  "libasan.so",   "libtsan.so", "ld-linux-x86-64.so"};
  return std::any_of(kRuntimes.begin(), kRuntimes.end(),
                     [name](std::string_view one) { return name.starts_with(one); });
}

bool is_systems(const fs::path& file) {
  static constexpr std::array<std::string_view, 5> kFolders{"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/lib32/"};
  std::error_code error;
  const std::string real = fs::canonical(file, error).string();
  return error || std::any_of(kFolders.begin(), kFolders.end(),
                              [&real](std::string_view folder) { return real.starts_with(folder); });
}

/// Where the dynamic linker of this process looks beside a file's own run path: LD_LIBRARY_PATH as it began, and the
/// system's folders.
std::vector<std::string> find_linkers_folders() {
  std::vector<std::string> folders;
  void* const program = ::dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size{};
  if (program == nullptr || ::dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
  std::vector<std::byte> bytes(size.dls_size);
  auto* const found = reinterpret_cast<Dl_serinfo*>(bytes.data());
  if (::dlinfo(program, RTLD_DI_SERINFOSIZE, found) != 0 || ::dlinfo(program, RTLD_DI_SERINFO, found) != 0)
    return folders;
  for (unsigned at = 0; at < found->dls_cnt; ++at) folders.emplace_back(found->dls_serpath[at].dls_name);
  return folders;
}

/// Where the dynamic linker would look (ld.so(8)): a name with a slash is the file; else the folders of the file's own
/// run path, with $ORIGIN, then LD_LIBRARY_PATH, the rank's and this process's. `file` is the file that needs it. Empty
/// where it is the system's: of a folder of the system's, or not found in those; and for the compilers' runtime
/// libraries wherever they are, which all ranks share.
std::string own_library(const std::string& name, const std::string& file, const std::string& run_path,
                        const std::string& library_path) {
  if (is_runtime(fs::path(name).filename().string())) return "";
  std::vector<fs::path> places;
  if (name.find('/') != std::string::npos) {
    places.emplace_back(name);
  } else {
    const std::string origin = fs::absolute(file).parent_path().string();
    for (const std::string& list : {run_path, library_path}) {
      for (const std::string& folder : search_folders(list, origin)) places.push_back(fs::path(folder) / name);
    }
    static const std::vector<std::string> linkers_folders = find_linkers_folders();
    for (const std::string& folder : linkers_folders) places.push_back(fs::path(folder) / name);
    // Not a folder of the linker's own, but commonly of its cache.
    places.push_back(fs::path("/usr/local/lib") / name);
  }
  std::error_code error;
  const auto found =
      std::find_if(places.begin(), places.end(), [&error](const fs::path& place) { return fs::exists(place, error); });
  return found == places.end() || is_systems(*found) ? "" : fs::absolute(*found).string();
}

}  // namespace

NeededCopies load_needed(const Needs& needs, ProcessState& state, const std::string& path) {
  NeededCopies copies;
  const auto library_path = state.process.environment.find("LD_LIBRARY_PATH");
  for (std::size_t index = 0; index < needs.names.size(); ++index) {
    const std::string& name = needs.names[index];
    const auto listed = host().options.libraries.find(name);
    if (listed != host().options.libraries.end()) {
      copies.handles.push_back(load_copy(state, listed->second));
      continue;
    }
    if (state.command.empty() || host().offered_libraries.count(name) != 0) continue;
    const std::string own = own_library(name, path, needs.run_path,
                                        library_path != state.process.environment.end() ? library_path->second : "");
    if (own.empty()) continue;
    void* const handle = load_copy(state, own);
    copies.handles.push_back(handle);
    link_map* map = nullptr;
    if (name.find('/') == std::string::npos || ::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) continue;
    if (std::strlen(map->l_name) <= name.size()) copies.renamed.push_back({needs.places[index], map->l_name});
  }
  return copies;
}

}  // namespace meshbed::sim
