// What this machine has, and the programs that are started on it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "emu/microvm/probe.h"
#include "emu/process.h"
#include "plugin/base/descriptor.h"
#include "tests/emu/clusters.h"

namespace host_test {

using namespace meshbed::emu;
using meshbed::Descriptor;
using namespace meshbed::test;

TEST_CASE("more memory than there is, is refused before anything starts: which nodes, need, and what is there") {
  EmuCluster cluster = mesh_cluster(3);
  CHECK_NOTHROW(check_memory(cluster, false, 3 * (256 + 110)));
  CHECK_THROWS_WITH_AS(
      check_memory(cluster, false, 1000),
      "the nodes node0, node1, node2 need 1098 MiB of memory, and this machine has 1000 MiB left; give "
      "them less, take fewer, or end other programs",
      std::runtime_error);
  cluster.nodes[0].management_address = "10.0.0.1/24";  // its hub is a QEMU too
  CHECK_THROWS_AS(check_memory(cluster, false, 1100), std::runtime_error);
  CHECK_NOTHROW(check_memory(cluster, false, available_memory_mib() > 2000 ? available_memory_mib() : 2000));
}

TEST_CASE("of many nodes that need too much memory the first and the last are named") {
  CHECK_THROWS_WITH_AS(check_memory(switch_cluster_of(64), false, 1000),
                       doctest::Contains("the nodes node0 to node63 (64 nodes) need 23464 MiB"), std::runtime_error);
}

TEST_CASE("the accelerator is named with its reason") {
  const Accelerator accelerator = probe_accelerator();
  CHECK(accelerator.reason.rfind(accelerator.kvm ? "KVM, because " : "TCG (QEMU's translator), because ", 0) == 0);
}

TEST_CASE("a program that is not there is named") {
  CHECK_THROWS_WITH_AS(
      run_program({"no-such-program-here"}),
      "cannot start no-such-program-here: No such file or directory; it is not installed, or not in PATH",
      std::runtime_error);
}

TEST_CASE("a program's words and end come back, its descriptors are where it expects them") {
  const ProgramResult result = run_program({"/bin/sh", "-c", "echo out; echo err >&2; pwd; exit 3"}, "/");
  CHECK(result.status == 3);
  CHECK(result.output == "out\n/\n");
  CHECK(result.errors == "err\n");
  CHECK(run_program({"/bin/sh", "-c", "kill -9 $$"}).status == 128 + 9);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  // Whatever their numbers are here, in the child they are 3 and 4.
  const pid_t child = spawn({.argv = {"/bin/sh", "-c", "echo three >&3; ls /proc/self/fd | wc -l >&4"},
                             .directory = "",
                             .descriptors = {writer.number(), writer.number()}});
  CHECK(wait_for_exit(child) == 0);
  writer.close();
  std::string text;
  for (char byte = 0; read(reader.number(), &byte, 1) == 1;) text += byte;
  // 0 to 4 and the one that ls reads the folder with: nothing else of ours has come along.
  CHECK(text == "three\n6\n");
}

TEST_CASE("a program that we started does not outlive us") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  const pid_t parent = fork();
  if (parent == 0) {
    (void)spawn({.argv = {"sleep", "1000"}, .directory = "", .descriptors = {writer.number()}});
    _exit(0);
  }
  CHECK(wait_for_exit(parent) == 0);
  writer.close();
  char byte = 0;
  CHECK(read(reader.number(), &byte, 1) == 0);  // the last holder of the writing end is gone
}

TEST_CASE("the last words of a program are its last line that is not blank") {
  CHECK(last_line("") == "");
  CHECK(last_line("\n \n") == "");
  CHECK(last_line("one") == "one");
  CHECK(last_line("one\ntwo \n\n") == "two");
}

}  // namespace host_test
