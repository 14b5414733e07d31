#pragma once
// GpuMeasure: the time of launches, waits, copies, atomics and stores on the GPU that this process finds through
// plugin/cuda, and the number of blocks that it runs at once.
//
// Every value is a median over repeats. Times shorter than a clock reading are measured as the difference between many
// and few operations. Work of the GPU alone is measured while a kernel that waits for a word of the host holds the
// stream, so that no host call is part of it. No relation between the host's clock and the GPU's is assumed.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/units.h"
#include "plugin/cuda/driver.h"
#include "testbed/base/host_clock.h"

namespace meshbed::testbed {

struct GpuMeasureOptions {
  int device = 0;
  int repeats = 101;             // of what is short; copies of many bytes have a quarter, at most 25
  std::uint64_t copy_bytes = 0;  // 0: twice the L2, at least 64 MiB
};

/// Median, 10th and 90th percentile.
struct Spread {
  double value = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);

struct Measured {
  std::string what;  // for people
  std::string unit;  // "us", "GB/s", "blocks"
  std::optional<Spread> spread;
  std::size_t repeats = 0;
  std::string reason;  // why there is no value
};

/// By what it is called below, in gpu_measure.cpp and gpu_copies.cpp: "launch_call", "copy_in_rate".
using MeasuredValues = std::map<std::string, Measured>;

struct GpuAttributes {
  std::string name;            // as the driver has it
  std::string driver_version;  // "CUDA 13.0", with the kernel module's version where it can be read
  bool is_simulated = false;
  int devices = 0;
  int major = 0, minor = 0, sms = 0, threads_of_sm = 0, blocks_of_sm = 0, registers_of_sm = 0;
  int shared_bytes_of_sm = 0, shared_bytes_of_block = 0, l2_bytes = 0, clock_khz = 0;
  bool is_integrated = false;
  std::uint64_t memory_bytes = 0;
};

struct GpuMeasurement {
  GpuAttributes gpu;
  std::uint64_t copy_bytes = 0;  // of the large copies
  MeasuredValues values;
};

/// Throws std::runtime_error with the driver's reason: no driver, no such device, too little memory, a kernel that does
/// not answer.
GpuMeasurement measure_gpu(const GpuMeasureOptions& options);

}  // namespace meshbed::testbed
