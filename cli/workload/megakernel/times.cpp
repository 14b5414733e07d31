#include "cli/workload/megakernel/times.h"

namespace meshbed::cli {
namespace {

constexpr const char* kFromScenario = "scenario";

RingTime rfc_target(const char* name, Picoseconds used_ps, Picoseconds target_ps) {
  return {name, static_cast<double>(used_ps) / 1e3, used_ps == target_ps ? "RFC target" : kFromScenario};
}

RingTime unpublished(const char* name, double used) {
  return {name, used, used == 0 ? "none published" : kFromScenario};
}

double in_ns(Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e3; }

}  // namespace

std::vector<RingTime> ring_times(const Megakernel& settings) {
  return {rfc_target("launch", settings.launch_ps, kLaunchRfcTarget_ps),
          rfc_target("publish", settings.publish_ps, kSlotWriteRfcTarget_ps),
          unpublished("claim", in_ns(settings.claim_ps)),
          unpublished("poll", in_ns(settings.poll_ps)),
          unpublished("doorbell", in_ns(settings.doorbell_ps)),
          unpublished("flag", in_ns(settings.flag_ps)),
          unpublished("memory_rate_bps", static_cast<double>(settings.memory_bps))};
}

}  // namespace meshbed::cli
