// The interpreter against what a GPU computed: tests/cuda/ptx/h200.txt, measured by `meshbed conformance ptx`.
#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cuda/ptx_bench.h"

namespace ptx_hardware_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

using U64 = std::uint64_t;

struct Row {
  std::vector<U64> operands;
  U64 result = 0;
};
struct Measured {
  std::string name, body;      // `body` makes %d of %a, %b, %c and %e
  std::vector<unsigned> bits;  // of the result, then of each operand
  std::vector<Row> rows;
};

constexpr const char* kNames[] = {"a", "b", "c", "e"};

std::vector<Measured> measured(const std::string& path) {
  std::ifstream file(path);
  REQUIRE_MESSAGE(file.good(), path);
  std::vector<Measured> all;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "form") {
      Measured& one = all.emplace_back();
      words >> one.name;
      for (unsigned bits = 0; words >> bits;) one.bits.push_back(bits);
      REQUIRE_MESSAGE(one.bits.size() >= 2, line);
      REQUIRE_MESSAGE(one.bits.size() <= 1 + std::size(kNames), line);
      one.body = one.name + " %d";
      for (std::size_t at = 1; at < one.bits.size(); ++at) one.body += std::string(", %") + kNames[at - 1];
      one.body += ";";
      continue;
    }
    REQUIRE_MESSAGE(!all.empty(), line);
    if (word == "body") {
      std::getline(words, all.back().body);
      continue;
    }
    Row& row = all.back().rows.emplace_back();
    for (; word != "="; words >> word) {
      REQUIRE_MESSAGE(!words.fail(), line);
      row.operands.push_back(std::stoull(word, nullptr, 16));
    }
    words >> word;
    row.result = std::stoull(word, nullptr, 16);
    REQUIRE_MESSAGE(row.operands.size() + 1 == all.back().bits.size(), line);
  }
  return all;
}

/// A cell of 8 bytes a thread in every array. In the second warp the lanes part: the interpreter has other loops there.
std::string module_text(const Measured& form) {
  const auto width = [](unsigned bits) { return std::to_string(bits); };
  std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to";
  for (std::size_t at = 1; at < form.bits.size(); ++at) text += std::string(", .param .u64 ") + kNames[at - 1];
  text += ")\n{\n.reg .pred %p<5>;\n.reg .b16 %h<4>;\n.reg .b32 %w<8>;\n.reg .b64 %to, %from, %x<4>;\n.reg .b" +
          width(form.bits[0]) +
          " %d;\n.shared .align 8 .b8 WORDS[512];\nmov.u32 %w2, %tid.x;\nld.param.u64 %to, [to];\n"
          "mad.wide.u32 %to, %w2, 8, %to;\n";
  for (std::size_t at = 1; at < form.bits.size(); ++at) {
    const std::string name = kNames[at - 1], bits = width(form.bits[at]);
    text += ".reg .b" + bits + " %" + name + ";\nld.param.u64 %from, [" + name +
            "];\nmad.wide.u32 %from, %w2, 8, %from;\nld.global.b" + bits + " %" + name + ", [%from];\n";
  }
  return text + "and.b32 %w0, %w2, 33;\nsetp.eq.u32 %p4, %w0, 33;\n@%p4 bra other;\n" + form.body +
         "\nbra done;\nother:\n" + form.body + "\ndone:\nst.global.b" + width(form.bits[0]) + " [%to], %d;\nret;\n}\n";
}

std::vector<U64> results_of(const Measured& form, std::uint32_t threads) {
  Device device(module_of(module_text(form), form.name));
  const auto array = [&](auto value_of) {
    std::vector<U64> cells;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      cells.push_back(value_of(form.rows[thread % form.rows.size()]));
    }
    return device.memory.put(cells);
  };
  const U64 to = array([](const Row&) { return U64{0}; });
  std::vector<U64> from;
  for (std::size_t at = 1; at < form.bits.size(); ++at) {
    from.push_back(array([at](const Row& row) { return row.operands[at - 1]; }));
  }
  const GridLaunch launch{.block = threads};
  const std::string fault = from.size() == 1   ? device.run("k", launch, to, from[0])
                            : from.size() == 2 ? device.run("k", launch, to, from[0], from[1])
                            : from.size() == 3 ? device.run("k", launch, to, from[0], from[1], from[2])
                                               : device.run("k", launch, to, from[0], from[1], from[2], from[3]);
  CHECK_MESSAGE(fault == "", form.name, ": ", fault);
  return device.memory.get<U64>(to, threads);
}

std::string hexadecimal(const std::vector<U64>& values) {
  std::ostringstream text;
  for (const U64 value : values) text << " 0x" << std::hex << value;
  return text.str();
}

}  // namespace

TEST_CASE("the interpreter computes what an H200 computed, form by form, on every row that was kept") {
  std::size_t rows = 0;
  constexpr std::uint32_t kThreads = 64;
  for (const Measured& form : measured(MESHBED_SOURCE_DIR "/tests/cuda/ptx/h200.txt")) {
    REQUIRE_MESSAGE(form.rows.size() <= kThreads / 2, form.name, ": a row has to stand in either warp");
    rows += form.rows.size();
    const std::vector<U64> found = results_of(form, kThreads);
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      const Row& row = form.rows[thread % form.rows.size()];
      CHECK_MESSAGE(found[thread] == row.result, form.name, " of", hexadecimal(row.operands), " by thread ", thread,
                    ":", hexadecimal({found[thread]}), ", not", hexadecimal({row.result}));
    }
  }
  CHECK(rows > 500);
}

}  // namespace ptx_hardware_test
