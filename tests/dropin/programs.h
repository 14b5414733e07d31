#pragma once
// Programs: compiles programs that know nothing of the simulator, and runs them as the ranks of `meshbed run`.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "tests/support/command.h"

namespace meshbed::test {

inline const std::string kBuild = MESHBED_BINARY_DIR;
inline const std::string kPrograms = MESHBED_SOURCE_DIR "/tests/dropin/program/";
inline const std::string kMpi = "-I" MESHBED_SOURCE_DIR "/plugin/dropin/mpi -L" + kBuild + "/mpi-lib -lmpi";
inline const std::string kNccl = "-I" MESHBED_SOURCE_DIR "/plugin/dropin -L" + kBuild + "/nccl-lib -lnccl";

/// A folder with programs and the scenarios that run them.
class Programs {
 public:
  explicit Programs(const std::string& name) : folder_(scratch_folder(name)) {}

  /// `compiler`: "cc" or "c++", with options.
  void compile(const std::string& compiler, const std::string& name, const std::string& source,
               const std::string& libraries = "") const {
    std::ofstream(folder_ + "/" + name + ".cpp") << source;
    build(compiler, name, folder_ + "/" + name + ".cpp", libraries);
  }
  void build(const std::string& compiler, const std::string& name, const std::string& file,
             const std::string& libraries = "") const {
    const CommandResult made =
        run_command_line(fmt::format("{} -x {} '{}' -x none -o '{}/{}' {} {} 2>&1", compiler,
                                     file.ends_with(".c") ? "c" : "c++", file, folder_, name, libraries, kNccl));
    REQUIRE_MESSAGE(made.status == 0, made.output);
  }

  /// On a ring. `more` goes into [workload].
  CommandResult run(const std::string& program, int ranks, const std::string& more = "", const std::string& nodes = "",
                    const std::string& options = "") const {
    std::ofstream(folder_ + "/ring.toml") << fmt::format(
        "[topology]\nkind = \"ring\"\nnodes = {}\n{}\n[workload]\nkind = \"program\"\nprogram = \"{}\"\n{}\n", ranks,
        nodes, program, more);
    return run_command_line(fmt::format("cd '{}' && '{}/bin/meshbed' run ring.toml {} 2>&1", folder_, kBuild, options));
  }

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace meshbed::test
