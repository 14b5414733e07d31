// The watchdog: do slots that wait get anywhere?
#include "plugin/ring/telemetry/telemetry.h"

namespace meshbed::ring {

const char* name_of(WatchdogVerdict verdict) {
  switch (verdict) {
    case WatchdogVerdict::kIdle:
      return "idle";
    case WatchdogVerdict::kProgress:
      return "progress";
    case WatchdogVerdict::kSuspectedStall:
      return "suspected-stall";
    case WatchdogVerdict::kFaulted:
      return "faulted";
    case WatchdogVerdict::kTenantMasked:
      return "tenant-masked";
  }
  return "idle";
}

Result<Health> health_since(const RingTelemetry& before, const RingTelemetry& now, Mode mode) {
  const Word delta = now.control.done_count - before.control.done_count;
  // Quirk watchdog-wrap.
  if (mode == Mode::kStrict && now.control.done_count < before.control.done_count) {
    return refused("the done count went back from " + std::to_string(before.control.done_count) + " to " +
                   std::to_string(now.control.done_count) +
                   ": it has wrapped at 2^32, or it is another ring's; safe "
                   "mode takes it as wrapped");
  }
  const Occupancy& slots = now.occupancy;
  const std::uint64_t faulted = slots.of(status::kFault);
  Health health{.queue_depth = slots.queue_depth(), .done_delta = delta};
  if (delta > 0) {
    health.verdict = WatchdogVerdict::kProgress;
    return health;
  }
  if (health.queue_depth == 0) return health;
  if (mode == Mode::kStrict) {
    health.suspected_stall = faulted == 0;  // quirk watchdog-fault
    health.verdict = faulted == 0 ? WatchdogVerdict::kSuspectedStall : WatchdogVerdict::kFaulted;
    return health;
  }
  // Quirks watchdog-fault and watchdog-masked: slots that wait and may run are stuck, independently of other slots.
  const std::uint64_t waiting = slots.active() + slots.unknown() - now.masked;
  health.suspected_stall = waiting > 0;
  health.verdict = waiting > 0      ? WatchdogVerdict::kSuspectedStall
                   : now.masked > 0 ? WatchdogVerdict::kTenantMasked
                                    : WatchdogVerdict::kFaulted;
  return health;
}

}  // namespace meshbed::ring
