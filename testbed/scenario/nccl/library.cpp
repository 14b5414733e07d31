#include "testbed/scenario/nccl/library.h"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin/base/search_path.h"
#include "testbed/base/elf_file.h"
#include "testbed/base/environment.h"
#include "testbed/base/files.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libnccl.so.2";
// The folders of ld.so(8) and those of Debian, Red Hat and NVIDIA's packages.
constexpr const char* kFolders[] = {
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
    "/usr/local/lib",        "/usr/local/cuda/lib64"};

std::string run_path_of(const std::string& file) {
  try {
    return ElfFile(read_text_file(file)).run_path();
  } catch (const std::runtime_error&) {
    return "";  // no program of the dynamic linker's: the run says so
  }
}

std::string program_path(const Scenario& scenario) {
  return fs::absolute(path_beside(scenario, scenario.workload.program)).lexically_normal().string();
}

std::string find_in_system(const Scenario& scenario) {
  std::vector<std::string> folders;
  const std::string program = program_path(scenario);
  if (fs::is_regular_file(program)) {
    folders = search_folders(run_path_of(program), fs::path(program).parent_path().string());
  }
  const auto of_variable = search_folders(from_environment("LD_LIBRARY_PATH").value_or(""), "");
  folders.insert(folders.end(), of_variable.begin(), of_variable.end());
  folders.insert(folders.end(), std::begin(kFolders), std::end(kFolders));
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path file = fs::path(folder) / kLibrary;
    if (fs::is_regular_file(file, error)) return fs::canonical(file).string();
  }
  return "";
}

}  // namespace

std::string nccl_library_of(const Scenario& scenario, const std::string& dropin) {
  const std::string& wanted = scenario.workload.nccl;
  if (scenario.workload.kind != WorkloadKind::kProgram || wanted == kNcclDropin) return dropin;
  if (wanted == kNcclSystem) return find_in_system(scenario);
  const fs::path file = fs::absolute(path_beside(scenario, wanted)).lexically_normal();
  return fs::is_regular_file(file) ? file.string() : "";
}

bool runs_own_nccl(const Scenario& scenario) {
  if (scenario.workload.kind != WorkloadKind::kProgram) return false;
  if (scenario.workload.nccl != kNcclDropin) return true;
  const std::string program = program_path(scenario);
  // Only NCCL itself has this name of a variable in it.
  return fs::is_regular_file(program) && read_text_file(program).find("CUMEM_HOST_ENABLE") != std::string::npos;
}

std::string nccl_version_text(int code) {
  constexpr int kNewScheme = 10'000;
  const int thousands = code < kNewScheme ? 1'000 : 10'000;
  return fmt::format("{}.{}.{}", code / thousands, code % thousands / 100, code % 100);
}

}  // namespace meshbed::testbed
