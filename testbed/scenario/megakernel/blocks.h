#pragma once
// Blocks: a persistent kernel's lanes are blocks, each of which occupies its place on an SM as long as the kernel runs.
// Blocks beyond the GPU's places would start only when another block ends, and none ends: their slots are never
// executed (models/gpu.h; device rings, section 5).

#include <optional>
#include <string>

#include "plugin/ring/kernel/verdict.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// The number of lanes of a ring with that many slots.
ring::Word lanes_of(const Megakernel& settings, ring::Word slots);
/// The number of a ring's `lanes` blocks that have a place; all if SMs are not given, or if each operation has a kernel
/// of its own. A rank's rings are launched one after the other, and the first ones get the places.
ring::Word resident_of(const Megakernel& settings, ring::Word lanes, int ring = 0);
/// "8 places (4 SMs x 2)", "68 places (148 SMs, 80 held, x 1)".
std::string places_text(const Megakernel& settings);

/// A published slot whose owner has no place: no other lane of the plain kernel claims it. nullopt: the ring does not
/// wait for such a slot.
std::optional<ring::Verdict> not_resident(const Megakernel& settings, const ring::Kernel& kernel, int ring = 0);

/// A message for the user if some rank has blocks that own slots and get no place, known before the run; nullopt: all
/// owners have a place, or lanes do not own slots by number.
std::optional<std::string> residency_finding(const Workload& workload, int ranks);

}  // namespace meshbed::testbed
