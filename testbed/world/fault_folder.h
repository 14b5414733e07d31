#pragma once
// FaultFolder: how the emulated world's nodes speak with their host about faults: files in a folder that both see.
//
// Rank 0 says that a point has come by a file, and every rank waits for the host's answer beside it. What went wrong
// with a rank beyond 0 lies there too, for those who outlive rank 0.

#include <optional>
#include <string>
#include <vector>

#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// The folder, for the ranks. Not set on real machines, where nobody carries faults out.
inline constexpr const char* kFaultFolderVariable = "MESHBED_FAULT_FOLDER";
std::optional<std::string> fault_folder();

/// "FOLDER/point-iteration-3"
std::string point_file(const std::string& folder, const std::string& point);
/// "FOLDER/point-iteration-3.done": what is to happen there at once has happened.
std::string answer_file(const std::string& folder, const std::string& point);

/// Throws std::runtime_error where they cannot be written.
void leave_errors(const std::string& folder, int rank, const std::vector<RankError>& errors);
/// Of all ranks that left some.
std::vector<RankError> errors_left(const std::string& folder);

}  // namespace meshbed::testbed
