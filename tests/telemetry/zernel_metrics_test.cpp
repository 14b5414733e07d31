// zernel's percentiles and its metrics, on numbers that are known.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "testbed/result/zernel/metrics.h"

namespace zernel_metrics_test {

using namespace meshbed::testbed::zernel;

namespace {

/// Samples 1, 2, ... n.
Latencies counted_to(std::uint64_t n) {
  Latencies latencies;
  for (std::uint64_t sample = 1; sample <= n; ++sample) latencies.add(sample);
  return latencies;
}

Streams known() {
  constexpr std::uint64_t kMs = 1'000'000;
  Streams streams;
  streams.gpu_memory = {{7, 1, 4096, 0, 4096, 1}, {7, 1, 4096, 0, 8192, 2}, {7, 1, 0, 8192, 0, 3}, {7, 0, 1, 0, 1, 4}};
  streams.cuda = {{.pid = 20, .latency_ns = 142'000}, {.pid = 3, .latency_ns = 642'000}};
  for (const std::uint64_t duration_ms : {34, 51, 38}) {
    streams.nccl.push_back({.pid = 1, .op = 0, .start_ns = 100 * kMs, .duration_ns = duration_ms * kMs});
  }
  streams.nccl.push_back({.pid = 1, .op = 3, .duration_ns = 1'234'567});
  streams.nccl.push_back({.pid = 1, .op = 2, .duration_ns = 499});
  streams.nccl.push_back({.pid = 1, .op = 1, .duration_ns = 500});
  streams.nccl.push_back({.pid = 1, .op = 9, .duration_ns = 2'000'000'000});
  streams.dataload = {{.pid = 5, .latency_ns = 8 * kMs}, {.pid = 5, .latency_ns = 9 * kMs}};
  streams.dist_sync = {{1, 1, 5000, 900 * kMs}};
  return streams;
}

}  // namespace

TEST_CASE("p50 is sorted[n / 2], p99 sorted[trunc(0.99 n)], for each of the first ten samples") {
  CHECK(counted_to(0).p50_ns() == 0);
  for (std::uint64_t n = 1; n <= 10; ++n) {
    CHECK(counted_to(n).p50_ns() == n / 2 + 1);
    CHECK(counted_to(n).p99_ns() == n);  // trunc(0.99 n) is n - 1 below 100
    CHECK(counted_to(n).count() == n);
  }
}

TEST_CASE("between the tenth and each hundredth sample percentiles are those of before") {
  for (const std::uint64_t n : {11, 50, 99}) {
    CHECK(counted_to(n).p50_ns() == 6);
    CHECK(counted_to(n).p99_ns() == 10);
    CHECK(counted_to(n).count() == n);
  }
  CHECK(counted_to(100).p50_ns() == 51);
  CHECK(counted_to(100).p99_ns() == 100);
  CHECK(counted_to(199).p50_ns() == 51);
  CHECK(counted_to(200).p50_ns() == 101);
  CHECK(counted_to(200).p99_ns() == 199);
  CHECK(counted_to(1000).p99_ns() == 991);
}

TEST_CASE("samples are sorted, whatever their order") {
  Latencies latencies;
  for (const std::uint64_t sample : {9, 1, 5}) latencies.add(sample);
  CHECK(latencies.p50_ns() == 5);
  CHECK(latencies.p99_ns() == 9);
}

TEST_CASE("/metrics is the golden text") {
  CHECK(Metrics(known()).prometheus() ==
        R"(# HELP zernel_gpu_memory_used_bytes GPU memory that the process holds now
# TYPE zernel_gpu_memory_used_bytes gauge
zernel_gpu_memory_used_bytes{pid="7",gpu_id="0"} 1
zernel_gpu_memory_used_bytes{pid="7",gpu_id="1"} 0
# HELP zernel_gpu_memory_peak_bytes the most GPU memory that the process held
# TYPE zernel_gpu_memory_peak_bytes gauge
zernel_gpu_memory_peak_bytes{pid="7",gpu_id="0"} 1
zernel_gpu_memory_peak_bytes{pid="7",gpu_id="1"} 8192
# HELP zernel_cuda_launch_latency_seconds time inside a kernel launch
# TYPE zernel_cuda_launch_latency_seconds summary
zernel_cuda_launch_latency_seconds{pid="3",quantile="0.5"} 0.000642
zernel_cuda_launch_latency_seconds{pid="3",quantile="0.99"} 0.000642
zernel_cuda_launch_latency_seconds_count{pid="3"} 1
zernel_cuda_launch_latency_seconds{pid="20",quantile="0.5"} 0.000142
zernel_cuda_launch_latency_seconds{pid="20",quantile="0.99"} 0.000142
zernel_cuda_launch_latency_seconds_count{pid="20"} 1
# HELP zernel_nccl_collective_duration_seconds time of one collective on one rank
# TYPE zernel_nccl_collective_duration_seconds summary
zernel_nccl_collective_duration_seconds{op="all_gather",quantile="0.5"} 0.000000
zernel_nccl_collective_duration_seconds{op="all_gather",quantile="0.99"} 0.000000
zernel_nccl_collective_duration_seconds{op="all_reduce",quantile="0.5"} 0.038000
zernel_nccl_collective_duration_seconds{op="all_reduce",quantile="0.99"} 0.051000
zernel_nccl_collective_duration_seconds{op="broadcast",quantile="0.5"} 0.000000
zernel_nccl_collective_duration_seconds{op="broadcast",quantile="0.99"} 0.000000
zernel_nccl_collective_duration_seconds{op="reduce_scatter",quantile="0.5"} 0.001235
zernel_nccl_collective_duration_seconds{op="reduce_scatter",quantile="0.99"} 0.001235
zernel_nccl_collective_duration_seconds{op="unknown",quantile="0.5"} 2.000000
zernel_nccl_collective_duration_seconds{op="unknown",quantile="0.99"} 2.000000
# HELP zernel_dataloader_wait_seconds time of one read of the data loader
# TYPE zernel_dataloader_wait_seconds summary
zernel_dataloader_wait_seconds{pid="5",quantile="0.5"} 0.009000
zernel_dataloader_wait_seconds{pid="5",quantile="0.99"} 0.009000
)");
}

TEST_CASE("the WebSocket's snapshot has zernel's keys, and zeros where nothing was seen") {
  const auto snapshot = Metrics(known()).snapshot();
  CHECK(snapshot.dump() == R"({"gpu_utilization":[{"key":"7:0","current_bytes":1,"peak_bytes":1},)"
                           R"({"key":"7:1","current_bytes":0,"peak_bytes":8192}],)"
                           R"("cuda_latency_p50_us":642.0,"cuda_latency_p99_us":642.0,)"
                           R"("nccl_allreduce_p50_ms":38.0,"nccl_allreduce_p99_ms":51.0,)"
                           R"("dataloader_wait_p50_ms":9.0,"last_update_ms":2000})");
  CHECK(Metrics({}).snapshot().at("nccl_allreduce_p50_ms") == 0);
}

}  // namespace zernel_metrics_test
