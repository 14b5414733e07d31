// What nccl-tests and perftest print is read as measured files are.
#include "testbed/fidelity/tool_output.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>

#include "testbed/fidelity/measured_file.h"

namespace tool_output_test {

using namespace meshbed::testbed;

namespace {

MeasuredFile file_of(const std::string& output, const MeasuredOptions& options = {}) {
  const auto rows = measured_text_of(output);
  REQUIRE(rows);
  return parse_measured(rows->text, "out.txt", options, rows->lines);
}

}  // namespace

TEST_CASE("nccl-tests: ranks and hosts are counted, each size has a row for each placement") {
  const MeasuredFile file = file_of(
      "# Collective test starting: all_gather_perf\n"
      "# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048\n"
      "#  Rank  0 Group  0 Pid  11 on    node-a device  0 [0000:01:00] NVIDIA GB10\n"
      "#  Rank  1 Group  0 Pid  12 on    node-b device  0 [0000:01:00] NVIDIA GB10\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
      "        1024           256     float    none      -1    20.50    0.05    0.02    N/A    21.00    0.05    0.02   "
      " N/A\n"
      "        2048           512     float    none      -1    22.00    0.09    0.05      0    23.00    0.09    0.04   "
      "   0\n"
      "# Avg bus bandwidth    : 0.03\n");
  REQUIRE(file.rows.size() == 4);
  CHECK(file.bad.empty());
  CHECK(file.rows[0].point.call.collective == meshbed::models::Collective::kAllGather);
  CHECK(file.rows[0].point.call.ranks == 2);
  CHECK(file.rows[0].point.call.nodes == 2);
  CHECK(file.rows[0].point.time_us == 20.5);
  CHECK(file.rows[1].placement == "in");
  CHECK(file.rows[3].point.call.bytes == 2048);
  CHECK(file.rows[3].point.time_us == 23);
}

TEST_CASE("nccl-tests: older columns, tagged lines, several tests in one output, and the library's settings") {
  // The columns of 2021 have no root, and "error" for "#wrong"; no line named the test then (nccl-tests issue 68).
  const MeasuredFile old = file_of(
      "$ mpirun -x NCCL_PROTO=LL -np 2 ./third_party/nccl-tests/build/all_reduce_perf -b 8 -e 16 -f 2 -g 1\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 10 iters: 100 validation: 1 \n"
      "#   Rank  0 Pid 190712 on    blg94 device  0 [0x00] Tesla V100\n"
      "#   Rank  1 Pid 190713 on    blg94 device  1 [0x00] Tesla V100\n"
      "#                                                     out-of-place                       in-place\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "           8             2   float     sum    24.51    0.00    0.00  1e-07    23.12    0.00    0.00  1e-07\n");
  REQUIRE(old.rows.size() == 2);
  CHECK(old.rows[0].point.call.collective == meshbed::models::Collective::kAllReduce);
  CHECK(old.rows[0].point.call.nodes == 1);
  CHECK(old.rows[0].point.time_us == 24.51);
  CHECK(old.rows[1].point.time_us == 23.12);
  CHECK(old.rows[0].line == 7);
  CHECK(old.rows[0].point.call.iterations == 100);
  CHECK(old.rows[0].point.call.protocol == meshbed::models::CollectiveProtocol::kLl);
  const std::string tag = "[1,0]<stdout>:";
  const std::string header = tag +
                             "#       size         count      type   redop    root     time   algbw   busbw #wrong"
                             "     time   algbw   busbw #wrong\n";
  const MeasuredFile both = file_of(
      tag + "# Collective test starting: all_reduce_perf\n" + tag + "# nThread 1 nGpus 1 graph: 0\n" + tag +
      "#  Rank  0 Group  0 Pid  1 on  a device  0 [0] H100\n" + tag +
      "#  Rank  1 Group  0 Pid  2 on  b device  0 [0] H100\n" + header + tag +
      "        1024           256     float     sum      -1    20.50    0.05    0.05      0    21.00    0.05    0.05   "
      "   "
      "0\n" +
      tag + "# Avg bus bandwidth    : 0.05\n" + tag + "# Collective test concluded: all_reduce_perf\n" + tag +
      "NCCL INFO NCCL_ALGO set by environment to Ring,Tree.\n" + tag + "# Collective test starting: alltoall_perf\n" +
      tag + "# nThread 1 nGpus 1 graph: 20\n" + tag + "#  Rank  0 Group  0 Pid  1 on  a device  0 [0] H100\n" + tag +
      "#  Rank  1 Group  0 Pid  2 on  a device  1 [0] H100\n" + tag +
      "#  Rank  2 Group  0 Pid  3 on  a device  2 [0] H100\n" + header + tag +
      "           0             0     float    none      -1     0.06    0.00    0.00      0     0.06    0.00    0.00   "
      " "
      "N/A\n" +
      tag +
      "         384            32     float    none      -1    13.50    0.05    0.05      0    14.00    0.05    0.05   "
      " "
      "N/A\n");
  REQUIRE(both.rows.size() == 4);
  CHECK(both.bad.empty());
  CHECK(both.rows[1].point.call.ranks == 2);
  CHECK(both.rows[1].point.call.nodes == 2);
  CHECK(both.rows[2].point.call.collective == meshbed::models::Collective::kAllToAll);
  CHECK(both.rows[2].point.call.ranks == 3);
  CHECK(both.rows[2].point.call.nodes == 1);
  CHECK(both.rows[2].point.time_us == 13.5);
  CHECK_FALSE(both.rows[2].point.call.algorithm);  // a list of two is no choice
  CHECK(both.set_up.find("CUDA graph") != std::string::npos);
}

TEST_CASE("nccl-tests: columns of single iterations, one placement alone, and CPU times, which are none") {
  // Columns as src/util.cu of nccl-tests @a0b82b2 writes them, writeResultHeader.
  const std::string head = "# Collective test starting: broadcast_perf\n# nThread 1 nGpus 2\n";
  const MeasuredFile each = file_of(
      head + "# out-of-place (+ per-iteration)  in-place (+ per-iteration)\n" +
          "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min "
          "i_max i_p99 i_cv%\n"
          "  64 16 float none 0 5.50 0.01 0.01 0 5.1 6.2 6.2 3.0 6.50 0.01 0.01 0 6.1 7.2 7.2 3.0\n"
          "  128 32 float none 0 7.50 0.01 0.01 0 6.1 7.2 7.2 3.0\n",
      {.ranks = 2, .ranks_per_node = {}});
  REQUIRE(each.rows.size() == 3);
  CHECK(each.bad.empty());
  CHECK(each.rows[1].point.time_us == 6.5);
  CHECK(each.rows[2].placement == "in");
  CHECK(each.rows[2].point.time_us == 7.5);
  const std::string cpu = head +
                          "# out-of-place in-place\n# size count type redop root cputime algbw busbw #wrong cputime "
                          "algbw busbw #wrong\n  64 16 float none 0 5.50 0.01 0.01 0 6.50 0.01 0.01 0\n";
  CHECK_THROWS_WITH(file_of(cpu, {.ranks = 2, .ranks_per_node = {}}),
                    "out.txt:5: no usable row; the first: no time (\"cputime\") and no bandwidth to derive it from");
}

TEST_CASE(
    "nccl-tests' JSON: a device for each process, placements that were not run, sizes of nothing, a broken file") {
  // As src/util.cu of nccl-tests @a0b82b2 writes it.
  const std::string json =
      R"({"version":3,"start_time":"2026-11-27 10:00:00","args":["/opt/build/all_gather_perf","-g","2"],)"
      R"("env":["PATH=/bin","NCCL_ALGO=Ring"],"nccl_version":22809,"config":{"nthreads":1,"ngpus":2,"iterations":50,"graph":20,)"
      R"("devices":[{"rank":0,"group":0,"pid":1,"hostname":"a","device":0,"device_hex":"0:1","device_info":"H100"},)"
      R"({"rank":2,"group":0,"pid":2,"hostname":"b","device":0,"device_hex":"0:1","device_info":"H100"}]},"results":[)"
      R"({"size":0,"count":0,"type":"float","redop":"none","root":"    -1","out_of_place":{"time":0.06,"alg_bw":0.0,)"
      R"("bus_bw":0.0,"nwrong":null},"in_place":null,"actual_iterations":20,"experiment_name":""},)"
      R"({"size":1024,"count":64,"type":"float","redop":"none","root":"    -1","out_of_place":{"time":20.5,)"
      R"("alg_bw":0.05,"bus_bw":0.03,"nwrong":0.0},"in_place":{"time":"nan","alg_bw":"nan","bus_bw":"nan",)"
      R"("nwrong":0.0},"actual_iterations":20,"experiment_name":""},)"
      R"({"size":2048,"count":128,"type":"float","redop":"none","root":"    -1","out_of_place":null,)"
      R"("in_place":{"time":22.25,"alg_bw":0.09,"bus_bw":0.06,"nwrong":0.0}}],"end_time":"2026-11-27 10:00:01"})";
  const MeasuredFile file = file_of(json);
  REQUIRE(file.rows.size() == 2);
  CHECK(file.rows[0].point.call.collective == meshbed::models::Collective::kAllGather);
  CHECK(file.rows[0].point.call.ranks == 4);
  CHECK(file.rows[0].point.call.nodes == 2);
  CHECK(file.rows[0].point.call.iterations == 50);
  CHECK(file.rows[0].point.call.algorithm == meshbed::models::CollectiveAlgorithm::kRing);
  CHECK(file.rows[0].point.time_us == 20.5);
  CHECK(file.rows[1].placement == "in");
  CHECK(file.rows[1].point.call.bytes == 2048);
  CHECK(file.set_up.find("CUDA graph") != std::string::npos);
  REQUIRE(file.bad.size() == 1);
  CHECK(file.bad[0].line == 2);  // the result's number: such a file has one line
  CHECK(file.bad[0].reason.find("no time") == 0);
  std::string many = json;
  many.replace(many.find("\"nthreads\":1,\"ngpus\":2"), 22, "\"nthreads\":2,\"ngpus\":2147483647");
  CHECK_THROWS_WITH_AS(file_of(many), doctest::Contains("8589934588 ranks; 2 to 1000000"), std::runtime_error);
  for (const std::size_t end : {json.size() - 1, json.size() / 2, std::size_t{60}}) {
    std::string broken = json.substr(0, end);
    if (broken.find("nccl_version") == std::string::npos) broken += "\"nccl_version\"";
    CHECK_THROWS_WITH_AS(measured_text_of(broken), doctest::Contains("is broken or ends early"), std::runtime_error);
  }
  for (const std::string odd : {R"({"nccl_version":1})", R"({"nccl_version":1,"config":[],"results":{}})",
                                R"({"nccl_version":1,"results":[3,{"size":"x","in_place":{}}],"args":7})"}) {
    CHECK_THROWS_AS(file_of(odd), std::runtime_error);
  }
}

TEST_CASE("nccl-tests: each test has its own protocol, wrong results are no times, words of a log are no collectives") {
  const std::string devices =
      "#  Rank  0 Group  0 Pid  1 on  a device  0 [0] H100\n"
      "#  Rank  1 Group  0 Pid  2 on  b device  0 [0] H100\n";
  const std::string header =
      "# out-of-place in-place\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n";
  const MeasuredFile two =
      file_of("$ mpirun -x NCCL_PROTO=LL all_reduce_perf\n# nThread 1 nGpus 1\n" + devices + header +
              " 1024 256 float sum -1 20.5 0.05 0.05 0 21.5 0.05 0.05 0\n# Avg bus bandwidth : 1\n"
              "$ mpirun -x NCCL_PROTO=Simple all_reduce_perf\n# nThread 1 nGpus 1\n" +
              devices + "NCCL INFO loaded /opt/tools/net_perf\n# job nightly_perf\n" + header +
              " 1024 256 float sum -1 30.5 0.05 0.05 256 31.5 0.05 0.05 0\n");
  REQUIRE(two.rows.size() == 3);
  CHECK(two.rows[0].point.call.protocol == meshbed::models::CollectiveProtocol::kLl);
  CHECK(two.rows[2].point.call.protocol == meshbed::models::CollectiveProtocol::kSimple);
  CHECK(two.rows[2].point.time_us == 31.5);
  CHECK(two.rows[2].collective == "all_reduce");
  REQUIRE(two.bad.size() == 1);
  CHECK(two.bad[0].reason == "no time (\"256 wrong elements\") and no bandwidth to derive it from");
  // The settings of one of two are not the other's.
  const MeasuredFile one =
      file_of("$ mpirun -x NCCL_PROTO=LL -x NCCL_ALGO=Ring all_reduce_perf\n# nThread 1 nGpus 1\n" + devices + header +
              " 1024 256 float sum -1 20.5 0.05 0.05 0 21.5 0.05 0.05 0\n" +
              "# Avg bus bandwidth : 1\n$ mpirun all_reduce_perf\n# nThread 1 nGpus 1\n" + devices + header +
              " 1024 256 float sum -1 30.5 0.05 0.05 0 31.5 0.05 0.05 0\n");
  REQUIRE(one.rows.size() == 4);
  CHECK(one.rows[0].point.call.protocol == meshbed::models::CollectiveProtocol::kLl);
  CHECK_FALSE(one.rows[2].point.call.protocol);
  CHECK_FALSE(one.rows[2].point.call.algorithm);
  // srun --label
  CHECK(file_of("0: # Collective test starting: broadcast_perf\n0: # nThread 1 nGpus 1\n0: " + header +
                    "0: 1024 256 float none 0 20.5 0.05 0.05 0 21.5 0.05 0.05 0\n",
                {.ranks = 2, .ranks_per_node = {}})
            .rows.size() == 2);
  CHECK(measured_text_of(header + "pod-7 1024 256 float sum -1 20.5 0.05 0.05 0\n")->rows == 0);
}

TEST_CASE("perftest: several tests in one output, and what no model has is named") {
  const std::string rate = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n";
  const std::string megabytes = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n";
  const MeasuredFile both =
      file_of("# Send me the results\n                    RDMA_Write BW Test\n" + rate +
              " 65536      5000             97.80              97.50              0.186\n"
              "                    RDMA_Read BW Test\n" +
              megabytes +
              " 65536      5000             11000.00           10000.00           0.16\n"
              "                    Send Latency Test\n"
              " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n"
              " 2       1000          1.40           5.25         1.47               1.48\n"
              "                    RDMA_Write Bidirectional BW Test\n" +
              rate + " 65536      5000             190.00             180.00              0.3\n");
  REQUIRE(both.rows.size() == 4);
  CHECK(both.rows[0].collective == "ib_write_bw");
  CHECK(both.rows[0].point.time_us == doctest::Approx(65536 * 8 / 97.5e3));
  CHECK(both.rows[1].collective == "ib_read_bw");
  CHECK(both.rows[1].point.time_us == doctest::Approx(65536 / (10000.0 * 1048576) * 1e6));
  CHECK(both.rows[2].point.time_us == 1.47);
  CHECK(both.bad.empty());
  CHECK(both.rows[3].line == 13);
  CHECK(both.rows[3].point.message.both_ways);
  CHECK_FALSE(both.rows[0].point.message.both_ways);
  CHECK(file_of("                    Atomic FETCH_AND_ADD BW Test\n" + rate + " 8 5000 97.8 97.5 0.1\n")
            .rows[0]
            .collective == "ib_atomic_bw");
  CHECK_THROWS_WITH_AS(file_of("                    Raw Ethernet BW Test\n" + rate + " 8 5000 97.8 97.5 0.1\n"),
                       doctest::Contains("no time (\"Raw\")"), std::runtime_error);
}

TEST_CASE("perftest: a rate becomes the time between messages, a latency is its typical time") {
  const MeasuredFile rate = file_of(
      "                    RDMA_Write BW Test\n"
      " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
      " 65536      5000             97.80              97.50              0.186\n");
  REQUIRE(rate.rows.size() == 1);
  CHECK(rate.rows[0].point.is_message);
  CHECK_FALSE(rate.rows[0].point.message.latency);
  CHECK(rate.rows[0].point.time_us == doctest::Approx(65536 * 8 / 97.5e3));
  const MeasuredFile latency = file_of(
      "                    Send Latency Test\n"
      " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]\n"
      " 2       1000          1.40           5.25         1.47               1.48           0.05\n");
  REQUIRE(latency.rows.size() == 1);
  CHECK(latency.rows[0].collective == "ib_send_lat");
  CHECK(latency.rows[0].point.message.latency);
  CHECK(latency.rows[0].point.time_us == 1.47);
}

TEST_CASE("what neither of them printed is left as it is") {
  CHECK_FALSE(measured_text_of("collective,ranks,nodes,bytes,time_us\nall_reduce,2,2,64,5\n"));
  CHECK_FALSE(measured_text_of(""));
}

}  // namespace tool_output_test
