#include "plugin/profiler/config.h"

#include <cstdlib>

namespace meshbed::profiler {

std::string results_folder() {
  const char* folder = std::getenv("MESHBED_RESULTS");
  return folder != nullptr ? folder : "";
}

}  // namespace meshbed::profiler
