#pragma once
// meshbed::RunResult: the result of a run. A value; copies share their data, which never changes. Any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "meshbed/export.h"

namespace meshbed {

/// What every run shows about itself: "bytes in = bytes out".
struct Proof {
  std::string name;
  bool ok = false;
  std::string detail;
};

/// A rank that ended with an error.
struct FailedRank {
  int rank = -1;
  std::string text;
};

/// One column of the messages of a run, one element a message in order of completion. The data are those that the run
/// wrote, not a copy, and live as long as any RunResult of the run.
struct MessageColumn {
  std::string name;  // as in messages.csv; "source_node" and "source_nic" index the scenario's nodes and their NICs
  std::string type;  // "int64", "uint64", "int32" or "uint32"
  const void* data = nullptr;
  std::size_t count = 0;
};

class MESHBED_API RunResult {
 public:
  /// It kept its proofs and what the scenario expects, with right data and no rank's error: the command's status 0.
  bool passed() const;
  /// Why not, in one line; empty where it passed.
  std::string failure() const;
  /// 16 hexadecimal digits over every message, datum and error: equal for equal runs.
  const std::string& digest() const;
  /// Of one iteration, in seconds of the world's time; of a workload without iterations, of the whole.
  double time_s() const;
  /// Payload by time, in 10^9 bytes a second, and that times the collective's factor, as nccl-tests prints them.
  double algbw_GBps() const;
  double busbw_GBps() const;
  /// A lower bound of time_s() for this cabling, and time over bound; 0: there is none.
  double bound_s() const;
  double over_bound() const;
  /// Elements that are wrong, of those checked.
  std::uint64_t wrong() const;
  std::uint64_t checked() const;
  std::uint64_t message_count() const;
  const std::vector<Proof>& proofs() const;
  const std::vector<Proof>& expectations() const;
  const std::vector<FailedRank>& errors() const;
  /// What ranks and the simulator printed, standard output and error together; of more than 4 MiB the beginning.
  const std::string& output() const;
  /// Empty unless RunOptions::messages was set.
  const std::vector<MessageColumn>& messages() const;
  /// What `meshbed run --json` prints: the keys of summary.json.
  const std::string& json() const;

  struct State;
  explicit RunResult(std::shared_ptr<const State> state);  // for the library itself

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace meshbed
