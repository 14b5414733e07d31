// What nccl-tests and perftest print is read as measured files are.
#include "cli/fidelity/tool_output.h"

#include <doctest/doctest.h>

#include "cli/fidelity/measured_file.h"

namespace tool_output_test {

using namespace meshbed::cli;

namespace {

MeasuredFile file_of(const std::string& output) {
  const auto text = measured_text_of(output);
  REQUIRE(text);
  return parse_measured(*text, "out.txt", {});
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
