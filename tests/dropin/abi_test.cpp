// The file and its header: what the drop-in shows, what it needs, and that it says what NVIDIA's header says.
#include <doctest/doctest.h>
#include <elf.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "plugin/dropin/nccl.h"
#include "tests/dropin/header_facts.inc"
#include "tests/support/elf_file.h"

#ifdef MESHBED_NVIDIA_HEADER
std::string nvidia_header_facts();  // nvidia_header.cpp
#endif

namespace abi_test {

using namespace meshbed::test;

namespace {

const std::string kDropinFile = std::string(MESHBED_BINARY_DIR) + "/nccl-lib/libnccl.so.2";

/// Every function that a header's text declares.
std::set<std::string> declared_in(const std::string& path, const std::string& prefix) {
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::regex declaration("\n(?:ncclResult_t|const char ?\\*) *(" + prefix + "[A-Za-z]+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), declaration), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

}  // namespace

TEST_CASE("libnccl.so.2 shows what its nccl.h declares, as functions, and nothing else; it needs libc alone") {
  const ElfFile file = ElfFile::read(kDropinFile);
  CHECK(file.soname == "libnccl.so.2");
  std::set<std::string> shown;
  for (const auto& [name, type] : file.shown) {
    CAPTURE(name);
    CHECK(type == STT_FUNC);
    shown.insert(name);
  }
  const auto declared = declared_in(MESHBED_SOURCE_DIR "/plugin/dropin/nccl.h", "nccl");
  CHECK(declared.size() == 40);
  CHECK(shown == declared);
  for (const std::string& library : file.needed) {
    CAPTURE(library);
    CHECK(is_libc(library));
  }
}

TEST_CASE("our nccl.h says what NVIDIA's says: numbers, sizes, offsets and the type of every call") {
#ifdef MESHBED_NVIDIA_HEADER
  if (nvidia_header_facts().rfind("NCCL_VERSION_CODE " + std::to_string(NCCL_VERSION_CODE) + "\n", 0) != 0) {
    MESSAGE("skipped: the nccl.h of this machine is of another version");
    return;
  }
  CHECK(header_facts() == nvidia_header_facts());
  CHECK(declared_in(MESHBED_SOURCE_DIR "/plugin/dropin/nccl.h", "nccl") == declared_in(MESHBED_NVIDIA_HEADER, "nccl"));
#else
  MESSAGE("skipped: no nccl.h of NVIDIA's on this machine");
#endif
}

}  // namespace abi_test
