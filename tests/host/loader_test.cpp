#include <doctest/doctest.h>
#include <link.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <map>

#include "sim/host/file/descriptors.h"
#include "sim/host/host_state.h"
#include "sim/host/load/elf_image.h"
#include "tests/host/probe_world.h"
#include "tests/support/command.h"

namespace loader_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

std::string sha256_of_file(const std::string& path) {
  return run_command_line("sha256sum < '" + path + "'").output.substr(0, 64);
}

/// Every imported slot of every object that is loaded now, with its value.
std::map<void**, void*> all_imports() {
  std::map<void**, void*> slots;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next) {
    if (map->l_name == nullptr || *map->l_name != '/') continue;
    void* handle = dlopen(map->l_name, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    sim::ElfImage(handle).each_import([&](void** slot, const char*) { slots[slot] = *slot; });
  }
  return slots;
}

/// What this process alone has written. (A proportional set would count pages of the file for less while another test
/// program maps them, too: what a copy costs then depended on what ran beside it.)
long private_dirty_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string name; file >> name;) {
    long kib = 0;
    if (name == "Private_Dirty:" && file >> kib) return kib;
  }
  return 0;
}

}  // namespace

TEST_CASE("each rank's copy has its own globals") {
  run_probe(ring_cluster(3), 3, [](const ProbeTable& probe, int rank) {
    for (int call = 0; call <= rank; ++call) CHECK(probe.next_global() == call + 1);
  });
}

TEST_CASE("the same path again gives a rank the same copy") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    CHECK(&load_probe() == &probe);
    CHECK(sim::host_counters().copies == 1);
  });
}

TEST_CASE("the bytes loaded are the bytes on disk") {
  run_probe(ring_cluster(3), 3, [](const ProbeTable&, int) {
    CHECK(sim::loaded_sha256(kProbePath) == sha256_of_file(kProbePath));
    CHECK(sim::loaded_sha256("/not/loaded") == "");
  });
}

TEST_CASE("loading a copy changes no other object's imports") {
  run_world({.cluster = ring_cluster(2)}, [](sim::World& world) {
    sim::install_host(world, {});
    const auto before = all_imports();
    CHECK(before.size() > 100);
    auto& process = world.add_process(0, 0, "rank0");
    sim::load_for(process, kProbePath);
    CHECK(sim::host_counters().redirected_symbols > 50);
    auto after = all_imports();
    for (const auto& [slot, value] : before) CHECK(after[slot] == value);
    CHECK(socket(AF_UNIX, SOCK_STREAM, 0) < sim::kFirstDescriptor);  // ours is still the kernel's
  });
}

TEST_CASE("the relocated pages of a copy are read-only again") {
  run_world({.cluster = ring_cluster(2)}, [](sim::World& world) {
    sim::install_host(world, {});
    void* handle = sim::load_for(world.add_process(0, 0, "rank0"), kProbePath);
    const sim::ElfImage image(handle);
    REQUIRE(image.relro().size_bytes > 0);
    std::ifstream maps("/proc/self/maps");
    bool found = false;
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0;
      char rights[5]{};
      REQUIRE(std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) == 3);
      const auto relro = reinterpret_cast<unsigned long>(image.relro().address);
      if (relro < begin || relro >= end) continue;
      found = true;
      CHECK(std::string(rights).substr(0, 2) == "r-");
    }
    CHECK(found);
  });
}

TEST_CASE("a copy costs less than 60 KB") {
  run_world({.cluster = switch_cluster(64)}, [](sim::World& world) {
    sim::install_host(world, {});
    sim::load_for(world.add_process(0, 0, "rank0"), kProbePath);
    const long before = private_dirty_kib();
    constexpr int kCopies = 50;
    for (int rank = 1; rank <= kCopies; ++rank) {
      sim::load_for(world.add_process(rank, rank, "rank" + std::to_string(rank)), kProbePath);
    }
    const long each = (private_dirty_kib() - before) / kCopies;
    CAPTURE(each);
    CHECK(each < 60);
    CHECK(each >= 16);  // it is measured: so much the copy's own data are
  });
}

TEST_CASE("the product's libraries hold no demangler") {
  for (const char* name : {"libnccl-net-mesh.so", "libmeshcoll.so", "libhost_probe.so"}) {
    CAPTURE(name);
    std::ifstream file(std::string(MESHBED_BINARY_DIR) + "/lib/" + name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    CHECK(bytes.size() > 100'000);
    CHECK(bytes.find("transaction clone for ") ==
          std::string::npos);  // a word of libstdc++'s (libiberty's cp-demangle.c)
  }
}

TEST_CASE("an uncaught exception in a library's copy is reported with its type and its text") {
  const WorldResult result = run_world(
      {.cluster = ring_cluster(2)},
      [](sim::World& world) {
        std::signal(SIGABRT, SIG_DFL);  // doctest would report it
        sim::install_host(world, {});
        void* handle = sim::load_for(world.add_process(0, 0, "rank0"), kProbePath);
        reinterpret_cast<const ProbeTable* (*)()>(dlsym(handle, "probe_table"))()->throw_where_nobody_catches();
      },
      true);
  CHECK_FALSE(result.checks_passed);
  CHECK(result.output ==
        "terminate called after throwing an instance of 'St13runtime_error'\n  what():  probe: nothing catches this\n");
}

TEST_CASE("a missing file is an error with its name") {
  run_world({.cluster = ring_cluster(2)}, [](sim::World& world) {
    sim::install_host(world, {});
    auto& process = world.add_process(0, 0, "rank0");
    CHECK_THROWS_WITH_AS(sim::load_for(process, "/no/such/library.so"), doctest::Contains("/no/such/library.so"),
                         std::runtime_error);
  });
}

TEST_CASE("a rank's dlopen knows the listed names and answers the others as the linker does") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int) {
    char error[256];
    CHECK(probe.open_library("libprobe-by-name.so", "probe_table", error, sizeof(error)) != nullptr);
    CHECK(probe.open_library("libcudart.so", "cudaMalloc", error, sizeof(error)) == nullptr);
    CHECK(std::string(error).find("libcudart.so: cannot open shared object file") == 0);
    CHECK(probe.open_library("libprobe-by-name.so", "no_such_symbol", error, sizeof(error)) == nullptr);
    CHECK(std::string(error).find("no_such_symbol") != std::string::npos);
    // What a rank looks up in libc is redirected like what it imports.
    auto* getpid = reinterpret_cast<int (*)()>(probe.open_library("libc.so.6", "getpid", error, sizeof(error)));
    CHECK((getpid != nullptr && getpid() == probe.process_id()));
    CHECK(probe.thread_id(true) == probe.process_id());
    CHECK(probe.thread_id(true) == probe.thread_id(false));
  });
}

TEST_CASE("a library is loaded for a rank that opened it or has called it, whatever the ranks beside it have") {
  run_probe(ring_cluster(3), 3, [](const ProbeTable& probe, int rank) {
    constexpr const char* kName = "libprobe-offered.so";
    const auto rank_1_called_it = [](const sim::Process& process) { return process.rank == 1; };
    sim::host().offered_libraries[kName] = {::dlopen("libc.so.6", RTLD_NOW), rank_1_called_it};
    CHECK(probe.has_library(kName) == (rank == 1));
    char error[256];
    CHECK(probe.open_library(kName, "getpid", error, sizeof(error)) != nullptr);
    CHECK(probe.has_library(kName));
    CHECK(probe.has_library("libprobe-by-name.so"));  // itself
    CHECK_FALSE(probe.has_library("/no/such/library.so"));
  });
}

}  // namespace loader_test
