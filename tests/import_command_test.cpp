// meshbed collect, init and export: from files of machines to a scenario that runs, and back.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/base/files.h"
#include "testbed/scenario/scenario.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace import_command_test {

using namespace meshbed::test;
using meshbed::testbed::read_text_file;
using nlohmann::json;

namespace {

CommandResult meshbed_command(const std::string& arguments) {
  return run_command_line(meshbed_program() + " " + arguments + " 2>&1");
}

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string digest_of(const std::string& scenario, const std::string& folder) {
  const CommandResult run = run_command_line(meshbed_program() + " run --json --no-trace " + scenario + " --results " +
                                             folder + " 2>/dev/null");
  CHECK_MESSAGE(run.status == 0, scenario);
  return run.status == 0 ? json::parse(run.output).at("digest").get<std::string>() : "";
}

/// Made by collect.sh on this host, in a world of fake tools: `path` has those that the script finds.
CommandResult collect_with(const std::string& folder, const std::string& path, const std::string& shell = "dash") {
  CHECK(meshbed_command("collect --script >" + folder + "/collect.sh").status == 0);
  return run_command_line("cd " + folder + " && MESHBED_COLLECT_ROOT=" + folder + "/tree NCCL_IB_HCA=rocep1s0f0 PATH=" +
                          path + " $(command -v " + shell + ") -s - <collect.sh >node.tar.gz 2>log");
}

/// Links to the system's own tools, so that the script's PATH has these and no others.
void link_tools(const std::string& folder, const std::string& names) {
  // A shell's `command -v true` names its own.
  const CommandResult linked =
      run_command_line("mkdir -p " + folder + " && for tool in " + names +
                       "; do for from in /usr/bin /bin; do [ -x $from/$tool ] && ln -sf $from/$tool " + folder +
                       "/$tool; done; done; true");
  CHECK(linked.status == 0);
}

void write_tool(const std::string& path, const std::string& body) {
  REQUIRE_FALSE(std::filesystem::exists(path));  // a link would lead to the system's own tool
  write(path, "#!/bin/sh\n" + body + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

const char* const kSecretNetplan = R"(network:
  ethernets:
    enp1s0f0np0: {addresses: [192.168.100.1/24], mtu: 9000}
    enp1s0f1np1:
      addresses: [192.168.101.1/24]
      auth:
        key-management: eap
        password: hunter2,comma
        client-key-password: "hunter3"
  wifis:
    wlP9s9:
      access-points:
        "cafe": {password: "hunter4\"quoted, still", hidden: true}
        "home":
          password: |
            hunter5
          hidden: false
        "mixed": {
          password: "hunterB" }
  tunnels:
    wg0: {mode: wireguard, key: hunter6, peers: [{keys: {public: x, shared: 'hunter7'}}]}
)";

}  // namespace

TEST_CASE("netplan of a triangle gives its digest, and so do ip scripts and InfraGraph") {
  const std::string folder = scratch_folder("import_triangle");
  const std::string triangle = scenario_file("spark-triangle");
  const std::string digest = digest_of(triangle, folder + "/results");
  CHECK_FALSE(digest.empty());
  for (const std::string& format : {std::string("netplan"), std::string("ip")}) {
    const std::string machines = folder + "/" + format, made = folder + "/" + format + ".toml";
    CHECK(meshbed_command("export " + triangle + " --to " + format + " -o " + machines).status == 0);
    const CommandResult imported =
        meshbed_command("init " + machines + " --assume rate=100Gb/s --assume workload=all_reduce:64M -o " + made);
    CHECK_MESSAGE(imported.status == 0, imported.output);
    CHECK_MESSAGE(digest_of(made, folder + "/results") == digest, format);
  }
  CHECK(meshbed_command("export " + triangle + " --to infragraph -o " + folder + "/mesh.yaml").status == 0);
  const CommandResult imported = meshbed_command("init " + folder + "/mesh.yaml -o " + folder + "/graph.toml");
  CHECK(has(imported.output, "3 nodes, 6 NICs, 3 cables, 0 switches; nothing is assumed"));
  CHECK(digest_of(folder + "/graph.toml", folder + "/results") == digest);
}

TEST_CASE("bonds come back from netplan and from ip scripts") {
  const std::string folder = scratch_folder("import_bonds");
  for (const char* name : {"bond-lag", "bond-two-cards"}) {
    const std::string given = scenario_file(name);
    for (const char* format : {"netplan", "ip"}) {
      const std::string machines = folder + "/" + name + "-" + format;
      CHECK(meshbed_command("export " + given + " --to " + format + " -o " + machines).status == 0);
      const CommandResult made =
          meshbed_command("init " + machines + " --assume rate=400Gb/s -o " + machines + ".toml");
      CHECK_MESSAGE(made.status == 0, made.output);
      const meshbed::testbed::Scenario made_from = meshbed::testbed::read_scenario(
          std::string(MESHBED_SOURCE_DIR) + "/scenarios/" + name + ".toml", {"topology.rate=\"400Gb/s\""});
      const meshbed::testbed::Scenario read = meshbed::testbed::read_scenario(machines + ".toml", {});
      REQUIRE(read.cluster.nodes.size() == 2);
      for (std::size_t node = 0; node < 2; ++node) {
        const auto &before = made_from.cluster.nodes[node], &after = read.cluster.nodes[node];
        REQUIRE(after.bonds.size() == 1);
        CHECK(after.bonds[0].name == before.bonds[0].name);
        CHECK(after.bonds[0].mode == before.bonds[0].mode);
        CHECK(after.bonds[0].lag == before.bonds[0].lag);
        CHECK(after.bonds[0].hashes_flows == before.bonds[0].hashes_flows);
        CHECK(after.bonds[0].functions == before.bonds[0].functions);
        CHECK(after.nics[0].addresses == before.nics[0].addresses);
        CHECK(after.nics[0].device == before.nics[0].device);
      }
      CHECK(read.cluster.cables.size() == made_from.cluster.cables.size());
    }
  }
}

TEST_CASE("functions of Sparks, a switch and VLANs come back from netplan and InfraGraph") {
  const std::string folder = scratch_folder("import_round");
  for (const char* name : {"spark-triangle-200g", "spark-pair-two-cables"}) {
    const std::string machines = folder + "/" + name, made = folder + "/" + std::string(name) + ".toml";
    CHECK(meshbed_command("export " + scenario_file(name) + " --to netplan -o " + machines).status == 0);
    const bool gathers = std::string(name) == "spark-pair-two-cables";
    CHECK(meshbed_command("init " + machines + " --assume rate=200Gb/s --assume workload=" +
                          (gathers ? "all_gather" : "all_reduce") + ":64M -o " + made)
              .status == 0);
    CHECK_MESSAGE(digest_of(made, folder + "/results") == digest_of(scenario_file(name), folder + "/results"), name);
  }
  write(folder + "/switch.toml",
        "[topology]\nkind = \"switch\"\nnodes = 4\n[workload]\ncollective = \"all_reduce\"\nbytes = \"1M\"\n");
  CHECK(meshbed_command("export " + folder + "/switch.toml --to infragraph -o " + folder + "/switch.yaml").status == 0);
  const CommandResult imported = meshbed_command("init " + folder + "/switch.yaml -o " + folder + "/again.toml");
  CHECK_MESSAGE(has(imported.output, "4 nodes, 4 NICs, 0 cables, 1 switch"), imported.output);
}

TEST_CASE("init prints what is assumed, the findings, who reaches whom, and two commands to go on with") {
  const std::string folder = scratch_folder("import_report");
  for (const int node : {1, 2}) {
    write(folder + "/n" + std::to_string(node) + "/etc/netplan/1.yaml",
          "network: {ethernets: {enp1s0f0np0: {addresses: [192.168.100." + std::to_string(node) + "/24]}}}\n");
  }
  const CommandResult made = meshbed_command("init " + folder + "/n1 " + folder + "/n2 -o " + folder + "/m.toml");
  CHECK(made.status == 0);
  CHECK(has(made.output, "m.toml: 2 nodes, 2 NICs, 1 cable, 0 switches; assumed: RDMA device"));
  CHECK(has(made.output, "rate = 100Gb/s, MTU = 1500"));
  CHECK(has(made.output, "which rate has the port? `ethtool` prints its speed; then --assume rate=RATE"));
  CHECK(has(made.output, "192.168.100.0/24"));
  CHECK(has(made.output, "\nmeshbed run " + folder + "/m.toml\nmeshbed topo rules " + folder + "/m.toml\n"));
  CHECK(std::filesystem::exists(folder + "/m.svg"));
  CHECK(has(read_text_file(folder + "/m.toml"), "rate = \"100Gb/s\"  # assumed\n"));
  const CommandResult run = meshbed_command("run --no-trace " + folder + "/m.toml --results " + folder + "/r");
  CHECK(has(run.output, "world sim  with assumed values\n"));
  CHECK(has(run.output, "\nassumed: RDMA device of"));
  CHECK(has(meshbed_command("lint " + folder + "/m.toml").output, "assumed: 100Gb/s; which rate"));
  const json document = json::parse(
      run_command_line(meshbed_program() + " init --json " + folder + "/n1 " + folder + "/n2 2>/dev/null").output);
  CHECK(document.at("assumed").size() == 3);
  CHECK(document.at("assumed")[1].at("value") == "100Gb/s");
  CHECK(has(document.at("toml"), "[[cable]]"));
}

TEST_CASE("collect in a host without tools: what there is, and a list of what is missing; no secret") {
  const std::string folder = scratch_folder("import_collect_bare");
  write(folder + "/tree/etc/netplan/1.yaml", kSecretNetplan);
  write(
      folder + "/tree/etc/NetworkManager/system-connections/home.nmconnection",
      "[wifi-security]\nkey-mgmt=wpa-psk\nXauth password=hunterC\npsk=hunter8\n[802-1x]\nprivate-key-password=hunter9\n"
      "-----BEGIN PRIVATE KEY-----\nhunterA\n-----END PRIVATE KEY-----\n");
  const std::string device = folder + "/tree/sys/class/infiniband/rocep1s0f0";
  write(device + "/node_guid", "4cbb:4700:032b:0102\n");
  write(device + "/ports/1/rate", "200 Gb/sec (4X HDR)\n");
  write(device + "/ports/1/state", "4: ACTIVE\n");
  write(device + "/ports/1/gids/0", "fe80:0000:0000:0000:4ebb:47ff:fe2b:0102\n");
  write(device + "/ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n");
  write(device + "/ports/1/gids/3", "0000:0000:0000:0000:0000:ffff:c0a8:6401\n");
  write(device + "/ports/1/gid_attrs/types/0", "IB/RoCE v1\n");
  write(device + "/ports/1/gid_attrs/types/3", "RoCE v2\n");
  write(device + "/ports/1/gid_attrs/ndevs/3", "enp1s0f0np0\n");
  write(device + "/device/net/enp1s0f0np0/mtu", "9000\n");
  link_tools(folder + "/bin", "mkdir rm cat tar gzip awk readlink uname env hostname");
  CHECK(collect_with(folder, folder + "/bin").status == 0);
  CHECK(has(read_text_file(folder + "/log"), "parts in standard output"));
  const std::string all = run_command_line("cd " + folder + " && tar -xzOf node.tar.gz").output;
  CHECK_FALSE(has(all, "hunter"));
  for (const char* part :
       {"ip-addr.txt: ip is not installed", "ibv_devinfo.txt: ibv_devinfo is not installed",
        "nvidia-smi.xml: nvidia-smi is not installed", "rdma rocep1s0f0 rate 200 Gb/sec (4X HDR)",
        "rocep1s0f0\t1\t3\t0000:0000:0000:0000:0000:ffff:c0a8:6401\tv2\tenp1s0f0np0", "NCCL_IB_HCA=rocep1s0f0"}) {
    CHECK_MESSAGE(has(all, part), part, "\n", all);
  }
  const CommandResult made = meshbed_command("init " + folder + "/node.tar.gz -o " + folder + "/m.toml");
  CHECK_MESSAGE(made.status == 0, made.output);
  const std::string toml = read_text_file(folder + "/m.toml");
  CHECK(has(toml, "rate = \"200Gb/s\""));
  CHECK(has(toml, "addresses = [\"192.168.100.1/24\"]"));
  CHECK(has(toml, "type = \"v2\", address = \"192.168.100.1\""));
  CHECK(has(toml, "NCCL_IB_HCA = \"rocep1s0f0\""));
}

TEST_CASE("collect without tar writes a list of its parts, and without awk no configuration") {
  const std::string folder = scratch_folder("import_collect_list");
  write(folder + "/tree/etc/netplan/1.yaml", kSecretNetplan);
  link_tools(folder + "/bin", "mkdir rm cat uname env");
  CHECK(collect_with(folder, folder + "/bin").status == 0);
  const std::string all = read_text_file(folder + "/node.tar.gz");
  CHECK(all.rfind("==> ", 0) == 0);
  CHECK_FALSE(has(all, "hunter"));
  CHECK(has(all, "etc/netplan/1.yaml: awk is not installed"));
}

TEST_CASE("collect calls the tools that there are, reads older iproute2, and waits for none for ever") {
  const std::string folder = scratch_folder("import_collect_tools");
  write(folder + "/tree/sys/class/net/enp1s0f0np0/device/vendor", "0x15b3\n");
  write(folder + "/tree/sys/class/net/enp1s0f0np0/speed", "200000\n");
  link_tools(folder + "/bin", "mkdir rm cat tar gzip awk readlink uname env true sleep");
  // An old one without -j.
  write_tool(
      folder + "/bin/ip",
      "[ \"$1\" = -j ] && { echo 'Option \"-j\" is unknown' >&2; exit 255; }\n"
      "case $* in *addr) echo '3: enp1s0f0np0: <UP> mtu 9000 state UP'; echo '    inet 192.168.100.1/24';; esac");
  write_tool(folder + "/bin/ibdev2netdev", "echo 'rocep1s0f0 port 1 ==> enp1s0f0np0 (Up)'");
  write_tool(folder + "/bin/nvidia-smi", "cat >/dev/null; echo 'Failed to initialize NVML' >&2; exit 9");
  write_tool(folder + "/bin/timeout", "shift; [ \"$1\" = lspci ] && exit 124; exec \"$@\"");
  write_tool(folder + "/bin/lspci", "sleep 1000");
  CHECK(collect_with(folder, folder + "/bin").status == 0);
  const std::string all = run_command_line("cd " + folder + " && tar -xzOf node.tar.gz").output;
  CHECK(has(all, "ip-addr.json: ip -j -d addr ended with status 255: Option \"-j\" is unknown"));
  CHECK(has(all, "3: enp1s0f0np0: <UP> mtu 9000 state UP"));
  CHECK(has(all, "nvidia-smi.xml: nvidia-smi -q -x ended with status 9: Failed to initialize NVML"));
  CHECK(has(all, "lspci.txt: lspci -D -vvv ended with status 124: no answer within 20 s"));
  const CommandResult made = meshbed_command("init " + folder + "/node.tar.gz -o " + folder + "/m.toml");
  CHECK_MESSAGE(made.status == 0, made.output);
  CHECK(has(read_text_file(folder + "/m.toml"), "device = \"rocep1s0f0\""));
  CHECK(has(read_text_file(folder + "/m.toml"), "rate = \"200Gb/s\""));
}

TEST_CASE("collect writes an archive of this host, and init gives a scenario or the interfaces that it saw") {
  const std::string folder = scratch_folder("import_here");
  CHECK(meshbed_command("collect -o " + folder + "/here.tar.gz").status == 0);
  CHECK(has(run_command_line("tar -tzf " + folder + "/here.tar.gz").output, "/missing\n"));
  CHECK_FALSE(std::filesystem::exists(folder + "/meshbed-collect"));
  const CommandResult made = meshbed_command("init -o " + folder + "/m.toml");
  const bool is_made = made.status != 2 && std::filesystem::exists(folder + "/m.toml");
  const bool is_explained = made.status == 2 && has(made.output, "no NIC of a mesh was found") &&
                            has(made.output, "what was seen:\n  ") && !has(made.output, "/tmp/meshbed-init");
  CHECK_MESSAGE((is_made || is_explained), made.output);
}

TEST_CASE("archives of emulated nodes give the scenario that made the nodes") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const std::string folder = scratch_folder("import_emulated"), triangle = scenario_file("spark-triangle");
  CHECK(meshbed_command("collect --script >" + folder + "/collect.sh").status == 0);
  const CommandResult collected =
      meshbed_command("exec --scenario " + triangle + " --results " + folder + "/nodes -- sh -c 'sh " + folder +
                      "/collect.sh $MESHBED_RESULTS/node.tar.gz'");
  CHECK_MESSAGE(collected.status == 0, collected.output);
  const CommandResult made =
      meshbed_command("init " + folder + "/nodes/rank-*/node.tar.gz --assume rate=100Gb/s -o " + folder + "/m.toml");
  CHECK_MESSAGE(has(made.output, "3 nodes, 6 NICs, 3 cables, 0 switches; assumed: rate = 100Gb/s\n"), made.output);
  CHECK(has(read_text_file(folder + "/m.toml"), "name = \"node2\""));
  CHECK(has(read_text_file(folder + "/m.toml"), "# mgmt0 has no RDMA device"));
  CHECK(digest_of(folder + "/m.toml", folder + "/results") == digest_of(triangle, folder + "/results"));
}

TEST_CASE("what cannot be imported or exported is refused with the place, the cause and the fix") {
  const std::string folder = scratch_folder("import_refused");
  write(folder + "/bad.yaml", "network:\n  ethernets: [1\n");
  write(folder + "/cut.tar.gz", "\x1f\x8b\x08 no archive");
  const auto refused = [&](const std::string& arguments, const std::string& text) {
    const CommandResult result = meshbed_command(arguments);
    CHECK_MESSAGE(result.status == 2, arguments);
    CHECK_MESSAGE(has(result.output, text), result.output);
  };
  refused("init " + folder + "/none", "there is no such file or folder");
  refused("init " + folder + "/bad.yaml", folder + "/bad.yaml:3:1: not YAML");
  refused("init x --assume rat=1Gb/s", "there is no such key (did you mean 'rate'?)");
  refused("init x --assume rate=fast", "--assume rate=fast");
  refused("init x --assume workload=all_reduce", "expects COLLECTIVE:SIZE");
  refused("export " + scenario_file("pair") + " --to netplam", "netplan");
  refused("export " + scenario_file("pair") + " --to netplan", "give a folder with -o DIR");
  refused("export " + scenario_file("pair") + " --to dance -o x", "accepted");
  refused("collect --script -o x", "--output");
}

TEST_CASE("exports: SimGrid's platform, Graphviz and NCCL's topology") {
  const std::string folder = scratch_folder("import_exports");
  const CommandResult platform = meshbed_command("export " + scenario_file("pair") + " --to simgrid");
  CHECK(has(platform.output,
            "<link id=\"node0-node1\" bandwidth=\"100000000000bps\" latency=\"1000000ps\" "
            "sharing_policy=\"SPLITDUPLEX\"/>"));
  CHECK(has(platform.output, "<route src=\"node0\" dst=\"node1\" symmetrical=\"NO\">"));
  const CommandResult graph = meshbed_command("export " + scenario_file("pair") + " --to graphviz");
  CHECK(has(graph.output, "\"node0\" -- \"node1\" [label=\"node0-node1\\n100 Gb/s\""));
  CHECK(meshbed_command("export " + scenario_file("spark-triangle-200g") + " --to nccl-xml -o " + folder).status == 0);
  const std::string xml = read_text_file(folder + "/node0/nccl-topology.xml");
  CHECK(has(xml, "link_speed=\"32.0 GT/s PCIe\" link_width=\"4\""));
  CHECK(has(xml, "<net name=\"rocep1s0f0\" dev=\"0\""));
  const CommandResult imported = meshbed_command("init " + folder + "/node0 -o " + folder + "/m.toml");
  CHECK_MESSAGE(imported.status == 0, imported.output);
  CHECK(has(read_text_file(folder + "/m.toml"), "rate = \"200Gb/s\"  # " + folder + "/node0/nccl-topology.xml:"));
  CHECK(has(read_text_file(folder + "/m.toml"), "gpu_model = \"GB10\""));
}

}  // namespace import_command_test
