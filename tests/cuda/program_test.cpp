// meshbed cuda run: whole programs in processes of their own.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/command.h"

namespace program_test {

using namespace meshbed::test;

namespace {

const std::string kBuild = MESHBED_BINARY_DIR;
const std::string kRun = kBuild + "/bin/meshbed cuda run ";
const std::string kSaxpy = kBuild + "/bin/cuda-saxpy";

}  // namespace

TEST_CASE("a program with a kernel, a variable and a managed variable runs, in either time, on any GPU") {
  for (const std::string options : {"", "--virtual ", "--gpu GB10 ", "--gpu a100 "}) {
    const CommandResult run = run_command_line(kRun + options + kSaxpy + " 2>&1");
    CAPTURE(run.output);
    CHECK(run.status == 0);
    CHECK(run.output == "0 wrong, 1000 done\n");
  }
}

TEST_CASE("virtual time repeats: two runs have one summary") {
  const std::string command = kRun + "--virtual --summary " + kSaxpy + " 2>&1";
  const CommandResult first = run_command_line(command), second = run_command_line(command);
  CAPTURE(first.output);
  CHECK(first.output == second.output);
  CHECK(first.output.find("saxpy") != std::string::npos);
  CHECK(first.output.find("copy host to device") != std::string::npos);
}

TEST_CASE("the exit status is the program's, and a fault is said once with its place") {
  const CommandResult run = run_command_line(kRun + kSaxpy + " fault 2>&1");
  CAPTURE(run.output);
  CHECK(run.status == 7);
  CHECK(run.output.find("cudaErrorIllegalAddress") != std::string::npos);
  CHECK(run.output.find("kernel saxpy") != std::string::npos);
}

TEST_CASE("a program without PTX is told which option of nvcc brings it") {
  const CommandResult run = run_command_line(kRun + kSaxpy + " image 2>&1");
  CAPTURE(run.output);
  CHECK(run.status == 7);
  CHECK(run.output.find("cudaErrorNoKernelImageForDevice") != std::string::npos);
  CHECK(run.output.find("-gencode arch=compute_90,code=compute_90") != std::string::npos);
}

TEST_CASE("what the device did is drawn for Perfetto") {
  const std::string file = std::filesystem::temp_directory_path() / "meshbed-cuda-picture.json";
  const CommandResult run = run_command_line(kRun + "--perfetto-out " + file + " " + kSaxpy);
  CHECK(run.status == 0);
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  CHECK(text.find("\"name\":\"saxpy\"") != text.npos);
  CHECK(text.find("GPU 0, stream ") != text.npos);
  std::filesystem::remove(file);
}

TEST_CASE("a wrong GPU, no program, and one that is not there are said") {
  CHECK(run_command_line(kRun + "--gpu Voodoo2 " + kSaxpy + " 2>&1").output.find("accepted: ") != std::string::npos);
  CHECK(run_command_line(kRun + " 2>&1").status == 2);
  CHECK(run_command_line(kRun + "/nowhere/program 2>&1").output.find("No such file") != std::string::npos);
}

TEST_CASE("a program of nvcc's: shared runtime runs, static runtime is refused") {
  const std::string nvcc = "/usr/local/cuda/bin/nvcc";
  if (!std::filesystem::exists(nvcc)) {
    MESSAGE("skipped: there is no " << nvcc);
    return;
  }
  const std::string folder = std::filesystem::temp_directory_path() / "meshbed-cuda-nvcc";
  std::filesystem::create_directories(folder);
  const std::string source = std::string(MESHBED_SOURCE_DIR) + "/tests/cuda/program/nvcc_program.cu";
  REQUIRE(run_command_line(nvcc + " -cudart shared " + source + " -o " + folder + "/shared 2>&1").status == 0);
  REQUIRE(run_command_line(nvcc + " " + source + " -o " + folder + "/static 2>&1").status == 0);
  const CommandResult good = run_command_line(kRun + folder + "/shared 2>&1");
  CAPTURE(good.output);
  CHECK(good.status == 0);
  CHECK(good.output.find("all right") != std::string::npos);
  const CommandResult refused = run_command_line(kRun + folder + "/static 2>&1");
  CHECK(refused.status == 2);
  CHECK(refused.output.find("-cudart shared") != std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace program_test
