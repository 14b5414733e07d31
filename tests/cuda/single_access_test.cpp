// A vector of 8 or 16 bytes is one access: a thread of the host that works on the same line sees all of it or nothing.
#include "sim/cuda/ptx/vector/single_access.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sim/cuda/work.h"
#include "tests/cuda/ptx_bench.h"

namespace single_access_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// What a processor does in one access.
typedef std::uint32_t Quad __attribute__((vector_size(16), may_alias));
typedef std::uint64_t Double __attribute__((may_alias));

constexpr std::uint32_t kLines = 32;

struct Form {
  const char* name;
  std::uint32_t bytes;      // of the vector
  const char* registers;    // of the kernel's own
  const char* instruction;  // without address and registers
  std::vector<const char*> parts;
  const char* same;     // %same: whether all parts are one value; %next: that value
  const char* fill;     // parts from %next
  const char* operand;  // of the vector
};

/// Each word of a line holds one number: a line in which two differ was torn.
const Form kForms[] = {
    {"v4.u32",
     16,
     ".reg .u32 %a<4>;",
     "v4.u32",
     {},
     "xor.b32 %t0, %a0, %a1; xor.b32 %t1, %a0, %a2; xor.b32 %t2, %a0, %a3; or.b32 %t0, %t0, %t1; or.b32 %t0, %t0, %t2;",
     "mov.u32 %a0, %n; mov.u32 %a1, %n; mov.u32 %a2, %n; mov.u32 %a3, %n;",
     "{%a0, %a1, %a2, %a3}"},
    {"v2.u64",
     16,
     ".reg .u64 %a<2>; .reg .u64 %w;",
     "v2.u64",
     {},
     "xor.b64 %w, %a0, %a1; mov.b64 {%t0, %t1}, %w; or.b32 %t0, %t0, %t1; mov.b64 {%t1, %t2}, %a0; xor.b32 %t1, %t1, "
     "%t2; or.b32 %t0, %t0, %t1;",
     "mov.b64 %a0, {%n, %n}; mov.u64 %a1, %a0;",
     "{%a0, %a1}"},
    {"v2.u32",
     8,
     ".reg .u32 %a<2>;",
     "v2.u32",
     {},
     "xor.b32 %t0, %a0, %a1;",
     "mov.u32 %a0, %n; mov.u32 %a1, %n;",
     "{%a0, %a1}"},
    {"v4.b16",
     8,
     ".reg .b16 %a<4>;",
     "v4.b16",
     {},
     "mov.b32 %t0, {%a0, %a1}; mov.b32 %t1, {%a2, %a3}; xor.b32 %t0, %t0, %t1;",
     "mov.b32 {%a0, %a1}, %n; mov.b32 {%a2, %a3}, %n;",
     "{%a0, %a1, %a2, %a3}"},
    {"b128",
     16,
     ".reg .b128 %a0; .reg .u64 %w<2>;",
     "b128",
     {},
     "mov.b128 {%w0, %w1}, %a0; xor.b64 %w1, %w0, %w1; mov.b64 {%t0, %t1}, %w1; or.b32 %t0, %t0, %t1; mov.b64 {%t1, "
     "%t2}, %w0; xor.b32 %t1, %t1, %t2; or.b32 %t0, %t0, %t1;",
     "mov.b64 %w0, {%n, %n}; mov.b128 %a0, {%w0, %w0};",
     "%a0"},
};

/// Kernel `reads` looks at its line until the host's flag is set, and counts the torn sights; kernel `writes` writes
/// one number after the other until then. `lanes`: those with such a number's bit take part.
std::string text_of(const Form& form) {
  const std::string head =
      "(.param .u64 lines, .param .u64 stop, .param .u64 bad, .param .u32 lanes) {\n .reg .pred %p; .reg .u32 %t<4>, "
      "%n, %s, %count; .reg .u64 %line, %stop, %bad; " +
      std::string(form.registers) +
      "\n ld.param.u64 %line, [lines]; ld.param.u64 %stop, [stop]; ld.param.u64 %bad, [bad]; ld.param.u32 %s, "
      "[lanes];\n"
      " mov.u32 %n, %tid.x; shr.u32 %s, %s, %n; and.b32 %s, %s, 1; setp.eq.u32 %p, %s, 0; @%p exit;\n mad.wide.u32 "
      "%line, %n, " +
      std::to_string(form.bytes) + ", %line; mov.u32 %count, 0; mov.u32 %n, 0;\nagain:\n";
  const std::string tail =
      "\n ld.volatile.global.u32 %s, [%stop]; setp.eq.u32 %p, %s, 0; @%p bra again;\n red.global.add.u32 [%bad], "
      "%count; exit; }\n";
  const std::string instruction = std::string(".volatile.global.") + form.instruction + " ";
  return ".version 8.4 .target sm_90 .address_size 64\n.visible .entry reads" + head + " ld" + instruction +
         form.operand + ", [%line];\n " + form.same + "\n setp.ne.u32 %p, %t0, 0; @%p add.u32 %count, %count, 1;" +
         tail + ".visible .entry writes" + head + " add.u32 %n, %n, 1; " + form.fill + "\n st" + instruction +
         "[%line], " + form.operand + ";" + tail;
}

/// Runs the kernel a step at a time until it has ended; `meanwhile` is another thread's work until then.
template <typename Work>
std::uint32_t torn_sights(Device& device, const char* kernel, std::uint64_t lines, std::uint32_t lanes,
                          const Work& meanwhile) {
  const auto stop = device.memory.put(std::vector<std::uint32_t>{0});
  const auto bad = device.memory.put(std::vector<std::uint32_t>{0});
  auto* flag = static_cast<std::uint32_t*>(device.memory.at(stop, 4, true));
  std::thread other([&] {
    meanwhile();
    __atomic_store_n(flag, 1U, __ATOMIC_RELEASE);
  });
  const auto execution = device.start(kernel, {}, lines, stop, bad, lanes);
  auto state = sim::ptx::Execution::State::kRunning;
  while (state == sim::ptx::Execution::State::kRunning || state == sim::ptx::Execution::State::kSpinning)
    state = execution->step(10000);
  other.join();
  CHECK(state == sim::ptx::Execution::State::kFinished);
  return device.memory.get<std::uint32_t>(bad, 1)[0];
}

void write_line(std::byte* at, std::uint32_t bytes, std::uint32_t value) {
  if (bytes == 16)
    *reinterpret_cast<volatile Quad*>(at) = Quad{value, value, value, value};
  else
    *reinterpret_cast<volatile Double*>(at) = std::uint64_t{value} << 32U | value;
}

bool is_torn(const std::byte* at, std::uint32_t bytes) {
  if (bytes == 16) {
    const Quad seen = *reinterpret_cast<const volatile Quad*>(at);
    return seen[0] != seen[1] || seen[0] != seen[2] || seen[0] != seen[3];
  }
  const std::uint64_t seen = *reinterpret_cast<const volatile Double*>(at);
  return seen >> 32U != (seen & 0xffffffffU);
}

}  // namespace

TEST_CASE("a kernel that loads vectors beside a thread that writes them never sees half of one") {
  constexpr std::uint32_t kRounds = 200'000;
  for (const Form& form : kForms) {
    for (const std::uint32_t lanes : {0xffffffffU, 0x0f0f1234U}) {
      CAPTURE(std::string(form.name));
      CAPTURE(lanes);
      Device device(module_of(text_of(form)));
      const auto lines = device.memory.put(std::vector<std::byte>(kLines * form.bytes));
      auto* at = static_cast<std::byte*>(device.memory.at(lines, kLines * form.bytes, true));
      const std::uint32_t torn = torn_sights(device, "reads", lines, lanes, [&] {
        for (std::uint32_t round = 1; round <= kRounds; ++round) {
          for (std::uint32_t line = 0; line < kLines; ++line)
            write_line(at + line * form.bytes, form.bytes, round * 0x10001U);
        }
      });
      CHECK(torn == 0);
    }
  }
}

TEST_CASE("a thread that looks at vectors which a kernel stores never sees half of one") {
  constexpr std::uint32_t kRounds = 400'000;
  for (const Form& form : kForms) {
    if (std::string(form.name) == "v4.b16") continue;  // its numbers are not the same in both words of 16 bits
    for (const std::uint32_t lanes : {0xffffffffU, 0x0f0f1234U}) {
      CAPTURE(std::string(form.name));
      CAPTURE(lanes);
      Device device(module_of(text_of(form)));
      const auto lines = device.memory.put(std::vector<std::byte>(kLines * form.bytes));
      const auto* at = static_cast<std::byte*>(device.memory.at(lines, kLines * form.bytes, true));
      std::uint32_t torn = 0;
      CHECK(torn_sights(device, "writes", lines, lanes, [&] {
              for (std::uint32_t round = 1; round <= kRounds; ++round) {
                for (std::uint32_t line = 0; line < kLines; ++line)
                  torn += is_torn(at + line * form.bytes, form.bytes) ? 1 : 0;
              }
            }) == 0);
      CHECK(torn == 0);
    }
  }
}

TEST_CASE("cp.async of 16 bytes takes a line beside a thread that writes it, whole") {
  Device device(
      module_of(".version 8.4 .target sm_90 .address_size 64\n.visible .entry reads(.param .u64 lines, .param .u64 "
                "stop, .param .u64 bad, .param .u32 lanes) {\n .shared .align 16 .b8 here[512]; .reg .pred %p; .reg "
                ".u32 %t<4>, %a<4>, %s, %count, %to; .reg .u64 %line, %stop, %bad;\n ld.param.u64 %line, [lines]; "
                "ld.param.u64 %stop, [stop]; ld.param.u64 %bad, [bad]; mov.u32 %s, %tid.x; mov.u32 %to, here;\n "
                "mad.wide.u32 %line, %s, 16, %line; mad.lo.u32 %to, %s, 16, %to; mov.u32 %count, 0;\nagain:\n "
                "cp.async.cg.shared.global [%to], [%line], 16; cp.async.wait_all; ld.shared.v4.u32 {%a0, %a1, %a2, "
                "%a3}, [%to];\n xor.b32 %t0, %a0, %a1; xor.b32 %t1, %a0, %a2; xor.b32 %t2, %a0, %a3; or.b32 %t0, %t0, "
                "%t1; or.b32 %t0, %t0, %t2; setp.ne.u32 %p, %t0, 0; @%p add.u32 %count, %count, 1;\n "
                "ld.volatile.global.u32 %s, [%stop]; setp.eq.u32 %p, %s, 0; @%p bra again;\n red.global.add.u32 "
                "[%bad], %count; exit; }\n"));
  const auto lines = device.memory.put(std::vector<std::byte>(kLines * 16));
  auto* at = static_cast<std::byte*>(device.memory.at(lines, kLines * 16, true));
  CHECK(torn_sights(device, "reads", lines, 0, [&] {
          for (std::uint32_t round = 1; round <= 200'000; ++round) {
            for (std::uint32_t line = 0; line < kLines; ++line) write_line(at + line * 16, 16, round);
          }
        }) == 0);
}

TEST_CASE("256 bits are two accesses of 16 bytes, none of which is torn") {
  Device device(
      module_of(".version 8.8 .target sm_100 .address_size 64\n.visible .entry k(.param .u64 from, .param .u64 to) {\n "
                ".reg .u64 %l<4>, %a<4>; .reg .f32 %f<8>; ld.param.u64 %l0, [from]; ld.param.u64 %l1, [to];\n "
                "ld.global.v4.u64 {%a0, %a1, %a2, %a3}, [%l0]; add.u64 %a0, %a0, 1; st.global.v4.u64 [%l1], {%a0, %a1, "
                "%a2, %a3};\n ld.global.v8.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%l0+32]; add.f32 %f7, %f7, "
                "%f7; st.global.v8.f32 [%l1+32], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}; ret; }\n"));
  std::vector<std::uint64_t> values(8);
  for (std::size_t index = 0; index < 4; ++index) values[index] = index + 10;
  const float floats[] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::memcpy(values.data() + 4, floats, sizeof floats);
  const auto from = device.memory.put(values), to = device.memory.put(std::vector<std::uint64_t>(8));
  CHECK(device.run("k", {.block = 1}, from, to) == "");
  const auto found = device.memory.get<std::uint64_t>(to, 8);
  CHECK(std::vector<std::uint64_t>(found.begin(), found.begin() + 4) == std::vector<std::uint64_t>{11, 11, 12, 13});
  float made[8];
  std::memcpy(made, found.data() + 4, sizeof made);
  CHECK(made[0] == 1);
  CHECK(made[6] == 7);
  CHECK(made[7] == 16);
}

TEST_CASE("the last bytes of a copy come after all others, and a word that is copied alone comes whole") {
  constexpr std::size_t kBytes = 4096 + 24;
  constexpr std::uint64_t kRounds = 50'000;
  alignas(16) static std::uint64_t source[kBytes / 8], target[kBytes / 8];
  std::memset(target, 0, sizeof target);
  std::atomic<std::uint64_t> seen = 0;
  std::uint64_t early = 0;
  std::thread looker([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (sim::ptx::load_once<std::uint64_t>(&target[kBytes / 8 - 1]) < round) std::this_thread::yield();
      std::atomic_thread_fence(std::memory_order_acquire);
      for (const std::uint64_t& word : target) early += sim::ptx::load_once<std::uint64_t>(&word) < round ? 1 : 0;
      seen = round;
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    for (std::uint64_t& word : source) word = round;
    sim::cuda::copy_bytes({.target = reinterpret_cast<char*>(target),
                           .source = reinterpret_cast<const char*>(source),
                           .width_bytes = kBytes});
    while (seen < round) std::this_thread::yield();
  }
  looker.join();
  CHECK(early == 0);
}

}  // namespace single_access_test
