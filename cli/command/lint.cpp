#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/command/commands.h"
#include "cli/common/command_line.h"
#include "plugin/base/counted.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/render/render.h"
#include "testbed/result/bonds.h"
#include "testbed/result/run_document.h"
#include "testbed/result/tables.h"
#include "testbed/scenario/findings/findings.h"

namespace meshbed::testbed {
namespace {

/// What was found in one file.
struct LintedFile {
  std::string path;
  std::vector<Finding> findings;
  std::vector<ScenarioProblem> errors;  // of reading it
  std::vector<std::string> bonds;
  bool is_unreadable = false;

  std::size_t count(Severity severity) const {
    return count_of(findings, severity) + (severity == Severity::kError ? errors.size() : 0);
  }
};

LintedFile lint_file(const std::string& path, const std::vector<std::string>& overrides) {
  LintedFile file;
  file.path = path;
  try {
    const Scenario scenario = read_scenario(path, overrides);
    file.findings = findings_of(scenario);
    file.bonds = bond_lines(scenario.cluster);
  } catch (const ScenarioError& error) {
    file.errors = error.problems();
    file.is_unreadable = dynamic_cast<const UnreadableScenario*>(&error) != nullptr;
  }
  return file;
}

std::string count_line(const std::vector<LintedFile>& files) {
  std::string text = counted(files.size(), "file");
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    std::size_t count = 0;
    for (const LintedFile& file : files) count += file.count(severity);
    text += ", " + counted(count, name_of(severity));
  }
  return text;
}

void print_text(const std::vector<LintedFile>& files, std::ostream& out) {
  for (const LintedFile& file : files) {
    for (const ScenarioProblem& error : file.errors) out << error.place << ": " << error.text << "\n";
    for (const std::string& line : finding_lines(file.findings)) out << file.path << ": " << line << "\n";
    for (const std::string& line : file.bonds) out << file.path << ": " << line << "\n";
    if (file.findings.empty() && file.errors.empty()) out << file.path << ": ok\n";
  }
  out << count_line(files) << "\n";
}

void print_json(const std::vector<LintedFile>& files, std::ostream& out) {
  auto list = nlohmann::ordered_json::array();
  for (const LintedFile& file : files) {
    auto findings = json_of(document::finding_rows(findings_of(file.errors)));
    for (auto& finding : json_of(document::finding_rows(file.findings))) findings.push_back(std::move(finding));
    list.push_back({{"file", file.path}, {"findings", std::move(findings)}});
  }
  out << json_text(nlohmann::ordered_json{{"files", std::move(list)}}, kIndent) << "\n";
}

}  // namespace

int lint_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream&) {
  namespace po = boost::program_options;
  std::vector<std::string> paths;
  std::vector<std::string> overrides;
  bool dictionary = false, checks = false, schema = false, json = false;
  Syntax syntax("lint [options] FILE...");
  syntax.operands.add_options()("file", po::value(&paths)->value_name("FILE..."), "scenario files to check");
  syntax.positions.add("file", -1);
  syntax.options.add_options()                                                                                   //
      ("set", po::value(&overrides)->value_name("KEY=VALUE"), "override a key of every file; may be repeated")   //
      ("json", po::bool_switch(&json), "print the findings as JSON")                                             //
      ("checks", po::bool_switch(&checks), "print the table of all checks (docs/reference/findings.md)")         //
      ("dictionary", po::bool_switch(&dictionary), "print the fields of a scenario file (scenarios/README.md)")  //
      ("schema", po::bool_switch(&schema), "print the JSON Schema of summary.json (docs/schema/summary.json)");
  syntax.only_without({"dictionary", "checks", "schema"}, {"set", "json"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (dictionary || checks || schema) {
    if (!paths.empty()) throw std::runtime_error("lint: --dictionary, --checks and --schema take no files");
    out << (checks       ? finding_table()
            : dictionary ? scenario_dictionary()
                         : json_text(schema_of(document::run_document_shape()), kIndent) + "\n");
    return kExitOk;
  }
  if (paths.empty()) throw std::runtime_error("lint: name at least one scenario file");
  std::vector<LintedFile> files;
  for (const std::string& path : paths) files.push_back(lint_file(path, overrides));
  json ? print_json(files, out) : print_text(files, out);
  if (std::any_of(files.begin(), files.end(), [](const LintedFile& file) { return file.is_unreadable; })) {
    return kExitUsage;
  }
  const bool any =
      std::any_of(files.begin(), files.end(), [](const LintedFile& file) { return file.count(Severity::kError) > 0; });
  return any ? kExitBroken : kExitOk;
}

}  // namespace meshbed::testbed
