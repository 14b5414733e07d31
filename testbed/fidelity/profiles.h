#pragma once
// The profiles that are installed with the program, and the choice of a profile for a measured row.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/time/collective_time.h"
#include "models/time/machine_profile.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

/// All that travel in the program (models/shipped_profiles.h), by name. Errors of this and of what is below are thrown
/// as std::runtime_error, with file, line and what is wrong.
std::vector<models::Profile> shipped_profiles();
/// Those of them that are a class of machines.
std::vector<models::Machine> shipped_machines();

/// NAME of one of them, or the path of a file; throws with the names that there are.
models::Profile find_profile(const std::string& name);
/// A profile that has to be a class of machines.
models::Machine machine_of_profile(const models::Profile& profile);

/// A call of that collective on a class of machines, as `models --explain` and predict() take it: of `ranks`, or of as
/// many as two nodes have (four nodes around a ring, one where the class is of one).
models::CollectiveCall call_on(const models::Machine& machine, models::Collective collective, std::uint64_t bytes,
                               std::optional<int> ranks);

/// Of each row the profile whose class is the file's; of several, the one that the row's variant begins like, then the
/// one more of whose words the set-up has. nullptr: none has the class.
std::vector<const models::Machine*> own_profiles(const MeasuredFile& file,
                                                 const std::vector<models::Machine>& profiles);

/// By profile, the rows of `files` that are of it, as one sweep a file.
std::map<std::string, std::vector<models::Sweep>> sweeps_by_profile(const std::vector<MeasuredFile>& files,
                                                                    const std::vector<models::Machine>& profiles);

}  // namespace meshbed::testbed
