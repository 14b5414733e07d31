#pragma once
// GpuProfile: a model of a GPU as a profile (models/profile.h): one table for each of gpu_fields(), every one with
// where it comes from. `meshbed calibrate gpu` writes such a file, `--gpu FILE.toml` of `meshbed cuda run` reads it.

#include <string>
#include <utility>
#include <vector>

#include "models/gpu.h"
#include "models/profile.h"
#include "plugin/base/result.h"

namespace meshbed::models {

/// Whether `name` is meant as a file's: it ends in ".toml".
bool is_gpu_file(const std::string& name);

/// Errors (kInvalidArgument) name the parameter and what is wrong: one that is missing, foreign, in another unit, or
/// out of bounds; a name that cannot stand in a list of names.
Result<GpuModel> gpu_of_profile(const Profile& profile);
/// Errors as above, with the file.
Result<GpuModel> read_gpu(const std::string& path);

/// What stands for one in a list of GPUs: a model's name or a whole model (gpu_word()) as it is; of a profile's file
/// the whole model that it has. Errors as read_gpu()'s, and for a name that no model has.
Result<std::string> gpu_word_named(const std::string& name);
/// Of all of them, with commas between.
Result<std::string> gpu_words_named(const std::vector<std::string>& names);

struct GpuValue {
  std::string field;  // its name in a profile
  double value = 0;   // in the profile's unit
  Basis basis = Basis::kGuess;
  std::string source;
  std::pair<double, double> range{0, 0};  // equal: none is written
};
/// A file that read_gpu() reads, where `values` has all fields.
std::string gpu_profile_text(const std::string& name, const std::string& description,
                             const std::vector<GpuValue>& values);

}  // namespace meshbed::models
