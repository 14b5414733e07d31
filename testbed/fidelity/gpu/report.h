#pragma once
// GpuReport: what was measured of a GPU, as a table for people and as a model of the GPU, each value with where it
// comes from (models/gpu_profile.h).

#include <string>
#include <vector>

#include "models/gpu.h"
#include "models/gpu_profile.h"
#include "testbed/fidelity/gpu/measure.h"

namespace meshbed::testbed {

/// The model whose values stand where a GPU's own are not known.
struct GpuBase {
  models::GpuModel model;
  std::vector<models::GpuConstant> constants;  // where they come from; empty: `place` says it
  std::string place;                           // of a file; empty: one of Meshbed's own models
  bool is_this = false;                        // it is this very GPU's
};
/// NAME of a model, or a profile's file; "": the model whose name `gpu` has in its own, else the H100's. Throws where
/// there is none.
GpuBase find_gpu_base(const std::string& name, const std::string& gpu);

/// A field of the model that nobody measured.
struct NotMeasured {
  std::string field, reason;
};
struct GpuReport {
  std::vector<models::GpuValue> values;  // all fields, in their order
  std::vector<NotMeasured> left_out;
};
/// `date`: for the sources ("2026-11-26").
GpuReport report_of(const GpuMeasurement& measured, const GpuBase& base, const std::string& date);

/// Lines: the GPU, a row for each measured value, what was left out and why.
std::string gpu_table(const GpuMeasurement& measured, const GpuReport& report);

}  // namespace meshbed::testbed
