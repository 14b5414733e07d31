#include "cli/bench/bench_reduce_gpu.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "cli/bench/bench_measure.h"
#include "plugin/coll/run/gpu_reduce.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/stream.h"

namespace meshbed::testbed {
namespace {

constexpr double kSecondsOfMillisecond = 1e-3, kGigabytes = 1e-9;

void succeed(const Result<void>& result) {
  if (!result) throw std::runtime_error("bench reduce --gpu: " + result.error().text);
}

template <typename T>
T gained(Result<T> result) {
  if (!result) throw std::runtime_error("bench reduce --gpu: " + result.error().text);
  return std::move(result).value();
}

class ReduceOnGpu {
 public:
  ReduceOnGpu(const cuda::Driver& driver, std::uint64_t bytes, int repetitions)
      : driver_(driver),
        bytes_(bytes),
        repetitions_(repetitions),
        reduce_(gained(coll::GpuReduce::load(driver))),
        stream_(gained(cuda::Stream::create(driver))),
        begin_(gained(cuda::Event::create(driver, true))),
        end_(gained(cuda::Event::create(driver, true))),
        result_(gained(cuda::DeviceMemory::allocate(driver, bytes))),
        arrived_(gained(cuda::DeviceMemory::allocate(driver, bytes))),
        own_(gained(cuda::DeviceMemory::allocate(driver, bytes))),
        pinned_(gained(cuda::PinnedMemory::allocate(driver, bytes))) {
    // Small integers in every type that has any.
    for (std::uint64_t at = 0; at < bytes; ++at) pinned_.data()[at] = static_cast<char>(at % 64);
    for (const cuda::DeviceMemory* memory : {&result_, &arrived_, &own_}) {
      succeed(stream_.copy(memory->data(), pinned_.data(), bytes));
    }
    succeed(stream_.synchronize());
  }

  std::vector<document::Value> measure(coll::DataType type, bool from_pinned) const {
    const coll::GpuReduceKernels kernels = gained(reduce_.kernels(type, coll::ReduceOp::kSum));
    const void* const pinned = reinterpret_cast<const void*>(pinned_.device_address());
    const void* const from = from_pinned ? pinned : arrived_.data();
    const double reduced_s = seconds([&] {
      succeed(coll::start(driver_, kernels,
                          {.form = coll::ReduceForm::kOnly,
                           .result = result_.data(),
                           .arrived = from,
                           .own = own_.data(),
                           .count = bytes_ / coll::size_of(type),
                           .ranks = 2},
                          stream_.handle()));
    });
    const double copied_s = seconds([&] { succeed(stream_.copy(result_.data(), from, bytes_)); });
    const int reduced_per_byte = from_pinned ? 1 : 3, copied_per_byte = from_pinned ? 1 : 2;
    const double rate = static_cast<double>(bytes_) * reduced_per_byte / reduced_s * kGigabytes;
    return {coll::name_of(type), from_pinned ? "pinned" : "gpu", reduced_s * 1e6, rate,
            rate / (static_cast<double>(bytes_) * copied_per_byte / copied_s * kGigabytes)};
  }

 private:
  /// The median, after one that is not counted.
  template <typename Work>
  double seconds(const Work& work) const {
    std::vector<double> all;
    for (int repetition = -1; repetition < repetitions_; ++repetition) {
      succeed(begin_.record(stream_.handle()));
      work();
      succeed(end_.record(stream_.handle()));
      succeed(stream_.synchronize());
      if (repetition >= 0) all.push_back(gained(end_.milliseconds_since(begin_)) * kSecondsOfMillisecond);
    }
    return median(std::move(all));
  }

  const cuda::Driver& driver_;
  const std::uint64_t bytes_;
  const int repetitions_;
  coll::GpuReduce reduce_;
  cuda::Stream stream_;
  cuda::Event begin_, end_;
  cuda::DeviceMemory result_, arrived_, own_;
  cuda::PinnedMemory pinned_;
};

document::Table reduction_rows() {
  using document::number, document::text;
  return {
      .key = "rows",
      .meaning = "sums of two buffers on the GPU, medians",
      .columns = {
          text("type", "of the elements").shown("type", 10, "").left(),
          text("arrived_in", "gpu, or pinned: the host's memory").shown("arrived in", 10).left(),
          number("microseconds", "us", "of one launch").shown("us", 9).rounded(1),
          number("gigabytes_per_s", "GB/s",
                 "that the GPU's memory reads and writes; from pinned memory: that pass the link")
              .shown("GB/s", 8)
              .rounded(1),
          number("share_of_copy", "", "of the driver's copy between the same memories").shown("share", 7).rounded(2)}};
}

}  // namespace

GpuReductions measure_gpu_reductions(int device, const std::vector<coll::DataType>& types, std::uint64_t bytes,
                                     int repetitions) {
  const cuda::Driver driver = gained(cuda::Driver::open());
  if (device >= driver.devices()) {
    throw std::runtime_error(fmt::format("bench reduce --gpu: there is no device {}; the driver has {}, counted from 0",
                                         device, driver.devices()));
  }
  const cuda::Current current(driver, gained(driver.retain_primary(device)));
  succeed(current.outcome());
  const ReduceOnGpu bench(driver, bytes, repetitions);
  document::Table rows = reduction_rows();
  for (const coll::DataType type : types) {
    for (const bool from_pinned : {false, true}) rows.add(bench.measure(type, from_pinned));
  }
  return {.gpu = gained(driver.device_name(device)),
          .times = "cuEventElapsedTime around one launch",
          .rows = std::move(rows)};
}

}  // namespace meshbed::testbed
