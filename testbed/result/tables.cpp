#include "testbed/result/tables.h"

#include <utility>

namespace meshbed::testbed::document {

Table fault_table_shape() {
  return {.key = "faults",
          .meaning = "the steps of faults that were taken, in order",
          .columns = {text("fault", "the step in words"), text("kind", "of the fault, as [[fault]] names it"),
                      text("target", "the cable, port, node or switch"),
                      text("point", "the point in the ranks' program that its time counts from"),
                      flag("begins", "false: the step ends the fault"),
                      number("at_ns", "ns", "since the start of the run, in the world's own time"),
                      texts("cuts", "the ports whose connections it takes away")}};
}

Table fault_table(const Scenario& scenario, const std::vector<FaultEvent>& taken) {
  Table table = fault_table_shape();
  for (const FaultEvent& event : taken) {
    const Fault& fault = scenario.faults[event.step.fault];
    Value cut = Value::array();
    for (const models::PortRef port : ports_of(scenario.cluster, fault)) {
      if (cuts(fault.kind)) cut.push_back(sim::port_name(scenario.cluster, port));
    }
    table.add({text_of(scenario, event.step), name_of(fault.kind), fault.target, point_of(fault), event.step.begins,
               static_cast<double>(event.at_ps) / 1e3, std::move(cut)});
  }
  return table;
}

Table error_table_shape() {
  return {.key = "errors",
          .meaning = "errors of ranks, in the order in which they happened",
          .columns = {integer("rank", "", "the rank"), integer("at_ps", "ps", "since the start of the run"),
                      text("class", "the same in every world where the same goes wrong"),
                      text("text", "the error as the rank reports it")}};
}

Table error_table(const std::vector<RankError>& errors) {
  Table table = error_table_shape();
  for (const RankError& error : errors) table.add({error.rank, error.at_ps, error.error_class, error.text});
  return table;
}

Table finding_rows_shape() {
  return {.key = "findings",
          .meaning = "what the checks of `lint` find; equal ones of several places in one row",
          .columns = {text("code", "the check (docs/reference/findings.md)"),
                      text("severity", "error, warning or note"), text("place", "where in the machine or the file"),
                      text("cause", "what is wrong"), text("fix", "what to do; empty: nothing"),
                      integer("count", "", "of the places"), texts("places", "all of several places").or_absent()}};
}

Table finding_rows(const std::vector<Finding>& findings) {
  Table table = finding_rows_shape();
  for (const auto& [first, places] : folded(findings)) {
    table.add({name_of(first.code), name_of(first.severity), first.place, first.cause, first.fix, places.size(),
               known_value(places.size() > 1, places)});
  }
  return table;
}

Table check_table_shape(std::string key, std::string meaning) {
  return {.key = std::move(key),
          .meaning = std::move(meaning),
          .columns = {text("name", "what is checked"), flag("ok", "whether it holds"),
                      text("detail", "the figures that were compared")},
          .role = TableRole::kChecks};
}

}  // namespace meshbed::testbed::document
