// Kernels of ours: the PTX that is kept beside their sources is what nvcc makes of them, and the interpreter takes it.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/cuda/ptx/machine.h"

using namespace meshbed;

namespace kept_ptx_test {
namespace {

struct Kernel {
  std::string kept, made;  // files; `made` empty: no toolkit was there when the build was configured
};

std::vector<Kernel> kernels() {
  std::ifstream list(std::string(MESHBED_BINARY_DIR) + "/generated/gpu_kernels.txt");
  std::vector<Kernel> all;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    Kernel kernel;
    words >> kernel.kept >> kernel.made;
    all.push_back(kernel);
  }
  return all;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// nvcc's own line with its version.
std::string compiler_of(const std::string& text) {
  const std::size_t begin = text.find("// Cuda compilation tools");
  return begin == text.npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("the kept PTX of our kernels is what nvcc makes of their sources, and for every generation of machines") {
  const auto all = kernels();
  REQUIRE_FALSE(all.empty());
  for (const Kernel& kernel : all) {
    CAPTURE(kernel.kept);
    const std::string kept = read_file(kernel.kept);
    CHECK(sim::ptx::Module::parse(kept, kernel.kept).has_value());
    if (kernel.made.empty()) {
      MESSAGE("not compared with its source: no nvcc and ptxas were found when the build was configured");
      continue;
    }
    // That the build came to its end says that ptxas made machine code of it for each machine in
    // cmake/gpu_kernel.cmake.
    const std::string made = read_file(kernel.made);
    if (compiler_of(made) != compiler_of(kept)) {
      MESSAGE("not compared with its source: kept is what another compiler made (" << compiler_of(kept) << ", here "
                                                                                   << compiler_of(made) << ")");
      continue;
    }
    CHECK_MESSAGE(made == kept, "run: cmake --build build --target keep_gpu_kernels");
  }
}

}  // namespace kept_ptx_test
