#include "cli/bench/bench_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/bench/bench_reduce_gpu.h"
#include "plugin/base/prng.h"
#include "plugin/base/units.h"
#include "plugin/coll/reduce/reduce.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;
using coll::DataType;
using coll::ReduceOp;
using coll::VectorLevel;

constexpr int kCopiedPerByte = 2, kReducedPerByte = 3;
constexpr std::array kTypes{DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
                            DataType::kInt8,    DataType::kInt32,   DataType::kInt64};
constexpr double kFloat32Wanted = 0.8, kBfloat16Wanted = 0.5;

struct ReduceBuffers {
  explicit ReduceBuffers(std::uint64_t bytes) : arrived(bytes), own(bytes), result(bytes) {
    Prng prng(1);
    // Small integers in every type, so that no kernel meets subnormal numbers.
    for (std::uint64_t at = 0; at < bytes; ++at) arrived[at] = own[at] = static_cast<char>(prng.below(64));
  }
  std::vector<char> arrived, own, result;
};

/// Whatever the compiler knows of memcpy: lines through registers, as STREAM's loop does it.
void copy(char* to, const char* from, std::uint64_t bytes) {
  using Line = double __attribute__((vector_size(64)));
  for (std::uint64_t at = 0; at + sizeof(Line) <= bytes; at += sizeof(Line)) {
    Line line;
    std::memcpy(&line, from + at, sizeof line);
    std::memcpy(to + at, &line, sizeof line);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

template <typename Work>
double seconds_of(const Work& work) {
  const double before = cpu_seconds();
  work();
  return cpu_seconds() - before;
}

nlohmann::json measure(ReduceBuffers& buffers, DataType type, VectorLevel level, int repetitions) {
  const std::uint64_t bytes = buffers.result.size();
  const auto gigabytes_per_s = [&](int passes, double seconds) {
    return static_cast<double>(bytes) * passes / seconds / 1e9;
  };
  const coll::ReduceFunction kernel = coll::reduce_kernels(type, ReduceOp::kSum, level).only;
  std::vector<double> rates, shares;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const double copied =
        gigabytes_per_s(kCopiedPerByte, seconds_of([&] { copy(buffers.result.data(), buffers.own.data(), bytes); }));
    const double library = gigabytes_per_s(
        kCopiedPerByte, seconds_of([&] { std::memcpy(buffers.result.data(), buffers.own.data(), bytes); }));
    rates.push_back(gigabytes_per_s(kReducedPerByte, seconds_of([&] {
                                      kernel(buffers.result.data(), buffers.arrived.data(), buffers.own.data(),
                                             bytes / coll::size_of(type), 2);
                                    })));
    shares.push_back(rates.back() / std::max(copied, library));
  }
  return {{"type", coll::name_of(type)},
          {"vectors", coll::name_of(level)},
          {"gigabytes_per_cpu_s", median(rates)},
          {"share_of_copy", median(shares)},
          {"shares_of_all_repetitions", shares}};
}

std::string remark(const nlohmann::json& row) {
  const double wanted = row.at("type") == coll::name_of(DataType::kFloat32)    ? kFloat32Wanted
                        : row.at("type") == coll::name_of(DataType::kBfloat16) ? kBfloat16Wanted
                                                                               : 0;
  const bool best = row.at("vectors") == coll::name_of(coll::best_level());
  return wanted > 0 && best ? fmt::format("  wanted: at least {}", wanted) : "";
}

struct ReduceResult {
  std::uint64_t bytes = 0;
  bool json = false;
  std::string keep;
};

int finish(const ReduceResult& wanted, nlohmann::json result, std::ostream& out) {
  result["bytes"] = wanted.bytes;
  result["provenance"] = bench_provenance();
  if (wanted.json) out << json_text(result, kIndent) << "\n";
  if (!wanted.keep.empty()) write_text_file(wanted.keep, json_text(result, kIndent) + "\n");
  return kExitOk;
}

int bench_on_gpu(int device, const ReduceResult& wanted, int repetitions, std::ostream& out) {
  nlohmann::json result = measure_gpu_reductions(device, {kTypes.begin(), kTypes.end()}, wanted.bytes, repetitions);
  result["benchmark"] = "reduce --gpu";
  if (!wanted.json) {
    out << fmt::format("sum of two buffers of {} MiB on {}, median of {}, as a share of a copy's speed\n",
                       wanted.bytes / kMiB, result.at("gpu").get<std::string>(), repetitions)
        << fmt::format("times: {}; where one arrived in pinned memory, of what passes the link\n",
                       result.at("times").get<std::string>())
        << "type       arrived in        us     GB/s   share\n";
    for (const auto& row : result.at("rows")) {
      out << fmt::format("{:<10} {:<10} {:9.1f} {:8.1f} {:7.2f}\n", row.at("type").get<std::string>(),
                         row.at("arrived_in").get<std::string>(), row.at("microseconds").get<double>(),
                         row.at("gigabytes_per_s").get<double>(), row.at("share_of_copy").get<double>());
    }
  }
  return finish(wanted, std::move(result), out);
}

}  // namespace

int bench_reduce_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench reduce [options]");
  std::string mebibytes_text = "64";
  std::string repetitions_text = "15", device_text = "0";
  ReduceResult wanted;
  bool gpu = false;
  syntax.options.add_options()  //
      ("mebibytes", po::value(&mebibytes_text)->value_name("N")->default_value(mebibytes_text),
       "size of each of the three buffers; larger than the caches, or it is their speed that shows")  //
      ("gpu", po::bool_switch(&gpu), "on the GPU that this process finds, by its own clock")          //
      ("device", po::value(&device_text)->value_name("N")->default_value(device_text),
       "of --gpu: which of the driver's devices, counted from 0")  //
      ("repetitions", po::value(&repetitions_text)->value_name("N")->default_value(repetitions_text),
       "of each kernel, with a copy before each")  //
      ("keep", po::value(&wanted.keep)->value_name("FILE"),
       "also write the result, with its provenance, to this file")  //
      ("json", po::bool_switch(&wanted.json), "print JSON instead of the table");
  syntax.only_with({"gpu"}, {"device"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::uint64_t bytes = parse_count("--mebibytes", mebibytes_text, 1, 4096) * kMiB;
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 1000));

  wanted.bytes = bytes;
  if (gpu) {
    constexpr std::uint64_t kDevicesMost = 1024;
    const auto device = static_cast<int>(parse_count("--device", device_text, 0, kDevicesMost));
    return bench_on_gpu(device, wanted, repetitions, out);
  }
  ReduceBuffers buffers(bytes);
  nlohmann::json rows = nlohmann::json::array();
  if (!wanted.json) {
    out << fmt::format("sum of two buffers of {} MiB, CPU time, median of {}, as a share of a copy's speed\n",
                       bytes / kMiB, repetitions)
        << "type       vectors       GB/s   share\n";
  }
  for (const DataType type : kTypes) {
    for (int level = 0; level < coll::kVectorLevels; ++level) {
      if (!coll::has(static_cast<VectorLevel>(level))) continue;
      rows.push_back(measure(buffers, type, static_cast<VectorLevel>(level), repetitions));
      const nlohmann::json& row = rows.back();
      if (wanted.json) continue;
      out << fmt::format("{:<10} {:<10} {:7.1f} {:7.2f}{}\n", row.at("type").get<std::string>(),
                         row.at("vectors").get<std::string>(), row.at("gigabytes_per_cpu_s").get<double>(),
                         row.at("share_of_copy").get<double>(), remark(row))
          << std::flush;
    }
  }
  return finish(wanted, {{"benchmark", "reduce"}, {"rows", rows}}, out);
}

}  // namespace meshbed::testbed
