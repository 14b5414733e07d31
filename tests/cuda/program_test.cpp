// meshbed cuda run: whole programs in processes of their own.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "models/gpu_fields.h"
#include "models/gpu_profile.h"
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

TEST_CASE("a program without PTX gets an error that names nvcc's option for it") {
  const CommandResult run = run_command_line(kRun + kSaxpy + " image 2>&1");
  CAPTURE(run.output);
  CHECK(run.status == 7);
  CHECK(run.output.find("cudaErrorNoKernelImageForDevice") != std::string::npos);
  CHECK(run.output.find("-gencode arch=compute_90,code=compute_90") != std::string::npos);
}

TEST_CASE("nvcc's code, which launches what it got without a look, gets the error of the missing PTX as well") {
  const CommandResult run = run_command_line(kRun + kSaxpy + " stub 2>&1");
  CAPTURE(run.output);
  CHECK(run.status == 7);
  CHECK(run.output.find("the launch: cudaErrorNoKernelImageForDevice") != std::string::npos);
}

TEST_CASE("wrong pointers and shapes are answered with their codes, and said once, with what is wrong of them") {
  const CommandResult run = run_command_line(kRun + kSaxpy + " wrong 2>&1");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  for (const char* text :
       {"from freed memory: cudaErrorInvalidValue", "to freed memory: cudaErrorInvalidValue",
        "within, from freed memory: cudaErrorInvalidValue", "by its address: cudaErrorInvalidValue",
        "from nowhere: cudaErrorInvalidValue", "host memory said to be a device's: cudaErrorInvalidValue",
        "freed twice: cudaErrorInvalidValue", "too many threads: cudaErrorInvalidConfiguration",
        "no leave for 64 KiB: cudaErrorInvalidValue", "more than there is: cudaErrorInvalidConfiguration",
        "with 65536 bytes of dynamic shared memory, where 49152 are allowed until the attribute ",
        " is declared as device memory and is byte 0 of an allocation of 4096 bytes that was freed: error 1",
        "what is to be freed, 0x", "kernel saxpy: 1 x 1 x 1 blocks of 2000 x 1 x 1 threads", "do nothing here",
        "the driver is there"}) {
    CHECK_MESSAGE(run.output.find(text) != std::string::npos, text);
  }
  CHECK(run.output.find("nothing from nowhere") == std::string::npos);
  CHECK(run.output.find("cudaProfilerStart: ") == std::string::npos);
}

TEST_CASE("blocks that wait for blocks which find no room are named, with how many have not begun") {
  const std::string log = scratch_folder("gather") + "/said";
  const CommandResult run =
      run_command_line("timeout 100 " + kRun + "--gpu GB10 " + kSaxpy + " gather >" + log + " 2>&1 & pid=$!; " +
                       "until grep -q 'have not begun' " + log + " || ! kill -0 $pid; do sleep 0.1; done; kill $pid; " +
                       "wait $pid; cat " + log);
  CAPTURE(run.output);
  CHECK(run.output.find("kernel gather polls memory and nothing changes it") != std::string::npos);
  CHECK(run.output.find(" blocks have not begun, because only ") != std::string::npos);
}

TEST_CASE("a seed is another order of the same sums; what is no number is refused") {
  const CommandResult run = run_command_line(kRun + "--virtual --seed 7 " + kSaxpy + " 2>&1");
  CAPTURE(run.output);
  CHECK(run.output == "0 wrong, 1000 done\n");
  CHECK(run_command_line(kRun + "--seed x " + kSaxpy + " 2>&1").status == 2);
}

TEST_CASE("what the device did is drawn for Perfetto") {
  const std::string file = scratch_folder("picture") + "/picture.json";
  const CommandResult run = run_command_line(kRun + "--perfetto-out " + file + " " + kSaxpy);
  CHECK(run.status == 0);
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  CHECK(text.find("\"name\":\"saxpy\"") != text.npos);
  CHECK(text.find("GPU 0, stream ") != text.npos);
}

TEST_CASE("a wrong GPU, no program, and one that is not there are said") {
  CHECK(run_command_line(kRun + "--gpu Voodoo2 " + kSaxpy + " 2>&1")
            .output.find("there is no model of a GPU \"Voodoo2\": set one of ") != std::string::npos);
  CHECK(run_command_line(kRun + " 2>&1").status == 2);
  CHECK(run_command_line(kRun + "/nowhere/program 2>&1").output.find("No such file") != std::string::npos);
}

// The values to 10 ns are held in a simulated cluster (tests/cli/calibrate_gpu_test.cpp); here time passes, too, where
// this machine lets the program wait for half a millisecond.
TEST_CASE("a device that never ends and a folder are no programs, in bounded time and memory") {
  const std::string limited = "ulimit -v 4000000; timeout 60 ";
  const CommandResult zero = run_command_line(limited + kRun + "/dev/zero 2>&1");
  CHECK(zero.status == 2);
  CHECK_MESSAGE(zero.output.find("cuda run: cannot read /dev/zero: not a file") != std::string::npos, zero.output);
  const CommandResult folder = run_command_line(limited + kRun + "/tmp/ 2>&1");
  CHECK(folder.status == 2);
  CHECK_MESSAGE(folder.output.find("cuda run: cannot read /tmp/: it is a folder") != std::string::npos, folder.output);
}

TEST_CASE("calibrate gpu writes a profile of the simulated GPU, and a GPU of that profile is as good as it") {
  namespace models = meshbed::models;
  const std::string folder = scratch_folder("calibrate_gpu");
  const std::string calibrate = kBuild + "/bin/meshbed-tools calibrate gpu --repeats 15 --bytes 1M --base H100 --out ";
  models::GpuModel expected = *models::find_gpu("H100");
  std::string gpu = "H100";
  for (const char* turn : {"first", "second"}) {
    const std::string file = folder + "/" + turn + ".toml";
    const CommandResult run = run_command_line(kRun + "--virtual --gpu " + gpu + " " + calibrate + file + " 2>&1");
    CAPTURE(run.output);
    REQUIRE(run.status == 0);
    CHECK(run.output.find("launch: the call") != std::string::npos);
    CHECK(run.output.find("memory_GBps: 1048576 B stay in the L2") != std::string::npos);
    const auto model = models::read_gpu(file);
    REQUIRE_MESSAGE(model.has_value(), (model ? "" : model.error().text));
    for (const models::GpuField& field : models::gpu_fields()) {
      const auto is = static_cast<double>(models::get(*model, field));
      CHECK_MESSAGE(is == doctest::Approx(static_cast<double>(models::get(expected, field))).epsilon(0.02),
                    std::string(field.name));
    }
    gpu = file;
    expected = *model;
  }
  const CommandResult named = run_command_line(kRun + "--summary --gpu " + gpu + " " + kSaxpy + " 2>&1");
  CHECK(named.status == 0);
  CHECK(named.output.find("simulated GPU H100:") != std::string::npos);
}

TEST_CASE("calibrate gpu without a GPU, and with what it cannot use, says so") {
  const std::string calibrate = kBuild + "/bin/meshbed calibrate gpu ";
  const CommandResult none = run_command_line("LD_LIBRARY_PATH=" + kBuild + "/cuda-lib " + calibrate + "2>&1");
  CHECK(none.status == 2);
  CHECK(none.output.find("meshbed: calibrate gpu: the CUDA driver sees no device") != std::string::npos);
  CHECK(run_command_line(kRun + calibrate + "--device 1 2>&1").output.find("the driver has 1 device, counted") !=
        std::string::npos);
  for (const char* wrong : {"--repeats 2", "--bytes 1", "--bytes many", "--out gpu.txt", "--base Voodoo2", "surplus"}) {
    CHECK_MESSAGE(run_command_line(kRun + calibrate + wrong + " 2>&1").status == 2, wrong);
  }
  const CommandResult missing = run_command_line(kRun + "--gpu /no/such.toml " + kSaxpy + " 2>&1");
  CHECK(missing.status == 2);
  CHECK(missing.output.find("--gpu: /no/such.toml: cannot be read") != std::string::npos);
  CHECK(run_command_line(calibrate + "--help").output.find("calibrate gpu [options]") != std::string::npos);
}

TEST_CASE("a program of nvcc's: shared runtime runs, of relocatable code too; static runtime is refused") {
  const std::string nvcc = "/usr/local/cuda/bin/nvcc";
  if (!std::filesystem::exists(nvcc)) {
    MESSAGE("skipped: there is no " << nvcc);
    return;
  }
  const std::string folder = scratch_folder("nvcc");
  const std::string source = std::string(MESHBED_SOURCE_DIR) + "/tests/cuda/program/nvcc_program.cu";
  REQUIRE(run_command_line(nvcc + " -cudart shared " + source + " -o " + folder + "/shared 2>&1").status == 0);
  REQUIRE(run_command_line(nvcc + " -cudart shared -rdc=true -arch=compute_90 " + source + " -o " + folder +
                           "/relocatable 2>&1")
              .status == 0);
  REQUIRE(run_command_line(nvcc + " " + source + " -o " + folder + "/static 2>&1").status == 0);
  for (const char* program : {"/shared 2>&1", "/relocatable 2>&1"}) {
    const CommandResult good = run_command_line(kRun + folder + program);
    CAPTURE(good.output);
    CHECK(good.status == 0);
    CHECK(good.output.find("all right") != std::string::npos);
  }
  const CommandResult refused = run_command_line(kRun + folder + "/static 2>&1");
  CHECK(refused.status == 2);
  CHECK(refused.output.find("-cudart shared") != std::string::npos);
}

}  // namespace program_test
