#pragma once
// A checkout of nothing but the launcher, on a machine whose programs are stand-ins.

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command.h"

namespace meshbed::test {

namespace fs = std::filesystem;

inline const std::string kLauncher = std::string(MESHBED_SOURCE_DIR) + "/meshbed";
inline void write_script(const fs::path& path, const std::string& script) {
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  fs::permissions(path, fs::perms::owner_all);
}

/// A folder with stand-ins for programs of the system, to be put before PATH.
inline std::string stand_ins(const std::string& name, const std::vector<std::pair<std::string, std::string>>& scripts) {
  const std::string folder = scratch_folder(name);
  for (const auto& [program, script] : scripts) write_script(fs::path(folder) / program, script);
  return folder;
}

/// Copies the launcher and the files that it reads.
inline void copy_launcher(const std::string& folder) {
  const fs::path from = MESHBED_SOURCE_DIR;
  for (const char* file : {"meshbed", "CMakeLists.txt", "CMakePresets.json", "tests/run_tests.sh",
                           "tests/page/stage.sh", "cli/command/commands.def"}) {
    fs::create_directories((fs::path(folder) / file).parent_path());
    fs::copy_file(from / file, fs::path(folder) / file);
  }
  fs::create_directories(fs::path(folder) / "cmake");
  fs::copy(from / "cmake/launcher", fs::path(folder) / "cmake/launcher");
}

/// A checkout of nothing but the launcher, whose build folder is beside it, with stand-ins for what it starts: a cmake
/// that succeeds, a ninja that only notes its command lines in ninja.log, and a meshbed that prints its command line,
/// with the real program's --needs.
struct Checkout {
  std::string folder, tools;

  explicit Checkout(const std::string& name) : folder(scratch_folder(name)) {
    tools = stand_ins(
        name + "_tools",
        {{"dpkg-query", "echo installed"},
         {"cmake",
          "while [ \"$1\" != -S ]; do shift; done; mkdir -p \"$4\"; touch \"$4/build.ninja\"; "
          "printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nCMAKE_CACHEFILE_DIR:INTERNAL=%s\n' \"$2\" \"$4\" "
          ">\"$4/CMakeCache.txt\""},
         {"ninja", "case \"$*\" in *build.ninja | *' -n '*) ;; *) echo \"$@\" >>'" + folder + "/ninja.log' ;; esac"}});
    copy_launcher(folder);
    fs::create_directories(folder + "/plugin/net");
    fs::create_directories(folder + "/build/bin");
    for (const char* room : {"net", "cli"}) {
      fs::create_directories(folder + "/tests/" + room);
      std::ofstream(folder + "/tests/" + room + "/x_test.cpp").close();
    }
    write_script(folder + "/build/bin/meshbed",
                 "case \"${1:-}\" in --needs) exec '" + meshbed_program() + "' \"$@\" ;; esac\necho \"meshbed $*\"");
  }

  void stand_in(const std::string& program, const std::string& script) const {
    write_script(tools + "/" + program, script);
  }
  CommandResult run(const std::string& arguments, const std::string& environment = "") const {
    return run_command_line(environment + "MESHBED_BUILD_DIR='" + folder + "/build' PATH='" + tools + "':$PATH '" +
                            folder + "/meshbed' " + arguments);
  }
};

}  // namespace meshbed::test
