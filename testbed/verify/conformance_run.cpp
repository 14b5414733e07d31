#include "testbed/verify/conformance_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"
#include "testbed/workload/rank_table.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kNothingFound = "kept";

/// The rank without a device; empty: both have one, or their number is not known, which the cases will detect.
std::string without_device(CaseRank& rank) {
  const auto words = [](int lacking) { return fmt::format("rank {} has no device", lacking); };
  bool lacks = false;
  try {
    lacks = rank.devices() == 0;
  } catch (const CaseFailed&) {
    lacks = false;
  }
  try {
    rank.publish("devices", lacks ? "none" : "some");
    const bool other_lacks = rank.await("devices") == "none";
    if (lacks) return words(rank.rank());
    return other_lacks ? words(1 - rank.rank()) : "";
  } catch (const CaseFailed&) {
    return "";
  }
}

/// Runs the case's body. Returns this rank's finding; empty if the rule is kept or the other rank has a finding.
std::string find(CaseRank& rank, const ConformanceCase& one, const std::string& lacking) {
  try {
    // Both must have ended the previous case, and rank 0 must have announced this one.
    rank.meet("begin");
    if (one.needs_device && !lacking.empty()) {
      rank.not_looked_at(lacking);
    } else {
      one.body(rank);
    }
    return "";
  } catch (const CaseFailed& failed) {
    return failed.text;
  } catch (const PeerFailed&) {
    return "";
  }
}

/// The other rank's finding, which follows the notice of its failure; that notice is delivered once.
std::string other_finding(CaseRank& rank) {
  try {
    return rank.await("finding");
  } catch (const PeerFailed&) {
    // Read below: waiting within a handler is not allowed. Simulated ranks share one thread, for which the C++ runtime
    // counts exceptions, and the other rank may be handling one of its own.
  }
  return rank.await("finding");
}

/// The findings of both ranks, at rank 0; each waits until the other has ended the case.
std::string join_findings(CaseRank& rank, const std::string& finding) {
  try {
    if (!finding.empty()) rank.publish_failure();
    rank.publish("not looked at", rank.why_not_looked_at());
    rank.publish("finding", finding.empty() ? kNothingFound : finding);
    const std::string other = other_finding(rank);
    if (!finding.empty()) return fmt::format("rank {}: {}", rank.rank(), finding);
    return other == kNothingFound ? "" : fmt::format("rank {}: {}", 1 - rank.rank(), other);
  } catch (const CaseFailed& failed) {
    return fmt::format("rank {} does not reach the end of the case ({})", 1 - rank.rank(), failed.text);
  }
}

/// After join_findings(), which waits for both reports: the reason why a rank could not test the rule; or empty.
std::string join_not_looked_at(CaseRank& rank) {
  if (!rank.why_not_looked_at().empty()) return rank.why_not_looked_at();
  try {
    return rank.await("not looked at");
  } catch (const CaseFailed&) {
    return "";  // it published nothing, which join_findings() has reported
  } catch (const PeerFailed&) {
    return "";
  }
}

bool is_wanted(const ConformancePlan& plan, const ConformanceCase& one) {
  return plan.only.empty() || std::find(plan.only.begin(), plan.only.end(), one.name) != plan.only.end();
}

}  // namespace

Result<void> run_version(RankHost& host, const VersionRun& run) {
  const Result<RankTable> opened = open_rank_table(host, run.plan.plugin, run.version);
  if (!opened) return opened.error();
  if (opened->table == nullptr) {
    if (host.rank() == 0) run.absent();
    return ok();
  }
  coll::NetTable& table = *opened->table;
  const std::uint64_t warns = coll::warn_count();
  if (const int code = table.init(1); code != nccl::kNcclSuccess) return table_error(table, "init", code, warns);
  const std::vector<ConformanceCase> cases = conformance_cases();
  CaseRank counting(host, table, fmt::format("v{} devices from case {}", run.version, run.first_case));
  const std::string lacking = without_device(counting);
  for (std::size_t index = run.first_case; index < cases.size(); ++index) {
    const ConformanceCase& one = cases[index];
    if (!is_wanted(run.plan, one)) continue;
    if (host.rank() == 0) run.begun(index);
    CaseRank rank(host, table, fmt::format("v{} {}", run.version, one.name), opened->symbol);
    const Picoseconds before_ps = host.now_ps();
    const std::string finding = join_findings(rank, find(rank, one, lacking));
    if (host.rank() != 0) continue;
    run.ended(index, {.version = run.version,
                      .name = one.name,
                      .rule = one.rule,
                      .finding = finding,
                      .not_looked_at = finding.empty() ? join_not_looked_at(rank) : "",
                      .time_ns = (host.now_ps() - before_ps) / kPicosecondsPerNanosecond});
  }
  if (const int code = table.finalize(); code != nccl::kNcclSuccess) return table_error(table, "finalize", code, warns);
  return ok();
}

}  // namespace meshbed::testbed
