#include "cli/bench/bench_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/bench/bench_reduce_gpu.h"
#include "cli/common/document_output.h"
#include "plugin/base/prng.h"
#include "plugin/base/units.h"
#include "plugin/coll/reduce/reduce.h"
#include "testbed/base/exit_status.h"
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

std::string remark(DataType type, VectorLevel level) {
  const double wanted = type == DataType::kFloat32 ? kFloat32Wanted : type == DataType::kBfloat16 ? kBfloat16Wanted : 0;
  return wanted > 0 && level == coll::best_level() ? fmt::format("wanted: at least {}", wanted) : "";
}

void measure(ReduceBuffers& buffers, DataType type, VectorLevel level, int repetitions, document::Table& rows) {
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
  rows.add({coll::name_of(type), coll::name_of(level), median(rates), median(shares), shares}, remark(type, level));
}

document::Document reduce_document(const std::string& name, std::uint64_t bytes, document::Table rows) {
  document::Document report = bench_document(name);
  document::Section& section = report.sections.front();
  section.with({document::integer("bytes", "B", "of each of the three buffers")});
  section.with(std::move(rows));
  section.set("bytes", bytes);
  return report;
}

document::Table reduce_rows() {
  using document::number, document::text;
  return {
      .key = "rows",
      .meaning = "sums of two buffers, medians",
      .columns = {text("type", "of the elements").shown("type", 10, "").left(),
                  text("vectors", "that the kernel uses").shown("vectors", 10).left(),
                  number("gigabytes_per_cpu_s", "GB/s", "read and written, a CPU second").shown("GB/s", 7).rounded(1),
                  number("share_of_copy", "", "of a copy's rate").shown("share", 7).rounded(2),
                  document::any("shares_of_all_repetitions", "a list")}};
}

int bench_on_gpu(int device, std::uint64_t bytes, int repetitions, DocumentOutput& output, std::ostream& out) {
  GpuReductions measured = measure_gpu_reductions(device, {kTypes.begin(), kTypes.end()}, bytes, repetitions);
  document::Document report = reduce_document("reduce --gpu", bytes, std::move(measured.rows));
  document::Section& section = report.sections.front();
  section.with({document::text("gpu", "its name"), document::text("times", "where they come from")});
  section.set("gpu", measured.gpu);
  section.set("times", measured.times);
  section.line("sum of two buffers of {} MiB on {}, median of {}, as a share of a copy's speed", bytes / kMiB,
               measured.gpu, repetitions);
  section.line("times: {}; where one arrived in pinned memory, of what passes the link", measured.times);
  section.show("rows");
  report.sections.push_back(bench_provenance());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace

int bench_reduce_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench reduce [options]");
  std::string mebibytes_text = "64";
  std::string repetitions_text = "15", device_text = "0";
  DocumentOutput output;
  bool gpu = false;
  syntax.options.add_options()  //
      ("mebibytes", po::value(&mebibytes_text)->value_name("N")->default_value(mebibytes_text),
       "size of each of the three buffers; larger than the caches, or it is their speed that shows")  //
      ("gpu", po::bool_switch(&gpu), "on the GPU that this process finds, by its own clock")          //
      ("device", po::value(&device_text)->value_name("N")->default_value(device_text),
       "of --gpu: which of the driver's devices, counted from 0")  //
      ("repetitions", po::value(&repetitions_text)->value_name("N")->default_value(repetitions_text),
       "of each kernel, with a copy before each");
  output.describe(syntax.options);
  syntax.only_with({"gpu"}, {"device"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::uint64_t bytes = parse_count("--mebibytes", mebibytes_text, 1, 4096) * kMiB;
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 1000));

  if (gpu) {
    constexpr std::uint64_t kDevicesMost = 1024;
    const auto device = static_cast<int>(parse_count("--device", device_text, 0, kDevicesMost));
    return bench_on_gpu(device, bytes, repetitions, output, out);
  }
  ReduceBuffers buffers(bytes);
  document::Document report = reduce_document("reduce", bytes, reduce_rows());
  document::Section& section = report.sections.front();
  section.line("sum of two buffers of {} MiB, CPU time, median of {}, as a share of a copy's speed", bytes / kMiB,
               repetitions);
  section.show("rows");
  output.show(report, out);
  for (const DataType type : kTypes) {
    for (int level = 0; level < coll::kVectorLevels; ++level) {
      if (!coll::has(static_cast<VectorLevel>(level))) continue;
      measure(buffers, type, static_cast<VectorLevel>(level), repetitions, section.table("rows"));
      output.show(report, out);
    }
  }
  report.sections.push_back(bench_provenance());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
