// Diagnose: from the lines of a job to facts and causes.
#include "testbed/diagnose/diagnose.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "testbed/diagnose/read/read.h"

namespace diagnose_test {

using namespace meshbed::testbed;
using namespace meshbed::testbed::diagnose;

namespace {

Diagnosis diagnosis_of(const std::vector<std::string>& texts) {
  Case found;
  int number = 0;
  for (const std::string& text : texts) read_text(text, "file" + std::to_string(number++), found);
  return judge(found);
}

/// The first cause; "none".
std::string first(const std::vector<std::string>& texts) {
  const Diagnosis diagnosis = diagnosis_of(texts);
  return diagnosis.causes.empty() ? "none" : name_of(diagnosis.causes.front().code);
}

std::string value_of(const Diagnosis& diagnosis, const std::string& name) {
  for (const Fact& fact : diagnosis.facts) {
    if (fact.name == name) return fact.value.is_string() ? fact.value.get<std::string>() : fact.value.dump();
  }
  return "";
}

std::string refusal_of(const std::string& text) {
  Case found;
  try {
    read_text(text, "some", found);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "read";
}

const std::string kHead =
    "spark1:4021:4090 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]rocep1s0f1:1/RoCE [RO]; OOB "
    "enP7s7:10.0.0.11<0>\n";

std::string modify_qp(const std::string& local, const std::string& remote,
                      const std::string& error = "110 Connection timed out") {
  return kHead +
         "[2026-11-29 20:00:00] spark1:4021:4102 [0] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with " +
         error + ", on dev rocep1s0f0:1, curr state INIT, next state RTR, local GID index 3, local GID " + local +
         ", remote GID " + remote + "\n";
}

/// "# / ? *" of a pattern filled in, so that a line has its words.
std::string line_with(const std::string& pattern) {
  std::string line = "host:1:2 [0] NCCL WARN ";
  for (const char letter : pattern) line += letter == '*' ? std::string(" x ") : std::string(1, letter);
  return line;
}

}  // namespace

TEST_CASE("job reports beside each other: rates, prefix lengths and subnets of ports are compared") {
  const auto report = [](const std::string& host, const std::string& nics, const std::string& more = "") {
    return "{\"report\":\"mesh\",\"format\":1,\"version\":\"0.1.0\",\"pid\":7,\"host\":\"" + host +
           "\",\"connections\":2,\"nics\":[" + nics + "]" + more + "}\n";
  };
  const auto nic = [](const std::string& name, int rate_mbps, const std::string& address) {
    return "{\"name\":\"" + name + "\",\"link_up\":true,\"rate_mbps\":" + std::to_string(rate_mbps) +
           ",\"addresses\":[\"" + address + "\"]}";
  };
  CHECK(first({report("a", nic("m0", 200000, "10.0.0.1/24")), report("b", nic("m0", 200000, "10.0.0.2/24"))}) ==
        "none");
  CHECK(first({report("a", nic("m0", 200000, "10.0.0.1/24")), report("b", nic("m0", 100000, "10.0.0.2/24"))}) ==
        "half-rate");
  // What soft-RoCE reports of itself says nothing about the interface below it.
  CHECK(first({report("a", nic("m0", 100000, "10.0.0.1/24")), report("b", nic("m0", 2500, "10.0.0.2/24"))}) == "none");
  CHECK(first({report("a", nic("m0", 200000, "10.0.0.1/24")), report("b", nic("m0", 200000, "10.0.0.2/25"))}) ==
        "wrong-prefix");
  CHECK(first({report("a", nic("m0", 200000, "10.0.0.1/24") + "," + nic("m1", 200000, "10.0.0.2/24"))}) ==
        "ports-in-one-subnet");
  CHECK(first({report("a", "", ",\"peers\":[{\"peer\":\"10.0.0.2 (m0)\",\"failovers\":2}]")}) == "port-down");
  CHECK(first({report("a", "", ",\"peers\":[{\"peer\":\"10.0.0.2\",\"ways\":[\"TCP\"]}]")}) == "no-path");
  // Members of another kind than ours are no members.
  CHECK(first({report("a", "7,\"x\"", ",\"peers\":7,\"cables\":[[]]")}) == "none");
}

TEST_CASE("a failed queue pair: the two GIDs decide") {
  CHECK(first({modify_qp("::ffff:192.168.100.1", "::ffff:192.168.101.2")}) == "no-path");
  CHECK(first({modify_qp("::ffff:192.168.100.1", "::ffff:192.168.100.2")}) == "crossed-cable");
  CHECK(first({modify_qp("fe80::4d:ff:fe00:0", "::ffff:192.168.100.2")}) == "wrong-gid");
  CHECK(first({modify_qp("::ffff:192.168.100.1", "::ffff:192.168.100.2", "22 Invalid argument")}) == "wrong-gid");
  CHECK(first({kHead + "spark1:1:2 [0] NCCL INFO NCCL_IB_SUBNET_PREFIX_LEN set by environment to 16.\n" +
               modify_qp("::ffff:192.168.100.1", "::ffff:192.168.101.2")}) == "crossed-cable");
}

TEST_CASE("facts carry the line that they come from") {
  const Diagnosis diagnosis =
      diagnosis_of({"NCCL version 2.28.9+cuda13.0\n" + modify_qp("::ffff:192.168.100.1", "::ffff:192.168.101.2")});
  CHECK(value_of(diagnosis, "nccl_version") == "2.28.9+cuda13.0");
  CHECK(value_of(diagnosis, "out_of_band_interface") == "enP7s7");
  CHECK(value_of(diagnosis, "local_gid") == "::ffff:192.168.100.1");
  CHECK(value_of(diagnosis, "remote_gid") == "::ffff:192.168.101.2");
  CHECK(value_of(diagnosis, "ibv_modify_qp_error") == "110");
  CHECK(value_of(diagnosis, "process") == "spark1:4021");
  REQUIRE_FALSE(diagnosis.causes.empty());
  CHECK(diagnosis.causes.front().evidence.front().at.number == 3);
  CHECK(diagnosis.causes.front().evidence.front().at.file == "file0");
  const document::Value json = json_of(diagnosis);
  CHECK(json.at("causes").at(0).at("code") == "no-path");
  CHECK(json.at("causes").at(0).at("evidence").at(0).at("line") == 3);
  CHECK(json.at("facts").at(0).contains("file"));
}

TEST_CASE("a healthy log has no cause: what NCCL prints of every job is no sign") {
  CHECK(first({kHead +
               "spark1:4021:4021 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n"
               "spark1:4021:4021 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared "
               "object file: No such file or directory : when loading libnccl-net.so\n"
               "spark1:4021:4102 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f0'\n"
               "spark1:4021:4102 [0] NCCL INFO socketStartConnect: connect to 10.0.0.11<40000> returned Connection "
               "refused, retrying (1/34) after sleep for 100 msec\n"
               "spark1:4021:4102 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0\n"
               "spark1:4021:4102 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId "
               "f01000 commId 0x1f - Init COMPLETE\n"
               "spark1:5:5 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : client reregistration\n"}) ==
        "none");
}

TEST_CASE("a plugin that is named and not found, and one that no setting names") {
  const std::string missing = "h:1:1 [0] NCCL INFO NET/Plugin: Could not find: mesh libnccl-net-mesh.so\n";
  CHECK(first({"h:1:1 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to mesh\n" + missing}) == "plugin-not-loaded");
  CHECK(first({"h:1:1 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to mesh\nh:1:2 [0] NCCL INFO Using network "
               "Socket\n"}) == "plugin-not-loaded");
  CHECK(first({"h:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n"}) == "none");
}

TEST_CASE("status 12 with a link that went down is the port, and alone it is lost messages") {
  const std::string twelve =
      "node-2:5776:5902 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33092> with "
      "error 12, opcode 0, len 0, vendor err 129 (Recv)\n";
  CHECK(first({twelve}) == "retry-exceeded");
  CHECK(first({"h:1:1 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 0.\nh:1:1 [0] NCCL INFO NET/IB : Using "
               "[0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n" +
               twelve}) == "wrong-gid");
  CHECK(first({twelve, "[  123.456789] mlx5_core 0000:01:00.0 enp1s0f0np0: Link down\n"}) == "port-down");
  const Diagnosis both = diagnosis_of({twelve});
  CHECK(value_of(both, "completion_status") == "12");
  CHECK(value_of(both, "vendor_err") == "129");
}

TEST_CASE("dmesg: PCIe lanes, and a Spark's four lanes a function, which are normal") {
  const std::string half =
      "[   10.1] mlx5_core 0000:01:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at "
      "0000:00:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n";
  CHECK(first({half}) == "half-rate");
  const std::string spark =
      "[   10.1] mlx5_core 0000:01:00.0: 126.028 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x4 link at "
      "0000:00:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)\n";
  CHECK(first({spark}) == "none");
  CHECK(first({"[   99.0] mlx5_core 0000:01:00.0: Port module event: module 0, Cable unplugged\n"}) == "port-down");
}

TEST_CASE("RAS as text: a rank behind, and a dead one") {
  const std::string head = "Job summary\n===========\n\n";
  CHECK(
      first({head +
             "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation counts\n"
             "  30 ranks have launched up to operation 640\n  Rank 12 has launched up to operation 12 -- GPU 4 managed "
             "by process 32 on node 10.0.0.4\n"}) == "rank-late");
  CHECK(first({head +
               "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 4711 on node "
               "10.0.0.4 managing GPU 0\n"}) == "rank-dead");
  CHECK(first({head + "    0         1         4         8        32        32   RUNNING  OK\n"}) == "none");
}

TEST_CASE("dmesg: an empty cage at the driver's start is no lost link, and every form of the time is read") {
  const std::string unplugged = "mlx5_core 0000:41:00.1: Port module event: module 1, Cable unplugged\n";
  CHECK(first({"<6>[    2.962781] " + unplugged}) == "none");
  CHECK(first({"[    2.962781] mlx5_core 0000:41:00.1 enp65s0f1np1: Link up\n[    8.1] " + unplugged}) == "port-down");
  CHECK(first({"[    2.962781] mlx5_core 0000:41:00.0 enp65s0f0np0: Link up\n[    8.1] " + unplugged}) == "none");
  CHECK(first({"Jun 02 10:00:00 node1 kernel: " + unplugged}) == "port-down");
  for (const std::string time : {"[Tue Jun  2 10:00:00 2026] ", "<6>[   14.9] ", "kern  :info  : [   14.9] "}) {
    const Diagnosis up = diagnosis_of({time + "mlx5_core 0000:01:00.0 enp1s0f0np0: Link up\n"});
    CHECK_MESSAGE(!value_of(up, "link_up").empty(), time);
  }
  // The PCI core says it of any card.
  CHECK(first({"[    1.1] pci 0000:03:00.0: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe x1 link at "
               "0000:00:1c.0 (capable of 16.000 Gb/s with 5.0 GT/s PCIe x4 link)\n"}) == "none");
}

TEST_CASE("RAS in parts, as people quote it: status, counts that differ by one, and the ranks of a group") {
  CHECK(diagnosis_of({"Job summary\n\n  Communicator ranks have different status\n"}).causes.front().likelihood < 0.5);
  const std::string counts =
      "#0-0 (78db2f) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n"
      "  7 ranks have launched up to operation 64\n  1 rank has launched up to operation ";
  const std::string behind = ":\n    Rank 3 -- GPU 3 managed by process 4711 on node 10.0.0.4\n";
  const Diagnosis near = diagnosis_of({counts + "63" + behind}), far = diagnosis_of({counts + "12" + behind});
  CHECK(near.causes.front().likelihood < 0.3);
  CHECK(far.causes.front().likelihood > 0.5);
  CHECK(value_of(far, "ras.rank") == "rank 3: AllReduce 12");
  CHECK(value_of(diagnosis_of({"Communicators... (0.002s)\n\nDEAD\n  1 job process is considered dead (unreachable via "
                               "the RAS network)\n  Process 3748990 on node node1 managing GPU 3\n"}),
                 "dead_process") == "Process 3748990 on node node1 managing GPU 3");
}

TEST_CASE("what stands before a line is not the process: times, and the tags of mpirun and srun") {
  const auto process = [](const std::string& before) {
    return value_of(diagnosis_of({before + "node7:3526:3530 [0] plugin/net.cc:306 NCCL WARN something\n"}), "process");
  };
  for (const char* before : {"", "[2026-09-17 04:02:30] ", "15:39:01 ", "2019-06-02T16:13:20 ",
                             "[1,0]<stdout>:", "(RayWorker pid=7, ip=10.0.0.4) ", "0: ", "`"}) {
    CHECK_MESSAGE(process(before) == "node7:3526", before);
  }
  const std::string row = "  8589934592    2147483648     float     sum      -1   171000   50.23   95.10      0\n";
  for (const char* tag : {"", "[1,0]<stdout>:", "  [1,0]<stdout>:", "0: ", " 0: "}) {
    const Diagnosis table = diagnosis_of(
        {tag + std::string("#  Rank  0 Group  0 Pid 427294 on  cl4-gpu03 device  0 [0000:4e:00] NVIDIA H100\n") + tag +
         row});
    CHECK_MESSAGE(value_of(table, "rank_host") == "cl4-gpu03", tag);
    CHECK_MESSAGE(value_of(table, "busbw_GBps") == "95.1", tag);
  }
}

TEST_CASE("an error of ibv_modify_qp by its number alone, where the line is wrapped, and without a netdev") {
  const std::string head = "a:1:2 [0] misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with ";
  CHECK(first({head + "61\nNo data available, on dev mlx5_0:1\n"}) == "wrong-gid");
  CHECK(first({head + "101\nNetwork is unreachable\n"}) == "no-path");
  CHECK(first({head + "error No such device\n"}) == "no-rdma-device");
  CHECK(first({"a:1:2 [0] misc/ibvwrap.cc:40 NCCL WARN Call to ibv_create_qp failed\n"}) == "memlock");
  const Diagnosis gids = diagnosis_of(
      {"a:1:2 [0] transport/net_ib.cc:2358 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4711> with status=12 "
       "opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.0.1.1 remoteGids::ffff:10.0.1.2 hca mlx5_0\n"});
  CHECK(value_of(gids, "local_gid") == "::ffff:10.0.1.1");
  CHECK(value_of(gids, "remote_gid") == "::ffff:10.0.1.2");
}

TEST_CASE("causes that NCCL states in words: memory of the GPU and of the host, one GPU for two ranks, sockets") {
  const std::string warn = "a:1:2 [0] NCCL WARN ",
                    closed = warn + "socketProgress: Connection closed by remote peer b\n";
  CHECK(first({closed + warn + "Cuda failure 'out of memory'\n"}) == "gpu-memory");
  CHECK(first({closed + warn + "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 2000\n"}) ==
        "duplicate-gpu");
  CHECK(first({warn + "Error: failed to extend /dev/shm/nccl-03v824 to 4194660 bytes\n"}) == "shared-memory");
  const std::string connect = "socketPollConnect: Connect to 10.0.0.4<56849> returned ";
  CHECK(first({warn + connect + "113(No route to host) errno 115(Operation now in progress)\n"}) == "firewall");
  CHECK(first({warn + connect + "111(Connection refused) errno 115(Operation now in progress)\n"}) ==
        "bootstrap-refused");
  CHECK(first({warn + "ncclOsSocketPollConnect to 10.0.0.4<5> failed with error Connection refused\n"}) ==
        "bootstrap-refused");
}

TEST_CASE("RAS as JSON without the comma that 2.28.9 leaves out") {
  const std::string text =
      "{\n  \"nccl_version\": \"2.28.9\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n    {\n      "
      "\"hash\": "
      "\"0x1f\",\n      \"size\": 2,\n      \"ranks\": [\n        {\n          \"rank\": 0,\n          \"host\": "
      "\"a\",\n "
      "         \"status\": {\n            \"init_state\": 0\n          },\n          \"collective_counts\": {\n       "
      "     "
      "\"AllReduce\": 7\n          }\n        }\n      ],\n      \"missing_ranks\": [\n        {\n          \"rank\": "
      "1,\n "
      "         \"host\": \"b\",\n          \"nvml_dev\": 0\n          \"status\": {\n            \"unresponsive\": "
      "true,\n "
      "           \"considered_dead\": true\n          }\n        }\n      ]\n    }\n  ]\n}\n";
  CHECK(first({text}) == "rank-dead");
  CHECK(value_of(diagnosis_of({text}), "missing_rank") == "1");
  const auto with = [](const char* counts) {
    return std::string(
               "{\"communicators\": [{\"hash\": \"0x1\", \"size\": 2, \"ranks\": [{\"rank\": 0, \"collective_counts\": "
               "{\"AllReduce\": 7, \"Broadcast\": 1}}, {\"rank\": 1, \"collective_counts\": ") +
           counts + "}]}]}";
  };
  CHECK(first({with("{\"AllReduce\": 7, \"Broadcast\": 1}")}) == "none");
  CHECK(first({with("{\"AllReduce\": 4, \"Broadcast\": 1}")}) == "rank-late");
  CHECK(first({with("{\"AllReduce\": 6, \"Broadcast\": 2}")}) == "collective-mismatch");
}

TEST_CASE("the flight recorder: one operation that is not the same on all ranks, and a rank behind") {
  const auto dump = [](int rank, const std::string& entries) {
    return "{\"version\": \"2.4\", \"rank\": " + std::to_string(rank) + ", \"entries\": [" + entries + "]}";
  };
  const auto entry = [](int number, const std::string& name, const std::string& state = "completed") {
    return "{\"collective_seq_id\": " + std::to_string(number) +
           ", \"process_group\": [\"0\", \"default_pg\"], \"profiling_name\": \"nccl:" + name +
           "\", \"input_sizes\": [[1024]], \"state\": \"" + state + "\"}";
  };
  CHECK(first({dump(0, entry(1, "all_reduce") + "," + entry(2, "all_reduce", "started")),
               dump(1, entry(1, "all_reduce") + "," + entry(2, "broadcast", "started"))}) == "collective-mismatch");
  CHECK(first({dump(0, entry(1, "all_reduce") + "," + entry(2, "all_reduce", "started")),
               dump(1, entry(1, "all_reduce"))}) == "rank-late");
  CHECK(first({dump(0, entry(1, "all_reduce")), dump(1, entry(1, "all_reduce"))}) == "none");
}

TEST_CASE("the flight recorder: the rank of a file that has none is in its name, and another number is no rank") {
  const std::string entry =
      "{\"collective_seq_id\": 1, \"profiling_name\": \"nccl:all_reduce\", \"state\": \"started\"}";
  const auto rank_of = [&](const std::string& file) {
    Case found;
    read_text("{\"version\": \"2.4\", \"entries\": [" + entry + "]}", file, found);
    REQUIRE(found.progress.size() == 1);
    return found.progress.front().rank;
  };
  for (const char* file : {"nccl_trace_rank_3", "fr_dump_3.json", "a/rank3.json", "rank3_2026.json", "rank-3.json"}) {
    CHECK_MESSAGE(rank_of(file) == 3, file);
  }
  for (const char* file : {"114-x.json", "dump.json", "7/trace", "ranks.json"}) {
    CHECK_MESSAGE(rank_of(file) == -1, file);
  }
}

TEST_CASE("Inspector: a rank that is several operations behind") {
  const auto line = [](int rank, int number) {
    return "{\"header\": {\"id\": \"0x1\", \"rank\": " + std::to_string(rank) +
           ", \"n_ranks\": 2, \"nnodes\": 2}, \"metadata\": {\"inspector_output_format_version\": \"v4.0\"}, "
           "\"coll_perf\": {\"coll\": \"AllReduce\", \"coll_sn\": " +
           std::to_string(number) + ", \"coll_msg_size_bytes\": 1024, \"coll_busbw_gbs\": 9.5}}\n";
  };
  CHECK(first({line(0, 9) + line(1, 8)}) == "none");
  CHECK(first({line(0, 9) + line(1, 2)}) == "rank-late");
  CHECK(value_of(diagnosis_of({line(0, 9)}), "inspector_version") == "v4.0");
}

TEST_CASE("nccl-tests: half of the adapter's rate") {
  const std::string table =
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n"
      "   134217728      33554432     float     sum      -1  23000.0    5.83    5.83      0  23100.0    5.81    5.81   "
      "   0\n"
      "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 5.8\n";
  const std::string rate =
      "h:1:1 [0] NCCL INFO NET/IB: [0] mlx5_0:uverbs0:1/RoCE provider=Mlx5 speed=100000 context=0x1 pciPath=/sys "
      "ar=0\n";
  CHECK(first({rate + table}) == "half-rate");
  CHECK(first({table}) == "none");
  CHECK(value_of(diagnosis_of({table}), "busbw_GBps") == "5.83");
}

TEST_CASE("the plugin's own lines: which rank is silent, rates and prefixes of several ranks") {
  const auto nics = [](int rank, const std::string& list) {
    return "meshbed: rank " + std::to_string(rank) + ": NET/Mesh : Mesh 0.1.0: 1 NIC: " + list + "\n";
  };
  const auto failure = [](int rank, const std::string& peer) {
    return "meshbed: warning: rank " + std::to_string(rank) + ": NET/Mesh : failure peer=" + peer +
           " (rocep1s0f0) nic=rocep1s0f0 gid=:: qp=1->2 op=send status=\"transport retry counter exceeded\" "
           "vendor_err=0x0 "
           "conn_age=7517ms: the port of rocep1s0f0 is down: look at its cable\n";
  };
  const std::string both = nics(0, "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.1/24") +
                           nics(1, "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.2/24");
  CHECK(first({both}) == "none");
  CHECK(first({both + failure(0, "192.168.100.2")}) == "rank-dead");
  CHECK(first({both + failure(0, "192.168.100.2") + failure(1, "192.168.100.1")}) == "port-down");
  CHECK(first({nics(0, "rocep1s0f0:1 enp1s0f0np0 200 Gb/s up 192.168.100.1/24") +
               nics(1, "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.2/24")}) == "half-rate");
  CHECK(first({nics(0, "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.1/24") +
               nics(1, "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.2/25")}) == "wrong-prefix");
  CHECK(first({nics(0,
                    "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.1/24; rocep1s0f1:1 enp1s0f1np1 100 Gb/s up "
                    "192.168.100.7/24")}) == "ports-in-one-subnet");
  CHECK(first({nics(0,
                    "rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.1/24; roceP2p1s0f0:1 enP2p1s0f0np0 100 Gb/s up "
                    "192.168.100.7/24")}) == "none");
}

TEST_CASE("each warning of the plugin that names a fault leads to its cause") {
  struct Warning {
    const char* text;
    const char* cause;
  };
  for (const Warning& each : {
           Warning{"no GID at NCCL_IB_GID_INDEX=7: port 1 of rocep1s0f0 is up, but has 0 (fe80::1, RoCE v1)",
                   "wrong-gid"},
           Warning{"client 192.168.100.1 port 32771 on 192.168.100.2 is refused: the peer's GID fe80::1 is not that of "
                   "its address 192.168.100.1",
                   "wrong-gid"},
           Warning{"a to b: the peer refuses: it uses a RoCE v2 GID, but rocep1s0f0 has none for 192.168.100.2",
                   "wrong-gid"},
           Warning{"no path: this node has 192.168.100.0/24 on a; the peer has 192.168.100.128/25; the subnets of x "
                   "and y overlap but have different prefix lengths",
                   "wrong-prefix"},
           Warning{"no path: this node has a; the peer has b; no shared subnet: a cable or a relay is needed",
                   "no-path"},
           Warning{"no connection a -> b: cannot reach the peer's address: No route to host; both are in "
                   "192.168.102.0/24: is the cable in these two ports, and is the link up?",
                   "crossed-cable"},
           Warning{"a QP 1 -> b QP 2: the port of rocep1s0f0 is down: look at its cable", "port-down"},
           Warning{"a: long messages are not striped over b c -> d until that cable replies (look at it): no reply",
                   "port-down"},
           Warning{"failure peer=1.2.3.4 (a) nic=b gid=:: qp=1->2 op=send status=\"transport retry counter exceeded\" "
                   "vendor_err=0x0 conn_age=7ms: the peer did not answer: cable, link or switch down, a wrong GID or "
                   "subnet, or the peer's process is gone",
                   "retry-exceeded"},
           Warning{"failure peer=1.2.3.4 (a) nic=b gid=:: qp=1->2 op=send status=\"RNR retry counter exceeded\" "
                   "vendor_err=0x0 conn_age=7ms: x",
                   "rnr-exceeded"},
           Warning{"failure peer=1.2.3.4 (a) nic=b gid=:: qp=1->2 op=send status=\"remote access error\" "
                   "vendor_err=0x0 conn_age=7ms: x",
                   "access-error"},
           Warning{"a QP 1 <- b QP 2: a recv has not completed for 30 s (NCCL_MESH_TIMEOUT_SEC), 7 requests are "
                   "outstanding",
                   "rank-late"},
           Warning{"the peer 198.18.0.2 is reached over TCP on mgmt0 (198.18.0.1), not by RDMA: slow",
                   "management-nic"},
           Warning{"NCCL_IB_HCA=^rocep1s0f0 allows none of the existing ports: rocep1s0f0:1", "no-rdma-device"},
           Warning{"mlx5_0: memory of 64 bytes cannot be registered: Cannot allocate memory", "memlock"},
           Warning{"the peer's ring has another size: install the same plugin on all nodes", "version-mismatch"},
       }) {
    CAPTURE(each.text);
    CHECK(first({std::string("meshbed: warning: rank 0: NET/Mesh : ") + each.text + "\n"}) == each.cause);
    CHECK(first({std::string("host:1:2 [0] NCCL WARN NET/Mesh : ") + each.text + "\n"}) == each.cause);
  }
}

TEST_CASE("limits, rules and devices beside a log") {
  CHECK(first({"max locked memory       (kbytes, -l) 64\n"}) == "memlock");
  CHECK(first({"max locked memory       (kbytes, -l) unlimited\n"}) == "none");
  CHECK(first({"*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -j ACCEPT\n"}) == "firewall");
  CHECK(first({"h:1:1 [0] NCCL INFO NET/IB : No device found.\nh:1:1 [0] NCCL INFO NET/Socket : Using "
               "[0]eth0:172.17.0.2<0>\n"}) == "no-rdma-device");
  CHECK(first({"h:1:1 [0] NCCL INFO NET/IB : No device found.\nh:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 "
               "localRanks 2\n"}) == "none");
}

TEST_CASE("each line of the table is found by its words, and leads to its cause") {
  for (const Symptom& symptom : symptoms()) {
    CAPTURE(symptom.pattern);
    CHECK(std::string(symptom.source).size() > 4);
    CHECK(symptom.weight < 1);
    Case found;
    found.match({.file = "log", .number = 1, .text = line_with(symptom.pattern)});
    if (symptom.weight > 0) {
      CHECK(found.has_sign(symptom.cause));
    } else {
      CHECK_FALSE(found.to_be_judged.empty());
    }
  }
  for (const CauseInfo& info : cause_infos()) {
    CAPTURE(info.name);
    CHECK((cause_named(info.name) == info.code));
    CHECK(std::string(info.check).size() > 10);
    CHECK(std::string(info.fix).size() > 10);
  }
  CHECK_FALSE(cause_named("crossed-cabel"));
}

TEST_CASE("the words that people look for are on the page, and docs/troubleshooting.md is the table's") {
  const std::string page = troubleshooting_page();
  for (const char* words : {"status=12", "vendor err 129", "error 110", "local QP operation err", "errno 111",
                            "status=13", "status=10", "ulimit -l"}) {
    CHECK_MESSAGE(page.find(words) != std::string::npos, words);
  }
  CHECK_MESSAGE(page == read_text_file(std::string(MESHBED_SOURCE_DIR) + "/docs/troubleshooting.md"),
                "meshbed diagnose --table > docs/troubleshooting.md");
}

TEST_CASE("what is no log is refused with what to do") {
  CHECK(refusal_of("").find("some: empty") == 0);
  CHECK(refusal_of("hello world\n").find("none of its lines is of a format") != std::string::npos);
  CHECK(refusal_of(std::string("\x80\x04\x95 pickle", 10)).find("json.dump(pickle.load") != std::string::npos);
  CHECK(refusal_of(std::string("\x7f"
                               "ELF\0\0",
                               6))
            .find("a program or library") != std::string::npos);
  CHECK(refusal_of("{\"communicators\": [}").find("some:1:20: no JSON") == 0);
  CHECK(refusal_of("{\"a\": 1}").find("none of RAS") != std::string::npos);
  CHECK(refusal_of("{" + std::string(500, '[')).find("nested more deeply") != std::string::npos);
  CHECK(refusal_of("posted_ps,started_ps\n1,2\n").find("some:1: columns status and tries are missing") == 0);
}

TEST_CASE("patterns: parts in their order within a line") {
  CHECK(matches("a b c", "a*c"));
  CHECK(matches("xaby", "ab"));
  CHECK_FALSE(matches("c b a", "a*c"));
  CHECK_FALSE(matches("a", "a*a"));
  CHECK(matches("anything", "*"));
}

}  // namespace diagnose_test
