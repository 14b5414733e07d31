#pragma once
// GpuFields: every number of a model of a GPU by its name in a profile, and a model as one word.
//
// The names end in the unit that a profile has the value in (launch_call_us), where the model's own unit is the
// smallest one (picoseconds, bytes a second): one of the profile's units is `scale` of the model's.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/gpu.h"
#include "plugin/base/result.h"

namespace meshbed::models {

struct GpuField {
  const char* name;    // in a profile
  const char* member;  // in GpuConstant::field; "": provenance() has no such line
  const char* unit;    // of a profile's value, as models/profile.h reads it
  double scale;
  std::int64_t least;  // in the model's unit; what is less cannot be computed with
  std::variant<int GpuModel::*, bool GpuModel::*, std::uint64_t GpuModel::*, Picoseconds GpuModel::*> place;
};

/// In the order of GpuModel.
const std::vector<GpuField>& gpu_fields();
/// By its name in a profile; nullptr: there is none.
const GpuField* find_gpu_field(std::string_view name);

std::int64_t get(const GpuModel& model, const GpuField& field);
/// Errors (kInvalidArgument): less than the field's least, or more than it can hold.
Result<void> set(GpuModel& model, const GpuField& field, std::int64_t value);
/// In the profile's unit.
double profile_value(const GpuModel& model, const GpuField& field);

/// The model in one word, without commas, for an environment variable or a list of names; what a process of this very
/// build reads back with parse_gpu_word().
std::string gpu_word(const GpuModel& model);
/// Whether it is meant as one of those; no model's name is.
bool is_gpu_word(std::string_view text);
Result<GpuModel> parse_gpu_word(std::string_view word);

}  // namespace meshbed::models
