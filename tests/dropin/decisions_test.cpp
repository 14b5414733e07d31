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
#include <vector>

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
#include "plugin/nccl/profiler_abi.h"

using namespace meshbed::nccl;

namespace {

int announce(const Profiler& profiler, void* context, const ProfilerEvent& event) {
  void* handle = &context;
  if (profiler.start_event(context, &handle, &event) != 0) return 1;
  return handle == nullptr ? 0 : profiler.stop_event(handle);
}

int all_reduces(const Profiler& profiler, void* context, const char* protocol, std::size_t count, int calls) {
  ProfilerEvent event{.type = kProfileCollective, .parent = nullptr, .rank = 0, .collective = {}};
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
  ProfilerEvent gather{.type = kProfileCollective, .parent = nullptr, .rank = rank, .collective = {}};
  gather.collective = {.sequence = 2, .operation = "AllGather", .send = nullptr, .receive = nullptr, .count = 16,
                       .root = 0, .datatype = "ncclInt8", .channels = 1, .warps = 8, .algorithm = "RING",
                       .protocol = "SIMPLE", .group = nullptr};
  wrong[0] += announce(profiler, contexts[0], gather);
  // As programs call them: NCCL 2.30 announces what it decided for the first, and not for the second.
  for (const char* operation : {"AllReduce", "Broadcast", "Broadcast"}) {
    ProfilerEvent call{.type = kProfileCall, .parent = nullptr, .rank = rank, .collective = {}};
    call.call = {.operation = operation, .count = 256, .datatype = "ncclFloat32", .root = 0, .stream = nullptr,
                 .is_captured = false};
    wrong[0] += announce(profiler, contexts[0], call);
  }
  // Each rank sends to the next: other peers, one choice.
  ProfilerEvent send{.type = kProfileMessage, .parent = nullptr, .rank = rank, .collective = {}};
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

// Calls inside of groups and outside, of two threads with a communicator each.
constexpr const char* kCalls = R"(
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <nccl.h>

namespace {

int all_reduces(ncclComm_t comm, std::size_t count, int calls) {
  std::vector<float> numbers(count, 1.0F);
  int wrong = 0;
  for (int call = 0; call < calls; ++call) {
    wrong += ncclAllReduce(numbers.data(), numbers.data(), count, ncclFloat32, ncclMax, comm, nullptr) != ncclSuccess;
  }
  for (const float number : numbers) wrong += number != 1.0F;
  return wrong;
}

}  // namespace

int main() {
  const int rank = std::atoi(std::getenv("RANK")), ranks = std::atoi(std::getenv("WORLD_SIZE"));
  ncclUniqueId id;
  ncclComm_t all = nullptr, same = nullptr;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&all, ranks, id, rank) != ncclSuccess) return 1;
  if (ncclCommSplit(all, 0, rank, &same, nullptr) != ncclSuccess) return 2;
  int wrong[2] = {0, 0};
  std::thread other([&] { wrong[1] = all_reduces(same, 65536, 20); });
  wrong[0] = all_reduces(all, 256, 30);
  other.join();
  std::vector<double> given(8, rank), got(8), same_place(4);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  ncclGroupStart();
  wrong[0] += ncclSend(given.data(), 8, ncclFloat64, next, all, nullptr) != ncclSuccess;
  wrong[0] += ncclRecv(got.data(), 8, ncclFloat64, before, all, nullptr) != ncclSuccess;
  wrong[0] += ncclBroadcast(same_place.data(), same_place.data(), 4, ncclFloat64, 1, all, nullptr) != ncclSuccess;
  wrong[0] += ncclGroupEnd() != ncclSuccess;
  wrong[0] += got[0] != before;
  wrong[0] += ncclAllReduce(nullptr, nullptr, 8, ncclFloat64, ncclSum, all, nullptr) == ncclSuccess;  // not announced
  if (ncclCommDestroy(same) != ncclSuccess || ncclCommDestroy(all) != ncclSuccess) return 3;
  return wrong[0] + wrong[1];
}
)";

/// "Send double 64 1", sorted: operation, type, bytes, calls.
std::string calls_in(const nlohmann::json& decisions) {
  std::vector<std::string> lines;
  for (const nlohmann::json& one : decisions) {
    const bool is_message = one.at("operation") == "Send" || one.at("operation") == "Recv";
    CHECK(one.at("algorithm").is_null() == is_message);
    CHECK(one.at("channels") >= 1);
    lines.push_back(fmt::format("{} {} {} {}\n", one.at("operation").get<std::string>(),
                                one.at("datatype").get<std::string>(), one.at("size_bytes").get<int>(),
                                one.at("calls").get<int>()));
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += line;
  return all;
}

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

TEST_CASE("the drop-in announces what is called and how the engine carries it out, as NCCL does") {
  const Programs programs("dropin-decisions");
  programs.compile("c++ -std=c++20 -pthread", "calls", kCalls);
  const auto summary = [&] {
    std::ifstream file(programs.folder() + "/results/ring/sim/summary.json");
    return nlohmann::json::parse(file);
  };
  const CommandResult plain = programs.run("calls", 3);
  REQUIRE_MESSAGE(plain.status == 0, plain.output);
  const nlohmann::json quiet = summary();
  CHECK(quiet.at("nccl").at("decisions").empty());
  const CommandResult run = programs.run("calls", 3, "", "[environment]\nNCCL_PROFILER_PLUGIN = \"meshbed\"");
  CAPTURE(run.output);
  CHECK(run.status == 0);
  const nlohmann::json heard = summary();
  CHECK(calls_in(heard.at("nccl").at("decisions")) ==
        "AllReduce float 1024 30\nAllReduce float 262144 20\nBroadcast double 32 1\nRecv double 64 1\nSend double 64 "
        "1\n");
  CHECK(heard.at("digest") == quiet.at("digest"));  // it costs no time
}

TEST_CASE("the drop-in goes on without a profiler that is not there, has no table, or does not begin, and says so") {
  const Programs programs("dropin-profilers");
  programs.compile("c++ -std=c++20 -pthread", "calls", kCalls);
  const auto profiler = [&](const std::string& name, const std::string& source) {
    programs.compile("c++ -std=c++20 -shared -fPIC -I" MESHBED_SOURCE_DIR, name, source);
    return programs.folder() + "/" + name;
  };
  const std::string head = "#include \"plugin/nccl/profiler_abi.h\"\nusing namespace meshbed::nccl;\n";
  const std::string no_table = profiler("no-table.so", "int nothing() { return 0; }");
  const std::string fails = profiler("fails.so", head + R"(
extern "C" __attribute__((visibility("default"))) const Profiler ncclProfiler_v5;
const Profiler ncclProfiler_v5{.name = "Broken", .init = [](void**, std::uint64_t, int*, const char*, int, int, int,
                                                            LogFunction) { return 3; },
                               .start_event = nullptr, .stop_event = nullptr, .record_event_state = nullptr,
                               .finalize = nullptr};
)");
  const struct {
    std::string name, says;
  } all[] = {{"nowhere", "NCCL_PROFILER_PLUGIN=nowhere: calls are announced to no profiler: "},
             {no_table, "it has no table ncclProfiler_v6 or v5"},
             {fails, "profiler Broken does not begin (3)"}};
  for (const auto& one : all) {
    const CommandResult run =
        programs.run("calls", 3, "", "[environment]\nNCCL_PROFILER_PLUGIN = \"" + one.name + "\"");
    CAPTURE(run.output);
    CHECK(run.status == 0);
    CHECK(lines_with(run.output, one.says) >= 1);
  }
}

}  // namespace decisions_test
