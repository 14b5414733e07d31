#pragma once
// What the plugin reads of the environment.

#include <string>

namespace meshbed::profiler {

/// MESHBED_RESULTS: the folder that results go to; empty: not set.
std::string results_folder();

}  // namespace meshbed::profiler
