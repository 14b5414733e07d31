#pragma once
// OperationLog: a record of each collective operation of a run: the engine's own record of its plan, and the pairs of
// ports that carried it in the trace. Equal consecutive operations are one record.
//
// One log for the ranks of this process, which all call begin() and end() for the same operations; between the end of
// one and the beginning of the next all ranks have met.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/trace/recorder.h"
#include "testbed/workload/engine.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

/// Which operation it is.
struct OperationName {
  std::string name;  // "all_reduce"; of a matrix its case
  std::uint64_t bytes = 0;
  bool timed = true;  // false: of the warm-up
  bool operator==(const OperationName&) const = default;
};

using Carried = std::map<sim::PairKey, sim::PairUsage>;

struct OperationRecord {
  OperationName operation;
  int first = 0, count = 0;  // iterations, as the operation's own run counts them
  EnginePlan plan;           // algorithm empty: the engine carried nothing out
  bool failed = false;
  Carried paths;  // by all of them together; empty where the trace is not there yet
};

class OperationLog {
 public:
  /// `ranks`: of this process.
  explicit OperationLog(int ranks) : ranks_(ranks) {}

  void begin(RankHost& host, const OperationName& operation, int iteration);
  void end(RankHost& host, const Engine& engine, bool ended_well);

  /// In order; what was under way when a rank failed is the last one.
  std::vector<OperationRecord> take() { return std::exchange(records_, {}); }

 private:
  void add(OperationRecord record);

  int ranks_;
  int begun_ = 0, ended_ = 0;  // ranks, of the operation under way
  OperationRecord open_;
  std::vector<OperationRecord> records_;
};

}  // namespace meshbed::testbed
