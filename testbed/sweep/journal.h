#pragma once
// Journal: the points of a sweep that have been run, a line each (JSON), so that an interrupted sweep can be resumed.
// Only one sweep at a time writes to a journal. Its calls come from one thread at a time.

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/descriptor.h"
#include "testbed/sweep/measured.h"
#include "testbed/sweep/sweep.h"

namespace meshbed::testbed::sweep {

class Journal {
 public:
  /// Begins Options::journal, or with `resume` takes over the lines that are whole; the last one may have been cut off.
  /// Throws std::runtime_error if another sweep is writing to it, or if it is of another sweep.
  /// `options` must outlive it.
  explicit Journal(const Options& options);

  /// Of a point that was run.
  std::optional<Measured> find(const Point& point) const;
  void add(const Point& point, const Measured& measured);

  /// Of a part that has ended: true if it is the last one of its job, with `measured` complete from all parts'
  /// journals. True in one part of a job only.
  bool gather(const std::vector<Point>& points, std::vector<Measured>& measured) const;

 private:
  std::string take_over(const std::string& first);
  std::string path_of(int part) const;
  std::string first_line_of(int part) const;

  const Options& options_;
  std::string path_;  // of this part
  Descriptor lock_;   // held while this sweep writes
  std::ofstream file_;
  std::map<std::string, Measured> known_;
};

}  // namespace meshbed::testbed::sweep
