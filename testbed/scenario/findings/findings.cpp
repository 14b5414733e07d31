#include "testbed/scenario/findings/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "plugin/base/counted.h"
#include "testbed/scenario/findings/finder.h"

namespace meshbed::testbed {
namespace {

constexpr std::array kInfos{
#define MESHBED_FINDING(constant, code, severities, meaning) \
  FindingInfo{FindingCode::constant, code, severities, meaning},
#include "testbed/scenario/findings/codes.def"
#undef MESHBED_FINDING
};

/// "a", "a, b", "a, b, c and 13 others"
std::string places_text(const std::vector<std::string>& places) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t index = 0; index < std::min(places.size(), kNamed); ++index) {
    text += (text.empty() ? "" : ", ") + places[index];
  }
  return places.size() <= kNamed ? text : text + " and " + counted(places.size() - kNamed, "other");
}

}  // namespace

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "";
}

std::span<const FindingInfo> finding_infos() { return kInfos; }

const char* name_of(FindingCode code) { return kInfos.at(static_cast<std::size_t>(code)).name; }

std::string finding_table() {
  std::string text = "| code | severity | finding |\n|---|---|---|\n";
  for (const FindingInfo& info : kInfos) {
    text += fmt::format("| `{}` | {} | {} |\n", info.name, info.severities, info.meaning);
  }
  return text;
}

std::vector<Finding> findings_of(const Scenario& scenario) {
  std::vector<Finding> findings = Finder(scenario).run();
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& left, const Finding& right) { return left.severity < right.severity; });
  return findings;
}

std::vector<Finding> findings_of(const std::vector<ScenarioProblem>& problems) {
  std::vector<Finding> findings;
  for (const ScenarioProblem& problem : problems) {
    findings.push_back({FindingCode::kScenario, Severity::kError, problem.place, problem.text, ""});
  }
  return findings;
}

std::vector<FoldedFinding> folded(const std::vector<Finding>& findings) {
  using Key = std::tuple<FindingCode, Severity, std::string, std::string>;
  std::map<Key, std::size_t> known;
  std::vector<FoldedFinding> all;
  for (const Finding& finding : findings) {
    const auto [entry, is_new] =
        known.emplace(Key{finding.code, finding.severity, finding.cause, finding.fix}, all.size());
    if (is_new) all.push_back({finding, {}});
    all[entry->second].places.push_back(finding.place);
  }
  return all;
}

std::string line_of(const FoldedFinding& finding) {
  const Finding& first = finding.first;
  const std::string count = finding.places.size() > 1 ? fmt::format("{} × ", finding.places.size()) : "";
  return fmt::format("{}: {}{}: {}{}{} [{}]", name_of(first.severity), count, places_text(finding.places), first.cause,
                     first.fix.empty() ? "" : "; ", first.fix, name_of(first.code));
}

std::vector<std::string> finding_lines(const std::vector<Finding>& findings) {
  std::vector<std::string> lines;
  for (const FoldedFinding& finding : folded(findings)) lines.push_back(line_of(finding));
  return lines;
}

std::vector<std::string> finding_lines(const Scenario& scenario) { return finding_lines(findings_of(scenario)); }

std::size_t count_of(const std::vector<Finding>& findings, Severity severity) {
  return static_cast<std::size_t>(std::count_if(
      findings.begin(), findings.end(), [severity](const Finding& finding) { return finding.severity == severity; }));
}

void refuse_errors(const Scenario& scenario, const std::vector<Finding>& findings) {
  std::vector<ScenarioProblem> errors;
  for (const FoldedFinding& finding : folded(findings)) {
    if (finding.first.severity == Severity::kError) errors.push_back({scenario.path, line_of(finding)});
  }
  if (!errors.empty()) throw ScenarioError(std::move(errors));
}

}  // namespace meshbed::testbed
