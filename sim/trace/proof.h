#pragma once
// Proof: what every run shows about itself. Pure functions over what the run counted; each gives one Proof, and a
// broken one names the first offending item. A run with a broken proof is not a result.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine/network.h"
#include "sim/trace/recorder.h"

namespace meshbed::sim {

struct Proof {
  std::string name;  // "bytes in = bytes out"
  bool ok = false;
  std::string detail;   // one line: the figures, or the offending item
  bool checked = true;  // false: there was nothing to check; neither kept nor broken, with the reason in `detail`
};

/// "ok", "BROKEN", or "-" where there was nothing to check.
const char* mark_of(const Proof& proof);

/// A proof without a result, because of `why`.
Proof nothing_to_check(std::string_view name, std::string_view why);

// Each of the following has nothing to check where nothing happened that it could look at.

/// `time_ps` >= `bound_ps`. `label` names the bound: "no ring is faster".
Proof bound_kept(std::string_view label, Picoseconds time_ps, Picoseconds bound_ps);

/// What entered each link left it, or was under way when the run ended.
Proof bytes_conserved(const std::vector<Link>& links);

/// Each link was busy no longer than the run, and carried no more than its rate allows in the time it was busy. The
/// slack is one picosecond for each transfer's rounding (`transfers` over all links).
Proof utilisation_possible(const std::vector<Link>& links, Picoseconds elapsed_ps, std::uint64_t transfers);

/// Each acknowledged message was executed exactly once at its responder, and none is still on its way.
Proof sends_matched(const MessageTotals& totals, std::uint64_t in_flight);

/// Each pair of ports that carried messages is joined by one cable or one switch.
Proof subnets_true(const models::Cluster& cluster, const std::map<PairKey, PairUsage>& pairs);

/// No wrong element among those that were checked, and some were checked where any were expected.
Proof data_right(std::uint64_t wrong, std::uint64_t checked, bool checks_expected);

/// The plugin file as loaded has the hash of the file on disk.
Proof same_file(std::string_view sha256_on_disk, std::string_view sha256_as_loaded);

/// True where none is broken.
bool all_ok(const std::vector<Proof>& proofs);

}  // namespace meshbed::sim
