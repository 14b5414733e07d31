// What `./meshbed install` puts into a folder, and the examples of docs/library.md with it.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace install_test {

using namespace meshbed::test;
namespace fs = std::filesystem;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What stands between ```LANGUAGE and ``` in docs/library.md.
std::vector<std::string> examples(const std::string& language) {
  std::vector<std::string> found;
  std::istringstream page(text_of(MESHBED_SOURCE_DIR "/docs/library.md"));
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "```" + language) {
      inside = true;
      found.emplace_back();
    } else if (line.rfind("```", 0) == 0) {
      inside = false;
    } else if (inside) {
      found.back() += line + "\n";
    }
  }
  return found;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  REQUIRE(file.flush().good());
}

/// A prefix that was installed into elsewhere and then moved.
const std::string& prefix() {
  static const std::string folder = [] {
    const std::string scratch = scratch_folder("install");
    const CommandResult installed =
        run_command_line("cmake --install '" MESHBED_BINARY_DIR "' --prefix '" + scratch + "/first' 2>&1");
    REQUIRE_MESSAGE(installed.status == 0, installed.output);
    fs::rename(scratch + "/first", scratch + "/prefix");
    return scratch + "/prefix";
  }();
  return folder;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t before = text.rfind('\n', end);
  return text.substr(before + 1, end - before);
}

std::string digest_of_command() {
  const CommandResult run = run_command_line("cd '" + scratch_folder("install_run") + "' && '" + prefix() +
                                             "/bin/meshbed' run " + scenario_file("pair") + " --json 2>/dev/null");
  REQUIRE(run.status == 0);
  const std::string before = "\"digest\": \"";
  return run.output.substr(run.output.find(before) + before.size(), 16);
}

bool python_is_built() { return fs::exists(MESHBED_BINARY_DIR "/python/meshbed/__init__.py"); }

CommandResult run_python(const std::string& program) {
  const std::string file = scratch_folder("python") + "/example.py";
  write(file, program);
  return run_command_line("cd '" MESHBED_SOURCE_DIR "' && PYTHONPATH='" + prefix() +
                          "/lib/python3/dist-packages' /usr/bin/python3 '" + file + "' 2>&1");
}

}  // namespace

TEST_CASE("what is installed is what was built, byte by byte, and nothing in it names the build folder") {
  for (const char* file : {"lib/libnccl-net-mesh.so", "lib/libmeshcoll.so", "nccl-lib/libnccl.so.2",
                           "sim-lib/libibverbs.so.1", "cuda-lib/libcuda.so.1", "bin/meshbed-run"}) {
    CHECK_MESSAGE(text_of(prefix() + "/lib/meshbed/" + file) == text_of(std::string(MESHBED_BINARY_DIR "/") + file),
                  file);
  }
  for (const char* link : {"bin/meshbed", "lib/libnccl-net-mesh.so", "lib/libmeshcoll.so"}) {
    CHECK_MESSAGE(fs::is_symlink(prefix() + "/" + link), link);
    CHECK_MESSAGE(fs::exists(prefix() + "/" + link), link);
  }
  for (const auto& entry : fs::recursive_directory_iterator(prefix() + "/lib")) {
    const std::string name = entry.path().filename();
    if (name.find(".so") == std::string::npos || entry.is_symlink()) continue;
    const CommandResult paths = run_command_line("readelf -d '" + entry.path().string() + "' | grep -E 'R(UN)?PATH'");
    CHECK_MESSAGE(paths.output.find(MESHBED_BINARY_DIR) == std::string::npos, name, paths.output);
  }
}

TEST_CASE("the C++ example of docs/library.md, by CMake's package and by pkg-config, has the command's digest") {
  const std::vector<std::string> programs = examples("cpp");
  REQUIRE(!programs.empty());
  const std::string folder = scratch_folder("library_example");
  write(folder + "/try.cpp", programs.front());
  write(folder + "/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(try LANGUAGES CXX)\n"
        "set(CMAKE_CXX_STANDARD 17)\nadd_executable(try try.cpp)\n" +
            examples("cmake").front());
  const CommandResult built = run_command_line("cmake -S '" + folder + "' -B '" + folder + "/b' -DCMAKE_PREFIX_PATH='" +
                                               prefix() + "' 2>&1 && cmake --build '" + folder + "/b' 2>&1");
  REQUIRE_MESSAGE(built.status == 0, built.output);
  const std::string digest = digest_of_command();
  const CommandResult run = run_command_line("'" + folder + "/b/try' " + scenario_file("pair"));
  CHECK(run.status == 0);
  CHECK(last_line(run.output) == digest);

  const CommandResult flags =
      run_command_line("PKG_CONFIG_PATH='" + prefix() + "/lib/pkgconfig' pkg-config --cflags --libs meshbed 2>&1");
  if (flags.status == 127) {
    MESSAGE("skipped: pkg-config is not installed");
    return;
  }
  REQUIRE_MESSAGE(flags.status == 0, flags.output);
  const CommandResult compiled =
      run_command_line("g++ -std=c++17 '" + folder + "/try.cpp' -o '" + folder + "/by_flags' " +
                       last_line(flags.output) + " -Wl,-rpath,'" + prefix() + "/lib' 2>&1");
  REQUIRE_MESSAGE(compiled.status == 0, compiled.output);
  CHECK(last_line(run_command_line("'" + folder + "/by_flags' " + scenario_file("pair")).output) == digest);
}

TEST_CASE("the Python examples of docs/library.md run, and a run has the command's digest") {
  if (!python_is_built()) {
    MESSAGE("skipped: python3-dev, pybind11-dev and python3-numpy are not installed");
    return;
  }
  const std::vector<std::string> programs = examples("python");
  CHECK(programs.size() >= 3);
  for (const std::string& program : programs) {
    const CommandResult run = run_python(program);
    CHECK_MESSAGE(run.status == 0, program, run.output);
    CHECK(!run.output.empty());
  }
  const CommandResult run = run_python("import meshbed\nprint(meshbed.load('scenarios/pair.toml').run().digest)\n");
  CHECK(last_line(run.output) == digest_of_command());
}

TEST_CASE("Python: changes, errors, threads and interruptions") {
  if (!python_is_built()) {
    MESSAGE("skipped: python3-dev, pybind11-dev and python3-numpy are not installed");
    return;
  }
  const CommandResult run = run_python(text_of(MESHBED_SOURCE_DIR "/tests/library/python_program.py"));
  CHECK_MESSAGE(run.status == 0, run.output);
  CHECK_MESSAGE(last_line(run.output) == "all held", run.output);
}

}  // namespace install_test
