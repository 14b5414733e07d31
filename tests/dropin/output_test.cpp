// What programs do to their standard streams: all ranks share the command's, and none takes them from the others.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace output_test {

using namespace meshbed::test;

TEST_CASE("streams that ranks close, give a buffer, or look at stay whole, and --json stays JSON") {
  const Programs programs("output-streams");
  programs.compile("c++", "streams", R"(
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <err.h>
#include <nccl.h>
#include <unistd.h>
int main() {
  const int rank = std::atoi(std::getenv("RANK"));
  char buffer[64];
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  std::printf("hello of %d, descriptors %d and %d\n", rank, fileno(stdout), fileno(stderr));
  if (write(fileno(stdout), "by number\n", 10) != 10) return 2;
  if (write(1, nullptr, 5) != -1 || errno != EFAULT) return 3;
  std::fwrite("ab\0cd\n", 1, 6, stdout);
  if (dlsym(dlopen(nullptr, RTLD_NOW), "ncclAllReduce") != reinterpret_cast<void*>(&ncclAllReduce)) return 4;
  if (dlsym(RTLD_DEFAULT, "ncclAllReduce") != reinterpret_cast<void*>(&ncclAllReduce)) return 5;
  close(1);
  if (dup2(2, 1) != -1) return 6;
  std::printf("after close\n");
  std::fclose(stdout);
  std::fclose(stderr);
  usleep(10);
  std::fprintf(stderr, "last of %d\n", rank);
  if (rank == 2) errx(7, "rank %d is %s", rank, "done");
  return 0;
}
)");
  const CommandResult run = programs.run("streams", 3);
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(lines_with(run.output, ", descriptors 1 and 2\n") == 3);
  for (const char* const line : {": by number\n", ": after close\n"}) CHECK(lines_with(run.output, line) == 3);
  CHECK(lines_with(run.output, "rank1: hello of 1,") == 1);
  CHECK(lines_with(run.output, std::string(": ab\0cd\n", 8)) == 3);
  CHECK(lines_with(run.output, "last of ") == 3);
  CHECK(lines_with(run.output, "streams: rank 2 is done\n") == 1);
  CHECK(lines_with(run.output, "streams ended with status 7") == 1);
  const CommandResult file = run_command_line("cd '" + programs.folder() + "' && '" + kBuild +
                                              "/bin/meshbed' run ring.toml --json 2>/dev/null");
  const auto summary = nlohmann::json::parse(file.output);
  CHECK(summary.at("errors").size() == 1);
}

TEST_CASE("ranks that close all descriptors close their own alone") {
  const Programs programs("output-close-all");
  programs.compile("c++", "daemon", R"(
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
int main() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  for (int number = 3; number < 1024; ++number) close(number);
  closefrom(3);
  const bool gone = write(ends[0], "x", 1) < 0 && errno == EBADF;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 2;
  const bool is_new = write(ends[0], "x", 1) == 1;
  if (close_range(3, ~0U, 0) != 0) return 3;
  std::printf("%s gone %d new %d again %d\n", std::getenv("RANK"), gone, is_new, write(ends[0], "x", 1) < 0);
  // A file of its own can be closed.
  const int file = open("/dev/null", O_WRONLY);
  std::printf("%s file %d\n", std::getenv("RANK"), file >= 0 && close(file) == 0 && close(file) < 0);
}
)");
  const CommandResult run = programs.run("daemon", 3);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  for (const int rank : {0, 1, 2}) {
    CHECK(lines_with(run.output, fmt::format("{} gone 1 new 1 again 1", rank)) == 1);
    CHECK(lines_with(run.output, fmt::format("{} file 1", rank)) == 1);
  }
  CHECK(lines_with(run.output, "digest ") == 1);
}

}  // namespace output_test
