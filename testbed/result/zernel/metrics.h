#pragma once
// ZernelMetrics: what zernel's consumers make of the records, and what its /metrics and WebSocket say of them.
//
// Percentiles by its rule. Of n samples, sorted, p50 is number n / 2, and p99 number trunc(0.99 n), n - 1 at most. They
// are found anew with each of the first ten samples and then with every hundredth; in between they stay as they were,
// so that of 150 samples the last 50 do not show. All samples are kept.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "testbed/result/zernel/stream.h"

namespace meshbed::testbed::zernel {

class Latencies {
 public:
  void add(std::uint64_t sample_ns) { samples_ns_.push_back(sample_ns); }
  std::uint64_t count() const { return samples_ns_.size(); }
  /// O(n log n).
  std::uint64_t p50_ns() const;
  std::uint64_t p99_ns() const;

 private:
  /// Those that show, sorted.
  std::vector<std::uint64_t> counted() const;

  std::vector<std::uint64_t> samples_ns_;
};

/// "all_reduce", "broadcast", "all_gather", "reduce_scatter"; "unknown" for any other number.
const char* name_of_op(std::uint8_t op);

class Metrics {
 public:
  explicit Metrics(const Streams& streams);

  /// Text exposition format 0.0.4. Where zernel's own order is that of a hash map, ours is that of the labels.
  std::string prometheus() const;
  /// What a WebSocket client gets; cuda_latency and dataloader_wait are those of the lowest process number, where
  /// zernel takes any. last_update_ms: of the latest record.
  nlohmann::ordered_json snapshot() const;

 private:
  struct GpuMemory {
    std::uint64_t used_bytes = 0, peak_bytes = 0;
  };
  using ByProcess = std::map<std::uint32_t, Latencies>;

  std::map<std::pair<std::uint32_t, std::uint32_t>, GpuMemory> gpu_memory_;  // by process and GPU
  ByProcess cuda_, dataload_;
  std::map<std::string, Latencies> nccl_;  // by operation
  std::uint64_t latest_ns_ = 0;
};

}  // namespace meshbed::testbed::zernel
