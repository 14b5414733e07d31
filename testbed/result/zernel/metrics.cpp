#include "testbed/result/zernel/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

namespace meshbed::testbed::zernel {
namespace {

constexpr std::size_t kAlwaysUpTo = 10, kThenEvery = 100;

class MetricsText {
 public:
  void metric(const char* name, const char* type, const char* help) {
    name_ = name;
    put("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void value(const std::string& labels, std::uint64_t value) { put("{}{{{}}} {}\n", name_, labels, value); }
  void quantiles(const std::string& labels, const Latencies& latencies) {
    seconds(labels, "0.5", latencies.p50_ns());
    seconds(labels, "0.99", latencies.p99_ns());
  }
  void count(const std::string& labels, const Latencies& latencies) {
    put("{}_count{{{}}} {}\n", name_, labels, latencies.count());
  }
  std::string take() const { return fmt::to_string(buffer_); }

 private:
  template <typename... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Arguments>(arguments)...);
  }
  void seconds(const std::string& labels, const char* quantile, std::uint64_t time_ns) {
    put("{}{{{},quantile=\"{}\"}} {:.6f}\n", name_, labels, quantile, static_cast<double>(time_ns) / 1e9);
  }

  fmt::memory_buffer buffer_;
  const char* name_ = "";
};

std::string of_process(std::uint32_t pid) { return fmt::format("pid=\"{}\"", pid); }

}  // namespace

std::vector<std::uint64_t> Latencies::counted() const {
  std::size_t count = samples_ns_.size();
  if (count > kAlwaysUpTo) count = std::max(kAlwaysUpTo, count - count % kThenEvery);
  std::vector<std::uint64_t> sorted(samples_ns_.begin(), samples_ns_.begin() + static_cast<std::ptrdiff_t>(count));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::uint64_t Latencies::p50_ns() const {
  const auto sorted = counted();
  return sorted.empty() ? 0 : sorted[sorted.size() / 2];
}

std::uint64_t Latencies::p99_ns() const {
  const auto sorted = counted();
  if (sorted.empty()) return 0;
  return sorted[std::min(static_cast<std::size_t>(static_cast<double>(sorted.size()) * 0.99), sorted.size() - 1)];
}

const char* name_of_op(std::uint8_t op) {
  switch (static_cast<NcclOp>(op)) {
    case NcclOp::kAllReduce:
      return "all_reduce";
    case NcclOp::kBroadcast:
      return "broadcast";
    case NcclOp::kAllGather:
      return "all_gather";
    case NcclOp::kReduceScatter:
      return "reduce_scatter";
  }
  return "unknown";
}

Metrics::Metrics(const Streams& streams) {
  const auto until = [this](std::uint64_t time_ns) { latest_ns_ = std::max(latest_ns_, time_ns); };
  for (const GpuMemoryEvent& event : streams.gpu_memory) {
    GpuMemory& memory = gpu_memory_[{event.pid, event.gpu_id}];
    memory.used_bytes = event.total_usage;
    memory.peak_bytes = std::max(memory.peak_bytes, event.total_usage);
    until(event.timestamp_ns);
  }
  for (const CudaEvent& event : streams.cuda) {
    cuda_[event.pid].add(event.latency_ns);
    until(event.return_ns);
  }
  for (const NcclEvent& event : streams.nccl) {
    nccl_[name_of_op(event.op)].add(event.duration_ns);
    until(event.start_ns + event.duration_ns);
  }
  for (const DataloadEvent& event : streams.dataload) dataload_[event.pid].add(event.latency_ns);
  for (const DistSyncEvent& event : streams.dist_sync) until(event.timestamp_ns);
}

std::string Metrics::prometheus() const {
  MetricsText text;
  const auto of_gpu = [](const auto& key) { return fmt::format("pid=\"{}\",gpu_id=\"{}\"", key.first, key.second); };
  text.metric("zernel_gpu_memory_used_bytes", "gauge", "GPU memory that the process holds now");
  for (const auto& [key, memory] : gpu_memory_) text.value(of_gpu(key), memory.used_bytes);
  text.metric("zernel_gpu_memory_peak_bytes", "gauge", "the most GPU memory that the process held");
  for (const auto& [key, memory] : gpu_memory_) text.value(of_gpu(key), memory.peak_bytes);
  text.metric("zernel_cuda_launch_latency_seconds", "summary", "time inside a kernel launch");
  for (const auto& [pid, latencies] : cuda_) {
    text.quantiles(of_process(pid), latencies);
    text.count(of_process(pid), latencies);
  }
  text.metric("zernel_nccl_collective_duration_seconds", "summary", "time of one collective on one rank");
  for (const auto& [op, latencies] : nccl_) text.quantiles(fmt::format("op=\"{}\"", op), latencies);
  text.metric("zernel_dataloader_wait_seconds", "summary", "time of one read of the data loader");
  for (const auto& [pid, latencies] : dataload_) text.quantiles(of_process(pid), latencies);
  return text.take();
}

nlohmann::ordered_json Metrics::snapshot() const {
  constexpr double kPerMicrosecond = 1e3, kPerMillisecond = 1e6;
  static const Latencies kNone;
  const auto first = [](const ByProcess& all) -> const Latencies& { return all.empty() ? kNone : all.begin()->second; };
  const auto found = nccl_.find(name_of_op(static_cast<std::uint8_t>(NcclOp::kAllReduce)));
  const Latencies& all_reduce = found == nccl_.end() ? kNone : found->second;
  auto gpus = nlohmann::ordered_json::array();
  for (const auto& [key, memory] : gpu_memory_) {
    gpus.push_back({{"key", fmt::format("{}:{}", key.first, key.second)},
                    {"current_bytes", memory.used_bytes},
                    {"peak_bytes", memory.peak_bytes}});
  }
  return {{"gpu_utilization", std::move(gpus)},
          {"cuda_latency_p50_us", static_cast<double>(first(cuda_).p50_ns()) / kPerMicrosecond},
          {"cuda_latency_p99_us", static_cast<double>(first(cuda_).p99_ns()) / kPerMicrosecond},
          {"nccl_allreduce_p50_ms", static_cast<double>(all_reduce.p50_ns()) / kPerMillisecond},
          {"nccl_allreduce_p99_ms", static_cast<double>(all_reduce.p99_ns()) / kPerMillisecond},
          {"dataloader_wait_p50_ms", static_cast<double>(first(dataload_).p50_ns()) / kPerMillisecond},
          {"last_update_ms", latest_ns_ / 1'000'000}};
}

}  // namespace meshbed::testbed::zernel
