// The run's proofs, and what the scenario expects: as lines for the text, and as rows for JSON and JUnit XML.

#include <vector>

#include "testbed/result/run_document.h"
#include "testbed/result/tables.h"

namespace meshbed::testbed::document {
namespace {

Section checks_shape() {
  Section section{.title = "Checks"};
  section.with(check_table_shape("proofs", "what every run must fulfil"));
  section.with(Table{.key = "nothing_to_check",
                     .meaning = "proofs without anything to check in this run",
                     .columns = {text("name", "what would be checked"), text("detail", "why there is nothing")}});
  return section.with(check_table_shape("expected", "what the scenario's [expect] promises"));
}

/// Those that had something to check.
void add_checks(Table& table, const std::vector<sim::Proof>& checks) {
  for (const sim::Proof& check : checks) {
    if (check.checked) table.add({check.name, check.ok, check.detail});
  }
}

void show_checks(Section& section, const char* title, const std::vector<sim::Proof>& checks) {
  if (checks.empty()) return;
  section.blank();
  section.line("{}", title);
  for (const sim::Proof& check : checks) section.line("  {:<6} {}: {}", mark_of(check), check.name, check.detail);
}

void fill_checks(Section& section, const RunView& run) {
  add_checks(section.table("proofs"), run.result.proofs);
  for (const sim::Proof& check : run.result.proofs) {
    if (!check.checked) section.table("nothing_to_check").add({check.name, check.detail});
  }
  add_checks(section.table("expected"), run.result.expectations);
  show_checks(section, "proofs", run.result.proofs);
  show_checks(section, "expected", run.result.expectations);
}

const RunSection checks_here(1300, checks_shape, fill_checks);

}  // namespace
}  // namespace meshbed::testbed::document
