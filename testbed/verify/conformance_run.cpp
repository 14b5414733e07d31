#include "testbed/verify/conformance_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"
#include "testbed/workload/rank_table.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kNothingFound = "kept";

/// Which rank has no device; empty: both have, or do not say how many, which the cases will find.
std::string without_device(CaseRank& rank) {
  const auto words = [](int lacking) { return fmt::format("rank {} has no device", lacking); };
  bool lacks = false;
  try {
    lacks = rank.devices() == 0;
  } catch (const CaseFailed&) {
    lacks = false;
  }
  try {
    rank.tell("devices", lacks ? "none" : "some");
    const bool other_lacks = rank.hear("devices") == "none";
    if (lacks) return words(rank.rank());
    return other_lacks ? words(1 - rank.rank()) : "";
  } catch (const CaseFailed&) {
    return "";
  }
}

/// The case's body; what this rank found, empty where the rule is kept or the other rank has found something.
std::string find(CaseRank& rank, const ConformanceCase& one, const std::string& lacking) {
  try {
    // Neither begins before both have ended the last one, and rank 0 has said that this one begins.
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

/// The other rank's word, which comes after its failure; that is handed out once.
std::string other_finding(CaseRank& rank) {
  try {
    return rank.hear("finding");
  } catch (const PeerFailed&) {
    // Heard out below: nobody may wait within a handler, for simulated ranks share the thread to which the C++ runtime
    // counts exceptions, and the other rank may be amid one of its own.
  }
  return rank.hear("finding");
}

/// What both ranks found, at rank 0; each waits until the other is through.
std::string join_findings(CaseRank& rank, const std::string& finding) {
  try {
    if (!finding.empty()) rank.tell_failure();
    rank.tell("not looked at", rank.why_not_looked_at());
    rank.tell("finding", finding.empty() ? kNothingFound : finding);
    const std::string other = other_finding(rank);
    if (!finding.empty()) return fmt::format("rank {}: {}", rank.rank(), finding);
    return other == kNothingFound ? "" : fmt::format("rank {}: {}", 1 - rank.rank(), other);
  } catch (const CaseFailed& failed) {
    return fmt::format("rank {} does not come to the end of the case ({})", 1 - rank.rank(), failed.text);
  }
}

/// After join_findings(), which waits for both words: why nothing was looked at, if one of the ranks says so.
std::string join_not_looked_at(CaseRank& rank) {
  if (!rank.why_not_looked_at().empty()) return rank.why_not_looked_at();
  try {
    return rank.hear("not looked at");
  } catch (const CaseFailed&) {
    return "";  // it told nothing; join_findings() has said so
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
