// meshbed cuda run: one unchanged CUDA program on a simulated GPU.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/command/commands.h"
#include "models/gpu_fields.h"
#include "models/gpu_profile.h"
#include "sim/cuda/process/variables.h"
#include "testbed/base/elf_file.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

constexpr const char* kUsage = "cuda run [options] PROGRAM [ARGUMENT ...]";

/// What of CUDA an ELF file names: libraries that it needs, and whether there is device code in it.
struct CudaUse {
  std::string runtime;  // "libcudart.so.13"; empty: it needs none
  bool has_device_code = false;
};

CudaUse look_at(const ElfFile& file) {
  CudaUse use{.runtime = "", .has_device_code = !file.sections(".nv_fatbin").empty()};
  for (const std::string& library : file.needed()) {
    if (library.rfind("libcudart.so", 0) == 0) use.runtime = library;
  }
  return use;
}

/// Throws where it is known that the program cannot meet the simulated CUDA.
void require_shared_runtime(const std::string& program) {
  std::string file;
  try {
    file = read_text_file(program);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("cuda run: {}", error.what()));
  }
  if (!ElfFile::begins(file)) return;  // a script, say
  CudaUse use;
  try {
    use = look_at(ElfFile(std::move(file)));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(fmt::format("cuda run: {}: {}", program, error.what()));
  }
  constexpr const char* kOurs = "libcudart.so.13";
  if (use.runtime.empty() && use.has_device_code) {
    throw std::runtime_error(fmt::format(
        "cuda run: {}: the CUDA runtime is linked into it statically, and so requires a genuine driver: link it with "
        "nvcc -cudart shared (CMake: CMAKE_CUDA_RUNTIME_LIBRARY Shared)",
        program));
  }
  if (!use.runtime.empty() && use.runtime != kOurs) {
    throw std::runtime_error(fmt::format(
        "cuda run: {}: it needs {}; the simulated runtime is {}: build it with CUDA 13", program, use.runtime, kOurs));
  }
}

void set_variable(const char* name, const std::string& value) {
  if (value.empty()) {
    ::unsetenv(name);
  } else {
    ::setenv(name, value.c_str(), 1);
  }
}

}  // namespace

int cuda_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  std::string action, gpu, perfetto;
  std::uint64_t seed = 0;
  bool virtual_time = false, summary = false;
  std::vector<std::string> words;
  Syntax syntax(kUsage);
  syntax.options.add_options()(
      "gpu", po::value(&gpu)->default_value("H100")->value_name("NAME"),
      "which GPU, or several with commas between: a model's name or a profile's file (calibrate gpu)")(
      "virtual", po::bool_switch(&virtual_time), "the program's own code takes no time")(
      "seed", po::value(&seed)->value_name("N"),
      "another order in which a kernel's blocks and warps take turns; default 0, the plain one")(
      "summary", po::bool_switch(&summary), "at the end, what the device did")(
      "perfetto-out", po::value(&perfetto)->value_name("FILE"), "what the device did, for ui.perfetto.dev");
  syntax.operands.add_options()("action", po::value(&action)->required()->value_name("run"), "run")(
      "program", po::value(&words)->value_name("PROGRAM"), "an unmodified program, linked with nvcc -cudart shared");
  syntax.positions.add("action", 1).add("program", -1);
  Arguments line{"cuda"};
  line.insert(line.end(), arguments.begin(), arguments.end());
  const std::size_t at = own_words(line).size() - 1;  // of the program's name
  const Arguments ours(arguments.begin(),
                       arguments.begin() + static_cast<std::ptrdiff_t>(std::min(at + 1, arguments.size())));
  if (!parse_arguments(ours, syntax, out)) return kExitOk;
  require_choice("cuda", "action", action, {"run"});
  if (words.empty()) throw std::runtime_error(fmt::format("cuda run: which program? usage: meshbed {}", kUsage));
  const auto gpus = models::gpu_words_named(sim::cuda::gpu_names_in(gpu));
  if (!gpus) throw std::runtime_error("cuda run: --gpu: " + gpus.error().text);

  const std::string program = program_in_path("cuda run", words.front());
  require_shared_runtime(program);
  const fs::path libraries = built_files().cuda_folder;
  const std::string before = from_environment("LD_LIBRARY_PATH").value_or("");
  set_variable("LD_LIBRARY_PATH", libraries.string() + (before.empty() ? "" : ":" + before));
  set_variable(sim::cuda::kGpuVariable, *gpus);
  set_variable(sim::cuda::kVirtualVariable, virtual_time ? "1" : "");
  set_variable(sim::cuda::kSeedVariable, seed != 0 ? std::to_string(seed) : "");
  set_variable(sim::cuda::kSummaryVariable, summary ? "1" : "");
  set_variable(sim::cuda::kPerfettoVariable, perfetto.empty() ? "" : fs::absolute(perfetto).string());
  std::vector<char*> own;
  own.push_back(const_cast<char*>(words.front().c_str()));
  for (std::size_t index = at + 1; index < arguments.size(); ++index) {
    own.push_back(const_cast<char*>(arguments[index].c_str()));
  }
  own.push_back(nullptr);
  out.flush();
  ::execv(program.c_str(), own.data());
  throw std::runtime_error(fmt::format("cuda run: {}: {}", program, std::strerror(errno)));
}

}  // namespace meshbed::testbed
