// Outputs of benchmarks in ten forms, made by machines whose values are known and recovered from them; and excerpts of
// published outputs, whose rates come out.
#include "testbed/fidelity/tool_output_forms.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "models/fit/calibrate.h"
#include "models/fit/spread.h"
#include "testbed/fidelity/measured_file.h"
#include "testbed/fidelity/stated_rate.h"

namespace tool_output_forms_test {

using namespace meshbed::testbed;
using meshbed::models::Basis;
using meshbed::models::Collective;
using meshbed::models::CollectiveCall;
using meshbed::models::Machine;
using meshbed::models::MachineParameter;
using meshbed::models::MachineTransport;
using meshbed::models::MessageTest;

namespace {

MeasuredFile read(const std::string& output, const MeasuredOptions& options = {}) {
  const auto rows = measured_text_of(output);
  REQUIRE(rows);
  return parse_measured(rows->text, "out.txt", options, rows->lines);
}

/// Two nodes of one GPU and one adapter of 200 Gb/s, of which 0.8 are reached; launches of 8 us, hops of 20.
Machine collective_truth() {
  Machine machine;
  machine.transport = MachineTransport::kVerbs;
  machine.set(MachineParameter::kNicGBps, {25, Basis::kDataSheet, "this test"});
  machine.set(MachineParameter::kNicFraction, {0.8, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kLaunchUs, {8, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kNetSimpleUs, {20, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kLlMaxBytes, {1, Basis::kMeasured, "this test"});
  machine.set(MachineParameter::kLl128MaxBytes, {1, Basis::kMeasured, "this test"});
  return machine;
}

/// An adapter of 200 Gb/s that sends 5 million messages a second, and 22 GB/s.
Machine message_truth() {
  Machine machine;
  machine.transport = MachineTransport::kMessage;
  machine.set(MachineParameter::kNicGBps, {25, Basis::kDataSheet, "this test"});
  machine.set(MachineParameter::kMessageUs, {0.2, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kReadMessageUs, {0.2, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kHostCapGBps, {22, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kWireUs, {2, Basis::kCalibrated, "this test"});
  machine.set(MachineParameter::kDmaUs, {0, Basis::kMeasured, "this test"});
  return machine;
}

double collective_us(Collective collective, double bytes, int ranks = 2) {
  return meshbed::models::collective_us(
      collective_truth(),
      {.collective = collective, .ranks = ranks, .nodes = ranks, .bytes = static_cast<std::uint64_t>(bytes)});
}
double message_us(const MessageTest& test, double bytes) {
  return meshbed::models::message_us(message_truth(), test, static_cast<std::uint64_t>(bytes));
}

std::string rows(double first, double last, double step, const std::function<std::string(double)>& row) {
  std::string all;
  for (double bytes = first; bytes <= last; bytes *= step) all += row(bytes);
  return all;
}

const std::string kRanks =
    "#  Rank  0 Group  0 Pid  11 on    node-a device  0 [0000:01:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid  12 on    node-b device  0 [0000:01:00] NVIDIA H100\n";
const std::string kNames =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n";

std::string nccl_row(double bytes, const char* between = "") {
  const double us = collective_us(Collective::kAllReduce, bytes);
  const std::string half = fmt::format("{:.2f} {:.2f} {:.2f} 0 {}", us, bytes / us / 1e3, bytes / us / 1e3, between);
  return fmt::format("{:.0f} {:.0f} float sum -1 {} {}\n", bytes, bytes / 4, half, half);
}

struct Form {
  const char* name;
  std::string output;
  bool is_message = false;
};

std::vector<Form> forms() {
  constexpr double kFirst = 1024, kLast = 1 << 30, kStep = 4, kMessage = 8 << 20;
  std::vector<Form> all;
  all.push_back(
      {"nccl-tests 2.13, text", "all_reduce_perf -b 1K -e 1G\n# nThread 1 nGpus 1 minBytes 1024 graph: 0\n" + kRanks +
                                    kNames + rows(kFirst, kLast, kStep, [](double bytes) { return nccl_row(bytes); })});
  all.push_back({"nccl-tests 2.19, each iteration",
                 "# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007\n"
                 "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 1024 graph: 0\n" +
                     kRanks +
                     "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw "
                     "#wrong i_min i_max i_p99 i_cv%\n" +
                     rows(kFirst, kLast, kStep, [](double bytes) { return nccl_row(bytes, "1.0 9.9 9.8 5.0"); })});
  all.push_back(
      {"nccl-tests 2.17, JSON",
       "{\"nccl_version\":22807,\"args\":[\"all_reduce_perf\"],\"env\":[],\"config\":{\"nthreads\":1,\"ngpus\":1,"
       "\"devices\":[{\"hostname\":\"a\"},{\"hostname\":\"b\"}]},\"results\":[" +
           rows(kFirst, kLast, kStep,
                [](double bytes) {
                  return fmt::format(
                      "{}{{\"size\":{:.0f},\"out_of_place\":{{\"time\":{:.4f},\"alg_bw\":1,\"bus_bw\":1,"
                      "\"nwrong\":0}}}}",
                      bytes > kFirst ? "," : "", bytes, collective_us(Collective::kAllReduce, bytes));
                }) +
           "]}"});
  all.push_back({"rccl-tests, text",
                 "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 1024 graph: 0\n"
                 "rccl-tests: Version develop:ae3e635\n" +
                     kRanks + "#                                    in-place\n" +
                     "# size count type redop root time algbw busbw #wrong\n" +
                     rows(kFirst, kLast, kStep, [](double bytes) {
                       return fmt::format("{:.0f} 1 float sum -1 {:.2f} 0 0 0\n", bytes,
                                          collective_us(Collective::kAllReduce, bytes));
                     })});
  all.push_back({"rccl-tests, JSON", "[" + rows(kFirst, kLast, kStep, [](double bytes) {
                                       return fmt::format(
                                           "{}{{\"numCycle\":0, \"name\":\"AllReduce\", \"nodes\":2, \"ranks\":2, "
                                           "\"ranksPerNode\":1, \"gpusPerRank\":1, \"size\":{:.0f}, \"inPlace\":0, "
                                           "\"time\":{:f}, \"algBw\":1, \"busBw\":1, \"wrong\":\"0\"}}",
                                           bytes > kFirst ? "," : "", bytes,
                                           collective_us(Collective::kAllReduce, bytes));
                                     }) + "]"});
  all.push_back({"OSU allgather, sizes of one rank",
                 "$ srun -N2 --ntasks-per-node=1 ./osu_allgather\n# OSU MPI-CUDA Allgather Latency Test v7.0\n"
                 "# Size       Avg Latency(us)\n" +
                     rows(kFirst / 2, kLast / 2, kStep, [](double bytes) {
                       return fmt::format("{:.0f} {:.2f}\n", bytes, collective_us(Collective::kAllGather, 2 * bytes));
                     })});
  all.push_back({"perftest, MiB",
                 "                    RDMA_Write BW Test\n #bytes     #iterations    BW peak[MiB/sec]    BW "
                 "average[MiB/sec]   MsgRate[Mpps]\n" +
                     rows(2, kMessage, 2,
                          [](double bytes) {
                            return fmt::format(" {:.0f} 5000 0.0 {:.6f} 1\n", bytes,
                                               bytes / message_us({}, bytes) * 1e6 / 1048576);
                          }),
                 true});
  all.push_back({"perftest, both ways, Gb",
                 "                    RDMA_Write Bidirectional BW Test\n #bytes     #iterations    BW peak[Gb/sec]    "
                 "BW average[Gb/sec]   MsgRate[Mpps]\n" +
                     rows(2, kMessage, 2,
                          [](double bytes) {
                            return fmt::format(" {:.0f} 5000 0.0 {:.6f} 1\n", bytes,
                                               bytes * 8 / message_us({.both_ways = true}, bytes) / 1e3);
                          }),
                 true});
  all.push_back(
      {"perftest, report file",
       rows(2, kMessage, 2,
            [](double bytes) {
              return fmt::format(
                  "{{\n\"test_info\": {{\n\"test\": \"RDMA_Write_BW_Test\",\n\"Device\": \"mlx5_0\",\n\"Mtu\": "
                  "4096,\n\"Number_of_qps\": 1,\n\"Link_type\": \"IB\"\n}},\n\"results\": {{\n\"MsgSize\": "
                  "{:.0f},\n\"n_iterations\": 5000,\n\"BW_peak\": 0.0,\n\"BW_average\": 1.0,\n\"MsgRate\": "
                  "{:.6f}\n}}\n}}\n",
                  bytes, 1 / message_us({}, bytes));
            }),
       true});
  all.push_back(
      {"OSU bandwidth",
       "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n" +
           rows(1, kMessage, 2,
                [](double bytes) { return fmt::format("{:.0f} {:.4f}\n", bytes, bytes / message_us({}, bytes)); }),
       true});
  return all;
}

Machine fitted_to(const MeasuredFile& file, Machine bare) {
  auto fit = meshbed::models::calibrate(bare, {file.sweep()}, "this test");
  REQUIRE(fit);
  meshbed::models::add_ranges({file.sweep()}, &*fit);
  const auto errors = meshbed::models::summarise(meshbed::models::errors_of(fit->machine, file.sweep().points));
  CHECK(errors.median < 0.03);
  return fit->machine;
}

/// The fitted value and its range, which holds the true one.
std::string within(const Machine& fit, MachineParameter parameter, double truth) {
  const auto& value = fit.value_of(parameter);
  REQUIRE(value.range.has_value());
  CHECK(value.range->first <= truth);
  CHECK(truth <= value.range->second);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", value.value, value.range->first, value.range->second);
}

}  // namespace

TEST_CASE("ten forms of output: the values of the machine that made them are recovered, within their ranges") {
  std::string table;
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    const MeasuredFile file = read(form.output);
    CHECK(file.bad.empty());
    CHECK(file.rows.size() >= 11);
    Machine bare = meshbed::models::without_calibration(form.is_message ? message_truth() : collective_truth());
    const Machine fit = fitted_to(file, bare);
    if (form.is_message) {
      CHECK(fit[MachineParameter::kMessageUs] == doctest::Approx(0.2).epsilon(0.1));
      CHECK(fit[MachineParameter::kHostCapGBps] == doctest::Approx(22).epsilon(0.05));
      table +=
          fmt::format("{:<34} message_us {} of 0.2, host_cap_GBps {} of 22\n", form.name,
                      within(fit, MachineParameter::kMessageUs, 0.2), within(fit, MachineParameter::kHostCapGBps, 22));
      continue;
    }
    // On one count of ranks launch and hops are one sum: 8 + 2 x 20 of an all_reduce, 8 + 20 of an all_gather.
    const bool gathers = file.rows.front().point.call.collective == Collective::kAllGather;
    const double start = fit[MachineParameter::kLaunchUs] + (gathers ? 1 : 2) * fit[MachineParameter::kNetSimpleUs];
    CHECK(fit[MachineParameter::kNicFraction] == doctest::Approx(0.8).epsilon(0.05));
    CHECK(start == doctest::Approx(gathers ? 28 : 48).epsilon(0.1));
    table += fmt::format("{:<34} nic_fraction {} of 0.8, launch and hops {:.1f} of {} us\n", form.name,
                         within(fit, MachineParameter::kNicFraction, 0.8), start, gathers ? 28 : 48);
  }
  MESSAGE(table);
}

TEST_CASE(
    "five published outputs: the large-message rate that each prints is recovered, within the range of its value") {
  struct Published {
    const char* source;
    const char* output;
    double rate_GBps;  // at its largest size
    double nic_GBps;
  };
  const Published all[] = {
      {"eth-cscs, OSU container with CXI, README: host buffers between two nodes of Alps (Slingshot, 200 Gb/s)",
       "# OSU MPI Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n1 1.47\n1024 1525.94\n"
       "8192 10906.83\n65536 22596.68\n1048576 23935.47\n4194304 24005.74\n",
       24.0, 25},
      {"the same page: both directions",
       "# OSU MPI Bi-Directional Bandwidth Test v7.5\n# Datatype: MPI_CHAR.\n# Size      Bandwidth (MB/s)\n1 1.49\n"
       "1024 1549.50\n2048 3099.12\n4096 6196.92\n8192 11733.62\n16384 22015.19\n32768 29944.20\n"
       "65536 36536.17\n131072 41016.28\n262144 43677.34\n524288 45144.12\n1048576 45916.67\n4194304 46506.47\n",
       23.25, 25},
      {"rpwagner, comet virtual-cluster tutorial: two nodes of Comet (FDR, 56 Gb/s; host-memory path of both ports)",
       "# OSU MPI Bandwidth Test v5.3\n# Size      Bandwidth (MB/s)\n1 9.04\n1024 3618.72\n2048 5236.77\n4096 "
       "6009.90\n8192 7854.50\n16384 10265.02\n32768 10829.96\n65536 "
       "11345.41\n"
       "262144 11430.55\n",
       11.43, 12.5},
      {"google/dranet @7b7661a examples/demo_gke_rdma/README.md:189: 400G ConnectX-7, ib_write_bw, one queue pair",
       "                    RDMA_Write BW Test\n Device         : mlx5_0\n Mtu             : 4096[B]\n"
       " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
       " 2 5000 0.05 0.0489 3.05\n 2048 5000 50 49.38 3.0\n 8192 5000 164 163.47 2.5\n 32768 5000 377 376.29 1.4\n"
       " 65536 5000 382 381.41 0.7\n",
       47.7, 50},
      {"HDR InfiniBand 200G, ib_write_bw, public page (models/data/cal_perftest_hdr200_ib_write_bw.csv)",
       "                    RDMA_Write BW Test\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   "
       "MsgRate[Mpps]\n 2 5000 5 4.94 2.6\n 2048 5000 4950 4939.87 2.5\n 8192 5000 17600 17540.8 2.2\n"
       " 65536 5000 22720 22714.6 0.36\n 8388608 5000 23320 23317.6 0.003\n",
       24.45, 25}};
  for (const Published& each : all) {
    CAPTURE(std::string(each.source));
    const MeasuredFile file = read(each.output);
    CHECK(file.bad.empty());
    CHECK(file.rows.size() >= 5);
    Machine bare;
    bare.transport = MachineTransport::kMessage;
    bare.set(MachineParameter::kNicGBps, {each.nic_GBps, Basis::kDataSheet, "this test"});
    auto fit = meshbed::models::calibrate(bare, {file.sweep()}, each.source);
    REQUIRE(fit);
    meshbed::models::add_ranges({file.sweep()}, &*fit);
    const auto bytes = file.rows.back().point.call.bytes;
    const double us = meshbed::models::predicted_us(fit->machine, file.rows.back().point);
    const int ways = file.rows.back().point.message.both_ways ? 2 : 1;
    CHECK(static_cast<double>(bytes) / us / 1e3 / ways == doctest::Approx(each.rate_GBps).epsilon(0.15));
    const double rate_GBps = static_cast<double>(bytes) / us / 1e3 / ways;
    std::string rates;
    for (const MachineParameter rate : {MachineParameter::kHostCapGBps, MachineParameter::kNicFraction}) {
      if (std::count(fit->fitted.begin(), fit->fitted.end(), rate) == 0) continue;
      const auto& value = fit->machine.value_of(rate);
      if (!value.range) continue;  // the adapter's own rate is the lower one
      const double low = rate_GBps * value.range->first / value.value,
                   high = rate_GBps * value.range->second / value.value;
      CHECK(low <= each.rate_GBps);
      CHECK(each.rate_GBps <= high);
      rates += fmt::format("; {} {:.3f}, {:.3f} to {:.3f}: {:.2f} to {:.2f} GB/s", meshbed::models::info_of(rate).name,
                           value.value, value.range->first, value.range->second, low, high);
    }
    // Where no value shows it, it is the data sheet's, with headers.
    if (rates.empty()) CHECK(rate_GBps == doctest::Approx(each.rate_GBps).epsilon(0.03));
    MESSAGE(std::string(each.source), ": ", rate_GBps, " GB/s of ", each.rate_GBps, rates);
  }
}

TEST_CASE("OSU: ranks of the command line, tests without a model are named, and a missing rank count is asked for") {
  const std::string gather =
      "$ srun --mpi=pmix -N2 --ntasks-per-node=4 ./osu_alltoall\n"
      "# OSU MPI All-to-All Personalized Exchange Latency Test v7.5\n# Size       Avg Latency(us)\n1024 13.74\n";
  const MeasuredFile file = read(gather);
  CHECK(file.rows[0].point.call.ranks == 8);
  CHECK(file.rows[0].point.call.nodes == 2);
  CHECK(file.rows[0].point.call.bytes == 8192);
  CHECK(file.rows[0].point.call.collective == Collective::kAllToAll);
  const std::string untold = "# OSU MPI Allreduce Latency Test v7.0\n# Size       Avg Latency(us)\n1024 13.74\n";
  CHECK_THROWS_WITH_AS(read(untold), doctest::Contains("--ranks gives one"), std::runtime_error);
  CHECK(read(untold, {.ranks = 4, .ranks_per_node = {}}).rows[0].point.call.ranks == 4);
  CHECK_THROWS_WITH_AS(read("# OSU MPI Multiple Bandwidth / Message Rate Test v5.3\n# Size MB/s\n8 5.0\n"),
                       doctest::Contains("a test that has no model: multiple bandwidth"), std::runtime_error);
  CHECK_THROWS_WITH_AS(measured_text_of("{\"test_info\": {}, \"results\": {\"MsgSize\": 8, "),
                       doctest::Contains("ends early"), std::runtime_error);
}

TEST_CASE("sizes may have units, and a rate is taken from words that state one") {
  const MeasuredFile file = parse_measured(
      "collective,ranks,nodes,bytes,time_us\nall_reduce,2,2,1K,5\nall_reduce,2,2,2MiB,50\n", "x.csv", {});
  CHECK(file.rows[0].point.call.bytes == 1024);
  CHECK(file.rows[1].point.call.bytes == 2097152);
  CHECK(parse_rate("200Gb/s")->each_GBps == 25);
  CHECK(parse_rate("8x400G")->adapters == 8);
  CHECK(parse_rate("25GB/s")->each_GBps == 25);
  CHECK_FALSE(parse_rate("fast").has_value());
  const auto stated = [](const std::string& header) {
    return parse_measured("# " + header + "\ncollective,ranks,nodes,bytes,time_us\nall_reduce,2,2,8,5\n", "x.csv", {})
        .rate;
  };
  CHECK(stated("topology_class: 8gpu/node NVLink, 8x200G IB")->adapters == 8);
  CHECK(stated("setup: two nodes, ConnectX-7 400GbE, 80GB H100")->each_GBps == 50);
  CHECK(stated("setup: DGX Spark, nccl-tests")->each_GBps == 25);
  CHECK(stated("setup: HDR InfiniBand")->each_GBps == 25);
  CHECK_FALSE(stated("setup: H100 80GB, PCIe 5.0").has_value());
}

}  // namespace tool_output_forms_test
