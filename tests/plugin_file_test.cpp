// The plugin files as they lie on disk: what they export and need, and that ranks load these very bytes.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace plugin_file_test {

using namespace meshbed::test;

namespace {

/// What the file needs beside libc's own libraries.
void needs_only(const std::string& plugin, const std::vector<std::string>& others) {
  const CommandResult needed = run_command_line("readelf -d " + plugin + " | grep NEEDED | sed 's/.*\\[//; s/\\].*//'");
  std::istringstream list(needed.output);
  CHECK_MESSAGE(needed.output.find("libc.so.6") != std::string::npos, plugin, ": ", needed.output);
  for (std::string library; std::getline(list, library);) {
    const bool expected_library = library == "libc.so.6" || library == "libm.so.6" ||
                                  library.rfind("ld-linux", 0) == 0 ||
                                  std::find(others.begin(), others.end(), library) != others.end();
    CHECK_MESSAGE(expected_library, plugin, " needs ", library);
  }
}

}  // namespace

TEST_CASE("the plugin is the same bytes on disk and as the ranks loaded it") {
  const std::string results = scratch_folder("plugin_file");
  const CommandResult run = run_command_line(meshbed_program() + " run " + scenario_file("pair") +
                                             " --no-trace --json --results '" + results + "' 2>/dev/null");
  REQUIRE(run.status == 0);
  const CommandResult disk =
      run_command_line("sha256sum < '" + std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so'");
  CHECK(run.output.find("\"plugin_sha256\": \"" + disk.output.substr(0, 64) + "\"") != std::string::npos);
}

TEST_CASE("the plugin exports its tables and needs nothing but libibverbs and libc") {
  const std::string plugin = "'" + std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-mesh.so'";
  const CommandResult symbols = run_command_line("nm -D --defined-only " + plugin + " | awk '{print $3}' | sort");
  std::string expected = "meshbedState\n";
  for (const char* version : {"10", "11", "12", "8", "9"}) expected += std::string("ncclNetPlugin_v") + version + "\n";
  expected += "ncclTunerPlugin_v5\nncclTunerPlugin_v6\n";
  CHECK(symbols.output == expected);
  needs_only(plugin, {"libibverbs.so.1"});
}

TEST_CASE("the local plugin exports its table and needs nothing but libc") {
  const std::string plugin = "'" + std::string(MESHBED_BINARY_DIR) + "/lib/libnccl-net-local.so'";
  CHECK(run_command_line("nm -D --defined-only " + plugin + " | awk '{print $3}'").output == "ncclNetPlugin_v11\n");
  needs_only(plugin, {});
}

TEST_CASE("the engine and the drop-ins need nothing but libc, whatever they are built from") {
  for (const char* file : {"lib/libmeshcoll.so", "nccl-lib/libnccl.so.2", "sim-lib/libibverbs.so.1"}) {
    needs_only("'" + std::string(MESHBED_BINARY_DIR) + "/" + file + "'", {});
  }
  // Nor does a library of theirs stand in the way of the program's own.
  for (const char* file : {"lib/libmeshcoll.so", "nccl-lib/libnccl.so.2"}) {
    const std::string exported = "nm -D --defined-only '" + std::string(MESHBED_BINARY_DIR) + "/" + file + "'";
    CHECK(run_command_line(exported + " | grep -c -e nettle -e hmac -e sha256").output == "0\n");
  }
}

}  // namespace plugin_file_test
