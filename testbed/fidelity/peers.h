#pragma once
// Peers: the profiles there are with the measured files of each, for what classes tell of one another
// (models/fit/pool.h).

#include <vector>

#include "models/fit/pool.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

/// models/data, here or beside the built program's tree: every file of one set-up (single points of many machines are
/// none), in order of names. Throws std::runtime_error where there is no such folder.
std::vector<MeasuredFile> read_measured_folder();

/// Files of quality A, B and C, whose rates and hops are usable though set-ups are not all told, by their profile.
std::vector<models::Peer> peers_among(const std::vector<MeasuredFile>& files,
                                      const std::vector<models::Machine>& profiles);

}  // namespace meshbed::testbed
