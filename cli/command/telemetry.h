#pragma once
// Telemetry: a run's records for monitoring tools, in their own formats: the record streams and the metrics of
// zernel (zernel_record.h, zernel_metrics.h), and the JSON lines of NCCL's Inspector plugin (inspector.h).
//
// Every collective that the ranks called, warm-up included, is recorded once for each rank, with the bytes that
// nccl-tests counts and the times of the rank's own clock: virtual in the simulated world, elsewhere its machine's
// CLOCK_MONOTONIC, as a probe there would read it. Of megakernels: each launch (cuda), and each epoch of a program that
// is an all-reduce or all-gather. Unknown data is left out: no other kernel is launched and no data set read,
// so those streams are empty files, as are waits and GPU memory outside the simulated world.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testbed/result/zernel/stream.h"
#include "testbed/workload/result.h"

namespace boost::program_options {
class options_description;
}

namespace meshbed::testbed {

struct TelemetryOptions {
  std::string zernel_out;                      // folder, or a file or pipe for the collectives alone; empty: none
  std::string zernel_duration = "completion";  // or "enqueue": the time inside the call that starts the collective
  std::string zernel_bytes = "total";          // or "rank": one rank's share of an all-gather or reduce-scatter
  std::string zernel_epoch;                    // nanoseconds at the simulation's start; empty: the ranks' own clock
  std::string prom_out;                        // file
  std::string inspector_out;                   // folder
};

/// --zernel-out --zernel-duration --zernel-bytes --zernel-epoch --prom-out --inspector-out
void add_telemetry_options(boost::program_options::options_description& options, TelemetryOptions& values);

/// Called before the run: throws std::runtime_error if an option's value is invalid, or not supported in `world`.
void check_telemetry_options(const TelemetryOptions& options, const WorldFacts& world);
/// Likewise if an output cannot be written here after the run.
void check_telemetry_places(const TelemetryOptions& options);
/// What the ranks do for it.
void ask_for_telemetry(const TelemetryOptions& options, Workload& workload);

/// The records of a run, each stream sorted by end and rank.
zernel::Streams zernel_streams(const Scenario& scenario, const RunResult& result, const TelemetryOptions& options);

/// The files that a rank in an emulated node wrote, with the options of telemetry_words().
struct NodeTelemetry {
  zernel::Streams streams;
  std::string metrics;
  std::map<std::string, std::string> logs;  // by file name
};
/// Options for a rank that writes into its working folder, for take_node_telemetry() of that folder.
std::vector<std::string> telemetry_words(const TelemetryOptions& options);
NodeTelemetry take_node_telemetry(const TelemetryOptions& options, const std::string& folder);
/// As write_telemetry().
void write_node_telemetry(const TelemetryOptions& options, const NodeTelemetry& telemetry, std::ostream& err);

/// Throws std::runtime_error with the file's name if one cannot be written.
void write_telemetry(const TelemetryOptions& options, const Scenario& scenario, const RunResult& result,
                     std::ostream& err);

}  // namespace meshbed::testbed
