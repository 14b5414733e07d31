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

using namespace meshbed::nccl;

namespace {

const std::string kPluginFile = std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so";

std::vector<char> read_file(const std::string& path) {
  std::vector<char> bytes;
  if (std::FILE* file = std::fopen(path.c_str(), "rb")) {
    char block[65536];
    for (std::size_t count; (count = std::fread(block, 1, sizeof block, file)) > 0;) {
      bytes.insert(bytes.end(), block, block + count);
    }
    std::fclose(file);
  }
  return bytes;
}

template <typename T>
const T* at(const std::vector<char>& file, std::size_t offset) {
  return reinterpret_cast<const T*>(file.data() + offset);
}

const Elf64_Shdr* section(const std::vector<char>& file, unsigned type) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  for (int index = 0; index < header->e_shnum; ++index) {
    const auto* candidate = at<Elf64_Shdr>(file, header->e_shoff + index * sizeof(Elf64_Shdr));
    if (candidate->sh_type == type) return candidate;
  }
  return nullptr;
}

const char* linked_strings(const std::vector<char>& file, const Elf64_Shdr& user) {
  const auto* header = at<Elf64_Ehdr>(file, 0);
  return file.data() + at<Elf64_Shdr>(file, header->e_shoff + user.sh_link * sizeof(Elf64_Shdr))->sh_offset;
}

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
  const auto file = read_file(kPluginFile);
  REQUIRE(file.size() > sizeof(Elf64_Ehdr));
  const Elf64_Shdr* symbols = section(file, SHT_DYNSYM);
  REQUIRE(symbols != nullptr);
  const char* names = linked_strings(file, *symbols);
  std::set<std::string> shown;
  for (std::size_t index = 1; index < symbols->sh_size / sizeof(Elf64_Sym); ++index) {
    const auto* symbol = at<Elf64_Sym>(file, symbols->sh_offset + index * sizeof(Elf64_Sym));
    if (symbol->st_shndx == SHN_UNDEF) continue;
    shown.insert(names + symbol->st_name);
    const bool is_function = std::string(names + symbol->st_name) == "meshbedState";
    CHECK(ELF64_ST_TYPE(symbol->st_info) == (is_function ? STT_FUNC : STT_OBJECT));
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
  const auto file = read_file(kPluginFile);
  REQUIRE(file.size() > sizeof(Elf64_Ehdr));
  const Elf64_Shdr* dynamic = section(file, SHT_DYNAMIC);
  REQUIRE(dynamic != nullptr);
  const char* names = linked_strings(file, *dynamic);
  std::set<std::string> needed;
  for (std::size_t index = 0; index < dynamic->sh_size / sizeof(Elf64_Dyn); ++index) {
    const auto* entry = at<Elf64_Dyn>(file, dynamic->sh_offset + index * sizeof(Elf64_Dyn));
    if (entry->d_tag == DT_NEEDED) needed.insert(names + entry->d_un.d_val);
  }
  CHECK(needed.count("libibverbs.so.1") == 1);
  for (const std::string& library : needed) {
    CAPTURE(library);
    const bool allowed = library == "libibverbs.so.1" || library == "libc.so.6" || library == "libm.so.6" ||
                         library.rfind("ld-linux", 0) == 0;
    CHECK(allowed);
  }
}
