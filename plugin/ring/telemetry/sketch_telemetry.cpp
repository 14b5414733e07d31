#include "plugin/ring/telemetry/sketch_telemetry.h"

namespace meshbed::ring {

Result<SketchTelemetry> sketch_of(const RingTelemetry& telemetry, const CountMinSketch::Shape& shape) {
  Result<CountMinSketch> empty = CountMinSketch::create(shape);
  if (!empty) return empty.error();
  SketchTelemetry sketch{
      .ring_opcode = *empty, .active_opcode = *empty, .tenant = *empty, .status = *empty, .dispatch_metrics = *empty};
  for (const SlotSnapshot& slot : telemetry.slots) {
    const bool is_active = status::is_active(slot.status);
    ++sketch.total_slots;
    if (is_active) ++sketch.active_slots;
    Result<void> added = sketch.ring_opcode.add(slot.opcode);
    if (added && is_active) added = sketch.active_opcode.add(slot.opcode);
    if (added) added = sketch.tenant.add(slot.tenant);
    if (added) added = sketch.status.add(slot.status);
    if (!added) return added.error();
  }
  for (const auto& [op, count] : telemetry.control.metrics) {
    if (const Result<void> added = sketch.dispatch_metrics.add(op, count); !added) return added.error();
  }
  return sketch;
}

Result<void> SketchTelemetry::merge(const SketchTelemetry& other) {
  SketchTelemetry sum = *this;  // all or nothing
  for (CountMinSketch SketchTelemetry::*one :
       {&SketchTelemetry::ring_opcode, &SketchTelemetry::active_opcode, &SketchTelemetry::tenant,
        &SketchTelemetry::status, &SketchTelemetry::dispatch_metrics}) {
    if (const Result<void> merged = (sum.*one).merge(other.*one); !merged) return merged;
  }
  sum.total_slots += other.total_slots;
  sum.active_slots += other.active_slots;
  *this = std::move(sum);
  return ok();
}

}  // namespace meshbed::ring
