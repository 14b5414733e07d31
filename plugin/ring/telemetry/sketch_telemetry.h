#pragma once
// How often what was seen in a ring, in five sketches of fixed size (vyre, commit ca35047).

#include <span>

#include "plugin/ring/telemetry/sketch.h"
#include "plugin/ring/telemetry/telemetry.h"

namespace meshbed::ring {

struct SketchTelemetry {
  CountMinSketch ring_opcode;       // of all slots, EMPTY ones too
  CountMinSketch active_opcode;     // of active ones
  CountMinSketch tenant;            // of all slots
  CountMinSketch status;            // as it stands in the slot
  CountMinSketch dispatch_metrics;  // opcodes, by the counts of the control buffer
  std::uint64_t total_slots = 0, active_slots = 0;

  /// Adds what `other` has counted. Errors: another shape; counters beyond 64 bits.
  Result<void> merge(const SketchTelemetry& other);
};

/// Errors: the shape's.
Result<SketchTelemetry> sketch_of(const RingTelemetry& telemetry, const CountMinSketch::Shape& shape);

}  // namespace meshbed::ring
