#pragma once
// Dependencies: the copies of libraries that a rank's file needs and that are no system's.

#include <cstddef>
#include <string>
#include <vector>

#include "sim/host/load/elf_image.h"

namespace meshbed::sim {

struct ProcessState;

struct NeededCopies {
  /// Another name for one, at a place in the file that needs it.
  struct Renamed {
    std::size_t place;
    std::string name;
  };
  std::vector<void*> handles;
  std::vector<Renamed> renamed;  // needed by a path, at which the loader would open the file itself
};

/// The process's own copies of what a file needs by names that ranks' libraries go by, and, for a program, of what is
/// the program's own: by the name alone the loader would give every rank the first one's.
NeededCopies load_needed(const Needs& needs, ProcessState& state, const std::string& path);

}  // namespace meshbed::sim
