#pragma once
// Twins: the same ring, worked on by the megakernel's machine in C++ and by its kernel on whatever GPU the process
// finds, simulated or real. Without doctest: a program of its own runs them on a real GPU.

#include <string>
#include <vector>

#include "plugin/cuda/driver.h"

namespace meshbed::test {

struct TwinReport {
  int compared = 0;
  std::vector<std::string> differences;  // a line each; what the driver refused, too
};

/// In the current context.
TwinReport run_ring_twins(const cuda::Driver& driver);

}  // namespace meshbed::test
