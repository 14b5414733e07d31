#pragma once
// ResultsFolder: DIR/<scenario>/<world>, which at every instant holds files of one run only.
//
// A run writes aside, into files named messages.csv.partial-PID beside the finished ones, and takes their places when
// all are complete: first what the previous run left goes, summary.json before everything else, then the new files
// come, summary.json last. So a run that is interrupted leaves the previous results as they were, and whoever finds a
// summary.json finds that run's other files beside it. Partial files of a run that was killed go with the next run.
// One owner, one thread.

#include <string>
#include <vector>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {

inline constexpr const char* kResultsFolder = "results";

/// The folder's middle name: the scenario's, and behind it what was set for this run ("pair+workload.bytes=1M"), so
/// that variants do not replace each other's results. What has no place in a file name is replaced, and a long text
/// cut; a hash of the whole then keeps two apart.
std::string variant_name(const std::string& scenario_name, const std::vector<std::string>& settings);

class ResultsFolder {
 public:
  /// Makes the folder where it is missing and removes what killed runs left; throws std::runtime_error where nothing
  /// can be written there. `results`: the argument of --results.
  ResultsFolder(const std::string& results, const std::string& scenario_name, const std::string& world);
  /// Removes what was written aside and not published.
  ~ResultsFolder();
  ResultsFolder(const ResultsFolder&) = delete;
  ResultsFolder& operator=(const ResultsFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Where to write `name` (one of kNames) aside; publish() gives it that name.
  std::string aside(const std::string& name);
  /// Replaces the previous run's files by those written aside; a name that was not asked for is gone afterwards. Throws
  /// std::runtime_error.
  void publish();

 private:
  std::string path_;
  std::vector<std::string> written_;  // names asked for and not yet published
  std::vector<UnfinishedFile> unfinished_;
};

}  // namespace meshbed::testbed
