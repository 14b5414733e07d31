#pragma once
// A kernel's PTX while it runs: in slices, so that other work of the simulation goes on beside it.

#include <cstdint>
#include <memory>

#include "sim/cuda/device_view.h"
#include "sim/cuda/ptx/machine.h"
#include "sim/cuda/work.h"

namespace meshbed::sim::cuda {

/// A kernel's PTX while it runs.
struct Run {
  explicit Run(Driver& driver) : view(driver) {}
  DeviceView view;
  std::unique_ptr<ptx::Execution> execution{};
  std::uint64_t steps_without_progress = 0;
  bool has_changes = false;    // since the last host().changed()
  Picoseconds news_ps = 0;     // when a step last saw something new
  Picoseconds idled_ps = 0;    // when that was, or when all that it looks at was found to be as it had seen it
  Picoseconds looked_ps = 0;   // when the last step was
  std::uint64_t happened = 0;  // Host::happened() at the last step
  bool named = false;          // that it only spins
};

/// The launch's kernel begins, on the SMs that the work holds; it ends with end_at().
void begin_run(const WorkRef& work);

}  // namespace meshbed::sim::cuda
