#pragma once
// A machine (models/time/machine.h) as a profile (models/profile.h), and back. Pure.

#include <map>
#include <string>

#include "models/time/machine.h"

namespace meshbed::models {

/// Errors (kInvalidArgument) name the place, the value, what is wrong and what is accepted: a value that no machine
/// has, or one outside of what is plausible for it; a profile without [topology].
Result<Machine> machine_of(const Profile& profile);

/// The profile's text, of which machine_of() makes the same machine; residuals by the name of the measured file.
std::string profile_text(const Machine& machine, const std::map<std::string, std::string>& residuals);

}  // namespace meshbed::models
