#pragma once
// Peers: the existing profiles with the measured files of each, from which values of an unknown class are pooled
// (models/fit/pool.h).

#include <vector>

#include "models/fit/pool.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {

/// The files of models/data, here or beside the built program's tree, that are of one set-up, by name; files of single
/// points of many machines are left out. Throws std::runtime_error if there is no such folder.
std::vector<MeasuredFile> read_measured_folder();

/// Files of quality A, B and C by their profile: their rates and hops are usable, though not every set-up is
/// documented.
std::vector<models::Peer> peers_among(const std::vector<MeasuredFile>& files,
                                      const std::vector<models::Machine>& profiles);

}  // namespace meshbed::testbed
