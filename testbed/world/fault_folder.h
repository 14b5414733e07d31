#pragma once
// FaultFolder: files by which the emulated world's nodes and their host exchange faults, in a folder that both share.
//
// Rank 0 creates a file when a point has been reached, and every rank waits for the host's reply file beside it. The
// errors of ranks other than 0 are written there, too, because rank 0 may fail first.

#include <optional>
#include <string>
#include <vector>

#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// The folder, for the ranks. Not set on real machines, where faults are not carried out.
inline constexpr const char* kFaultFolderVariable = "MESHBED_FAULT_FOLDER";
std::optional<std::string> fault_folder();

/// "FOLDER/point-iteration-3"
std::string point_file(const std::string& folder, const std::string& point);
/// "FOLDER/point-iteration-3.done": its immediate faults have been carried out.
std::string answer_file(const std::string& folder, const std::string& point);

/// Throws std::runtime_error if they cannot be written.
void leave_errors(const std::string& folder, int rank, const std::vector<RankError>& errors);
/// The errors of all ranks that wrote some.
std::vector<RankError> errors_left(const std::string& folder);

}  // namespace meshbed::testbed
