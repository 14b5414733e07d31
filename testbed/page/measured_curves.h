#pragma once
// Measured curves: the rows of files of measured times, shown with the curves of a sweep.

#include <map>
#include <string>
#include <vector>

namespace meshbed::testbed::page {

/// Rows of one file that measure the same over sizes.
struct MeasuredCurve {
  std::string name;                     // "measured: all_reduce, 4 ranks, off"
  std::map<double, double> busbw_GBps;  // by bytes; of several rows of one size the mean
  std::string source;                   // "cal_x.csv: SOURCE", from the file's header
};

/// Of the collectives in these files, as `meshbed validate` reads them. Throws std::runtime_error for a file that
/// cannot be read or that has no collective.
std::vector<MeasuredCurve> read_measured_curves(const std::vector<std::string>& paths);

}  // namespace meshbed::testbed::page
