// What NCCL decided: its profiler's plugin, loaded and called as NCCL does (src/plugin/profiler.cc of v2.30.7-1), in
// the report of a run and in a file of its own.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace decisions_test {

using namespace meshbed::test;

namespace {

// Two threads announce at once, as those of two communicators do.
constexpr const char* kAnnounces = R"(
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include <nccl.h>
#include "plugin/profiler/profiler_abi.h"

using namespace meshbed::profiler;

namespace {

int announce(const Profiler& profiler, void* context, const Event& event) {
  void* handle = &context;
  if (profiler.start_event(context, &handle, &event) != 0) return 1;
  return handle == nullptr ? 0 : profiler.stop_event(handle);
}

int all_reduces(const Profiler& profiler, void* context, const char* protocol, std::size_t count, int calls) {
  Event event{.type = kCollective, .parent = nullptr, .rank = 0, .collective = {}};
  event.collective = {.sequence = 1, .operation = "AllReduce", .send = nullptr, .receive = nullptr, .count = count,
                      .root = 0, .datatype = "ncclFloat32", .channels = 4, .warps = 8, .algorithm = "RING",
                      .protocol = protocol, .group = nullptr};
  int wrong = 0;
  for (int call = 0; call < calls; ++call) wrong += announce(profiler, context, event);
  return wrong;
}

}  // namespace

int main() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  void* library = dlopen("libnccl-profiler-meshbed.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  for (const char* table : {"ncclProfiler_v6", "ncclProfiler_v5"}) {
    if (dlsym(library, table) == nullptr) return 3;
  }
  const auto& profiler = *static_cast<const Profiler*>(dlsym(library, "ncclProfiler_v6"));
  const int rank = std::atoi(std::getenv("RANK")), ranks = std::atoi(std::getenv("WORLD_SIZE"));
  void* contexts[2];
  for (void*& context : contexts) {
    int events = 0;
    if (profiler.init(&context, 7, &events, "one", ranks, ranks, rank, nullptr) != 0 || events != (1 << 1 | 1 << 2 | 1 << 9)) return 4;
  }
  int wrong[2] = {0, 0};
  std::thread other([&] { wrong[1] = all_reduces(profiler, contexts[1], "LL128", 262144, 1000); });
  wrong[0] = all_reduces(profiler, contexts[0], "LL", 256, 1000);
  other.join();
  Event gather{.type = kCollective, .parent = nullptr, .rank = rank, .collective = {}};
  gather.collective = {.sequence = 2, .operation = "AllGather", .send = nullptr, .receive = nullptr, .count = 16,
                       .root = 0, .datatype = "ncclInt8", .channels = 1, .warps = 8, .algorithm = "RING",
                       .protocol = "SIMPLE", .group = nullptr};
  wrong[0] += announce(profiler, contexts[0], gather);
  // As programs call them: NCCL 2.30 announces what it decided for the first, and not for the second.
  for (const char* operation : {"AllReduce", "Broadcast", "Broadcast"}) {
    Event call{.type = kCall, .parent = nullptr, .rank = rank, .collective = {}};
    call.call = {.operation = operation, .count = 256, .datatype = "ncclFloat32", .root = 0, .stream = nullptr,
                 .is_captured = false};
    wrong[0] += announce(profiler, contexts[0], call);
  }
  // Each rank sends to the next: other peers, one choice.
  Event send{.type = kMessage, .parent = nullptr, .rank = rank, .collective = {}};
  send.message = {.operation = "Send", .buffer = nullptr, .datatype = "ncclFloat64", .count = 8,
                  .peer = (rank + 1) % ranks, .channels = 2, .group = nullptr};
  wrong[0] += announce(profiler, contexts[0], send);
  for (void* context : contexts) wrong[0] += profiler.finalize(context);
  return wrong[0] + wrong[1];
}
)";

const nlohmann::json kExpected = {
    {{"operation", "AllGather"},
     {"datatype", "int8"},
     {"size_bytes", 48},
     {"ranks", 3},
     {"algorithm", "RING"},
     {"protocol", "SIMPLE"},
     {"channels", 1},
     {"calls", 1}},
    {{"operation", "AllReduce"},
     {"datatype", "float"},
     {"size_bytes", 1024},
     {"ranks", 3},
     {"algorithm", "RING"},
     {"protocol", "LL"},
     {"channels", 4},
     {"calls", 1000}},
    {{"operation", "AllReduce"},
     {"datatype", "float"},
     {"size_bytes", 1048576},
     {"ranks", 3},
     {"algorithm", "RING"},
     {"protocol", "LL128"},
     {"channels", 4},
     {"calls", 1000}},
    {{"operation", "Broadcast"},
     {"datatype", "float"},
     {"size_bytes", 1024},
     {"ranks", 3},
     {"algorithm", nullptr},
     {"protocol", nullptr},
     {"channels", nullptr},
     {"calls", 2}},
    {{"operation", "Send"},
     {"datatype", "double"},
     {"size_bytes", 64},
     {"ranks", 3},
     {"algorithm", nullptr},
     {"protocol", nullptr},
     {"channels", 2},
     {"calls", 1}},
};

}  // namespace

TEST_CASE("what NCCL announces to its profiler is in the report, one line for each choice") {
  const Programs programs("nccl-decisions");
  programs.compile("c++ -std=c++20 -I" MESHBED_SOURCE_DIR " -pthread", "announces", kAnnounces);
  const CommandResult run = programs.run("announces", 3, "", "");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  std::ifstream file(programs.folder() + "/results/ring/sim/summary.json");
  nlohmann::json decisions = nlohmann::json::parse(file).at("nccl").at("decisions");
  std::sort(decisions.begin(), decisions.end(), [](const nlohmann::json& left, const nlohmann::json& right) {
    return std::pair(left.at("operation"), left.at("size_bytes")) <
           std::pair(right.at("operation"), right.at("size_bytes"));
  });
  CHECK(decisions == kExpected);
  CHECK(lines_with(run.output,
                   "AllReduce      float          1048576      3  RING             LL128           4     1000\n") == 1);
  CHECK(lines_with(run.output,
                   "Send           double              64      3  -                -               2        1\n") == 1);
  CHECK(lines_with(run.output,
                   "Broadcast      float             1024      3  -                -               -        2\n") == 1);
  CHECK(lines_with(run.output, "and not what it decided") == 1);

  // The same between no simulator and with a folder for results.
  const std::string folder = programs.folder() + "/written";
  std::filesystem::create_directory(folder);
  const CommandResult alone = run_command_line(fmt::format(
      "RANK=1 WORLD_SIZE=3 MESHBED_RESULTS='{0}' LD_LIBRARY_PATH='{1}/lib:{1}/nccl-lib' '{2}/announces' 2>&1", folder,
      kBuild, programs.folder()));
  CAPTURE(alone.output);
  CHECK(alone.status == 0);
  std::ifstream written(folder + "/nccl-decisions.json");
  const nlohmann::json own = nlohmann::json::parse(written);
  REQUIRE(own.size() == 5);
  std::uint64_t calls = 0;
  for (const nlohmann::json& one : own) calls += one.at("calls").get<std::uint64_t>();
  CHECK(calls == 2004);
}

}  // namespace decisions_test
