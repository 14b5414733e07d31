#pragma once
// Blocks: a persistent kernel's lanes are blocks, each of which holds its place on an SM for as long as the kernel
// runs. Blocks beyond the GPU's places do not start until one ends, and none ends: what they own is never done.
// (models/gpu.h; device rings, section 5.)

#include <optional>
#include <string>

#include "plugin/ring/kernel/verdict.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// Lanes of a ring with so many slots.
ring::Word lanes_of(const Megakernel& settings, ring::Word slots);
/// Of a ring's `lanes` blocks, in their order, those that have a place; all where nothing is said of SMs, or where each
/// operation has a kernel of its own. A rank's rings are launched one after the other: the first ones get the places.
ring::Word resident_of(const Megakernel& settings, ring::Word lanes, int ring = 0);
/// "8 places (4 SMs x 2)", "68 places (148 SMs, 80 held, x 1)".
std::string places_text(const Megakernel& settings);

/// A slot that is published and whose owner has no place: nobody else of the plain kernel will ever claim it. nullopt:
/// that is not what the ring waits for.
std::optional<ring::Verdict> not_resident(const Megakernel& settings, const ring::Kernel& kernel, int ring = 0);

/// What is wrong beforehand with the places of some rank's blocks, in words for the user; nothing: all that own slots
/// have one, or nobody owns slots by its number.
std::optional<std::string> residency_finding(const Workload& workload, int ranks);

}  // namespace meshbed::testbed
