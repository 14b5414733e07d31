#pragma once
// Telemetry: what a simulated run tells monitoring tools, in their own formats: the record streams and the metrics of
// zernel (zernel_record.h, zernel_metrics.h), and the JSON lines of NCCL's Inspector plugin (inspector.h).
//
// Every collective that the ranks called, warm-up included, is there once for each rank, with the bytes that nccl-tests
// counts and the times of the rank's own virtual clock. What the model does not have is left out: no kernel is launched
// and no data set read, so those streams are empty files.

#include <boost/program_options.hpp>
#include <cstdint>
#include <string>

#include "cli/result.h"
#include "cli/zernel_stream.h"

namespace meshbed::cli {

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

/// Before the run: throws std::runtime_error where an option is none, where `world` has no telemetry, or where
/// something could not be written when the run is over.
void check_telemetry_options(const TelemetryOptions& options, const std::string& world);

/// The records of a run, each stream sorted by end and rank.
zernel::Streams zernel_streams(const Scenario& scenario, const RunResult& result, const TelemetryOptions& options);

/// Throws std::runtime_error, naming the file, where one cannot be written.
void write_telemetry(const TelemetryOptions& options, const Scenario& scenario, const RunResult& result,
                     std::ostream& err);

}  // namespace meshbed::cli
