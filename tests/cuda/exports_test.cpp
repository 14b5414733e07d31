// What the drop-ins export: every name of CUDA 13.0's libraries and of nvml.h, implemented or refused;
// docs/reference/cuda-calls.md lists them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace exports_test {

using namespace meshbed::test;

namespace {

#define MESHBED_CUDA_CALL(type, name, parameters, arguments) #name,
#define MESHBED_CUDA_UNSUPPORTED(name) #name,
const std::vector<std::string> kDriverCalls{
#include "sim/cuda/driver_calls.def"
    "cuGetProcAddress", "cuGetProcAddress_v2"};
const std::vector<std::string> kRuntimeCalls{
#include "sim/cuda/runtime_calls.def"
    "cudaGetDriverEntryPoint", "cudaGetDriverEntryPointByVersion", "cudaGetDriverEntryPointByVersion_ptsz",
    "cudaGetDriverEntryPoint_ptsz"};
const std::vector<std::string> kDriverRefused{
#include "sim/cuda/driver_unsupported.def"
};
const std::vector<std::string> kRuntimeRefused{
#include "sim/cuda/runtime_unsupported.def"
};
#undef MESHBED_CUDA_CALL
#undef MESHBED_CUDA_UNSUPPORTED
#define MESHBED_NVML_CALL(type, name, parameters, arguments) #name,
#define MESHBED_NVML_UNSUPPORTED(name) #name,
const std::vector<std::string> kNvmlCalls{
#include "sim/cuda/nvml/nvml_calls.def"
};
const std::vector<std::string> kNvmlRefused{
#include "sim/cuda/nvml/nvml_unsupported.def"
};
#undef MESHBED_NVML_CALL
#undef MESHBED_NVML_UNSUPPORTED

/// Every function that nvml.h declares; none where it is not installed.
std::set<std::string> declared_by_nvml_header() {
  const CommandResult names = run_command_line(
      "cat $(ls /usr/local/cuda*/include/nvml.h /usr/include/nvml.h 2>/dev/null | head -1) </dev/null | "
      "grep DECLDIR | grep -oE 'nvml[A-Z][A-Za-z0-9_]* *[(]' | tr -d ' ('");
  std::set<std::string> all;
  std::istringstream lines(names.output);
  for (std::string name; std::getline(lines, name);) all.insert(name);
  return all;
}

/// "NAME, NAME, ..." in lines of at most 118 characters, sorted.
std::string paragraph(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text, line;
  for (std::size_t index = 0; index < names.size(); ++index) {
    const std::string word = names[index] + (index + 1 < names.size() ? "," : "");
    if (!line.empty() && line.size() + 1 + word.size() > 118) {
      text += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return text + line + "\n";
}

std::string section(const std::string& library, const std::vector<std::string>& calls,
                    const std::vector<std::string>& refused) {
  return "### " + library + ": " + std::to_string(calls.size()) + " implemented\n\n" + paragraph(calls) + "\n### " +
         library + ": " + std::to_string(refused.size()) + " refused\n\n" + paragraph(refused);
}

std::set<std::string> exported(const std::string& file) {
  const CommandResult symbols = run_command_line("nm -D --defined-only '" + std::string(MESHBED_BINARY_DIR) +
                                                 "/cuda-lib/" + file + "' | awk '$2 != \"A\" {print $3}'");
  std::set<std::string> names;
  std::istringstream lines(symbols.output);
  for (std::string name; std::getline(lines, name);) {
    name = name.substr(0, name.find('@'));
    if (name.rfind("meshbed", 0) != 0) names.insert(name);
  }
  return names;
}

std::set<std::string> both(const std::vector<std::string>& calls, const std::vector<std::string>& refused) {
  std::set<std::string> names(calls.begin(), calls.end());
  for (const std::string& name : refused) CHECK_MESSAGE(names.insert(name).second, name, " is implemented and refused");
  return names;
}

}  // namespace

TEST_CASE("the drop-ins export what is listed, and nothing else of CUDA's") {
  CHECK(exported("libcuda.so.1") == both(kDriverCalls, kDriverRefused));
  CHECK(exported("libcudart.so.13") == both(kRuntimeCalls, kRuntimeRefused));
  CHECK(exported("libnvidia-ml.so.1") == both(kNvmlCalls, kNvmlRefused));
}

TEST_CASE("the drop-in libnvidia-ml.so.1 exports every function that nvml.h declares") {
  const std::set<std::string> declared = declared_by_nvml_header();
  if (declared.empty()) MESSAGE("skipped: no nvml.h is installed in /usr/local/cuda*/include or /usr/include");
  const std::set<std::string> all = exported("libnvidia-ml.so.1");
  for (const std::string& name : declared) CHECK_MESSAGE(all.count(name) == 1, name, " is not exported");
}

TEST_CASE("docs/reference/cuda-calls.md has the lists as they are") {
  std::ifstream file(MESHBED_SOURCE_DIR "/docs/reference/cuda-calls.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const std::string& wanted : {section("libcudart.so.13", kRuntimeCalls, kRuntimeRefused),
                                    section("libcuda.so.1", kDriverCalls, kDriverRefused),
                                    section("libnvidia-ml.so.1", kNvmlCalls, kNvmlRefused)}) {
    CHECK_MESSAGE(text.find(wanted) != text.npos, "docs/reference/cuda-calls.md should have:\n", wanted);
  }
}

}  // namespace exports_test
