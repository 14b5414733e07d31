// The drop-in libmpi.so.40: a program that knows only mpi.h, as ranks of a simulated cluster and as processes of this
// machine, and the binary interface that it has in common with Open MPI's.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"
#include "tests/support/free_address.h"

namespace mpi_test {

using namespace meshbed::test;

namespace {

/// tests/dropin/program/meet_by_mpi.c, linked as a user would.
class MpiRanks {
 public:
  explicit MpiRanks(const std::string& name) : programs_(name) {
    programs_.build("cc -pthread", "meet", kPrograms + "meet_by_mpi.c", kMpi);
  }

  CommandResult simulate(int ranks, const std::string& story = "") const {
    return programs_.run("meet", ranks, "", story.empty() ? "" : "[environment]\nSTORY = \"" + story + "\"\n");
  }

  /// As processes of this machine. The output ends with each rank's status.
  CommandResult start(int ranks, const std::string& story = "") const {
    const std::string address = free_address();
    std::string commands = fmt::format(
        "cd '{}' && exec 2>&1; export LD_LIBRARY_PATH='{}/mpi-lib' WORLD_SIZE={} MASTER_ADDR=127.0.0.1 MASTER_PORT={};",
        programs_.folder(), kBuild, ranks, address.substr(address.rfind(':') + 1));
    if (!story.empty()) commands += "export STORY='" + story + "';";
    for (int rank = 0; rank < ranks; ++rank) {
      commands += fmt::format("( RANK={0} timeout 100 ./meet; echo \"rank {0}: status $?\" ) & ", rank);
    }
    return run_command_line(commands + "wait");
  }
  CommandResult start_alone() const {
    return run_command_line(
        fmt::format("cd '{}' && env -u RANK LD_LIBRARY_PATH='{}/mpi-lib' ./meet 2>&1", programs_.folder(), kBuild));
  }

 private:
  Programs programs_;
};

/// By name, the size of each variable and function that a library shows.
std::map<std::string, int> symbols_of(const std::string& library, const std::string& type) {
  std::istringstream lines(run_command_line("readelf --dyn-syms --wide '" + library + "'").output);
  std::map<std::string, int> sizes;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, value, size, kind, binding, visibility, section, name;
    fields >> number >> value >> size >> kind >> binding >> visibility >> section >> name;
    if (kind == type && section != "UND") sizes[name.substr(0, name.find('@'))] = std::stoi(size);
  }
  return sizes;
}

}  // namespace

TEST_CASE("four simulated ranks: every call of mpi.h, each datatype with each operation") {
  const MpiRanks job("mpi-sim");
  const CommandResult run = job.simulate(4);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "of 4: all is right\n") == 4);
  CHECK(lines_with(run.output, ": 1 on this node\n") == 4);  // one rank a node
  CHECK(job.simulate(4).output.substr(run.output.rfind("digest")) == run.output.substr(run.output.rfind("digest")));
}

TEST_CASE("three processes over the loopback, and one alone, without a launcher") {
  const MpiRanks job("mpi-processes");
  const CommandResult run = job.start(3);
  CAPTURE(run.output);
  CHECK(lines_with(run.output, "of 3: all is right\n") == 3);
  CHECK(lines_with(run.output, ": 3 on this node\n") == 3);
  const CommandResult alone = job.start_alone();
  CAPTURE(alone.output);
  CHECK(alone.status == 0);
  CHECK(lines_with(alone.output, "rank 0 of 1: all is right\n") == 1);
}

TEST_CASE("an error of one rank ends the others with its rank and its reason") {
  struct Story {
    std::string name, own, others;
    int at, status;
  };
  const Story stories[] = {
      {"leaves", "MPI: rank 1: the program ended without MPI_Finalize",
       "rank 1: the program ended without MPI_Finalize", 1, 0},
      {"root leaves", "MPI: rank 0: the program ended without MPI_Finalize",
       "rank 0: the program ended without MPI_Finalize", 0, 0},
      {"abort", "MPI_Abort: rank 1: the program ends the job with status 7", "rank 1: MPI_Abort with status 7", 1, 7},
      {"root", "MPI_Bcast: rank 1: the root is 3 of 3 ranks", "rank 1: MPI_Bcast: the root is 3 of 3 ranks", 1, 1},
      {"counts", "MPI_Gather: rank 0: the counts differ: rank 1 sent 8 bytes, this rank expects 4",
       "rank 0: MPI_Gather: the counts differ: rank 1 sent 8 bytes, this rank expects 4", 0, 1},
      {"twice", "MPI_Init: rank 1: it was called before", "rank 1: MPI_Init: it was called before", 1, 1},
  };
  const MpiRanks job("mpi-errors");
  const auto check = [](const Story& story, const std::string& output) {
    CAPTURE(story.name);
    CAPTURE(output);
    CHECK(lines_with(output, story.own + "\n") == 1);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == story.at) continue;
      CHECK(lines_with(output, fmt::format(": rank {}: {}\n", rank, story.others)) == 1);
    }
    CHECK(lines_with(output, "went on") == 0);
  };
  for (const Story& story : stories) {
    const CommandResult simulated = job.simulate(3, story.name);
    check(story, simulated.output);
    CHECK(simulated.status == 1);
    const CommandResult run = job.start(3, story.name);
    check(story, run.output);
    for (int rank = 0; rank < 3; ++rank) {
      const int status = rank == story.at ? story.status : 1;
      CHECK(lines_with(run.output, fmt::format("rank {}: status {}\n", rank, status)) == 1);
    }
  }
  const CommandResult any = job.simulate(3, "any source");
  CAPTURE(any.output);
  CHECK(any.status == 1);
  CHECK(lines_with(any.output, "MPI_ANY_SOURCE and MPI_ANY_TAG are not supported") == 3);
}

TEST_CASE("the library shows Open MPI's symbols alone, with Open MPI's sizes") {
  const std::string own = kBuild + "/mpi-lib/libmpi.so.40", system = "/usr/lib/x86_64-linux-gnu/libmpi.so.40";
  const auto variables = symbols_of(own, "OBJECT"), functions = symbols_of(own, "FUNC");
  CHECK(variables.size() == 42);  // of mpi.h
  CHECK(functions.count("MPI_Allreduce") == 1);
  for (const auto& [name, unused] : functions) CHECK_MESSAGE(name.starts_with("MPI_"), name);
  if (!std::filesystem::exists(system)) {
    MESSAGE("not compared: Debian's package libopenmpi3 is not installed (" << system << ")");
    return;
  }
  const auto their_variables = symbols_of(system, "OBJECT"), their_functions = symbols_of(system, "FUNC");
  for (const auto& [name, size] : variables) {
    const auto theirs = their_variables.find(name);
    REQUIRE_MESSAGE(theirs != their_variables.end(), name);
    CHECK_MESSAGE(theirs->second == size, name);
  }
  for (const auto& [name, unused] : functions) CHECK_MESSAGE(their_functions.count(name) == 1, name);
}

}  // namespace mpi_test
