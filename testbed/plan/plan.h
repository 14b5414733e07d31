#pragma once
// Plan: the best cabling for a workload. Every cabling of the nodes' NICs is considered; the best by their bounds are
// run in the simulated world, intact and once without each cable, with each algorithm of the engine.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "testbed/plan/cablings.h"
#include "testbed/result/document.h"

namespace meshbed::testbed::plan {

/// A token of a model that several nodes compute by tensor parallelism: models/data/decode/NAME.toml.
struct Decode {
  std::string name;
  int layers = 0, calls_per_layer = 0;
  std::uint64_t bytes = 0;          // of each all_reduce
  double compute_us_per_layer = 0;  // on one node; N nodes share it
  std::string source;               // of the computing time
};

struct Request {
  int nodes = 0, nics = 0;
  std::optional<double> switch_price, cable_price;  // no switch is considered without its price
  std::string workload;                             // TOML: every table of a scenario except those that cable it
  std::optional<Decode> decode;                     // then `workload` is one of its all_reduces
  bool is_collective = false;                       // `workload` leaves the algorithm open
  std::string rate = "100Gb/s", latency, functions, profile;  // empty: the scenario's default
  std::vector<std::string> overrides;                         // as --set takes them
  bool must_survive = false;                                  // any one cable
  std::size_t finalists = 12;
  double time_limit_s = 300;  // of one run, wall-clock
  int workers = 1;
  std::string folder;  // gets a scenario for each finalist
};

/// Sets `workload`, `decode` and `is_collective` from "all_reduce:64M", "decode:NAME" or the path of a scenario file;
/// `profile` must be set before. Throws std::runtime_error with the accepted forms.
void read_workload(const std::string& text, Request& request);

/// A finalist, after its runs.
struct Candidate {
  Cabling cabling;
  std::string name;
  std::string scenario_path;
  std::string algorithm, protocol;  // as set; empty: the workload has none
  std::string status = "ok", reason;
  std::optional<double> time_us, low_us, high_us;  // of an iteration, or of a decode step
  std::optional<double> price;
  bool survives = false;           // each single cable
  std::optional<double> worst_us;  // without the cable that costs the most time
  std::string worst_cable;
  bool one_switch_ends_it = false;  // not all nodes reach each other without one of its switches
  bool is_tie = false;              // with the fastest one, within the model's error
};

struct Outcome {
  std::vector<Candidate> candidates;  // the best first
  std::size_t cablings = 0;           // considered
  document::Document report;
};

/// Throws std::runtime_error for a request that no cabling meets, and what sweep::run() throws.
Outcome run(const Request& request);

/// The scenario of a cabling, as TOML; with the workload's algorithm and protocol where they are given.
std::string scenario_of(const Request& request, const Cabling& cabling, const std::string& algorithm = "",
                        const std::string& protocol = "");

/// Why the first candidate is before the second one, in at most five sentences.
std::vector<std::string> reasons_of(const std::vector<Candidate>& candidates);

}  // namespace meshbed::testbed::plan
