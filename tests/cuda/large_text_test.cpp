// Large texts: their bodies are decoded when they are called, and what must be known of them before is kept in a file.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sim/cuda/ptx/program.h"
#include "tests/cuda/ptx_bench.h"

namespace large_text_test {

using namespace meshbed;
using namespace meshbed::test;
namespace fs = std::filesystem;

namespace {

/// Two functions, which kernels call by name or through a table; kernels with shared memory of the text's and of their
/// own, and one with a variable in global memory that no other can name.
std::string text_of(std::size_t padding) {
  const auto function = [](const std::string& name, int add) {
    return ".visible .func (.param .b32 out) " + name + " (.param .b32 in) { .reg .b32 %r<3>;\nld.param.b32 %r1, " +
           "[in]; add.u32 %r2, %r1, " + std::to_string(add) + "; st.param.b32 [out], %r2; ret; }\n";
  };
  const auto kernel = [](const std::string& name, const std::string& variables, const std::string& body) {
    return ".visible .entry " + name + "(.param .u64 to, .param .u32 which) {\n" + variables +
           ".reg .b32 %r<6>; .reg .b64 %d<6>;\nld.param.u64 %d1, [to]; ld.param.u32 %r1, [which];\n" + body +
           "st.global.u32 [%d1], %r5; ret; }\n";
  };
  return ".version 9.0 .target sm_90 .address_size 64\n// " + std::string(padding, '{') + "\n" +
         ".shared .align 4 .b8 shared_by_all[12];\n" + function("add_one", 1) + function("add_two", 2) +
         ".visible .global .align 8 .u64 table[2] = {add_one, add_two};\n" +
         kernel("direct", "",
                "{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], 41; call.uni (b), add_one, (a);\n"
                "ld.param.b32 %r5, [b]; }\n") +
         kernel("indirect", "",
                "mov.u64 %d2, table; mul.wide.u32 %d3, %r1, 8; add.s64 %d2, %d2, %d3; ld.global.u64 %d4, [%d2];\n"
                "{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], 40; p: .callprototype (.param .b32 _) _ (.param "
                ".b32 _);\ncall (b), %d4, (a), p; ld.param.b32 %r5, [b]; }\n") +
         kernel("shares", ".shared .align 8 .b64 own[4];\n",
                "st.shared.u32 [own+8], 30; st.shared.u32 [shared_by_all+4], 7; ld.shared.u32 %r2, [own+8];\n"
                "ld.shared.u32 %r3, [shared_by_all+4]; add.u32 %r5, %r2, %r3;\n") +
         kernel("counts", ".global .align 4 .u32 calls = 5;\n",
                "atom.global.add.u32 %r2, [calls], 1; mov.u32 %r5, %r2;\n");
}

const std::string& large_text() {
  static const std::string text = text_of(300'000);
  return text;
}

/// A folder that is there for the length of a test.
struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::vector<fs::path> files() const { return {fs::directory_iterator(path), fs::directory_iterator()}; }
  const std::string path = (fs::temp_directory_path() / ("large_text_" + std::to_string(::getpid()))).string();
};

std::shared_ptr<const sim::ptx::Module> loaded(const std::string& text, const std::string& cache) {
  auto parsed = sim::ptx::Module::parse(text, "text", cache);
  if (!parsed) FAIL(parsed.error().text);
  return *parsed;
}

std::uint32_t stored_by(Device& device, const std::string& kernel, std::uint32_t which = 0) {
  const std::uint64_t to = device.memory.allocate(4);
  CHECK(device.run(kernel, {.block = 1}, to, which) == "");
  std::uint32_t number = 0;
  std::memcpy(&number, device.memory.at(to, 4, false), sizeof number);
  return number;
}

/// Names of the functions and kernels whose bodies are decoded, in the order of the text.
std::string decoded_in(const sim::ptx::Module& module) {
  std::string names;
  for (const auto& function : module.program().functions) {
    if (function.is_ready) names += (names.empty() ? "" : " ") + function.name;
  }
  return names;
}

/// What kernels and variables a module says that it has.
std::string described(const sim::ptx::Module& module) {
  std::ostringstream text;
  for (const auto& kernel : module.kernels()) {
    text << kernel.name << " shared " << kernel.static_shared_bytes << " local " << kernel.local_bytes << " registers "
         << kernel.registers << " parameters " << kernel.parameter_bytes << "\n";
  }
  for (const auto& variable : module.variables()) text << variable.name << " " << variable.bytes << "\n";
  return text.str();
}

void check_results(const std::shared_ptr<const sim::ptx::Module>& module) {
  Device device(module);
  CHECK(stored_by(device, "direct") == 42);
  CHECK(stored_by(device, "indirect", 0) == 41);
  CHECK(stored_by(device, "indirect", 1) == 42);
  CHECK(stored_by(device, "shares") == 37);
  CHECK(stored_by(device, "counts") == 5);
  CHECK(stored_by(device, "counts") == 6);
}

}  // namespace

TEST_CASE("a large text says of itself what a small one of the same kernels says") {
  const auto small = loaded(text_of(0), "");
  CHECK(decoded_in(*small) == "add_one add_two direct indirect shares counts");
  const Folder folder;
  for (const char* const cache : {"", folder.path.c_str(), folder.path.c_str()}) {
    const auto large = loaded(large_text(), cache);
    CHECK(described(*large) == described(*small));
    check_results(large);
  }
}

TEST_CASE("of a large text the bodies that are called are decoded, and at the second time no others are read") {
  const Folder folder;
  for (const bool is_second : {false, true}) {
    CHECK(folder.files().size() == (is_second ? 1 : 0));
    const auto module = loaded(large_text(), folder.path);
    // Bodies with variables of the module's must be read to know these.
    CHECK(decoded_in(*module) == (is_second ? "shares counts" : ""));
    Device device(module);
    CHECK(stored_by(device, "direct") == 42);
    CHECK(decoded_in(*module) == (is_second ? "add_one direct shares counts" : "add_one direct"));
    CHECK(stored_by(device, "indirect", 1) == 42);
    CHECK(decoded_in(*module) ==
          (is_second ? "add_one add_two direct indirect shares counts" : "add_one add_two direct indirect"));
  }
}

TEST_CASE("a kept file that is cut, changed or of another text is not used") {
  const Folder folder;
  loaded(large_text(), folder.path);
  REQUIRE(folder.files().size() == 1);
  const fs::path file = folder.files()[0];
  std::ifstream stream(file, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  REQUIRE(whole.size() > 100);
  const auto write = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  std::vector<std::string> broken{"", whole.substr(0, 20), whole.substr(0, whole.size() - 1), whole + "x"};
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    broken.push_back(whole);
    broken.back()[at] = static_cast<char>(broken.back()[at] ^ 0x10);
  }
  for (const std::string& bytes : broken) {
    write(bytes);
    const auto module = loaded(large_text(), folder.path);
    // Bytes behind the end do no harm.
    CHECK(decoded_in(*module) == (bytes.size() > whole.size() ? "shares counts" : ""));
    Device device(module);
    CHECK(stored_by(device, "shares") == 37);
  }
  // The file of one text under the name of another one.
  loaded(text_of(400'000), folder.path);
  for (const fs::path& other : folder.files()) {
    if (other == file) continue;
    fs::copy_file(other, file, fs::copy_options::overwrite_existing);
  }
  CHECK(decoded_in(*loaded(large_text(), folder.path)) == "");
}

TEST_CASE("a mistake in a body of a large text is found when the text is loaded, each time") {
  const Folder folder;
  const std::string broken =
      large_text() + ".visible .entry broken() {\n.reg .b32 %r<2>;\nadd.u32 %r1, %r9, 1; ret; }\n";
  for (int time = 0; time < 2; ++time) {
    const auto parsed = sim::ptx::Module::parse(broken, "text", folder.path);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().text == "text:39: unknown register %r9");
    CHECK(folder.files().empty());
  }
}

TEST_CASE("what a body declares or calls has stood before it in its own text") {
  const std::string later = ".version 9.0 .target sm_90 .address_size 64\n.visible .entry k() { .reg .b32 %r;\n" +
                            std::string("ld.global.u32 %r, [later]; ret; }\n.global .align 4 .u32 later;\n");
  const auto parsed = sim::ptx::Module::parse(later, "text");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().text == "text:3: unknown name 'later'");
}

TEST_CASE("threads that load the same text and call the same functions first do so at once") {
  const Folder folder;
  for (int round = 0; round < 20; ++round) {
    const auto module = loaded(text_of(300'000 + static_cast<std::size_t>(round)), folder.path);
    std::atomic<int> arrived = 0, wrong = 0;
    std::vector<std::thread> threads;
    for (int index = 0; index < 4; ++index) {
      threads.emplace_back([&, index] {
        Device device(module);
        ++arrived;
        while (arrived < 4) std::this_thread::yield();
        if (stored_by(device, index % 2 == 0 ? "indirect" : "direct", 1) != 42) ++wrong;
        // Another text, which all of them keep at once.
        loaded(text_of(500'000 + static_cast<std::size_t>(round)), folder.path);
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    check_results(module);
  }
  CHECK(folder.files().size() == 40);
}

TEST_CASE("no more than 64 files are kept") {
  const Folder folder;
  for (std::size_t index = 0; index < 70; ++index) loaded(text_of(300'000 + index), folder.path);
  CHECK(folder.files().size() == 64);
}

}  // namespace large_text_test
