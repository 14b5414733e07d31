#include "testbed/workload/megakernel/times.h"

namespace meshbed::testbed {
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

std::vector<std::string> initiations_of(const Megakernel& settings) {
  return settings.initiation == "all" ? std::vector<std::string>{"host", "device", "launch"}
                                      : std::vector<std::string>{settings.initiation};
}

std::vector<RingTime> ring_times(const Megakernel& settings) {
  std::vector<RingTime> times{rfc_target("launch", settings.launch_ps, kLaunchRfcTarget_ps),
                              rfc_target("publish", settings.publish_ps, kSlotWriteRfcTarget_ps),
                              unpublished("claim", in_ns(settings.claim_ps)),
                              unpublished("poll", in_ns(settings.poll_ps)),
                              unpublished("doorbell", in_ns(settings.doorbell_ps)),
                              unpublished("flag", in_ns(settings.flag_ps)),
                              unpublished("memory_rate_bps", static_cast<double>(settings.memory_bps))};
  const auto add = [&](const char* name, Picoseconds used_ps, Picoseconds otherwise_ps) {
    if (used_ps != otherwise_ps || settings.sources.count(name) > 0)
      times.push_back({name, in_ns(used_ps), kFromScenario});
  };
  add("visibility", settings.visibility_ps, 0);
  add("post", settings.post_ps, 0);
  add("credit", settings.credit_ps, 0);
  add("proxy_pass", settings.pass_ps, 0);
  add("device_doorbell", settings.device_doorbell_ps, settings.doorbell_ps);
  add("operation_launch", settings.operation_launch_ps, settings.launch_ps);
  for (RingTime& time : times) {
    const std::string name = time.name;
    const auto source = settings.sources.find(name == "memory_rate_bps" ? "memory_rate" : name);
    if (source != settings.sources.end()) time.source = source->second;
  }
  if (settings.ordering != "ordered")
    times.push_back(unpublished("unordered_delay", in_ns(settings.unordered_delay_ps)));
  return times;
}

}  // namespace meshbed::testbed
