// Variables of libc and libstdc++ of which position-independent programs hold copies, in ranks that take turns.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace copied_variables_test {

using namespace meshbed::test;

TEST_CASE("ranks parse their command lines at the same time, each as libc does for one process") {
  const Programs programs("copied-getopt");
  for (const std::string compiler : {"cc -fpie -pie", "cc -shared -fPIC"}) {
    CAPTURE(compiler);
    programs.build(compiler, "parse", kPrograms + "parse_words.c", kMpi);
    programs.build("cc -fpie -pie", "alone", kPrograms + "parse_words.c", kMpi);
    const CommandResult run = programs.run("parse", 3, "arguments = [\"a\", \"-v\", \"-n\", \"b\", \"c\"]");
    CAPTURE(run.output);
    CHECK(run.status == 0);
    for (int rank = 0; rank < 3; ++rank) {
      const CommandResult alone = run_command_line(
          fmt::format("cd '{}' && env -u RANK LD_LIBRARY_PATH='{}/mpi-lib' AS_RANK={} ./alone a -v -n b c",
                      programs.folder(), kBuild, rank));
      CAPTURE(alone.output);
      CHECK(lines_with(alone.output, "\n") == 6);
      CHECK(lines_with(alone.output, "2 of 2 variables\n") == 1);
      std::istringstream lines(alone.output);
      for (std::string line; std::getline(lines, line);) {
        CHECK_MESSAGE(lines_with(run.output, fmt::format("rank{}: {}\n", rank, line)) == 1, line);
      }
    }
  }
}

TEST_CASE("a program of C++ writes to std::cout and reads std::cin's state, and catches what it throws") {
  const Programs programs("copied-streams");
  for (const std::string compiler : {"c++ -fpie -pie", "c++ -fpie -pie -static-libstdc++", "c++ -shared -fPIC"}) {
    programs.compile(compiler, "writes", R"(
#include <mpi.h>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
int main() {
  const int rank = std::atoi(std::getenv("RANK"));
  MPI_Init(nullptr, nullptr);
  std::stringstream text;
  text << "rank " << rank << ' ' << std::setw(6) << std::fixed << std::setprecision(2) << 1.5 * rank;
  std::cout << text.str() << ", ";
  MPI_Barrier(MPI_COMM_WORLD);  // every rank is in the middle of its line
  int number = 0;
  std::string word;
  text >> word >> number;
  try {
    MPI_Barrier(MPI_COMM_WORLD);
    if (number == rank) throw std::out_of_range("thrown by " + std::to_string(rank));
  } catch (const std::exception& error) {
    std::cout << word << ' ' << number << ", " << error.what() << std::hex << ", " << 254 + rank << std::endl;
  }
  std::cerr << "to cerr " << rank << '\n';
  std::cin.setstate(std::ios::failbit);
  MPI_Finalize();
  return std::cin.fail() && std::cout.good() ? 0 : 1;
}
)",
                     kMpi);
    const CommandResult run = programs.run("writes", 3);
    CAPTURE(compiler);
    CAPTURE(run.output);
    CHECK(run.status == 0);
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(lines_with(run.output, fmt::format("rank{0}: rank {0} {1:6.2f}, rank {0}, thrown by {0}, {2:x}\n", rank,
                                               1.5 * rank, 254 + rank)) == 1);
      CHECK(lines_with(run.output, fmt::format("to cerr {}\n", rank)) == 1);
    }
  }
}

}  // namespace copied_variables_test
