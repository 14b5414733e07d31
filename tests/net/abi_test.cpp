// The ABI and the file: what the static assertions cannot say.
#include <doctest/doctest.h>
#include <elf.h>

#include <cstdio>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "plugin/nccl/net_abi.h"
#include "plugin/nccl/tuner_abi.h"
#include "tests/support/elf_file.h"

namespace abi_test {

using namespace meshbed::nccl;

namespace {

const std::string kPluginFile = std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so";

}  // namespace

TEST_CASE("D1, D2: property records have the published sizes, v8 without and v9 with what follows it") {
  CHECK(sizeof(PropertiesV8) == 64);
  CHECK(sizeof(PropertiesV9) == 104);
  CHECK(sizeof(PropertiesV11) == 112);
  CHECK(sizeof(PropertiesV12) == 128);
  CHECK(offsetof(PropertiesV8, regIsGlobal) == 28);
  CHECK(offsetof(PropertiesV9, vProps) == 64);
  CHECK(offsetof(PropertiesV12, maxP2pBytes) == 104);
}

TEST_CASE("tables are plain data of 19, 20, 20, 22 and 22 pointers; the tuner's of four and five") {
  CHECK(sizeof(NetV8) == 19 * sizeof(void*));
  CHECK(sizeof(NetV9) == 20 * sizeof(void*));
  CHECK(sizeof(NetV10) == 20 * sizeof(void*));
  CHECK(sizeof(NetV11) == 22 * sizeof(void*));
  CHECK(sizeof(NetV12) == 22 * sizeof(void*));
  CHECK(sizeof(TunerV5) == 4 * sizeof(void*));
  CHECK(sizeof(TunerV6) == 5 * sizeof(void*));
  CHECK(std::is_standard_layout_v<NetV12>);
  CHECK(std::is_trivially_copyable_v<PropertiesV12>);
}

TEST_CASE(
    "the library shows the five tables and the tuner's two, as data, its state, as a function, and nothing else") {
  std::set<std::string> shown;
  for (const auto& [name, type] : meshbed::test::ElfFile::read(kPluginFile).shown) {
    shown.insert(name);
    CHECK(type == (name == "meshbedState" ? STT_FUNC : STT_OBJECT));
  }
  CHECK(shown == std::set<std::string>{"meshbedState", "ncclNetPlugin_v10", "ncclNetPlugin_v11", "ncclNetPlugin_v12",
                                       "ncclNetPlugin_v8", "ncclNetPlugin_v9", "ncclTunerPlugin_v5",
                                       "ncclTunerPlugin_v6"});
}

TEST_CASE("the library needs libibverbs and libc (libm, ld-linux) and nothing else") {
#ifdef __SANITIZE_ADDRESS__
  MESSAGE("skipped: a sanitized library needs its sanitizer; the ordinary build is held to it");
  return;
#endif
  const std::set<std::string> needed = meshbed::test::ElfFile::read(kPluginFile).needed;
  CHECK(needed.count("libibverbs.so.1") == 1);
  for (const std::string& library : needed) {
    CAPTURE(library);
    const bool allowed = library == "libibverbs.so.1" || meshbed::test::is_libc(library);
    CHECK(allowed);
  }
}

}  // namespace abi_test
