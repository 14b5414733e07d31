#include "meshbed/predict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "models/algorithm.h"
#include "models/time/collective_time.h"
#include "models/time/interval.h"
#include "models/time/machine.h"
#include "models/time/machine_profile.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed {

std::vector<std::string> profiles() {
  std::vector<std::string> names;
  for (const models::Profile& profile : testbed::shipped_profiles()) names.push_back(profile.name());
  return names;
}

Prediction predict(const std::string& profile, const std::string& collective, std::uint64_t bytes,
                   std::optional<int> ranks) {
  const auto kind = models::parse_collective(collective);
  if (!kind) {
    throw std::invalid_argument(fmt::format("{}: there is no such collective; there are {}", collective,
                                            fmt::join(models::collective_names(), ", ")));
  }
  if (ranks && *ranks < 2) throw std::invalid_argument(fmt::format("{} ranks: a collective has two or more", *ranks));
  if (bytes == 0) throw std::invalid_argument("0 bytes: nothing to predict");
  models::Machine machine;
  try {
    machine = testbed::machine_of_profile(testbed::find_profile(profile));
  } catch (const std::runtime_error& error) {
    throw std::invalid_argument(error.what());
  }
  if (machine.transport == models::MachineTransport::kMessage) {
    throw std::invalid_argument(profile + " is of single messages: it has no collective");
  }
  if (machine.transport == models::MachineTransport::kExpert) {
    throw std::invalid_argument(profile + " is of dispatch and combine of experts: it has no collective");
  }
  const models::CollectiveCall call = testbed::call_on(machine, *kind, bytes, ranks);
  const models::CollectiveTime time = models::collective_time(machine, call);
  constexpr double kSecondsPerUs = 1e-6;
  Prediction prediction{.time_s = time.us * kSecondsPerUs,
                        .algorithm = name_of(time.algorithm),
                        .protocol = name_of(time.protocol),
                        .ranks = call.ranks,
                        .nodes = call.nodes,
                        .parts = {},
                        .error_p90 = {},
                        .low_s = 0,
                        .high_s = 0,
                        .basis = {}};
  for (const models::TimePart& part : time.parts) prediction.parts.push_back({part.name, part.us * kSecondsPerUs});
  const models::Interval interval = models::interval_of(machine, call, time.us);
  prediction.low_s = interval.low_us * kSecondsPerUs;
  prediction.high_s = interval.high_us * kSecondsPerUs;
  prediction.basis = models::basis_text(interval);
  prediction.error_p90 = models::larger_side(interval, time.us);
  return prediction;
}

}  // namespace meshbed
