// A comparison of two NCCL libraries as a document.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cli/nccl/compare.h"
#include "testbed/base/files.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

using document::in_text, document::integer, document::number, document::text, document::texts, document::Value;

document::Field choice_field(const char* key) {
  return document::object(key, "what most calls took; null: the library did not announce it",
                          {text("algorithm", "as NCCL names it"), text("protocol", "as NCCL names it"),
                           integer("channels", "", "of the call")})
      .or_null();
}

document::Table row_table() {
  return {.key = "rows",
          .meaning = "the third call, the slowest rank",
          .columns = {text("operation", "its name").shown("operation", 15, "").left(),
                      integer("bytes", "B", "of the call").shown("bytes", 11),
                      number("nccl_us", "us", "on the library").shown("NCCL", 10).rounded(1),
                      number("dropin_us", "us", "on the drop-in").shown("drop-in", 10).rounded(1),
                      number("bound_us", "us", "that no algorithm is below").or_null().shown("bound", 10).rounded(1),
                      number("ratio", "", "drop-in to NCCL").shown("drop-in/NCCL", 13).rounded(2),
                      document::flag("dropin_is_slower", "than the library"), in_text(" ", 6, "  ").left(),
                      choice_field("nccl_chose"), in_text("NCCL chose", 26, "  ").left(), choice_field("dropin_chose"),
                      in_text("drop-in chose", 0, "  ").left()}};
}

Value value_of(const NcclChoice& choice) {
  if (!choice) return nullptr;
  return {{"algorithm", choice->algorithm}, {"protocol", choice->protocol}, {"channels", choice->channels}};
}

}  // namespace

document::Document comparison_document(const std::string& version, const ProgramRun& run,
                                       const NcclComparison& comparison) {
  document::Section section{.title = "NCCL and the drop-in"}, reach{.title = "Rules"}, end{.title = "Results"};
  section.with({document::object("nccl", "the library",
                                 {text("file", "its path"), text("version", "its own"), text("sha256", "of the file")}),
                text("scenario", "its file"), texts("overrides", "of its keys"), integer("ranks", "", "one a node")});
  section.with(row_table());
  section.set("nccl", {{"file", run.library}, {"version", version}, {"sha256", sha256_of_file(run.library)}});
  section.set("scenario", run.scenario);
  section.set("overrides", cluster_overrides(run));
  section.set("ranks", comparison.ranks);
  section.line("NCCL {} beside the drop-in, {}, {} ranks: the third call, slowest rank, in microseconds", version,
               run.scenario, comparison.ranks);
  section.show("rows");
  int slower = 0;
  for (const ComparedPoint& row : comparison.points) {
    if (row.dropin_is_slower()) ++slower;
    section.table("rows").add({models::name_of(row.point.operation), row.point.bytes, row.nccl_us, row.dropin_us,
                               document::known_value(row.bound_us > 0, row.bound_us), row.ratio(),
                               row.dropin_is_slower(), row.dropin_is_slower() ? "slower" : "", value_of(row.nccl_chose),
                               text_of(row.nccl_chose), value_of(row.dropin_chose), text_of(row.dropin_chose)});
  }
  reach.with(rules_table(read_scenario(run.scenario, cluster_overrides(run))));
  reach.blank();
  reach.line("channels that each library's rules connect on this cabling (meshbed topo rules)");
  reach.show("rules");
  reach.blank();
  end.with({text("results", "the folder of both runs")});
  end.set("results", run.results);
  end.line("the drop-in is slower in {} of {}; results in {}", slower, comparison.points.size(), run.results);
  return {.title = "nccl compare", .sections = {std::move(section), std::move(reach), std::move(end)}};
}

}  // namespace meshbed::testbed
