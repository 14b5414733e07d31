#pragma once
// GpuReport: the values measured on a GPU, as a table for people and as a model of the GPU, each with its source
// (models/gpu_profile.h).

#include <string>
#include <vector>

#include "models/gpu.h"
#include "models/gpu_profile.h"
#include "testbed/fidelity/gpu/measure.h"

namespace meshbed::testbed {

/// The model that provides the values which are not known of a GPU.
struct GpuBase {
  models::GpuModel model;
  std::vector<models::GpuConstant> constants;  // with their sources; empty: `place` is the source
  std::string place;                           // of a file; empty: one of Meshbed's own models
  bool is_this = false;                        // the model describes this very GPU
};
/// The model NAME, or the one in a profile's file; "": the model whose name is part of the GPU's name, else the H100's.
/// Throws if there is none.
GpuBase find_gpu_base(const std::string& name, const std::string& gpu);

/// A field of the model that was not measured, and why.
struct NotMeasured {
  std::string field, reason;
};
struct GpuReport {
  std::vector<models::GpuValue> values;  // all fields, in their order
  std::vector<NotMeasured> left_out;
};
/// `date`: the date that the sources state ("2026-11-26").
GpuReport report_of(const GpuMeasurement& measured, const GpuBase& base, const std::string& date);

/// Lines: the GPU, a row for each measured value, the values left out and why.
std::string gpu_table(const GpuMeasurement& measured, const GpuReport& report);

}  // namespace meshbed::testbed
