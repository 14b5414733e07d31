#pragma once
// ResultsFolder: DIR/<scenario>/<world>, which always holds files of one run only.
//
// A run writes temporary files, named messages.csv.partial-PID, beside the finished ones, and publishes them when all
// are complete: first the previous run's files are removed, summary.json before all others, then the new files are
// renamed, summary.json last. So an interrupted run leaves the previous results unchanged, and a summary.json always
// has the other files of its run beside it. The next run removes temporary files of a run that was killed.
// One owner, one thread.

#include <string>
#include <vector>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {

inline constexpr const char* kResultsFolder = "results";

/// The folder's middle name: the scenario's name and the overrides of this run ("pair+workload.bytes=1M"), so that
/// variants do not replace each other's results. Characters that are not allowed in file names are replaced, and a long
/// text is cut; a hash of the full text is then appended.
std::string variant_name(const std::string& scenario_name, const std::vector<std::string>& settings);

class ResultsFolder {
 public:
  /// Creates the folder if it is missing and removes files of killed runs. Throws std::runtime_error if the folder is
  /// not writable. `results`: the argument of --results.
  ResultsFolder(const std::string& results, const std::string& scenario_name, const std::string& world);
  /// Removes temporary files that were not published.
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  const std::string& path() const { return path_; }
  /// The temporary file for `name` (one of kNames); publish() renames it.
  std::string aside(const std::string& name);
  /// Replaces the previous run's files by the temporary ones; files that this run did not write are removed. Throws
  /// std::runtime_error.
  void publish();

 private:
  std::string path_;
  std::vector<std::string> written_;  // names with a temporary file that is not yet published
  std::vector<UnfinishedFile> unfinished_;
};

}  // namespace meshbed::testbed
