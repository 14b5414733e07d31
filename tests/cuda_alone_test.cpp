// sim/cuda is a library of its own: what `cmake --preset cuda` builds includes nothing of the simulator around it, the
// testbed or the command, and its README has every callback of its host.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace cuda_alone_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;

namespace {

namespace fs = std::filesystem;

const std::string kRoot = std::string(MESHBED_SOURCE_DIR) + "/";

bool is_own(const std::string& path) {
  // Of tests/support what tests/cuda/alone.cmake builds, main.cpp; its headers may include nothing else.
  constexpr std::array<const char*, 6> kOwn{"plugin/base/", "models/gpu",  "sim/perfetto/",
                                            "sim/cuda/",    "tests/cuda/", "tests/support/"};
  return path.rfind("sim/cuda/world/", 0) != 0 &&
         std::any_of(kOwn.begin(), kOwn.end(), [&](const char* own) { return path.rfind(own, 0) == 0; });
}

/// `path` and all that it includes of the project, by names from the root.
void follow(const std::string& path, std::set<std::string>& seen) {
  if (!seen.insert(path).second) return;
  static const std::regex kInclude("(?:^|\n)[ \t]*#[ \t]*include[ \t]+\"([^\"]+)\"");
  const std::string text = read_text_file(kRoot + path);
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kInclude); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[1], beside = fs::path(path).parent_path() / name;
    if (fs::exists(kRoot + name)) {
      follow(name, seen);
    } else if (fs::exists(kRoot + beside)) {
      follow(beside, seen);
    }
  }
}

}  // namespace

TEST_CASE("cmake --preset cuda builds sim/cuda and its tests, of nothing but base, the models of GPUs and perfetto") {
  const std::string folder = scratch_folder("cuda-alone");
  const CommandResult made = run_command_line("cd '" MESHBED_SOURCE_DIR "' && cmake --preset cuda -B '" + folder +
                                              "' -DMESHBED_UNITY=OFF 2>&1");
  REQUIRE_MESSAGE(made.status == 0, made.output);
  std::set<std::string> sources;
  for (const auto& command : nlohmann::json::parse(read_text_file(folder + "/compile_commands.json"))) {
    const std::string file = command.at("file");
    if (file.rfind(folder, 0) != 0) sources.insert(file.substr(kRoot.size()));  // there: made by CMake
  }
  CHECK(sources.count("sim/cuda/launch.cpp") == 1);
  CHECK(sources.count("sim/cuda/dropin/driver.cpp") == 1);
  CHECK(sources.count("tests/cuda/launch_test.cpp") == 1);
  std::set<std::string> read;
  for (const std::string& source : sources) follow(source, read);
  CHECK(read.count("sim/cuda/host.h") == 1);
  for (const std::string& path : read) CHECK_MESSAGE(is_own(path), "the simulated CUDA alone would need ", path);
}

TEST_CASE("sim/cuda/README.md has every callback of Host") {
  const std::string header = read_text_file(kRoot + "sim/cuda/host.h"),
                    readme = read_text_file(kRoot + "sim/cuda/README.md");
  const std::string host = header.substr(header.find("class Host {"));
  const std::regex declared("virtual [^(;]*?(\\w+)\\(");
  int callbacks = 0;
  for (auto at = std::sregex_iterator(host.begin(), host.end(), declared); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[1];
    if (name == "Host") continue;  // the destructor
    ++callbacks;
    const bool is_there =
        readme.find("| `" + name + "`") != std::string::npos || readme.find(", `" + name + "`") != std::string::npos;
    CHECK_MESSAGE(is_there, "sim/cuda/README.md does not name ", name);
  }
  CHECK(callbacks > 20);
}

}  // namespace cuda_alone_test
