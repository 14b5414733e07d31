// The command lines of a guest: every word arrives unchanged, with any bytes in it.
#include "emu/guest_job.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "emu/scratch.h"
#include "emu/shell_quote.h"
#include "tests/emu/clusters.h"
#include "tests/support/command.h"

namespace guest_job_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> texts{
      "",       "plain", "two words", "it's", "$HOME `id` $(id) \"x\"",      "a\nb\n",
      "\\n\\'", "'",     "''",        "-n",   "\xff\x01 \t* ? [a] ~ # ;&|<>"};
  return texts;
}

}  // namespace

TEST_CASE("a shell reads back exactly what was quoted") {
  for (const std::string& text : hostile_texts()) {
    CHECK(run_command_line("printf %s " + shell_quote(text)).output == text);
  }
}

TEST_CASE("only what a shell can export is a variable's name") {
  for (const char* good : {"A", "_", "NCCL_DEBUG", "a1"}) CHECK(is_variable_name(good));
  for (const char* wrong : {"", "1A", "A B", "A=B", "A;id", "A-B", "\xc3\xa4"}) CHECK_FALSE(is_variable_name(wrong));
}

TEST_CASE("a command has its environment, its folder and its arguments, byte for byte") {
  const std::string folder = scratch_folder("job's folder");
  EmuNode node;
  for (const std::string& text : hostile_texts()) {
    node.environment = {{"VALUE", text}};
    const std::vector<std::string> command{"/bin/sh", "-c", "printf '%s|%s|' \"$VALUE\" \"$1\"; pwd", "sh", text};
    write_file(folder + "/command", command_text(node, command, folder));
    CHECK(run_command_line("sh " + shell_quote(folder + "/command")).output == text + "|" + text + "|" + folder + "\n");
  }
}

TEST_CASE("what the guest's init sources holds the node's name and folder") {
  EmuNode node;
  node.name = "left";
  node.commands = {{"true"}, {"true"}};
  const std::string text = node_text(node, "/tmp/it's here");
  CHECK(text == "NODE_NAME='left'\nJOB_PATH='/tmp/it'\\''s here'\nCOMMANDS=2\nTERMINAL=0\n");
}

TEST_CASE("interfaces, GIDs and hosts are one line each") {
  EmuCluster cluster = mesh_cluster(2);
  cluster.nodes[0].nics.push_back(nic_on_wire(0, 1, -1));
  cluster.nodes[0].nics[0].mac = "02:00:00:00:AA:00";
  cluster.nodes[0].nics[0].addresses.push_back("fd00::1/64");
  cluster.nodes[0].management_address = "10.0.0.1/24";
  CHECK(nics_text(cluster, 0) ==
        "02:00:00:00:aa:00 cable0 1500 1 rdma0 192.168.100.1/24 fd00::1/64\n"
        "02:00:00:00:00:01 cable1 1500 0 rdma1 192.168.99.1/24\n"
        "52:54:00:00:00:00 mgmt0 1500 1 - 10.0.0.1/24\n");
  CHECK(gids_text(cluster.nodes[0]) ==
        "rdma0 0000:0000:0000:0000:0000:ffff:c0a8:6401\n"
        "rdma0 fd00:0000:0000:0000:0000:0000:0000:0001\n");
  CHECK(hosts_text(cluster) == "127.0.0.1 localhost\n::1 localhost ip6-localhost\n10.0.0.1 node0\n");
}

TEST_CASE("a management NIC never has the address of another NIC") {
  EmuCluster cluster = mesh_cluster(2);
  CHECK(management_mac(cluster, 1) == "52:54:00:00:00:01");
  cluster.nodes[0].nics[0].mac = "52:54:00:00:00:01";
  CHECK(management_mac(cluster, 0) == "52:54:00:01:00:00");
  CHECK(management_mac(cluster, 1) == "52:54:00:01:00:01");
}

}  // namespace guest_job_test
